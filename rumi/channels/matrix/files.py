"""Downloads of the files of messages, which in encrypted rooms are encrypted too."""

from typing import Final, Unpack

import trio
from typing_extensions import override

from rumi.channels.matrix.api import MatrixApi, MatrixError
from rumi.channels.matrix.encrypted_files import FileReader, split_reference
from rumi.channels.matrix.reading import media_of
from rumi.channels.received_files import FileArguments, ReceivedFiles
from rumi.errors import FileError
from rumi.platform.spooled_file import SpooledFile

ATTEMPTS: Final = 3
PAUSE_S: Final = 1.0


class MatrixFiles(ReceivedFiles):
    """Fetches the attachments of messages from the homeserver."""

    def __init__(self, api: MatrixApi, *, max_bytes: int, **given: Unpack[FileArguments]) -> None:
        super().__init__(max_bytes=max_bytes, **given)
        self._api = api

    @override
    async def fetch(self, reference: str, spooled: SpooledFile) -> None:
        address, key = split_reference(reference)
        found = media_of(address)
        if found is None:
            raise FileError("Its address is unknown.")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await spooled.reset()
                reader = None if key is None else FileReader(key)
                async with self._api.download(*found) as chunks:
                    async for chunk in chunks:
                        if spooled.size + len(chunk) > self._max_bytes:
                            raise self.too_large()
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
