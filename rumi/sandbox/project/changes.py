"""Changes of a folder's files: comparison, copies, and the diff shown to people.

All content is untrusted: names and lines may contain terminal control sequences, and a text may be crafted so
that a comparison takes forever. The changed files are copied, and these copies are applied later, so that
exactly what a person has seen is applied.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, Literal, TypeAlias

from rumi.platform.openat import is_ordinary, openat2, opened, read_foreign, shown
from rumi.sandbox.project.tree import ProjectEntry, ProjectTree, Reason, file_entry, is_gits, stays_inside

COPIES: Final = "shown-"
"""Beginning of the names of folders with copies of changed files; a killed process leaves its own."""

_CONTEXT: Final = 3
_MOST_TEXT_BYTES: Final = 4_000_000
_MOST_COMPARED: Final = 4_000_000
"""Maximum number of line pairs to compare. Larger changes are shown as all old lines, then all new lines."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A changed path: `before` is its entry in the folder, `after` its entry in the changed version.

    None means that the path does not exist there. `number` is the name of the file with a copy of the new
    content.
    """

    path: str
    before: ProjectEntry | None
    after: ProjectEntry | None
    number: int


@dataclass(frozen=True, slots=True)
class Changes:
    """All changes by path, and the entries that were left out of the comparison.

    `base` contains the old files, `copies` the new files.
    """

    all: tuple[FileChange, ...]
    left_out: tuple[tuple[str, Reason], ...]
    base: Path
    copies: Path

    def content(self, change: FileChange, *, after: bool) -> Path:
        """Return the path of the file that has the content before or after a change."""
        return self.copies / str(change.number) if after else self.base / change.path

    def moved(self) -> dict[str, str]:
        """Return a dict from the new path of each moved file to its old path.

        A new file with the content of a deleted file counts as moved.
        """
        gone = {change.before: change.path for change in self.all if change.after is None and change.before}
        return {
            change.path: gone[change.after]
            for change in self.all
            if change.before is None
            and change.after is not None
            and change.after in gone
            and change.after.size
        }


@contextmanager
def copies_in(state: Path) -> Iterator[Path]:
    """Yield a new folder in `state` for copies of changed files; remove it when the block ends.

    Raises:
        OSError: The folder cannot be created.
    """
    copies = state / f"{COPIES}{secrets.token_hex(8)}"
    try:
        copies.mkdir(mode=0o700)
        yield copies
    finally:
        shutil.rmtree(copies, ignore_errors=True)


def changes_between(
    before: ProjectTree, after: ProjectTree, base: Path, theirs: int, copies: Path
) -> Changes:
    """Compare two scanned folders, and copy the second one's new files from its open folder `theirs`.

    Raises:
        OSError: A file cannot be read or copied.
    """
    left_out = list(after.left_out)
    hidden = {path for path, _ in left_out}
    found = list[FileChange]()
    for path in sorted(before.entries.keys() | after.entries.keys()):
        old, new = before.entries.get(path), after.entries.get(path)
        if old == new or (new is None and not hidden.isdisjoint(_upwards(path))):
            continue
        if any(is_gits(part) for part in path.split("/")):
            continue
        if new is not None and new.kind == "link" and not stays_inside(path, new.digest):
            left_out.append((path, "link"))
            hidden.add(path)  # files of a folder that this link replaced must not count as deleted
            continue
        if new is not None and new.kind == "file":
            # The entry of the copy counts: a command may have changed the file since the scan.
            new = _copied(theirs, path, copies / str(len(found)))
            if new is None:
                left_out.append((path, "unreadable"))
                continue
        if old != new:
            found.append(FileChange(path, old, new, len(found)))
    return Changes(tuple(found), tuple(left_out), base, copies)


def _upwards(path: str) -> Iterator[str]:
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _copied(top: int, path: str, target: Path) -> ProjectEntry | None:
    """Copy a file that may have changed since the scan; return None if it is no longer a regular file."""
    try:
        file = openat2(top, os.fsencode(path))
    except OSError as error:
        # Limits of this process or machine say nothing about the file, so it does not count as unreadable.
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return None
    with opened(file):
        if not is_ordinary(file):
            return None
        with opened(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)) as copy:
            return file_entry(file, copy)


def unified(changes: Changes) -> Iterator[str]:
    """Yield the lines of a unified diff in git's format; each line is safe to print. Blocking."""
    moved = changes.moved()
    for change in changes.all:
        yield from _header(change, moved)
        if change.path not in moved and change.path not in moved.values():
            yield from _content(changes, change)


Letter: TypeAlias = Literal["A", "D", "M", "R", "m"]
"""Added, deleted, modified, renamed, and only the mode modified."""


def stat_lines(changes: Changes) -> list[tuple[Letter, str]]:
    """Return a letter and a path, which is safe to print, for each change."""
    return [(letter, text) for letter, text, _ in stat_letters(changes)]


def stat_letters(changes: Changes) -> list[tuple[Letter, str, tuple[str, ...]]]:
    """Return a letter, a path that is safe to print, and the real paths, for each change."""
    moved, lines = changes.moved(), list[tuple[Letter, str, tuple[str, ...]]]()
    for change in changes.all:
        path = change.path
        letter: Letter = "M"
        if path in moved.values():
            continue
        if path in moved:
            lines.append(("R", f"{shown(moved[path])} → {shown(path)}", (moved[path], path)))
            continue
        if change.before is None or change.after is None:
            letter = "A" if change.before is None else "D"
        elif (change.before.kind, change.before.digest) == (change.after.kind, change.after.digest):
            letter = "m"
        lines.append((letter, shown(path), (path,)))
    return lines


def _header(change: FileChange, moved: dict[str, str]) -> Iterator[str]:
    name, old, new = shown(change.path), change.before, change.after
    if change.path in moved.values():
        return
    yield f"diff --git a/{shown(moved.get(change.path, change.path))} b/{name}"
    if change.path in moved:
        yield f"rename from {shown(moved[change.path])}"
        yield f"rename to {name}"
    elif old is None and new is not None:
        yield f"new file mode {_mode(new)}"
    elif new is None and old is not None:
        yield f"deleted file mode {_mode(old)}"
    elif old is not None and new is not None and _mode(old) != _mode(new):
        yield f"old mode {_mode(old)}"
        yield f"new mode {_mode(new)}"


def _content(changes: Changes, change: FileChange) -> Iterator[str]:
    if change.before and change.after and change.before.digest == change.after.digest:
        return
    before, after = _text(changes, change, after=False), _text(changes, change, after=True)
    name = shown(change.path)
    theirs = f"a/{name}" if change.before else "/dev/null"
    ours = f"b/{name}" if change.after else "/dev/null"
    if before is None or after is None:
        sizes = " → ".join(f"{entry.size:,}" for entry in (change.before, change.after) if entry)
        yield f"Binary files {theirs} and {ours} differ ({sizes} bytes)"
        return
    if not before and not after:
        return
    yield f"--- {theirs}"
    yield f"+++ {ours}"
    yield from _hunks(_lines(before), _lines(after))


def _text(changes: Changes, change: FileChange, *, after: bool) -> str | None:
    """Return the text before or after a change; None if it is binary or too long to compare."""
    entry = change.after if after else change.before
    if entry is None:
        return ""
    if entry.kind == "link":
        return entry.digest
    if entry.size > _MOST_TEXT_BYTES:
        return None
    try:
        # The old content may be in a person's folder, in which anything may have taken its place meanwhile.
        text = read_foreign(changes.content(change, after=after), _MOST_TEXT_BYTES).decode()
    except (UnicodeDecodeError, OSError):
        return None
    return None if "\0" in text else text


def _lines(text: str) -> list[str]:
    """Return the lines with their line ends; only a line feed ends a line."""
    lines = [f"{line}\n" for line in text.split("\n")]
    if lines[-1] == "\n":
        return lines[:-1]
    return [*lines[:-1], lines[-1][:-1]]


def _hunks(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    codes = _opcodes(before, after)
    group: list[tuple[str, int, int, int, int]] = []
    for tag, a, b, c, d in codes:
        if tag == "equal" and b - a > 2 * _CONTEXT and group:
            group.append((tag, a, a + _CONTEXT, c, c + _CONTEXT))
            yield from _hunk(before, after, group)
            group = []
        if tag == "equal" and not group:
            a, c = max(a, b - _CONTEXT), max(c, d - _CONTEXT)
        group.append((tag, a, b, c, d))
    if any(tag != "equal" for tag, *_ in group):
        if group[-1][0] == "equal":
            tag, a, b, c, d = group[-1]
            group[-1] = (tag, a, min(b, a + _CONTEXT), c, min(d, c + _CONTEXT))
        yield from _hunk(before, after, group)


def _opcodes(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the edit operations that turn one text into another, in the format of `difflib`.

    To save time, common lines at the beginning and at the end are not compared.
    """
    start, most = 0, min(len(before), len(after))
    while start < most and before[start] == after[start]:
        start += 1
    end = 0
    while end < most - start and before[-1 - end] == after[-1 - end]:
        end += 1
    a, b = len(before) - end, len(after) - end
    if start:
        yield "equal", 0, start, 0, start
    if (a - start) * (b - start) > _MOST_COMPARED:
        yield "replace", start, a, start, b
    else:
        for tag, *bounds in SequenceMatcher(None, before[start:a], after[start:b]).get_opcodes():
            i, j, k, m = (index + start for index in bounds)
            yield tag, i, j, k, m
    if end:
        yield "equal", a, len(before), b, len(after)


def _hunk(
    before: Sequence[str], after: Sequence[str], group: Sequence[tuple[str, int, int, int, int]]
) -> Iterator[str]:
    first, last = group[0], group[-1]
    yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
    for tag, a, b, c, d in group:
        if tag == "equal":
            for line in before[a:b]:
                yield from _line(" ", line)
            continue
        for line in before[a:b]:
            yield from _line("-", line)
        for line in after[c:d]:
            yield from _line("+", line)


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + bool(length)},{length}"


def _line(sign: str, line: str) -> Iterator[str]:
    text = line.removesuffix("\n")
    yield sign + "\t".join(shown(part) for part in text.split("\t"))
    if text == line:
        yield "\\ No newline at end of file"


def _mode(entry: ProjectEntry) -> str:
    return "120000" if entry.kind == "link" else "100755" if entry.runs else "100644"
