"""Listing of the entries of a workspace, and creation of the same entries elsewhere.

Snapshots and the store use this module. Commands control the names and the content of a workspace, so no link
is followed: each step goes from an open folder to a name in it. A file with several names stays one file.
Anything other than files, folders, links and pipes is left out: a socket is useless after its command has
ended. Calls block.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from rumi.platform.openat import FOLDER, READ, opened

MAX_DEPTH: Final = 256
MAX_PATH_BYTES: Final = 3_000
SETTLED_NS: Final = 50_000_000
"""Minimum age of a file whose times identify its version. File systems record times in steps of some
milliseconds, so a younger file could change again without a change of its times."""

OPAQUE: Final = "user.overlay.opaque"
"""The attribute of a folder in an overlay's upper layer that hides the folder beneath."""

Kind: TypeAlias = Literal["folder", "opaque", "file", "link", "name", "pipe", "whiteout"]
"""The kind of an entry. A `name` is another hard link to a file that is listed before it.

In the upper layer of an overlay, a `whiteout` marks a deleted name, and an `opaque` folder hides the one
beneath.
"""

Key: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a workspace: a file, a folder, a link, a pipe or another name of a file.

    `content` is the value that `take` returned for a file, or the target of a link. For another name of a
    file (kind "name"), it is the first name.

    `key` identifies a version of a file: device, inode, size, times. It is empty if the file changed so
    recently that a later change could have the same times. `mode` has no set-id bits.
    """

    path: str
    kind: Kind
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    content: str = ""
    size: int = 0
    key: Key = ()


class Unlistable(Exception):
    """The entries cannot be listed: there are too many (`files`), or something changed (`unreadable`)."""

    def __init__(self, cause: Literal["files", "unreadable"]) -> None:
        super().__init__(cause)
        self.cause: Literal["files", "unreadable"] = cause


class Walk:
    """One walk through a workspace. `take` is called for each file and returns the entry's `content`.

    `take` gets the path, the open file, its status, and the key of its version.
    """

    def __init__(self, max_files: int, take: Callable[[str, int, os.stat_result, Key], str]) -> None:
        self._max_files = max_files
        self._take = take
        self._entries: list[Entry] = []
        self._names: dict[tuple[int, int], str] = {}
        self._settled_ns = time.time_ns() - SETTLED_NS

    def entries(self, top: int) -> tuple[Entry, ...]:
        """Return the entries below an open folder, in an order in which they can be created. Call it once.

        Raises:
            Unlistable: There are too many entries, one is nested too deep or has too long a path, or one was
                replaced during the walk.
            OSError: An entry cannot be read.
        """
        self._walk(top, "", MAX_DEPTH)
        return tuple(self._entries)

    def _walk(self, folder: int, above: str, depth: int) -> None:
        for name in self._sorted(folder):
            path = f"{above}{name}"
            if depth == 0 or len(os.fsencode(path)) > MAX_PATH_BYTES:
                raise Unlistable("files")
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                self._add(folder, name, path, status, depth)
            except FileNotFoundError:  # it has just vanished
                continue

    def _sorted(self, folder: int) -> list[str]:
        names: list[str] = []
        with os.scandir(folder) as found:
            for entry in found:
                names.append(entry.name)
                if len(self._entries) + len(names) > self._max_files:
                    raise Unlistable("files")
        return sorted(names, key=os.fsencode)

    def _add(self, folder: int, name: str, path: str, status: os.stat_result, depth: int) -> None:
        if len(self._entries) >= self._max_files:
            raise Unlistable("files")
        match stat.S_IFMT(status.st_mode):
            case stat.S_IFDIR:
                with opened(os.open(name, FOLDER, dir_fd=folder)) as inner:
                    kind: Kind = "opaque" if is_opaque(inner) else "folder"
                    self._entries.append(_entry(path, kind, status))
                    self._walk(inner, f"{path}/", depth - 1)
            case stat.S_IFLNK:
                self._entries.append(_entry(path, "link", status, os.readlink(name, dir_fd=folder)))
            case stat.S_IFIFO:
                self._entries.append(_entry(path, "pipe", status))
            case stat.S_IFREG:
                self._entries.append(self._file(folder, name, path))
            case stat.S_IFCHR if is_whiteout(status):
                self._entries.append(_entry(path, "whiteout", status))
            case _:  # a socket, whose process has ended with its command
                pass

    def _file(self, folder: int, name: str, path: str) -> Entry:
        with opened(os.open(name, READ, dir_fd=folder)) as source:
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode):
                raise Unlistable("unreadable")  # a command has swapped it since the stat
            inode = (status.st_dev, status.st_ino)
            if status.st_nlink > 1 and inode in self._names:
                return _entry(path, "name", status, self._names[inode])
            self._names[inode] = path
            key = version(status)
            content = self._take(path, source, status, key)
            later = max(status.st_ctime_ns, status.st_mtime_ns) > self._settled_ns
            return _entry(path, "file", status, content, () if later else key)


def is_whiteout(status: os.stat_result) -> bool:
    """Return True for the mark of a deleted name."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(folder: int) -> bool:
    """Return True for an open folder that hides the folder beneath."""
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def version(status: os.stat_result) -> Key:
    """Return the key that identifies a version of a file."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def make_entries(target: Path, entries: Iterable[Entry], fill: Callable[[Entry, int], None]) -> None:
    """Create a folder with these entries; `fill` is called to write the content of each open file.

    `finish_entries` then sets owners, modes and times. Paths are safe here only because no other process may
    write to the folder. Raise OSError if an entry cannot be created.
    """
    target.mkdir(mode=0o700)
    for entry in entries:
        path = target / entry.path
        match entry.kind:
            case "folder":
                path.mkdir(mode=0o700)
            case "opaque":
                path.mkdir(mode=0o700)
                os.setxattr(path, OPAQUE, b"y")
            case "whiteout":
                os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
            case "link":
                os.symlink(entry.content, path)
            case "name":
                os.link(target / entry.content, path, follow_symlinks=False)
            case "pipe":
                os.mkfifo(path, 0o600)
            case "file":
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                with opened(os.open(path, flags, 0o600)) as file:
                    fill(entry, file)


def finish_entries(target: Path, entries: Iterable[Entry], owner: tuple[int, int] | None) -> None:
    """Set the owners, modes and times of the entries, and the owner of the folder. Raise OSError."""
    for entry in reversed(tuple(entries)):  # a folder after its content, whose creation would change its time
        path = target / entry.path
        if entry.kind == "name":
            continue
        if os.geteuid() == 0:
            os.chown(path, entry.uid, entry.gid, follow_symlinks=False)
        if entry.kind not in ("link", "whiteout"):
            os.chmod(path, entry.mode)
        os.utime(path, ns=(entry.mtime_ns, entry.mtime_ns), follow_symlinks=False)
    if owner is not None and os.geteuid() == 0:
        os.chown(target, *owner)


def _entry(path: str, kind: Kind, status: os.stat_result, content: str = "", key: Key = ()) -> Entry:
    mode = stat.S_IMODE(status.st_mode) & ~(stat.S_ISUID | stat.S_ISGID)
    size = status.st_size if kind == "file" else 0
    return Entry(path, kind, mode, status.st_uid, status.st_gid, status.st_mtime_ns, content, size, key)
