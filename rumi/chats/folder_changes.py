"""What people read about the changes to a chat's folder, and the command `/diff`."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from rumi.chats.commands import ChatCommand
from rumi.chats.folders import ChangedFile, ChatFolders, FolderDiff, FolderError
from rumi.platform.markdown import fenced
from rumi.platform.openat import shown
from rumi.platform.texts import folders as folder_texts
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import Incoming
from rumi.texts import Language

MOST_LINES: Final = 150
MOST_CHARS: Final = 12_000
LINE_CHARS: Final = 400
"""Limits of a diff in a chat: its lines, its characters, and those of a line. `rumi chats diff` has none."""

MOST_LISTED: Final = 50
"""Maximum number of files in a summary."""

_HEADER: Final = "diff --git "


@dataclass(frozen=True, slots=True)
class CountedFile:
    """A changed file, and how many lines the change adds and removes."""

    file: ChangedFile
    added: int = 0
    removed: int = 0


def counted(diff: FolderDiff) -> tuple[CountedFile, ...]:
    """Return the changed files, each with its numbers of lines."""
    counts = _counts(diff.lines)
    if len(counts) != len(diff.files):  # no part of the diff for some of them: the numbers fit to none
        return tuple(map(CountedFile, diff.files))
    return tuple(CountedFile(file, *count) for file, count in zip(diff.files, counts, strict=True))


def _counts(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return how many lines each file of a unified diff adds and removes."""
    counts: list[tuple[int, int]] = []
    in_hunk = False
    for line in lines:
        if line.startswith(_HEADER):
            counts.append((0, 0))
            in_hunk = False
        elif line.startswith("@@"):
            in_hunk = True
        elif in_hunk and counts and line[:1] in "+-" and line:
            added, removed = counts[-1]
            counts[-1] = (added + (line[0] == "+"), removed + (line[0] == "-"))
    return counts


def summary(files: Sequence[CountedFile], language: Language, most: int = MOST_LISTED) -> list[str]:
    """Return a line for each file: its letter, its name, and the numbers of lines."""
    lines = []
    for one in files[:most]:
        counts = [f"+{one.added}"] * bool(one.added) + [f"−{one.removed}"] * bool(one.removed)
        mark = ["⚠️"] if one.file.conflict else []
        lines.append("  ".join([one.file.letter, folder_texts.file_name(one.file.path), *counts, *mark]))
    if len(files) > most:
        lines.append(folder_texts.more_files(language, len(files) - most))
    return lines


def warnings(diff: FolderDiff, language: Language, folder: str) -> list[str]:
    """Return what cannot be applied: the files in conflict, and the paths that were left out."""
    hit = conflicting(diff)
    said = [folder_texts.conflicts(language, hit, folder)] if hit else []
    left_out = diff.left_out[: folder_texts.MOST_NAMED]
    said += [folder_texts.left_out(language, path, reason) for path, reason in left_out]
    if diff.ignored:
        said.append(folder_texts.ignored(language, diff.ignored))
    if len(diff.left_out) > len(left_out):
        said.append(folder_texts.more_files(language, len(diff.left_out) - len(left_out)))
    return said


def conflicting(diff: FolderDiff) -> list[str]:
    """Return the paths that were changed in the folder as well."""
    return [file.path for file in diff.files if file.conflict]


def diff_text(diff: FolderDiff, language: Language, folder: str, chat: str) -> str:
    """Return the reply to `/diff`, in Markdown: summary, warnings, and the diff, perhaps cut."""
    hints = "\n\n".join(warnings(diff, language, folder))
    if not diff.files:
        return "\n\n".join(filter(None, (folder_texts.unchanged(language, folder), hints)))
    files = counted(diff)
    added, removed = sum(one.added for one in files), sum(one.removed for one in files)
    head = folder_texts.changes_wait(language, len(files), folder, added, removed)
    lines = _first(diff.lines)
    rest = len(diff.lines) - len(lines)
    parts = (
        head,
        fenced("\n".join(summary(files, language)), "text"),
        hints,
        fenced("\n".join(lines), "diff") if lines else "",
        folder_texts.cut_diff(language, rest, chat) if rest else "",
    )
    return "\n\n".join(filter(None, parts))


def _first(lines: Sequence[str]) -> list[str]:
    """Return the first lines of a diff, as many as a chat shows, each of a length that a chat shows."""
    found: list[str] = []
    left = MOST_CHARS
    for line in lines[:MOST_LINES]:
        cut = line if len(line) <= LINE_CHARS else f"{line[: LINE_CHARS - 1]}…"
        left -= len(cut) + 1
        if left < 0:
            break
        found.append(cut)
    return found


async def paths_in(folders: ChatFolders, chat: str, rest: str) -> tuple[str, ...]:
    """Return the paths that a command names; none if it is about all changes.

    A name is relative to the folder, and may be in quotation marks. It may also be as `/diff` has printed it,
    with escapes in place of characters that are not safe to print.

    Raises:
        FolderError: the changes cannot be read.
    """
    try:
        words = shlex.split(rest)
    except ValueError:  # an apostrophe in a name
        words = rest.split()
    paths = [word.removeprefix("/workspace").lstrip("/").removeprefix("./").rstrip("/") for word in words]
    if not all(path not in ("", ".") for path in paths):
        return ()
    if any("\\" in path for path in paths):
        known = (await folders.diff(chat)).files
        printed = {shown(path): path for file in known for path in file.paths}
        paths = [printed.get(path, path) for path in paths]
    return tuple(dict.fromkeys(paths))


def quoted(path: str) -> str:
    """Return a path as a person may type it behind a command."""
    return shlex.quote(shown(path))


@dataclass(frozen=True, slots=True)
class FolderCommands:
    """The command `/diff`. It only reads, so it also answers while a turn runs."""

    folders: ChatFolders

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Return the changes to the chat's folder, or to the named files."""
        linked = self.folders.linked(message.chat)
        if linked is None:
            return folder_texts.no_folder(language)
        try:
            paths = await paths_in(self.folders, message.chat, command.rest)
            diff = await self.folders.diff(message.chat, paths)
        except FolderError as error:
            return f"❌ {error_text(language, error)}"
        return diff_text(diff, language, folder_texts.folder_name(linked.folder), message.chat)
