"""The sender: sends replies as mails, each once. A mail whose outcome is unknown is never sent again."""

from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Final

from typing_extensions import override

from actors import ActorRef, Backoff, Refused, answers
from rumi.channels.mail.delivery import MailDelivery, Office
from rumi.channels.reply_sender import ReplySender, ReplySenderMessage
from rumi.channels.sending import DeliverFile, LookFor
from rumi.chats.hub import Hub
from rumi.errors import RumiError
from rumi.store.journal.mails import unknown_mails
from rumi.store.journal.records import StoredReply
from rumi.store.journal.transaction import JournalMessage

WAITS: Final = Backoff(first_s=5.0, factor=2.0, cap_s=900.0)
"""Pauses after a failure of the mail server, in seconds."""

AT_ONCE: Final = 2
"""Maximum number of mails that are sent at the same time."""


class MailSender(ReplySender[ReplySenderMessage]):
    """Sends the stored replies of the channel's chats as mails."""

    def __init__(
        self,
        office: Office,
        journal: ActorRef[JournalMessage],
        hub: Hub,
        ended: Callable[[str], Awaitable[None]],
        *,
        owns: Callable[[str], bool],
        serves: Callable[[str], bool],
        random: Random | None = None,
    ) -> None:
        super().__init__(
            journal, hub, ended, owns=owns, serves=serves, at_once=AT_ONCE, waits=WAITS, random=random
        )
        self._office = office
        self._delivery = MailDelivery(office, journal, self.unreachable)

    @override
    async def started(self) -> None:
        self._office.figures.unknown = len(await self._journal.ask(unknown_mails()))
        await super().started()

    async def receive(self, message: ReplySenderMessage) -> None:
        """Handle the message to which no caller waits for an answer."""
        if isinstance(message, LookFor):
            self.look_in(message.chats)

    @override
    def metrics(self) -> Mapping[str, object]:
        figures = self._office.figures
        counts = {"sent": figures.sent, "unknown": figures.unknown, "refused": figures.refused}
        return {**counts, "waiting": self.sending, "trouble": self.trouble or None}

    @override
    async def send_reply(self, chat: str, reply: StoredReply) -> None:
        await self._delivery.send_reply(chat, reply)

    @answers(DeliverFile)
    async def send_file(self, file: DeliverFile) -> None:
        """Send a file in a mail of its own."""
        if not self._owns(file.chat):
            raise Refused(RumiError("{chat} is not a chat by mail.", chat=file.chat))
        try:
            async with self._free:
                await self._delivery.send_file(file.chat, file.name, file.content)
        except RumiError as error:
            raise Refused(error) from None
