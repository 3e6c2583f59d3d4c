"""Fetching of attachments from Telegram."""

from typing import Unpack

from telegram import Bot
from typing_extensions import override

from rumi.channels.received_files import FileArguments, ReceivedFiles
from rumi.channels.telegram.files.download import MAX_BYTES, Downloads, DownloadTimeouts
from rumi.platform.spooled_file import SpooledFile


class TelegramFiles(ReceivedFiles):
    """Fetches the attachments of messages. The creator must close this object, but not the `transcriber`."""

    MEGA = 1024 * 1024

    def __init__(
        self,
        bot: Bot,
        *,
        max_bytes: int = MAX_BYTES,
        patience: DownloadTimeouts | None = None,
        **given: Unpack[FileArguments],
    ) -> None:
        super().__init__(max_bytes=max_bytes, **given)
        self._downloads = Downloads(bot, max_bytes=max_bytes, patience=patience or DownloadTimeouts())

    async def aclose(self) -> None:
        """Close idle connections. Takes a limited time, even when cancelled."""
        await self._downloads.aclose()

    @override
    async def fetch(self, reference: str, spooled: SpooledFile) -> None:
        await self._downloads.fetch(reference, spooled)
