"""The path of the home, from `RUMI_HOME` and `HOME`. Nothing in the home is looked at.

Not only a shell sets these variables: systemd, Docker and Compose pass them on as they are written, with a
`~`, quotes or a line end. This module imports almost nothing, because `rumi status --json` uses it too: see
`rumi.cli.brief`.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN, RELATIVE, MISSING, ANOTHERS, NO_USER, UNEXPANDED = (
    *("unknown", "relative", "missing", "another's", "no user", "unexpanded"),
)
"""The kinds of `NoHome`. `UNKNOWN`: neither variable is set, and the user has no entry in the user database.
`RELATIVE`: `HOME` is not an absolute path. `MISSING`: `HOME` is not a folder. `ANOTHERS`: `HOME` belongs to
another user, and this is root. `NO_USER`: `RUMI_HOME` names a user that does not exist. `UNEXPANDED`:
`RUMI_HOME` contains a variable that nothing replaced.
"""

LEFT = os.path.join("~", ".rumi")
"""Where earlier versions made a home, below the working folder, for a user without a home folder."""


class NoHome(Exception):
    """The home's path cannot be determined. `value` is the variable's value, or the number of the user."""

    def __init__(self, kind: str, value: str) -> None:
        super().__init__(kind, value)
        self.kind = kind
        self.value = value


def path_of_home(environment: "Mapping[str, str]") -> str:
    """Return the absolute path of the home: `RUMI_HOME`, by default `.rumi` in the user's home folder.

    A relative `RUMI_HOME` is relative to the working folder.

    Raises:
        NoHome: There is no usable path.
    """
    path = unquoted(environment.get("RUMI_HOME", ""))
    for variable in ("$HOME", "${HOME}"):
        if path == variable or path.startswith(f"{variable}/"):
            path = f"~{path.removeprefix(variable)}"
    begins = ("$", "%")
    unexpanded = any(part.startswith(begins) for part in path.split("/"))
    if path.startswith(begins) or (unexpanded and not os.path.exists(path)):
        raise NoHome(UNEXPANDED, path)
    if not path:
        folder = user_folder(environment)
        default = os.path.join(folder, ".rumi")
        # Made by root in another user's home folder, the home could not be used by that user.
        if os.geteuid() == 0 and not os.path.exists(default) and os.stat(folder).st_uid != 0:
            raise NoHome(ANOTHERS, folder)
        return default
    if path.startswith("~"):
        user, _, rest = path[1:].partition("/")
        path = os.path.join(_folder_of(user) if user else user_folder(environment), rest)
    return os.path.abspath(path)


def user_folder(environment: "Mapping[str, str]") -> str:
    """Return the user's home folder: `HOME`, or the folder that the user database has for this user.

    Raises:
        NoHome: The environment names no usable home folder.
    """
    folder = environment.get("HOME", "").rstrip("\r\n")
    if not folder:
        import pwd

        try:
            folder = pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            raise NoHome(UNKNOWN, str(os.getuid())) from None
    if not os.path.isabs(folder):
        raise NoHome(RELATIVE, folder)
    if not os.path.isdir(folder):
        raise NoHome(MISSING, folder)
    return os.path.normpath(folder)


def known_folder() -> str:
    """Return the user's home folder, which may be missing; a path that never exists for an unknown one."""
    folder = os.path.expanduser("~")
    return folder if os.path.isabs(folder) else "/nonexistent"


def _folder_of(user: str) -> str:
    import pwd

    try:
        return pwd.getpwnam(user).pw_dir
    except KeyError:
        raise NoHome(NO_USER, user) from None


def left_behind() -> str:
    """Return the path of a home that an earlier version made below the working folder; empty if none."""
    try:
        path = os.path.abspath(LEFT)
        return path if os.path.isdir(path) else ""
    except OSError:  # the working folder was deleted
        return ""


def unquoted(value: str) -> str:
    """Return a variable's value without spaces, line ends, byte order marks and quotes around it."""
    value = value.strip(_AROUND)
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1].strip(_AROUND)
    return value


_AROUND = " \t\r\n\f\v\ufeff\u200b\u2060\xa0"
