"""Files of messages: fetched when their turn comes, and stored in the chat's workspace or transcribed."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, ClassVar, Protocol, TypedDict, Unpack

import trio

from rumi.errors import FileError
from rumi.platform.spooled_file import SpooledFile, check_cancelled
from rumi.platform.threads import Offload
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import about_file, put_file
from rumi.store.journal.records import Attachment


class Transcribes(Protocol):
    """Transcribes voice recordings; implemented by `rumi.models.Transcriber`."""

    async def transcribe(self, name: str, audio: bytes, language: str | None = None) -> str:
        """Return the transcript; empty if the recording has no speech. Raises a `RumiError`."""
        ...


class FileArguments(TypedDict):
    """The arguments of `ReceivedFiles` that do not depend on the channel's service."""

    workspace: Callable[[str], Path]
    user: tuple[int, int]
    limits: SandboxLimits
    spool: Path
    offload: Offload
    transcriber: Transcribes | None
    in_memory: trio.CapacityLimiter


class ReceivedFiles(ABC):
    """Fetches the attachments of messages. A channel defines `fetch`.

    `workspace` prepares a chat's folder and returns its path; it may block and raise a `RumiError`. Files in
    that folder belong to `user`, the sandbox's uid and gid. Downloads are buffered in unnamed files in the
    folder `spool`, which must be on a disk and outside of the workspaces. `offload` runs blocking work, and
    returns only after that work has ended. `in_memory` limits the number of recordings that are completely in
    memory.
    """

    MEGA: ClassVar[int] = 1_000_000
    """The bytes in what the channel's service calls a megabyte."""

    def __init__(self, *, max_bytes: int, **given: Unpack[FileArguments]) -> None:
        self._workspace = given["workspace"]
        self._user = given["user"]
        self._limits = given["limits"]
        self._spool = given["spool"]
        self._offload = given["offload"]
        self._transcriber = given["transcriber"]
        self._in_memory = given["in_memory"]
        self._max_bytes = max_bytes

    @abstractmethod
    async def fetch(self, reference: str, spooled: SpooledFile) -> None:
        """Download what an attachment's `reference` names.

        Raises:
            RumiError: It could not be fetched.
        """

    async def bring(self, chat: str, attachment: Attachment) -> str:
        """Fetch an attachment of a chat's message; return the text about it for the model.

        For a file, the text contains its path; for a voice message, the text is the transcript. If the call
        is cancelled, a partly stored file is removed; a file that is already complete in the workspace
        remains.

        Raises:
            RumiError: The attachment could not be fetched. The error's text contains no token.
        """
        if attachment.size_bytes is not None and attachment.size_bytes > self._max_bytes:
            raise self.too_large()
        with SpooledFile(self._spool, self._offload) as spooled:
            if attachment.kind == "voice":
                return await self._listen(attachment, spooled)
            await self.fetch(attachment.reference, spooled)
            name = await self._offload(partial(self._put, chat, attachment.name, spooled.file))
            return about_file(name, attachment.media_type, spooled.size)

    def too_large(self) -> FileError:
        """Return the error for a file that exceeds the maximum size."""
        return FileError("It is larger than {max_bytes} MB.", max_bytes=f"{self._max_bytes / self.MEGA:g}")

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
        await self.fetch(attachment.reference, spooled)
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
