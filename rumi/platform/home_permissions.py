"""Checks that only the owner of a home can use it. Every command runs them before it uses any file of a home.

If others can write to the home, if a link leads elsewhere, or if a file belongs to another user, Rumi could
read another person's text, or write to a place that another person has chosen. This module imports almost
nothing, so that `rumi status --json`, which must start fast, can run the checks too: see `rumi.cli.brief`.
"""

import os
import stat

ANOTHERS, WRITABLE, READABLE, LINK, FOREIGN = "another's", "writable", "readable", "link", "foreign"
"""The kinds of danger. `ANOTHERS`: the home belongs to another user. `WRITABLE`: others can write to it.
`READABLE`: others can only read it. `LINK`: a path that Rumi writes to is a link. `FOREIGN`: a file belongs
to another user.
"""

WRITTEN = (
    *(
        "workspace",
        "folders",
        "tasks",
        "bots",
        "imports",
        "mcp-logins",
        "cache",
        "logs",
        "run",
        "rootfs",
        "packages",
        "installation",
        "sandbox-user",
    ),
    *("terminal_history", "reserve", "restoring", "before-restore"),
)
DATABASES = ("state.db", "memory.db", "recall.db")
"""Names of databases. A database's write-ahead log and copies have names that begin with its name."""
LINKABLE = ("config.toml", ".env", "skills", "skills-trusted.json", "mcp-tools.json", "prompts")
"""Entries that users may store elsewhere, behind a link. The user must own both the link and its target."""


def dangers(root: str) -> list[tuple[str, str, int]]:
    """Return the dangers of a home, each as its kind, the path, and either the owner's id or the mode.

    The list is empty if the home is safe or does not exist yet. Blocks for about a tenth of a millisecond.
    """
    user = os.geteuid()
    try:
        status = os.stat(root)  # the home itself may be a link
    except OSError:
        return []
    if status.st_uid != user:
        return [(ANOTHERS, root, status.st_uid)]
    found = []
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        writable = mode & 0o002 or (mode & 0o020 and not _group_of_one(user, status.st_gid))
        found.append((WRITABLE if writable else READABLE, root, mode))
    for name in _names(root):
        if name in WRITTEN or name in LINKABLE or name.startswith(DATABASES):
            found += _look(f"{root}/{name}", user, name in LINKABLE)
    for folder in ("logs", "run"):
        if not os.path.islink(f"{root}/{folder}"):
            for name in _names(f"{root}/{folder}"):
                found += _look(f"{root}/{folder}/{name}", user, linkable=False)
    return found


def has_only_own_files(root: str) -> bool:
    """Return True if every entry of the folder is one that Rumi or its user puts into a home."""
    begins = tuple(f".{name}" for name in (*WRITTEN, *LINKABLE, *DATABASES))
    return all(
        name in (*WRITTEN, *LINKABLE, "lost+found") or name.startswith((*DATABASES, *begins))
        for name in _names(root)
    )


def _group_of_one(user: int, group: int) -> bool:
    """Return True if the user is the only member of the group.

    On systems with one group per user, the umask is usually 002, so `mkdir` creates group-writable folders.
    """
    # Imported here, because this case is rare: see the module's docstring.
    import grp
    import pwd

    try:
        members = set(grp.getgrgid(group).gr_mem) - {pwd.getpwuid(user).pw_name}
    except KeyError:
        return False
    owners = {account.pw_uid for account in pwd.getpwall() if account.pw_gid == group}
    return user != 0 and not members and owners == {user}


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _look(path: str, user: int, linkable: bool) -> list[tuple[str, str, int]]:
    """Check one file, folder or link, and return its dangers."""
    # Files of root are allowed, because root may do everything anyway. The folders `probe-*` in `run` belong
    # to the user of a sandbox.
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if not linkable:
                return [(LINK, path, status.st_uid)]
            owners = {status.st_uid, os.stat(path).st_uid}
        else:
            owners = {status.st_uid}
    except OSError:  # the entry was deleted meanwhile, or is a broken link
        return []
    strangers = owners - {user, 0}
    if not strangers or (stat.S_ISDIR(status.st_mode) and os.path.basename(path).startswith("probe-")):
        return []
    return [(FOREIGN, path, min(strangers))]
