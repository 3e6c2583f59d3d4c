"""Access to a skill's folder: functions that read files, list files, and take a snapshot of the content.

A skill's author controls the folder. So the functions follow no link in it, never block on a pipe, and limit
the size of every read. Calls block briefly.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.agent.skills.format import CODE, FILE, MOST_BYTES
from rumi.agent.skills.messages import FurtherFile, SkillError
from rumi.platform import openat
from rumi.platform.openat import FOLDER, is_ordinary, openat2, shown
from rumi.texts import Text, os_error

MOST_FILES: Final = 2_000
MOST_FOLDER_BYTES: Final = 20_000_000
MOST_LISTED: Final = 100
DEEPEST: Final = 16

_CACHES: Final = frozenset({"__pycache__", ".pytest_cache"})
_NOT_FOR_READING: Final = frozenset({FILE, CODE, "__pycache__"})


def opened(folder: Path, *, own_link: bool) -> AbstractContextManager[int]:
    """Open the folder for a `with` block.

    With `own_link`, the folder itself may be a link, because users create such links.

    Raises:
        OSError: The folder cannot be opened.
    """
    return openat.opened(os.open(folder, FOLDER & ~os.O_NOFOLLOW if own_link else FOLDER))


def signature(path: Path) -> object:
    """Return a value that changes whenever the file changes; None if the file does not exist."""
    try:
        return stamp(path.stat())
    except OSError:
        return None


def stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return a file's time stamps, size and inode number, which show whether the file has changed."""
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def read_bytes(folder: int, path: str, most_bytes: int) -> tuple[bytes, int]:
    """Return at most `most_bytes` from the start of a regular file in the folder, and the file's size.

    Raises:
        SkillError: The file does not exist, is outside of the folder, or is not a regular file.
    """
    try:
        name = os.fsencode(path)
        if not name or b"\0" in name:
            raise SkillError("names no file")
        descriptor = openat2(folder, name)
    except (OSError, UnicodeError) as error:
        number = error.errno if isinstance(error, OSError) else errno.ENOENT
        raise SkillError(_REFUSALS.get(number or 0, Text("cannot be opened"))) from None
    with openat.opened(descriptor):
        if not is_ordinary(descriptor):
            raise SkillError("is not an ordinary file")
        try:
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(most_bytes), os.fstat(descriptor).st_size
        except OSError as error:
            raise SkillError("cannot be read: {reason}", reason=os_error(error)) from None


_REFUSALS: Final = {
    errno.ENOENT: Text("is not there"),
    errno.ENOTDIR: Text("is not there"),
    errno.ELOOP: Text("is a link or lies behind one, which is not followed"),
    errno.EXDEV: Text("leads out of the skill's folder"),
    errno.ENXIO: Text("is not an ordinary file"),
    errno.EACCES: Text("may not be read"),
    errno.EISDIR: Text("is a folder"),
    errno.ENAMETOOLONG: Text("has a name that is too long"),
}


def read_skill_file(folder: int) -> bytes:
    """Return the content of the folder's `SKILL.md`.

    At most one byte more than allowed is read, so that the caller can detect a file that is too large.

    Raises:
        SkillError: The file does not exist, or it cannot be read.
    """
    return read_bytes(folder, FILE, MOST_BYTES + 1)[0]


def further_files(folder: Path, *, own_link: bool) -> tuple[tuple[FurtherFile, ...], int]:
    """Return the additional files that a model may read, sorted by path, and the number of unlisted files.

    At most `MOST_LISTED` files are listed. The `SKILL.md`, the skill's code, its tests, hidden files and
    files with unprintable names are not additional files and are not counted.
    """
    found: list[FurtherFile] = []
    with contextlib.suppress(OSError, SkillError), opened(folder, own_link=own_link) as top:
        for path, status in _walk(top):
            last = path.rpartition("/")[2]
            hidden = any(part.startswith(".") or part == "__pycache__" for part in path.split("/"))
            if hidden or not path.isprintable() or path in _NOT_FOR_READING or _is_test(last):
                continue
            if stat.S_ISREG(status.st_mode):
                found.append(FurtherFile(path, status.st_size))
    found.sort(key=lambda file: file.path)
    return tuple(found[:MOST_LISTED]), max(0, len(found) - MOST_LISTED)


def _is_test(name: str) -> bool:
    return name.startswith("test_") and name.endswith(".py")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a folder at one moment: path, executable bit and bytes of each file, sorted by path."""

    files: tuple[tuple[str, bool, bytes], ...]

    @property
    def digest(self) -> str:
        """SHA-256 over all files, in hexadecimal digits. Every change to a file changes this digest."""
        whole = hashlib.sha256()
        for path, executable, content in self.files:
            name = os.fsencode(path)
            whole.update(b"%d:%s%d%d:" % (len(name), name, executable, len(content)))
            whole.update(content)
        return whole.hexdigest()

    def write(self, folder: Path, *, shared: bool = False) -> None:
        """Write all files to an empty folder.

        With `shared`, hidden files are left out, and every user can read the files.
        """
        most = 0o755 if shared else 0o700
        if shared:
            folder.chmod(most)
        for path, executable, content in self.files:
            if shared and any(part.startswith(".") for part in path.split("/")):
                continue
            inner = folder
            for part in path.split("/")[:-1]:
                inner /= part
                if not inner.exists():
                    inner.mkdir()
                    inner.chmod(most)  # independent of the umask
            target = folder / path
            target.write_bytes(content)
            target.chmod(most if executable else most & 0o666)


def signature_of_files(folder: Path, *, own_link: bool) -> str:
    """Return a value that changes whenever a file in the folder changes, without reading any file.

    Raises:
        OSError: The folder cannot be read.
        SkillError: The folder is too large.
    """
    with opened(folder, own_link=own_link) as top:
        seen = sorted((path, status.st_mode, *stamp(status)) for path, status in _walk(top))
    return hashlib.sha256(repr(seen).encode("utf-8", "surrogateescape")).hexdigest()


def snapshot(folder: Path, *, own_link: bool = False, lenient: bool = False) -> Snapshot:
    """Return the content of a skill's folder, without the cache files that a test run leaves there.

    With `lenient`, hidden files, links, pipes and devices are skipped instead of refused.

    Raises:
        SkillError: The folder cannot be read, is too large, or has an entry that is neither file nor folder.
            Links are refused, because their targets are elsewhere and can change.
    """
    files: list[tuple[str, bool, bytes]] = []
    left = MOST_FOLDER_BYTES
    try:
        with opened(folder, own_link=own_link) as top:
            for path, status in _walk(top):
                parts = path.split("/")
                if not _CACHES.isdisjoint(parts):
                    continue
                if lenient and (
                    any(part.startswith(".") for part in parts) or not stat.S_ISREG(status.st_mode)
                ):
                    continue
                if not stat.S_ISREG(status.st_mode):
                    raise SkillError(
                        "{path} in it is not an ordinary file but a link, a pipe or a device",
                        path=shown(path),
                    )
                content, size = read_bytes(top, path, left + 1)
                left -= len(content)
                if left < 0 or size > len(content):
                    raise SkillError(
                        "it has more than {most_folder_bytes} bytes", most_folder_bytes=MOST_FOLDER_BYTES
                    )
                files.append((path, bool(status.st_mode & 0o100), content))
    except OSError as error:
        raise SkillError("it cannot be read: {reason}", reason=os_error(error)) from None
    return Snapshot(tuple(sorted(files)))


def _walk(top: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the status of each entry below an open folder, except folders, in any order."""
    waiting = [("", 0)]
    seen = 0
    while waiting:
        prefix, depth = waiting.pop()
        inner = os.dup(top) if not prefix else openat2(top, os.fsencode(prefix), FOLDER)
        with openat.opened(inner), os.scandir(inner) as entries:
            for entry in entries:
                seen += 1
                if seen > MOST_FILES or depth > DEEPEST:
                    raise SkillError(
                        "it has more than {most_files} files, or folders too deep", most_files=MOST_FILES
                    )
                path = f"{prefix}/{entry.name}" if prefix else entry.name
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((path, depth + 1))
                else:
                    yield path, status
