"""Handover of workspaces from a former sandbox user, the user that ran commands, to the current one.

The workspace's own folder changes its owner last, and so records that the handover is complete. A handover
that was interrupted, by a crash or a cancellation, therefore continues with the next command and needs no
other record. Only files of a former user are handed over. Every step goes from an open folder to a name in
it, opens the entry without following a link, checks its owner and chowns the open file.
"""

import contextlib
import errno
import logging
import os
import stat
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rumi.platform.home import workspaces_in
from rumi.platform.openat import FOLDER, openat2, opened
from rumi.sandbox.engine import SandboxError
from rumi.sandbox.folders.linked import LinkedFolders
from rumi.sandbox.folders.links import FolderFault
from rumi.sandbox.identity import former_users
from rumi.sandbox.workspace import MAX_DEPTH, WorkspaceError, prepare_workspace
from rumi.texts import os_error

log = logging.getLogger("rumi.sandbox")

AT_ONCE: Final = 2
"""Maximum number of simultaneous handovers, each in a thread."""

WAIT_S: Final = 20.0
"""Maximum wait for an earlier run's processes that use a workspace; Rumi ends them at startup."""

PAUSE_S: Final = 0.2

SEEN_AT: Final = ("workspace", "tmp/workspace")
"""The paths at which commands, and bubblewrap's keepers, have the workspace mounted."""

_PATH_ONLY: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_OURS: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})


class Workspaces:
    """The workspaces of all chats, prepared for the user of their commands."""

    def __init__(
        self,
        home: Path,
        user: tuple[int, int],
        folder: Path | None = None,
        folders: LinkedFolders | None = None,
    ) -> None:
        """Use the chats' folders in RUMI_HOME, or in `folder` if given; `folders` knows linked chats."""
        self._home = home
        self._folders = folders
        self._folder = folder or workspaces_in(home)
        self._user = user
        self._threads = trio.CapacityLimiter(AT_ONCE)

    def path(self, chat_id: str) -> Path:
        """Return the folder that holds what the chat has written. It may not exist yet."""
        return self._folder / chat_id if self._folders is None else self._folders.stored(chat_id)

    def how(self, chat_id: str) -> str:
        """Return how a linked chat sees its folder; empty for a chat with files of its own."""
        link = None if self._folders is None else self._folders.linked(chat_id)
        return "" if link is None else link.how

    def seen_at(self, path: Path) -> Path:
        """Return the path at which commands' open files appear to be, for a folder from `path`."""
        return path if self._folders is None else self._folders.seen_at(path)

    async def refresh(self, chat_id: str) -> None:
        """Show a linked chat what has changed in its folder. None of its commands may run."""
        if self._folders is not None and self._folders.linked(chat_id) is not None:
            folders = self._folders
            await trio.to_thread.run_sync(folders.refresh, chat_id, limiter=self._threads)

    async def record(self, chat_id: str) -> None:
        """Record what a linked chat has changed in its folder."""
        if self._folders is not None and self._folders.linked(chat_id) is not None:
            folders = self._folders
            await trio.to_thread.run_sync(folders.record, chat_id, limiter=self._threads)

    async def ready(self, chat_id: str) -> Path:
        """Create the chat's folder if it is missing, and make the sandbox's user the owner of its content.

        The chat must have no container. If nothing has to change, this costs a few system calls. Otherwise a
        thread hands the files over; if cancelled, the thread ends soon, and the next call hands over the
        remaining files.

        Raises:
            SandboxError: The folder cannot be created, or another process still uses it.
        """
        uid, gid = self._user
        if self._folders is not None and self._folders.linked(chat_id) is not None:
            return await self._linked_ready(self._folders, chat_id)
        try:
            path = prepare_workspace(self._home, chat_id, uid, gid, workspaces=self._folder)
            if (owner := path.lstat().st_uid) != uid:
                former = await trio.to_thread.run_sync(former_users, self._home, limiter=self._threads)
                await self._take_over(path, former | {owner})
        except WorkspaceError as error:
            raise SandboxError(error.message, error.advice) from error
        return path

    async def _linked_ready(self, folders: LinkedFolders, chat_id: str) -> Path:
        stored = folders.stored(chat_id)
        try:
            with contextlib.suppress(FileNotFoundError):
                if os.geteuid() == 0 and (owner := stored.lstat().st_uid) != self._user[0]:
                    former = await trio.to_thread.run_sync(former_users, self._home, limiter=self._threads)
                    await trio.to_thread.run_sync(folders.close, chat_id, limiter=self._threads)
                    await self._take_over(stored, former | {owner})
            return await trio.to_thread.run_sync(folders.ready, chat_id, limiter=self._threads)
        except FolderFault as error:
            raise SandboxError(error.message, error.advice) from error

    async def _take_over(self, path: Path, former: Collection[int]) -> None:
        in_thread = partial(trio.to_thread.run_sync, limiter=self._threads, abandon_on_cancel=True)
        with trio.move_on_after(WAIT_S) as waiting:
            while await in_thread(is_in_use, path):  # noqa: ASYNC110 - other processes set no event
                await trio.sleep(PAUSE_S)
        if waiting.cancelled_caught:
            raise SandboxError(
                "Processes of another sandbox still work in {path}, as a user of an earlier Rumi.",
                "End them, or restart Docker and then Rumi.",
                path=path,
            )
        count = await in_thread(hand_over, path, *self._user, former, trio.from_thread.check_cancelled)
        log.info("%s belongs to user %d now; files handed over: %d", path, self._user[0], count)


def hand_over(
    path: Path,
    uid: int,
    gid: int,
    former: Collection[int],
    checkpoint: Callable[[], None] = lambda: None,
) -> int:
    """Give files of former sandbox users, and finally the folder, to the user; return the number of files.

    Files of other users and mounts are left alone. Blocks for a second or two for 50,000 files. `checkpoint`
    is called for every file; if it raises, the handover ends, and the next call continues it.

    Raises:
        WorkspaceError: The handover failed, or folders were moved during the handover.
    """
    count = 0
    try:
        with opened(os.open(path, FOLDER)) as top:
            for found in _all_below(top):
                checkpoint()
                count += _give(found, uid, gid, former)
            # Last: the owner of the folder is the record that everything below has been handed over.
            os.fchown(top, uid, gid)
    except OSError as error:
        raise WorkspaceError(
            "The files in {path} cannot be given to the sandbox's user {uid}: {reason}.",
            "Look at the disk and its mount, then try again.",
            path=path,
            uid=uid,
            reason=os_error(error),
        ) from error
    return count


def is_in_use(path: Path) -> bool:
    """Return True if a process of either engine has this folder mounted as its workspace. Blocking."""
    ours = path.lstat()
    for process in os.listdir("/proc"):
        for seen_at in SEEN_AT if process.isdigit() else ():
            with contextlib.suppress(OSError):
                if os.path.samestat(ours, os.lstat(f"/proc/{process}/root/{seen_at}")):
                    return True
    return False


def _give(found: int, uid: int, gid: int, former: Collection[int]) -> bool:
    """Chown the open file to the user if a former sandbox user owns it; change its group likewise."""
    status = os.fstat(found)
    if status.st_uid not in former:
        return False
    # Through the descriptor: the name may lead elsewhere by now. For a link this changes the link itself.
    os.chown(f"/proc/self/fd/{found}", uid, gid if status.st_gid in former else -1)
    return True


class _Level:
    """A folder on the current path of the walk, and the names of its subfolders that remain to be visited."""

    def __init__(self, folder: int) -> None:
        self.folder = folder
        self.inner: list[str] = []
        self._status = os.fstat(folder)

    def things(self) -> Iterator[int]:
        """Yield a descriptor of every entry; each is closed before the next one is opened."""
        for name in os.listdir(self.folder):
            if (found := self.enter(name, _PATH_ONLY)) is not None:
                with opened(found):
                    if stat.S_ISDIR(os.fstat(found).st_mode):
                        self.inner.append(name)
                    yield found

    def enter(self, name: str, flags: int) -> int | None:
        """Open an entry; return None if it has vanished, has changed its type, or is a mount."""
        try:
            return openat2(self.folder, os.fsencode(name), flags, same_mount=True)
        except OSError as error:
            if error.errno in _NOT_OURS:
                return None
            raise

    def return_from(self, inner: int) -> None:
        """Reopen this folder, if it is closed, as `inner`'s parent. Raise OSError if `inner` was moved."""
        if self.folder < 0:
            self.folder = os.open("..", FOLDER, dir_fd=inner)
            # A command may have moved the inner folder, and then ".." could lead out of the workspace.
            if not os.path.samestat(self._status, os.fstat(self.folder)):
                raise OSError(errno.EAGAIN, "folders are being moved about")

    def close(self) -> None:
        """Close the folder. Idempotent."""
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1


def _all_below(top: int) -> Iterator[int]:
    """Yield an O_PATH descriptor of each entry below an open folder, valid until the next one is yielded.

    At any depth, at most `MAX_DEPTH` folders are open; folders further up are reopened through "..".
    """
    levels = [_Level(os.dup(top))]
    try:
        yield from levels[-1].things()
        while levels:
            level = levels[-1]
            if level.inner:
                if (folder := level.enter(level.inner.pop(), FOLDER)) is not None:
                    levels.append(_Level(folder))
                    if len(levels) > MAX_DEPTH:
                        levels[-1 - MAX_DEPTH].close()
                    yield from levels[-1].things()
                continue
            if len(levels) > 1:
                levels[-2].return_from(level.folder)
            level.close()
            levels.pop()
    finally:
        for level in levels:
            level.close()
