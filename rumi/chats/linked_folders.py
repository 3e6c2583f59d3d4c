"""The folders that chats work on, in the running program: their changes, apply and discard.

The work itself is in `rumi.sandbox.folders`. Before a change of the chat's layer or copy, the chat's
container is stopped: the kernel says nothing about a mount whose layers change beneath it.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from rumi.chats.folders import ChangedFile, FolderDiff, FolderError, LinkedFolder
from rumi.chats.undo.snapshots import Snapshots
from rumi.platform.threads import Offload
from rumi.sandbox.engine import SandboxError
from rumi.sandbox.folders.linked import Found, LinkedFolders
from rumi.sandbox.folders.links import FolderFault, FolderLink
from rumi.sandbox.project.changes import stat_letters, unified

T = TypeVar("T")


class SandboxFolders:
    """The port `rumi.chats.folders.ChatFolders`, for the folders of this machine.

    `stop` removes a chat's container; `runs` says if a command of a chat runs. `snapshots` are those for
    undo.
    """

    def __init__(
        self,
        folders: LinkedFolders | None,
        stop: Callable[[str], Awaitable[None]],
        runs: Callable[[str], bool],
        snapshots: Snapshots,
        offload: Offload,
    ) -> None:
        self._folders = folders
        self._stop = stop
        self._runs = runs
        self._snapshots = snapshots
        self._offload = offload

    def linked(self, chat: str) -> LinkedFolder | None:
        """Return the chat's folder; None if the chat has files of its own. Cheap."""
        link = None if self._folders is None else self._folders.linked(chat)
        return None if link is None else _linked(chat, link)

    async def link(self, chat: str, folder: Path) -> LinkedFolder:
        """Let a chat work on a folder. Does nothing if the chat works on this folder already.

        Raises:
            FolderError: The folder is refused, or the chat works on another folder or has files of its own.
        """
        folders = self._needed()
        return _linked(chat, await self._in_thread(partial(folders.link, chat, folder)))

    async def diff(self, chat: str, paths: tuple[str, ...] = ()) -> FolderDiff:
        """Return the changes, of these paths and those below them, or of all.

        Raises:
            FolderError: The chat has no folder, the folder cannot be read, or no path matches.
        """
        folders = self._needed()

        def read() -> FolderDiff:
            with folders.found(chat, paths) as (_, found):
                return _diff(found)

        return await self._in_thread(read)

    async def apply(self, chat: str, token: str, paths: tuple[str, ...] = ()) -> int:
        """Bring the changes that were shown with `token` into the folder; return the number of paths.

        After a kill at any moment, the next start completes what was begun. If cancelled, it completes first.
        The snapshots of the chat's turns are dropped: an undo would not take back what is in the folder.

        Raises:
            FolderError: The changes are no longer those shown, or the folder has changed too. Nothing was
                done.
        """
        folders = self._needed()
        await self._stopped(chat)

        def work() -> int:
            count = folders.apply(chat, token, paths)
            self._snapshots.applied(chat)
            return count

        # A thread's work is completed even if the call is cancelled.
        return await self._in_thread(work)

    async def discard(self, chat: str, paths: tuple[str, ...] = ()) -> int:
        """Drop the changes of these paths, or all; return the number of paths. The folder does not change.

        Raises:
            FolderError: The chat has no folder, or no path matches.
        """
        folders = self._needed()
        await self._stopped(chat)
        return await self._in_thread(partial(folders.discard, chat, paths))

    def _needed(self) -> LinkedFolders:
        if self._folders is None:
            raise FolderError(
                "Chats cannot work on folders where several workers share the chats.",
                "Use a home without a shared database.",
            )
        return self._folders

    async def _stopped(self, chat: str) -> None:
        """Remove the chat's container.

        Raises:
            FolderError: A command of the chat runs, or the removal is not confirmed.
        """
        if self._runs(chat):
            raise FolderError("A command of this chat runs.", "Wait for it, or stop it with /stop.")
        try:
            await self._stop(chat)
        except SandboxError as error:
            raise FolderError(error.message, error.advice) from error

    async def _in_thread(self, work: Callable[[], T]) -> T:
        try:
            return await self._offload(work)
        except FolderFault as error:
            raise FolderError(error.message, error.advice) from error


def _linked(chat: str, link: FolderLink) -> LinkedFolder:
    return LinkedFolder(chat, link.path, link.how)


def _diff(found: Found) -> FolderDiff:
    files = []
    for letter, text, paths in stat_letters(found.changes):
        files.append(ChangedFile(letter, text, not found.conflicts.isdisjoint(paths), tuple(paths)))
    return FolderDiff(
        found.token, tuple(files), tuple(unified(found.changes)), found.changes.left_out, found.ignored
    )
