"""The folder of a person's machine that a chat works on: its changes, and what becomes of them.

A chat that is linked to a folder sees the folder's files as its workspace. Nothing in the folder changes
until a person applies the changes. A chat keeps its link for good; another folder gets another chat.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from rumi.errors import RumiError

ChangeLetter: TypeAlias = Literal["A", "D", "M", "R", "m"]
"""Added, deleted, modified, renamed, and only the mode modified."""


class FolderError(RumiError):
    """A folder cannot be worked on, or its changes cannot be shown, applied or discarded."""

    code = "folder"


@dataclass(frozen=True, slots=True)
class LinkedFolder:
    """The folder of a chat. `how` says how the sandbox sees it.

    `overlay`: through an overlay mount; `copy`: as a copy, made before the chat's first command.
    """

    chat: str
    folder: Path
    how: Literal["overlay", "copy"]


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A changed file of the folder. `conflict` is True if the folder's file has changed meanwhile, too.

    `path` is for people, and safe to print; of a moved file it has the old and the new path. `paths` are the
    paths themselves, as the methods of `ChatFolders` take them.
    """

    letter: ChangeLetter
    path: str
    conflict: bool = False
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FolderDiff:
    """The changes of a chat's folder at one moment.

    `token` identifies exactly these changes. `lines` are those of a unified diff in git's format; each is
    safe to print. `left_out` are paths that cannot be applied, each with the reason. `ignored` counts changed
    paths that .gitignore ignores; they are among the changes only if their own path is asked for.
    """

    token: str
    files: tuple[ChangedFile, ...]
    lines: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    ignored: int = 0


class ChatFolders(Protocol):
    """The folders that chats work on. Every method gets the chat's id from its caller."""

    def linked(self, chat: str) -> LinkedFolder | None:
        """Return the chat's folder; None if the chat has files of its own. Cheap."""
        ...

    async def link(self, chat: str, folder: Path) -> LinkedFolder:
        """Let a chat work on a folder. Does nothing if the chat works on this folder already.

        Raises:
            FolderError: The folder is refused (`/`, a person's home, one with Rumi's own files, one that
                cannot be read), or the chat works on another folder or has files of its own.
        """
        ...

    async def diff(self, chat: str, paths: tuple[str, ...] = ()) -> FolderDiff:
        """Return the changes, of these paths and those below them, or of all.

        Raises:
            FolderError: The chat has no folder, the folder cannot be read, or no path matches.
        """
        ...

    async def apply(self, chat: str, token: str, paths: tuple[str, ...] = ()) -> int:
        """Bring the changes that were shown with `token` into the folder; return the number of paths.

        After a kill at any moment, the next start completes what was begun. If cancelled, it completes first.

        Raises:
            FolderError: The changes are no longer those shown, or the folder has changed too. Nothing was
                done.
        """
        ...

    async def discard(self, chat: str, paths: tuple[str, ...] = ()) -> int:
        """Drop the changes of these paths, or all; return the number of paths. The folder does not change.

        Raises:
            FolderError: The chat has no folder, or no path matches.
        """
        ...
