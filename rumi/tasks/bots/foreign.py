"""Reading of untrusted folders, such as another program's bots or a repository's skills. Blocking.

Reading never follows a link, never waits for a pipe, and has size limits; see `rumi.platform.openat`.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rumi.platform.openat import FOLDER, is_ordinary, openat2, opened, read_open, shown
from rumi.texts import os_error

SKILL: Final = "SKILL.md"
MOST_SKILLS: Final = 100
MOST_SKILL_BYTES: Final = 100_000
MOST_NAMES: Final = 10_000


class ForeignFolder:
    """An open untrusted folder. Paths are relative to this folder and cannot lead out of it."""

    def __init__(self, folder: int) -> None:
        self._folder = folder

    def names(self, path: str = ".") -> list[str]:
        """Return the sorted names in a folder.

        If the folder has more than `MOST_NAMES` names, only the first `MOST_NAMES` that the system lists are
        returned.

        Raises:
            OSError: The folder cannot be opened.
        """
        names: list[str] = []
        with opened(openat2(self._folder, os.fsencode(path), FOLDER)) as inner, os.scandir(inner) as found:
            for entry in found:
                names.append(entry.name)
                if len(names) >= MOST_NAMES:
                    break
        return sorted(names, key=os.fsencode)

    def read(self, path: str, most: int) -> bytes:
        """Return the content of a file.

        Raises:
            OSError: The file does not exist, has more than `most` bytes, or is a link, a pipe or a device.
        """
        with opened(openat2(self._folder, os.fsencode(path))) as file:
            return read_open(file, most)

    def copy(self, path: str, to: Path, most: int, check: Callable[[], None] = lambda: None) -> int:
        """Copy a file, and return its size. `check` is called between parts; what it raises ends the copy.

        Raises:
            OSError: The file does not exist, has more than `most` bytes, or is a link, a pipe or a device; or
                the copy cannot be written.
        """
        with opened(openat2(self._folder, os.fsencode(path))) as file, to.open("xb") as target:
            if not is_ordinary(file):
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            size = 0
            while chunk := os.read(file, 1 << 20):
                check()
                size += len(chunk)
                if size > most:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
                target.write(chunk)
            return size

    def stamp(self, path: str) -> tuple[int, int, int]:
        """Return what changes whenever a file is written or replaced: its inode, size and time of change.

        Raises:
            OSError: The file does not exist, or is a link.
        """
        with opened(openat2(self._folder, os.fsencode(path))) as file:
            found = os.fstat(file)
            return found.st_ino, found.st_size, found.st_mtime_ns

    def is_folder(self, path: str) -> bool:
        """Return True if the path is a folder that can be opened."""
        try:
            with opened(openat2(self._folder, os.fsencode(path), FOLDER)):
                return True
        except (OSError, ValueError):
            return False

    def skills(self, path: str) -> tuple[list[tuple[str, bytes]], list[str]]:
        """Return a folder's skills `NAME.md` and `NAME/SKILL.md`, and the problems with unreadable skills.

        Each skill is a pair: the path relative to this folder, and the content.
        """
        found: list[tuple[str, bytes]] = []
        problems: list[str] = []
        for name in self._names_or_none(path):
            flat = name.endswith(".md")
            inside = name if flat else f"{name}/{SKILL}"
            if name.startswith("."):
                continue
            if len(found) >= MOST_SKILLS:
                problems.append(f"{shown(path)}: only the first {MOST_SKILLS} skills were read")
                break
            try:
                content = self.read(f"{path}/{inside}", MOST_SKILL_BYTES)
                if not name.isprintable():
                    raise OSError("its name has line breaks, or bytes that are not UTF-8")
                found.append((inside, content))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                problems.append(f"{shown(inside)}: {why_not(error)}")
        return found, problems

    def _names_or_none(self, path: str) -> list[str]:
        try:
            return self.names(path)
        except OSError:
            return []


def why_not(error: OSError) -> str:
    """Return the reason, in words, why a file in an untrusted folder was not read."""
    if error.errno == errno.ELOOP:
        return "it is a link, or lies behind one, and no link is followed"
    if error.errno == errno.EFBIG:
        return "it is too large"
    if error.errno in (errno.EINVAL, errno.ENXIO):
        return "it is not a regular file"
    return os_error(error)


@contextmanager
def foreign_folder(folder: Path) -> Iterator[ForeignFolder]:
    """Open an untrusted folder that the user named. The path of the folder may be a link.

    Raises:
        OSError: The folder cannot be opened.
    """
    with opened(os.open(folder, FOLDER & ~os.O_NOFOLLOW)) as top:
        yield ForeignFolder(top)
