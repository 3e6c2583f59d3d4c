"""What users send besides words: files get into their chat's workspace, and voice messages become words."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import trio
from telegram import Bot

from rumi.journal import Enclosure, Offload
from rumi.sandbox import Limits, put_file
from rumi.telegram.files.download import (
    MAX_BYTES,
    Downloads,
    FileError,
    Landing,
    Patience,
    let_cancellation_through,
)
from rumi.texts import Language

__all__ = ["FileError", "Patience", "TelegramFiles", "Transcribes"]

_MEGA: Final = 1024 * 1024
_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64}")


class Transcribes(Protocol):
    """Writes down what is said in a recording; see `rumi.models.Transcriber`."""

    async def transcribe(self, name: str, audio: bytes, language: Language | None = None) -> str:
        """The words, empty where there are none. Raises a `RumiError`."""
        ...


class TelegramFiles:
    """Brings what messages carry. Whoever made it closes it; `transcriber` stays its maker's.

    `workspace` makes a chat's folder ready and returns it; it may block and raise a `RumiError`. Files in it
    belong to the sandbox's `user`, a uid and a gid. What is on its way lies in `spool`, without a name, on a
    disk and outside of the workspaces. `offload` runs the blocking work, and does not leave before it has
    ended. `in_memory` is the room for whole recordings.
    """

    def __init__(
        self,
        bot: Bot,
        *,
        workspace: Callable[[str], Path],
        user: tuple[int, int],
        limits: Limits,
        spool: Path,
        offload: Offload,
        transcriber: Transcribes | None = None,
        in_memory: trio.CapacityLimiter | None = None,
        max_bytes: int = MAX_BYTES,
        patience: Patience | None = None,
    ) -> None:
        self._downloads = Downloads(bot, max_bytes=max_bytes, patience=patience)
        self._workspace = workspace
        self._user = user
        self._limits = limits
        self._spool = spool
        self._offload = offload
        self._transcriber = transcriber
        self._in_memory = in_memory or trio.CapacityLimiter(1)
        self._max_bytes = max_bytes

    async def bring(self, chat: str, enclosure: Enclosure) -> str:
        """Bring what a chat's message carries; return what the model reads of it.

        For a file that is where it lies now, for a voice message what was said. Cancelled, nothing of it is
        left, unless it was complete and in its place already.

        Raises:
            RumiError: it could not be brought, in words without the token.
        """
        if enclosure.size_bytes is not None and enclosure.size_bytes > self._max_bytes:
            raise FileError(f"It is larger than {self._max_bytes / _MEGA:g} MB.")
        with Landing(self._spool, self._offload) as landing:
            if enclosure.kind == "voice":
                return await self._listen(enclosure, landing)
            return await self._keep(chat, enclosure, landing)

    async def aclose(self) -> None:
        """Close the idle connections; bounded, also when cancelled."""
        await self._downloads.aclose()

    async def _keep(self, chat: str, enclosure: Enclosure, landing: Landing) -> str:
        await self._downloads.fetch(enclosure.reference, landing)
        name = await self._offload(partial(self._put, chat, enclosure.name, landing.file))
        # The model reads this, so the sender's words get into it only as far as they are harmless.
        kind = enclosure.media_type if _MEDIA_TYPE.fullmatch(enclosure.media_type) else "unknown type"
        return f"[The user sent a file: /workspace/{name} ({kind}, {landing.size} bytes)]"

    def _put(self, chat: str, name: str, file: BinaryIO) -> str:
        uid, gid = self._user
        return put_file(
            self._workspace(chat),
            name,
            file,
            uid=uid,
            gid=gid,
            limits=self._limits,
            max_bytes=self._max_bytes,
            checkpoint=let_cancellation_through,
        )

    async def _listen(self, enclosure: Enclosure, landing: Landing) -> str:
        if self._transcriber is None:
            raise FileError("There is nothing here that could listen to it.", "Please write instead.")
        await self._downloads.fetch(enclosure.reference, landing)
        async with self._in_memory:
            audio = await self._offload(partial(_whole, landing.file))
            words = await self._transcriber.transcribe(enclosure.name, audio)
        if not words:
            raise FileError("There are no words in the voice message.")
        return words


def _whole(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()
