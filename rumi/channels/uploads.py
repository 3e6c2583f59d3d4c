"""Uploads by clients on this machine, into chats that belong to no channel."""

import mimetypes
import os
from collections.abc import AsyncIterable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import trio

from rumi.agent.tool import Tool
from rumi.agent.tools.send_file import SendFile
from rumi.channels.channel import Channel
from rumi.chats.inbox import Inbox
from rumi.errors import FileError
from rumi.platform.home import Home
from rumi.platform.openat import opened
from rumi.platform.spooled_file import SpooledFile, check_cancelled
from rumi.platform.threads import Threads
from rumi.platform.untrusted_text import one_line
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import about_file, put_file
from rumi.sandbox.workspace import WorkspaceError, open_beneath
from rumi.store.journal.records import Attachment

AT_ONCE: Final = 4
"""Maximum number of concurrent uploads. Additional uploads wait."""

_MEGA: Final = 1024 * 1024
_NAME_CHARS: Final = 100
"""Maximum length of a sender's name for a file in the text for the model."""


async def _is_there(name: str, content: bytes) -> None:
    """Do nothing: the users of these chats can open the workspace, so no file needs to be sent."""
    await trio.lowlevel.checkpoint()


class LocalUploads(Channel):
    """Stores uploads in workspaces. Describes an upload to the model when a turn begins for its message.

    Every upload is untrusted, even an upload by the owner: before an upload is stored, the chat's files are
    marked as tainted (possibly from an untrusted source). A file of the folder that a chat is linked to is
    not copied: the chat sees it already.
    """

    name = "handed"

    def __init__(
        self, home: Home, files: ChatFiles, user: tuple[int, int], limits: SandboxLimits, max_mb: int
    ) -> None:
        self._home = home
        self._files = files
        self._user = user
        self._limits = limits
        self.max_bytes = max_mb * _MEGA
        self._offload = Threads(AT_ONCE)
        self._receiving = trio.CapacityLimiter(AT_ONCE)

    async def put(self, inbox: Inbox, chat: str, name: str, pieces: AsyncIterable[bytes]) -> Attachment:
        """Store a file in the chat's workspace; return it as an attachment for a message.

        If the call is cancelled, a partly stored file is removed; a completely stored file remains.

        Raises:
            RumiError: The file is too large, or it cannot be stored.
        """
        async with self._receiving:
            with SpooledFile(self._home.run, self._offload) as spooled:
                await spooled.reset()
                async for piece in pieces:
                    if spooled.size + len(piece) > self.max_bytes:
                        raise FileError(
                            "It is larger than {max_bytes} MB.", max_bytes=f"{self.max_bytes / _MEGA:g}"
                        )
                    await spooled.write(piece)
                await spooled.flush()
                # Taint first, so that no turn sees the file in untainted files. Taint again afterwards: a
                # reset in between may have removed the taint, but not the file that came after it.
                await inbox.chats.taint_files(chat)
                put = await self._offload(partial(self._put, chat, name, spooled.file))
                await inbox.chats.taint_files(chat)
        return self.attachment(put, spooled.size)

    async def in_folder(self, inbox: Inbox, chat: str, path: str) -> Attachment | None:
        """Return a file at `path` as an attachment, if it lies in the folder that the chat is linked to.

        Other files must be stored with `put`; for them, return None.
        """
        folders = self._files.folders
        linked = None if folders is None or not path.startswith("/") else folders.linked(chat)
        if linked is None:
            return None
        attachment = await self._offload(partial(self._below, Path(linked.folder), path))
        if attachment is not None:
            await inbox.chats.taint_files(chat)
        return attachment

    def _below(self, folder: Path, path: str) -> Attachment | None:
        try:
            relative = str(Path(os.path.realpath(path)).relative_to(os.path.realpath(folder)))
            with opened(open_beneath(folder, relative)) as file:
                return self.attachment(relative, os.fstat(file).st_size)
        except (ValueError, WorkspaceError):
            return None

    @staticmethod
    def attachment(reference: str, size: int | None = None, name: str = "") -> Attachment:
        """Return the attachment for a workspace file; `name` is the sender's name for it, if it differs."""
        kind = mimetypes.guess_type(reference)[0] or ""
        return Attachment("file", reference, name or reference, media_type=kind, size_bytes=size)

    def tools_for(self, chat: str) -> tuple[Tool, ...]:
        """Return the tool that shows a file: as a picture or link on the page, or as a path in a terminal."""
        return (SendFile(partial(self._files.shown, chat), _is_there, self._offload, shows=True),)

    async def bring(self, chat: str, attachment: Attachment) -> str:
        """Return the text for the model about a file that is already in the workspace."""
        return await self._offload(partial(self._about, chat, attachment))

    def _about(self, chat: str, attachment: Attachment) -> str:
        with opened(open_beneath(self._files.shown(chat), attachment.reference)) as file:
            about = about_file(attachment.reference, attachment.media_type, os.fstat(file).st_size)
        if attachment.name != os.path.basename(attachment.reference):
            # The user's text has the other name, which another file of the workspace may have.
            about += f"\n[The user calls it {one_line(attachment.name, _NAME_CHARS)}.]"
        return about

    def _put(self, chat: str, name: str, file: BinaryIO) -> str:
        return put_file(
            self._files.ready(chat),
            name,
            file,
            user=self._user,
            limits=self._limits,
            max_bytes=self.max_bytes,
            checkpoint=check_cancelled,
            reuse=True,
            counted=self._files.stored(chat),
        )
