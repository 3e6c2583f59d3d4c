"""Paths in a server's arguments and variables that its sandbox does not show.

The sandbox starts with empty temporary folders: a server that keeps its data there would lose it silently.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.platform.home_path import known_folder
from rumi.texts import Text

HOME: Final = "/home/mcp"
"""Where a server sees its own folder, $RUMI_HOME/mcp/NAME."""

TEMPORARY: Final = ("/tmp", "/dev/shm")
"""Writable folders of the sandbox that are empty at each start."""

_SHOWN: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/dev",
    "/etc",
    "/sys",
    HOME,
)
_SHARED: Final = ("/", "/etc", "/home", "/mnt", "/opt", "/root", "/run", "/srv", "/tmp", "/var", "/var/tmp")
"""Folders that belong to many programs, so that no server should get one of them whole."""

_MOST_CHARS: Final = 4096
_OPTION: Final = re.compile(r"(?:-{1,2}[\w.-]+|[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_ADDRESS: Final = re.compile(r"(?:file://|unix://|(?:sqlite|duckdb)(?:\+\w+)?:///)(?P<path>/.*)", re.DOTALL)
_TEMPORARY: Final = re.compile(r"""(?<![\w./~-])/(?:tmp|dev/shm)/[^\s"'`,;:(){}\[\]<>|&?]+""")
"""A path below a temporary folder, anywhere in a word: in JSON, or in a command of a shell."""

_NO_PATHS: Final = ("PATH", "TMPDIR", "TMP", "TEMP")


@dataclass(frozen=True, slots=True)
class Unseen:
    """A path that a server names and that its sandbox does not show.

    `folder` is the folder that would have to be given to the server; None if that folder is shared with other
    programs or holds files of Rumi.
    """

    path: Path
    folder: Path | None

    @property
    def is_folder(self) -> bool:
        """True if the path is a folder of this machine."""
        return self.path.is_dir()


def expanded(word: str) -> str:
    """Return an argument or a value of a variable with a leading `~/` replaced, also after `=`.

    A shell does this on a command line; the configuration is read by no shell.
    """
    option = _OPTION.fullmatch(word)
    value = option["value"] if option else word
    return (
        word.removesuffix(value) + str(Path(known_folder()) / value[2:]) if value.startswith("~/") else word
    )


def named(words: Iterable[str]) -> Iterator[Path]:
    """Yield the absolute paths in arguments and values of variables: whole, after `=`, in lists, in URLs.

    A path below a temporary folder counts wherever it stands, because only there a write would be lost.
    """
    for word in words:
        option = _OPTION.fullmatch(word)
        value = option["value"] if option and not word.startswith("/") else word
        address = _ADDRESS.fullmatch(value)
        if address is not None:
            value = address["path"].partition("?")[0]
        pieces = re.split(r"[:,;]", value)
        pieces = pieces if all(p.startswith("/") for p in pieces) else [value]
        pieces = [p for p in pieces if p.startswith("/") and not p.startswith("//") and len(p) <= _MOST_CHARS]
        if not any(_TEMPORARY.match(piece) for piece in pieces):
            pieces += [found.group() for found in _TEMPORARY.finditer(word, 0, _MOST_CHARS)]
        for piece in pieces:
            yield Path(os.path.normpath(piece))


def unseen(settings: ServerSettings, home: Path, installed: Iterable[Path] = ()) -> list[Unseen]:
    """Return the paths that a server's arguments and variables name, and that its sandbox does not show.

    `home` is $RUMI_HOME; `installed` are further folders that the sandbox shows. A path of which not even the
    first folder exists is probably no path (such as the path of a URL), and is left out.
    """
    shown = [Path(path).expanduser().absolute() for path in settings.section.paths]
    shown += [*map(Path, _SHOWN), *installed]
    values = [value for name, value in settings.env.items() if name not in _NO_PATHS]
    found: dict[Path, Unseen] = {}
    for path in named(map(expanded, [*settings.section.args, *values])):
        if path == Path("/") or any(path.is_relative_to(folder) for folder in shown):
            continue
        existing = next(folder for folder in (path, *path.parents) if _exists(folder))
        if existing != Path("/"):
            found[path] = Unseen(path, _given(path, home))
    return list(found.values())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # too long, or in a folder that this user may not read
        return False


def _given(path: Path, home: Path) -> Path | None:
    """Return the folder to give to a server that names `path`; None if it must not have that folder."""
    folder = path if path.is_dir() else path.parent
    own = {Path(known_folder()), *map(Path, _SHARED)}
    holds_home = home.is_relative_to(folder) or folder.is_relative_to(home)
    return None if folder in own or holds_home else folder


def check(settings: ServerSettings, home: Path, installed: Iterable[Path]) -> list[Unseen]:
    """Return the folders that a server names and that its sandbox shows as empty and read-only.

    Raises:
        McpError: The server names a file, or a path that does not exist, in a place that it cannot keep.
    """
    found = unseen(settings, home, installed)
    for one in found:
        if not one.is_folder or str(one.path) == expanded(settings.env.get("HOME", HOME)):
            raise McpError(
                "The server {name} names {path}, which its sandbox does not have.",
                advice(one, settings.name),
                name=settings.name,
                path=one.path,
            )
    return found


def advice(one: Unseen, name: str) -> Text:
    """Return what to do about a path that the sandbox of the server `name` does not show."""
    own = Path(HOME, one.path.name)
    if one.folder is None:
        return Text(
            "Write {own} instead: that is in the server's own folder, which is kept. Or put it into a "
            "folder of its own, and add that folder to mcp.{name}.paths.",
            own=own,
            name=name,
        )
    return Text(
        'Give the server its folder, in config.toml: [mcp.{name}] paths = ["{folder}"]. Or write {own} '
        "instead: that is in the server's own folder, which is kept.",
        own=own,
        name=name,
        folder=one.folder,
    )
