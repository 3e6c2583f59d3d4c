"""Hands workspaces of a former sandbox user over to the current one.

The owner of a workspace's own folder records that the handover is complete: it changes last. So a handover
that ended half-way, by a crash or a cancellation, continues with the next command, and needs no other record.
Only files of a former user are given away. Every step goes from an open folder to a name in it, opens the
entry without following a link, checks its owner and gives away the opened file.
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
from rumi.sandbox.identity import former_users
from rumi.sandbox.workspace import MAX_DEPTH, WorkspaceError, prepare_workspace

log = logging.getLogger("rumi.sandbox")

AT_ONCE: Final = 2
"""The maximum number of simultaneous handovers, in separate threads."""

WAIT_S: Final = 20.0
"""How long to wait for processes of an earlier run in a workspace, which the start removes."""

PAUSE_S: Final = 0.2

SEEN_AT: Final = ("workspace", "tmp/workspace")
"""Where commands see their workspace, and where bubblewrap's keepers do."""

_PATH_ONLY: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_OURS: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV})


class Workspaces:
    """The chats' folders, each prepared for the user of its commands."""

    def __init__(self, home: Path, user: tuple[int, int], folder: Path | None = None) -> None:
        """The chats' folders are in the home, or in `folder`."""
        self._home = home
        self._folder = folder or workspaces_in(home)
        self._user = user
        self._threads = trio.CapacityLimiter(AT_ONCE)

    def path(self, chat_id: str) -> Path:
        """Return the chat's folder, which may not exist yet."""
        return self._folder / chat_id

    async def ready(self, chat_id: str) -> Path:
        """Make the chat's folder if it is missing, and give all of its content to the sandbox's user.

        If nothing has to change, this takes a few calls. Otherwise a thread hands the files over: cancelled,
        it ends soon, and the next call does the rest. The chat must have no container.

        Raises:
            SandboxError: The folder cannot be made, or another process still works in it.
        """
        uid, gid = self._user
        try:
            path = prepare_workspace(self._home, chat_id, uid, gid, workspaces=self._folder)
            if (owner := path.lstat().st_uid) != uid:
                former = await trio.to_thread.run_sync(former_users, self._home, limiter=self._threads)
                await self._take_over(path, former | {owner})
        except WorkspaceError as error:
            raise SandboxError(error.message, error.advice) from error
        return path

    async def _take_over(self, path: Path, former: Collection[int]) -> None:
        in_thread = partial(trio.to_thread.run_sync, limiter=self._threads, abandon_on_cancel=True)
        with trio.move_on_after(WAIT_S) as waiting:
            while await in_thread(is_in_use, path):  # noqa: ASYNC110 - other processes set no event
                await trio.sleep(PAUSE_S)
        if waiting.cancelled_caught:
            raise SandboxError(
                f"Processes of another sandbox still work in {path}, as a user of an earlier Rumi.",
                "End them, or restart Docker and then Rumi.",
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
    """Give files of former users in the folder, and then the folder, to the user; return their number.

    Blocking: a second or two for 50,000 files. `checkpoint` is called for every file: its exception ends the
    handover, and the next one does the rest. Files of other users stay theirs, and so do mounts.

    Raises:
        WorkspaceError: It could not be done, or folders were moved meanwhile.
    """
    count = 0
    try:
        with opened(os.open(path, FOLDER)) as top:
            for found in _all_below(top):
                checkpoint()
                count += _give(found, uid, gid, former)
            os.fchown(top, uid, gid)
    except OSError as error:
        raise WorkspaceError(
            f"The files in {path} cannot be given to the sandbox's user {uid}: {error.strerror}.",
            "Look at the disk and its mount, then try again.",
        ) from error
    return count


def is_in_use(path: Path) -> bool:
    """Return True if a process sees the folder where sandboxes of either engine have theirs. Blocking."""
    ours = path.lstat()
    for process in os.listdir("/proc"):
        for seen_at in SEEN_AT if process.isdigit() else ():
            with contextlib.suppress(OSError):
                if os.path.samestat(ours, os.lstat(f"/proc/{process}/root/{seen_at}")):
                    return True
    return False


def _give(found: int, uid: int, gid: int, former: Collection[int]) -> bool:
    """Give the opened file to the user if a former user owns it, and its group if that is a former user's."""
    status = os.fstat(found)
    if status.st_uid not in former:
        return False
    # By the descriptor: a name could lead elsewhere by now. For a link it changes the link itself.
    os.chown(f"/proc/self/fd/{found}", uid, gid if status.st_gid in former else -1)
    return True


class _Level:
    """A folder on the way down, and the names of its subfolders that are still to be visited."""

    def __init__(self, folder: int) -> None:
        self.folder = folder
        self.inner: list[str] = []
        self._status = os.fstat(folder)

    def things(self) -> Iterator[int]:
        """Yield a descriptor of every entry, open until the next one."""
        for name in os.listdir(self.folder):
            if (found := self.enter(name, _PATH_ONLY)) is not None:
                with opened(found):
                    if stat.S_ISDIR(os.fstat(found).st_mode):
                        self.inner.append(name)
                    yield found

    def enter(self, name: str, flags: int) -> int | None:
        """Open the entry; return None if it is gone, has another type by now, or is a mount."""
        try:
            return openat2(self.folder, os.fsencode(name), flags, same_mount=True)
        except OSError as error:
            if error.errno in _NOT_OURS:
                return None
            raise

    def return_from(self, inner: int) -> None:
        """Open this folder again, if it was closed, by way of a folder in it."""
        if self.folder < 0:
            self.folder = os.open("..", FOLDER, dir_fd=inner)
            if not os.path.samestat(self._status, os.fstat(self.folder)):
                raise OSError(errno.EAGAIN, "folders are being moved about")

    def close(self) -> None:
        """Close the folder. Idempotent."""
        if self.folder >= 0:
            os.close(self.folder)
            self.folder = -1


def _all_below(top: int) -> Iterator[int]:
    """Yield everything below an open folder, each opened for a moment with O_PATH.

    At any depth, at most `MAX_DEPTH` folders are open: further up the way back is "..".
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
