"""Files of messages: fetched when their turn comes, and stored in the chat's workspace or transcribed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import trio

from rumi.channels.matrix.api import MatrixApi, MatrixError
from rumi.channels.matrix.encrypted_files import FileKey, FileReader, split_reference
from rumi.channels.matrix.reading import media_of
from rumi.errors import FileError
from rumi.platform.spooled_file import SpooledFile, check_cancelled
from rumi.platform.threads import Offload
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import about_file, put_file
from rumi.store.journal.records import Attachment

_MEGA: Final = 1_000_000
ATTEMPTS: Final = 3
PAUSE_S: Final = 1.0


class TranscribesVoice(Protocol):
    """Transcribes voice recordings."""

    async def transcribe(self, name: str, audio: bytes, language: str | None = None) -> str:
        """Return the transcript; empty if the recording has no speech. Raises a `RumiError`."""
        ...


class MatrixFiles:
    """Fetches the attachments of messages.

    `workspace` prepares a chat's folder and returns its path. Files there belong to `user`. Downloads are
    buffered in unnamed files in the folder `spool`. `offload` runs blocking work. `in_memory` limits the
    number of recordings that are completely in memory.
    """

    def __init__(
        self,
        api: MatrixApi,
        *,
        workspace: Callable[[str], Path],
        user: tuple[int, int],
        limits: SandboxLimits,
        spool: Path,
        offload: Offload,
        transcriber: TranscribesVoice | None,
        in_memory: trio.CapacityLimiter,
        max_bytes: int,
    ) -> None:
        self._api = api
        self._workspace = workspace
        self._user = user
        self._limits = limits
        self._spool = spool
        self._offload = offload
        self._transcriber = transcriber
        self._in_memory = in_memory
        self._max_bytes = max_bytes

    async def bring(self, chat: str, attachment: Attachment) -> str:
        """Fetch an attachment; return the text about it for the model: its path, or the transcript.

        Raises:
            RumiError: The attachment could not be fetched.
        """
        if attachment.size_bytes is not None and attachment.size_bytes > self._max_bytes:
            raise self._too_large()
        address, key = split_reference(attachment.reference)
        found = media_of(address)
        if found is None:
            raise FileError("Its address is unknown.")
        with SpooledFile(self._spool, self._offload) as spooled:
            await self._fetch(*found, key, spooled)
            if attachment.kind == "voice":
                return await self._listen(attachment, spooled)
            name = await self._offload(partial(self._put, chat, attachment.name, spooled.file))
            return about_file(name, attachment.media_type, spooled.size)

    async def _fetch(self, server: str, media: str, key: FileKey | None, spooled: SpooledFile) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await spooled.reset()
                reader = None if key is None else FileReader(key)
                async with self._api.download(server, media) as chunks:
                    async for chunk in chunks:
                        if spooled.size + len(chunk) > self._max_bytes:
                            raise self._too_large()
                        await spooled.write(chunk if reader is None else reader.read(chunk))
                if reader is not None and not reader.is_whole:
                    raise FileError("It is damaged: it is not what its sender encrypted.")
                await spooled.flush()
            except MatrixError as error:
                if error.kind in ("refused", "token") or attempt == ATTEMPTS:
                    raise FileError("{error}", error=error.message) from None
                await trio.sleep(max(PAUSE_S * attempt, min(error.wait_s, 30.0)))
            else:
                return

    def _too_large(self) -> FileError:
        return FileError("It is larger than {max_bytes} MB.", max_bytes=f"{self._max_bytes / _MEGA:g}")

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
        async with self._in_memory:
            audio = await self._offload(partial(_whole, spooled.file))
            words = await self._transcriber.transcribe(attachment.name, audio)
        if not words:
            raise FileError("The voice message has no words.")
        return words


def _whole(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()
