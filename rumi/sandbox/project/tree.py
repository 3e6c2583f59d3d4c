"""Scanning and copying of the files below a folder that other processes may change meanwhile.

The scan follows no link: it opens each folder, and then each name relative to the open folder. It leaves out
`.git` at any depth, because files in `.git` can make git run commands.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from rumi.platform.openat import FOLDER, READ, is_ordinary, openat2, opened

MOST_DEPTH: Final = 100
MOST_LINK: Final = 4095
DRAFT: Final = ".rumi-apply-"
"""Prefix of the name of the staging folder, in which changes are prepared."""

_CHUNK: Final = 1024 * 1024
_INVISIBLE: Final = frozenset("\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\ufeff") | {
    chr(code_point) for code_point in range(0x206A, 0x2070)
}

Reason: TypeAlias = Literal["special", "git", "deep", "unreadable", "link", "large", "mount"]
"""Reason to leave an entry out: special file, git's own, too deep, unreadable, link out of the project,
larger than what may be read, or on another mount in the folder."""


@dataclass(frozen=True, slots=True)
class ProjectEntry:
    """A file or a link. `digest` is the hash of a file's content, or the target of a link.

    `runs` means that the owner may execute the file.
    """

    kind: Literal["file", "link"]
    digest: str
    size: int = 0
    runs: bool = False


@dataclass(frozen=True, slots=True)
class ProjectLimits:
    """Maximum size of a project, in bytes, and maximum number of its files and folders."""

    bytes: int
    files: int


UNBOUNDED: Final = ProjectLimits(1 << 62, 1 << 62)

UNREADABLE: Final = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENOTDIR, errno.ENXIO)
"""Error numbers of an entry that cannot be read; a scan leaves it out."""


class OverLimits(Exception):
    """A folder has more than it may have: more bytes than `most`, or more files and folders."""

    def __init__(self, what: Literal["bytes", "files"], most: int) -> None:
        super().__init__(f"more than {most} {what}")
        self.what: Literal["bytes", "files"] = what
        self.most = most


@dataclass(slots=True)
class ProjectTree:
    """The result of a scan: files and links by path, left-out entries, and the number of ignored entries."""

    entries: dict[str, ProjectEntry] = field(default_factory=dict)
    left_out: list[tuple[str, Reason]] = field(default_factory=list)
    ignored: int = 0


class Ignores(Protocol):
    """A matcher for ignored paths."""

    def ignores(self, path: str, *, folder: bool, inside: bool) -> bool:
        """Return True for an ignored path. `inside` means that a folder above the path is ignored."""
        ...

    def descends(self, path: str) -> bool:
        """Return True for an ignored folder that contains an entry that is not ignored."""
        ...


CopyEntry: TypeAlias = Callable[[str, ProjectEntry, int], ProjectEntry]
"""Copies an entry from an open file (-1 for a link); returns an entry that describes the copied content."""


def scan(
    top: int, bounds: ProjectLimits, ignores: "Ignores | None" = None, copy_entry: CopyEntry | None = None
) -> ProjectTree:
    """Scan the files and links below an open folder; copy each with `copy_entry`, if given. Blocking.

    Raises:
        OverLimits: There are too many files and folders, or too many bytes.
        OSError: The folder cannot be read, or a copy cannot be written.
    """
    found = _Scan(bounds, ignores, copy_entry)
    with opened(os.dup(top)) as folder:
        found.folder(folder, "", 0, inside=False)
    return found.tree


class _Scan:
    def __init__(
        self, bounds: ProjectLimits, ignores: "Ignores | None", copy_entry: CopyEntry | None
    ) -> None:
        self.tree = ProjectTree()
        self._bounds = bounds
        self._ignores = ignores
        self._copy_entry = copy_entry
        self._seen = 0
        self._bytes = 0

    def folder(self, folder: int, path: str, depth: int, *, inside: bool) -> None:
        names = []
        for name in os.listdir(folder):
            self._count()
            names.append(name)
        for name in sorted(names):
            here = f"{path}/{name}" if path else name
            if is_gits(name):
                if depth or name != ".git":
                    self.tree.left_out.append((here, "git"))
            elif not name.startswith(DRAFT):
                try:
                    self._entry(folder, name, here, depth, inside)
                except OSError as error:
                    if error.errno == errno.ENOENT:  # deleted since `listdir`
                        continue
                    if error.errno == errno.EFBIG:
                        self.tree.left_out.append((here, "large"))
                        continue
                    if error.errno not in UNREADABLE:
                        raise
                    self.tree.left_out.append((here, "unreadable"))

    def _entry(self, folder: int, name: str, here: str, depth: int, inside: bool) -> None:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        is_folder = stat.S_ISDIR(status.st_mode)
        if self._ignores is not None and self._ignores.ignores(here, folder=is_folder, inside=inside):
            if not is_folder or not self._ignores.descends(here):
                self.tree.ignored += 1
                return
            inside = True
        if is_folder:
            if depth >= MOST_DEPTH:
                self.tree.left_out.append((here, "deep"))
                return
            with opened(os.open(name, FOLDER, dir_fd=folder)) as inner:
                self.folder(inner, here, depth + 1, inside=inside)
        elif stat.S_ISLNK(status.st_mode):
            entry = ProjectEntry("link", os.readlink(name, dir_fd=folder))
            self.tree.entries[here] = entry if self._copy_entry is None else self._copy_entry(here, entry, -1)
        elif stat.S_ISREG(status.st_mode):
            # The entry may have been replaced since `stat`: the flags refuse a link, and `_file` checks the
            # open file again.
            with opened(os.open(name, READ, dir_fd=folder)) as file:
                self._file(file, here)
        else:
            self.tree.left_out.append((here, "special"))

    def _file(self, file: int, here: str) -> None:
        if not is_ordinary(file):
            self.tree.left_out.append((here, "special"))
            return
        self._bytes += os.fstat(file).st_size
        if self._bytes > self._bounds.bytes:
            raise OverLimits("bytes", self._bounds.bytes)
        entry = (
            file_entry(file)
            if self._copy_entry is None
            else self._copy_entry(here, ProjectEntry("file", ""), file)
        )
        self.tree.entries[here] = entry

    def _count(self) -> None:
        self._seen += 1
        if self._seen > self._bounds.files:
            raise OverLimits("files", self._bounds.files)


def file_entry(file: int, copy: int | None = None) -> ProjectEntry:
    """Return a `ProjectEntry` for an open file, and write the file's content to `copy`. Blocking.

    Reads at most the file's current size, because a file that grows meanwhile must not be read forever.
    """
    status, at = os.fstat(file), 0
    digest = hashlib.sha256()
    while at < status.st_size and (data := os.pread(file, min(_CHUNK, status.st_size - at), at)):
        digest.update(data)
        at += len(data)
        rest = memoryview(data)
        while copy is not None and rest:
            rest = rest[os.write(copy, rest) :]
    return ProjectEntry("file", digest.hexdigest(), at, bool(status.st_mode & 0o100))


def entry_at(top: int, path: str) -> ProjectEntry | Literal["folder", "other"] | None:
    """Return the current entry at a path below an open folder, or None. Follows no link."""
    try:
        descriptor = openat2(top, os.fsencode(path), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EXDEV):
            return "other"
        raise
    with opened(descriptor):
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            return "folder"
        if stat.S_ISLNK(mode):
            return ProjectEntry("link", os.readlink("", dir_fd=descriptor))
        if not stat.S_ISREG(mode):
            return "other"
    with opened(openat2(top, os.fsencode(path))) as file:
        return file_entry(file) if is_ordinary(file) else "other"


def is_gits(name: str) -> bool:
    """Return True for `.git`, and for names that some file systems treat as `.git`."""
    plain = "".join(char for char in name if char not in _INVISIBLE).casefold()
    return plain.partition(":")[0].rstrip(" .") in (".git", "git~1")


def stays_inside(path: str, target: str) -> bool:
    """Return True if a link cannot lead out of the project, regardless of the project's other links.

    The target must be relative. It may go up only at its beginning and not above the project's root, and must
    not contain a name reserved for git.
    """
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = 0
    while ups < len(parts) and parts[ups] == "..":
        ups += 1
    down = parts[ups:]
    return (
        not target.startswith("/")
        and 0 < len(target) <= MOST_LINK
        and ups <= path.count("/")
        and not any(part == ".." or is_gits(part) for part in down)
    )
