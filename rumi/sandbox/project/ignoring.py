"""Git's ignore rules, evaluated from `.gitignore` files and git's index, without running git."""

import hashlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rumi.platform.home_path import known_folder
from rumi.platform.openat import READ, is_ordinary, openat2, opened, read_foreign

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

NAME: Final = ".gitignore"
_MOST_CHARS: Final = 1_000_000
_MOST_INDEX_BYTES: Final = 256 * 1024 * 1024
_EXTENDED: Final = 0x4000


@dataclass(frozen=True, slots=True)
class Outer:
    """Ignore rules from outside a folder; `at` is the folder's path relative to the root of the rules."""

    at: str
    text: str


class Ignored:
    """A matcher for ignored paths. It applies the rules of the innermost folder first, the outer rules last.

    `read` returns the rules of a folder. Paths in `tracked` are never ignored.
    """

    def __init__(
        self, read: Callable[[str], str], tracked: Collection[str], outer: Sequence[Outer] = ()
    ) -> None:
        self._read = read
        self._tracked = frozenset(tracked)
        self._above = {tracked_path[:at] for tracked_path in self._tracked for at in _slashes(tracked_path)}
        self._outer = [(rule.at, _spec(rule.text)) for rule in outer]
        self._specs: dict[str, GitIgnoreSpec] = {}

    def ignores(self, path: str, *, folder: bool, inside: bool) -> bool:
        """Return True for an ignored path. `inside` means that a folder above the path is ignored."""
        if not folder and path in self._tracked:
            return False
        if inside:
            return True
        end = "/" if folder else ""
        for at in reversed([0, *(slash + 1 for slash in _slashes(path))]):
            found = self._spec(path[: max(0, at - 1)]).check_file(path[at:] + end).include
            if found is not None:
                return found
        for above, spec in self._outer:
            found = spec.check_file(f"{above}/{path}{end}" if above else path + end).include
            if found is not None:
                return found
        return False

    def descends(self, path: str) -> bool:
        """Return True for an ignored folder that contains a tracked file."""
        return path in self._above

    def _spec(self, folder: str) -> "GitIgnoreSpec":
        if folder not in self._specs:
            self._specs[folder] = _spec(self._read(folder))
        return self._specs[folder]


def rules_below(top: int) -> Callable[[str], str]:
    """Return a function that reads the rules of folders below an open folder, without following links."""

    def read(folder: str) -> str:
        try:
            with opened(openat2(top, os.fsencode(f"{folder}/{NAME}" if folder else NAME))) as file:
                if is_ordinary(file):
                    return os.pread(file, _MOST_CHARS, 0).decode("utf-8", "replace")
        except OSError:
            pass
        return ""

    return read


def outer_rules(work_tree: Path, git: Path, at: str) -> list[Outer]:
    """Return the rules from git's settings and from the folders above the folder `at` in a work tree."""
    parents = [at[:end] for end in reversed([0, *_slashes(at)])] if at else []
    found = [Outer(at[len(parent) :].strip("/"), _text(work_tree / parent / NAME)) for parent in parents]
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path(known_folder()) / ".config")
    own = (git / "info" / "exclude", config / "git" / "ignore")
    return [*found, *(Outer(at, _text(path)) for path in own)]


def tracked_in(index: Path) -> set[str]:
    """Return the paths in git's index; an empty set if the index file is missing or damaged. Blocking."""
    try:
        data = read_foreign(index, _MOST_INDEX_BYTES)
        return set(_paths(data)) if data[:4] == b"DIRC" else set()
    except (OSError, ValueError, IndexError):
        return set()


def _paths(data: bytes) -> list[str]:
    version, count = (int.from_bytes(data[at : at + 4], "big") for at in (4, 8))
    sha256 = hashlib.sha256(data[:-32]).digest() == data[-32:]
    oid = 32 if sha256 else 20
    found, at, before = [], 12, b""
    for _ in range(count):
        begin = at
        at += 40 + oid
        flags = int.from_bytes(data[at : at + 2], "big")
        at += 4 if flags & _EXTENDED else 2
        prefix = b""
        if version == 4:  # paths share a prefix with the path before: `cut` bytes of it are dropped
            cut = data[at] & 0x7F
            while data[at] & 0x80:
                at += 1
                cut = ((cut + 1) << 7) | (data[at] & 0x7F)
            at += 1
            prefix = before[: len(before) - cut]
        end = data.index(b"\0", at)
        before = prefix + data[at:end]
        found.append(os.fsdecode(before))
        at = end + 1 if version == 4 else begin + ((end - begin) // 8 + 1) * 8
    return found


def _slashes(path: str) -> list[int]:
    return [at for at, char in enumerate(path) if char == "/"]


def _spec(text: str) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec  # imported late, because most commands read no rules

    lines = []
    for line in text.splitlines():
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:  # git skips an invalid pattern too
            continue
        lines.append(line)
    return GitIgnoreSpec.from_lines(lines)


def _text(path: Path) -> str:
    """Return the first `_MOST_CHARS` bytes of a rules file. Like git, follow no link inside a project."""
    own = path.name == "ignore"  # the user's file for all projects, which may be a link
    try:
        with opened(os.open(path, READ & ~os.O_NOFOLLOW if own else READ)) as file:
            return os.pread(file, _MOST_CHARS, 0).decode("utf-8", "replace") if is_ordinary(file) else ""
    except OSError:
        return ""
