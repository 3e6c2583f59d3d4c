"""A bounded look at a workspace from outside of its sandbox: names, git's branch, and instruction files.

It starts no program and no container. As in `rumi.sandbox.workspace`, no link is followed and nothing waits
for a file. Names and contents are as commands wrote them; the caller sanitises what it shows. Calls block for
a few milliseconds.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.platform.openat import FOLDER, READ, is_ordinary, openat2, opened
from rumi.platform.text_decoding import decode

INSTRUCTION_FILES: Final = ("AGENTS.md", "CLAUDE.md", ".rumi/AGENTS.md")
"""Files in which people tell agents how to work in a folder, by the paths at which they are looked for."""

MOST_INSTRUCTION_BYTES: Final = 16_000
"""Maximum size of what is read of one instruction file."""

MOST_NAMES: Final = 40
MOST_INNER_NAMES: Final = 12
MOST_FOLDERS: Final = 12
"""Maximum number of names of the workspace and of each folder in it, and of folders that are looked into."""

MOST_SCANNED: Final = 2_000
"""Number of entries of one folder after which the rest is not read."""

IGNORED: Final = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build", "vendor"})
"""Folders that programs fill. Hidden entries are left out too."""

_BRANCH: Final = re.compile(rb"ref: refs/heads/([^\n]{1,200})\n?")
_COMMIT: Final = re.compile(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?\n?")
_UNDER_WAY: Final = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "BISECT_LOG": "bisect",
}


@dataclass(frozen=True, slots=True)
class FolderNames:
    """Names in a folder, with `/` after those of folders, and the number of names that were left out.

    `path` is relative to the workspace, and empty for the workspace itself.
    """

    path: str
    names: tuple[str, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class GitState:
    """What git's files say of a work tree: the branch, the commit, and what is `under_way`, such as a merge.

    `branch` is empty if a commit is checked out; `commit` is empty if it is not known.
    """

    path: str
    branch: str
    commit: str = ""
    under_way: str = ""


@dataclass(frozen=True, slots=True)
class InstructionFile:
    """An instruction file. `cut` means that the end of `text` is missing."""

    path: str
    text: str
    cut: bool = False

    @property
    def version(self) -> str:
        """Return a short hash of the content, which shows whether the file has changed."""
        return hashlib.sha256(f"{self.cut}{self.text}".encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Overview:
    """What a look at a workspace has found."""

    folders: tuple[FolderNames, ...] = ()
    git: tuple[GitState, ...] = ()
    instructions: tuple[InstructionFile, ...] = ()


NOTHING: Final = Overview()


def overview(workspace: Path) -> Overview:
    """Look at a workspace. A folder that does not exist or cannot be read counts as empty."""
    with suppress(OSError), opened(os.open(workspace, FOLDER)) as top:
        names, left_out = _names(top)
        folders = [FolderNames("", names[:MOST_NAMES], left_out + len(names[MOST_NAMES:]))]
        inner = [name.removesuffix("/") for name in names[:MOST_NAMES] if name.endswith("/")][:MOST_FOLDERS]
        git = [*_git(top, "")]
        for name in inner:
            with suppress(OSError), opened(openat2(top, os.fsencode(name), FOLDER)) as folder:
                found, more = _names(folder)
                cut = found[:MOST_INNER_NAMES]
                folders.append(FolderNames(name, cut, more + len(found) - len(cut)))
                git += _git(folder, name)
        return Overview(tuple(folders), tuple(git), _instructions(top))
    return NOTHING


def instructions_in(folder: Path) -> tuple[InstructionFile, ...]:
    """Return the instruction files of a folder; none if the folder does not exist or cannot be read."""
    with suppress(OSError), opened(os.open(folder, FOLDER)) as top:
        return _instructions(top)
    return ()


def _instructions(top: int) -> tuple[InstructionFile, ...]:
    found: list[InstructionFile] = []
    for path in INSTRUCTION_FILES:
        body = _read(top, path, MOST_INSTRUCTION_BYTES + 1)
        text = decode(body[:MOST_INSTRUCTION_BYTES]).strip()
        # CLAUDE.md often is a copy of AGENTS.md.
        if text and all(text != other.text for other in found):
            found.append(InstructionFile(path, text, len(body) > MOST_INSTRUCTION_BYTES))
    return tuple(found)


def _names(folder: int) -> tuple[tuple[str, ...], int]:
    """Return the names of an open folder, folders first, and the number of entries that were left out."""
    folders: list[str] = []
    files: list[str] = []
    left_out = 0
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= MOST_SCANNED:
                left_out += 1
                break
            if entry.name.startswith(".") or any("\udc80" <= c <= "\udcff" for c in entry.name):
                continue
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in IGNORED:
                    folders.append(f"{entry.name}/")
            elif entry.is_file(follow_symlinks=False):
                files.append(entry.name)
    return (*sorted(folders), *sorted(files)), left_out


def _git(folder: int, path: str) -> Iterator[GitState]:
    """Yield the state of the repository in an open folder; nothing if there is no ordinary repository."""
    head = _read(folder, ".git/HEAD", 300)
    if _COMMIT.fullmatch(head):
        yield GitState(path, "", head[:7].decode(), _under_way(folder))
    elif (found := _BRANCH.fullmatch(head)) is not None:
        branch = found[1].decode("utf-8", "backslashreplace")
        commit = _read(folder, b".git/refs/heads/" + found[1], 100)
        short = commit[:7].decode() if _COMMIT.fullmatch(commit) else ""
        yield GitState(path, branch, short, _under_way(folder))


def _under_way(folder: int) -> str:
    for name, what in _UNDER_WAY.items():
        path = f".git/{name}".encode()
        with suppress(OSError), opened(openat2(folder, path, os.O_PATH | os.O_CLOEXEC)):
            return what
    return ""


def _read(folder: int, path: str | bytes, most: int) -> bytes:
    """Return the first `most` bytes of an ordinary file below an open folder; nothing if there is none."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(opened(openat2(folder, os.fsencode(path), READ)))
            return os.read(file, most) if is_ordinary(file) else b""
        except OSError:
            return b""
