"""File uploads, sent in order with the chat's other messages."""

from dataclasses import dataclass, field

import trio
from telegram.error import RetryAfter, TelegramError

from rumi.channels.telegram.api.bot import in_words, wait_of
from rumi.channels.telegram.api.refusals import answer_lost
from rumi.channels.telegram.sending.delivery import LIMIT, Rest
from rumi.channels.telegram.sending.destination import Destination
from rumi.errors import RumiError

UPLOAD_WAIT_S = 60.0
"""Longest wait that an upload accepts if Telegram asks for a wait, in seconds. During the wait, the file is
in memory.
"""


@dataclass(slots=True, eq=False)
class Upload:
    """An upload's position in the queue of the chat's outbox.

    The outbox sets `begun` when the upload may start. The uploading task then sets `over`, and the outbox
    continues.
    """

    begun: trio.Event = field(default_factory=trio.Event)
    over: trio.Event = field(default_factory=trio.Event)

    async def bring(
        self, to: Destination, name: str, content: bytes, rest: Rest, *, spoken: bool = False
    ) -> None:
        """Wait until the outbox reaches the upload, then send the file. Cancellation stops the upload.

        Raises:
            RumiError: Telegram did not accept the file. The error gives the reason.
        """
        try:
            await self.begun.wait()
            while True:
                try:
                    await to.turn()
                    return await (to.speak(name, content) if spoken else to.upload(name, content))
                except TelegramError as error:
                    if answer_lost(error):
                        raise RumiError(
                            "The file could not be sent: {error}.",
                            "It may have arrived nevertheless: ask before it is sent again.",
                            error=in_words(error),
                        ) from None
                    if not to.note_error(error):
                        raise RumiError(
                            "The file could not be sent: {error}.", error=in_words(error)
                        ) from None
                    if isinstance(error, RetryAfter):
                        if wait_of(error) > UPLOAD_WAIT_S:
                            raise RumiError(
                                "The file could not be sent: {error}.", error=in_words(error)
                            ) from None
                        await rest(wait_of(error), LIMIT)
        finally:
            # Also after an error or a cancellation: the outbox waits for this, and would send nothing more.
            self.over.set()
