"""Checks of the home: the owner of its files, and the users who may read them. Blocking."""

import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from rumi.cli.doctor.check import Check
from rumi.platform.config.files import data_left
from rumi.platform.home import Danger, Home, socket_path
from rumi.platform.home_path import left_behind, unquoted
from rumi.platform.home_permissions import FOREIGN, READABLE
from rumi.texts import Text

NAMED = 5
"""Maximum number of files that a finding names; the command in its fix always lists all of them."""


def refused(home: Home) -> list[Check]:
    """Return the errors with which all other commands refuse the home.

    The list is empty if the commands accept the home.
    """
    dangers = [danger for danger in home.dangers() if danger.kind != READABLE]
    return [_check(danger) for danger in dangers]


def files(home: Home) -> list[Check]:
    """Check that only the owner can use the home; call this only if `refused` returns nothing."""
    if readable := [_check(danger) for danger in home.dangers()]:
        return [*readable, *(check for check in _permissions(home) if check.verdict != "ok")]
    return [_home(home), *_permissions(home)]


def _check(danger: Danger) -> Check:
    return Check("permissions" if danger.kind == FOREIGN else "home", "failure", *danger.said())


def _home(home: Home) -> Check:
    if not os.access(home.root, os.W_OK):
        found = Text("{root} cannot be written", root=home.root)
        return Check("home", "failure", found, Text("Set RUMI_HOME to a folder you own."))
    given = unquoted(os.environ.get("RUMI_HOME", ""))
    if given and not given.startswith(("/", "~", "$")):
        found = Text(
            "RUMI_HOME is {value}, which is another folder in each working folder", value=repr(given)
        )
        return Check("home", "warning", found, Text("Set RUMI_HOME={path}", path=shlex.quote(str(home.root))))
    if (left := left_behind()) and Path(left) != home.root:
        return Check("home", "warning", str(home.root), data_left(left))
    try:
        around = home.root.resolve().parent
        mode = around.stat().st_mode
    except OSError:
        return Check("home", "ok", str(home.root))
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        found = Text("others can write to {folder}, and put another home in its place", folder=around)
        return Check("home", "warning", found, Text("chmod o-w {folder}", folder=shlex.quote(str(around))))
    return Check("home", "ok", str(home.root))


def _permissions(home: Home) -> list[Check]:
    """Check that the secret files' own permissions protect them, not only the permissions of the folder."""
    open_to_others, foreign = [], []
    for path in _own_files(home):
        try:
            found = path.lstat()
        except OSError:
            continue
        if found.st_uid != os.geteuid():
            foreign.append(path)
        elif not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o077 and _secret(home, path):
            open_to_others.append(path)
    checks = []
    if foreign:
        said = Text("{root} has files of another user: {home}", root=home.root, home=_names(home, foreign))
        fix = Text("As root: chown -R {user} {foreign}", user=os.geteuid(), foreign=_quoted(foreign))
        checks.append(Check("permissions", "failure", said, fix))
    if open_to_others:
        said = Text("open to others: {home}", home=_names(home, open_to_others))
        checks.append(
            Check(
                "permissions",
                "warning",
                said,
                Text("chmod go= {open_to_others}", open_to_others=_quoted(open_to_others)),
            )
        )
    return checks or [Check("permissions", "ok", Text("what is in the home is its owner's alone"))]


def _own_files(home: Home) -> Iterator[Path]:
    """Yield Rumi's own files, without the files in the workspaces and in the sandboxes' root file system."""
    theirs = {home.workspaces.name, home.rootfs.name, home.folders.name}
    yield from (path for path in sorted(home.root.iterdir()) if path.name not in theirs)
    yield home.workspaces
    for folder in (home.run, home.logs):
        if folder.is_dir():
            yield from sorted(folder.iterdir())
    installation = home.root / "installation"
    if installation.exists():
        yield socket_path(home.run, home.installation())


def _secret(home: Home, path: Path) -> bool:
    """Return True for keys, users' texts, and sockets, whose clients act with the rights of the owner."""
    if path.parent == home.root:
        return path.name == ".env" or path.name == home.terminal_history.name or ".db" in path.name
    return path.name.endswith((".sock", ".jsonl"))


def _names(home: Home, paths: list[Path]) -> Text:
    names = [
        str(path.relative_to(home.root)) if path.is_relative_to(home.root) else str(path) for path in paths
    ]
    listed = ", ".join(names[:NAMED])
    if more := len(names[NAMED:]):
        return Text("{names} and {count} more", names=listed, count=more)
    return Text("{names}", names=listed)


def _quoted(paths: list[Path]) -> str:
    """Return all paths quoted for the shell, so that one command fixes all of them."""
    return " ".join(shlex.quote(str(path)) for path in dict.fromkeys(paths))
