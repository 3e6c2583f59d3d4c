"""Fetching of attachments: stores files in the chat's workspace, and transcribes voice messages."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import trio
from telegram import Bot

from rumi.channels.telegram.files.download import (
    MAX_BYTES,
    Downloads,
    DownloadTimeouts,
)
from rumi.errors import FileError
from rumi.platform.spooled_file import SpooledFile, check_cancelled
from rumi.platform.threads import Offload
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import about_file, put_file
from rumi.store.journal.records import Attachment

_MEGA: Final = 1024 * 1024


class Transcribes(Protocol):
    """Transcribes voice recordings; implemented by `rumi.models.Transcriber`."""

    async def transcribe(self, name: str, audio: bytes, language: str | None = None) -> str:
        """Return the transcript; empty if the recording has no speech. Raises a `RumiError`."""
        ...


class TelegramFiles:
    """Fetches the attachments of messages. The creator must close this object, but not the `transcriber`.

    `workspace` prepares a chat's folder and returns its path; it may block and raise a `RumiError`. Files in
    that folder belong to `user`, the sandbox's uid and gid. Downloads are buffered in unnamed files in the
    folder `spool`, which must be on a disk and outside of the workspaces. `offload` runs blocking work, and
    returns only after that work has ended. `in_memory` limits the number of recordings that are completely in
    memory.
    """

    def __init__(
        self,
        bot: Bot,
        *,
        workspace: Callable[[str], Path],
        user: tuple[int, int],
        limits: SandboxLimits,
        spool: Path,
        offload: Offload,
        transcriber: Transcribes | None,
        in_memory: trio.CapacityLimiter,
        max_bytes: int = MAX_BYTES,
        patience: DownloadTimeouts | None = None,
    ) -> None:
        self._downloads = Downloads(bot, max_bytes=max_bytes, patience=patience or DownloadTimeouts())
        self._workspace = workspace
        self._user = user
        self._limits = limits
        self._spool = spool
        self._offload = offload
        self._transcriber = transcriber
        self._in_memory = in_memory
        self._max_bytes = max_bytes

    async def bring(self, chat: str, attachment: Attachment) -> str:
        """Fetch an attachment of a chat's message; return the text about it for the model.

        For a file, the text contains its path; for a voice message, the text is the transcript. If the call
        is cancelled, a partly stored file is removed; a file that is already complete in the workspace
        remains.

        Raises:
            RumiError: The attachment could not be fetched. The error's text does not contain the token.
        """
        if attachment.size_bytes is not None and attachment.size_bytes > self._max_bytes:
            raise FileError("It is larger than {max_bytes} MB.", max_bytes=f"{self._max_bytes / _MEGA:g}")
        with SpooledFile(self._spool, self._offload) as spooled:
            if attachment.kind == "voice":
                return await self._listen(attachment, spooled)
            return await self._save(chat, attachment, spooled)

    async def aclose(self) -> None:
        """Close idle connections. Takes a limited time, even when cancelled."""
        await self._downloads.aclose()

    async def _save(self, chat: str, attachment: Attachment, spooled: SpooledFile) -> str:
        await self._downloads.fetch(attachment.reference, spooled)
        name = await self._offload(partial(self._put, chat, attachment.name, spooled.file))
        return about_file(name, attachment.media_type, spooled.size)

    def _put(self, chat: str, name: str, file: BinaryIO) -> str:
        return put_file(
            self._workspace(chat),
            name,
            file,
            user=self._user,
            limits=self._limits,
            max_bytes=self._max_bytes,
            checkpoint=check_cancelled,
            reuse=True,
        )

    async def _listen(self, attachment: Attachment, spooled: SpooledFile) -> str:
        if self._transcriber is None:
            raise FileError("No transcriber is configured.", "Please write instead.")
        await self._downloads.fetch(attachment.reference, spooled)
        # Only now: during the download, the recording is in the spooled file and not in memory.
        async with self._in_memory:
            audio = await self._offload(partial(_whole, spooled.file))
            words = await self._transcriber.transcribe(attachment.name, audio)
        if not words:
            raise FileError("The voice message has no words.")
        return words


def _whole(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()
