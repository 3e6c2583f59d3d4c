"""Downloads of files from the web into the workspaces of chats."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Final

from rumi.platform.spooled_file import SpooledFile, check_cancelled
from rumi.platform.threads import Offload
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.disk import free_on
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import PlacedFile, check_path, place_file, room_for
from rumi.web.messages import Saved
from rumi.web.tree import Web

_MEGA: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FilesFromWeb:
    """Downloads files into workspaces. They belong to the sandbox's `user`, and have at most `max_mb` MB.

    Bytes arrive in an unnamed file in the folder `spool`, outside of the workspaces: neither a cancellation
    nor a kill leaves a part of a file anywhere.
    """

    web: Web
    files: ChatFiles
    user: tuple[int, int]
    limits: SandboxLimits
    max_mb: int
    spool: Path
    offload: Offload

    async def save(
        self,
        chat: str,
        url: str,
        path: str,
        progress: Callable[[str], None],
        before: Callable[[], Awaitable[None]],
    ) -> tuple[Saved, PlacedFile]:
        """Download a URL to a path of the chat's workspace; see `place_file`.

        `before` is awaited when everything has arrived, before the workspace changes. If the call is
        cancelled, a part of the file is never left; the complete file may be.

        Raises:
            FetchError: The file did not arrive completely.
            WorkspaceError: The path is refused, or the workspace has no room.
            FileError: The disk cannot be written.
        """
        check_path(path)
        max_bytes = min(self.max_mb * _MEGA, await self.offload(partial(self._room, chat, path)))
        with SpooledFile(self.spool, self.offload) as spooled:
            saved = await self.web.save(chat, url, spooled, max_bytes, path, progress)
            await spooled.flush()
            await before()
            placed = await self.offload(partial(self._place, chat, path, saved.suggested, spooled.file))
        return saved, placed

    async def put(
        self, chat: str, path: str, body: bytes, suggested: str, before: Callable[[], Awaitable[None]]
    ) -> PlacedFile:
        """Store a file that is in memory, such as an attachment of a mail, at a path; see `save`.

        Raises:
            WorkspaceError: The path is refused, or the workspace has no room.
        """
        check_path(path)
        await before()
        return await self.offload(partial(self._place, chat, path, suggested, BytesIO(body)))

    def _room(self, chat: str, path: str) -> int:
        """Return how many bytes may arrive: for a moment, the file is in `spool` and in the workspace."""
        workspace = self.files.ready(chat)
        free = free_on(self.spool, self.limits.reserve_bytes)
        spare = int(free.bytes - free.reserve_bytes)
        if self.spool.stat().st_dev == workspace.stat().st_dev:
            spare //= 2
        return max(0, min(room_for(self.files.stored(chat), path, self.limits), spare))

    def _place(self, chat: str, path: str, suggested: str, file: BinaryIO) -> PlacedFile:
        return place_file(
            self.files.ready(chat),
            path,
            file,
            suggested=suggested,
            user=self.user,
            limits=self.limits,
            max_bytes=self.max_mb * _MEGA,
            checkpoint=check_cancelled,
            counted=self.files.stored(chat),
        )
