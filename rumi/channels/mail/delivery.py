"""Delivery of one mail: reserved before it is sent, marked right before its end, and settled after.

A mail whose outcome is unknown is never sent again. See docs/decisions/0147-mail-as-a-channel.md.
"""

import logging
import mimetypes
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from secrets import token_hex
from typing import Final, Protocol

from actors import ActorRef
from rumi.channels.mail.composing import reply_mail
from rumi.chats.events import with_commands
from rumi.errors import RumiError
from rumi.platform.texts import mail as mail_texts
from rumi.services.mail.errors import MailError
from rumi.services.mail.messages import SentMail
from rumi.services.mail.writing import Attached, Outgoing, Recipient
from rumi.store.journal.effects import mark_effect
from rumi.store.journal.mails import (
    Envelope,
    envelope_of,
    note_told,
    reserve_mail,
    settle_mail,
    unknown_mails,
)
from rumi.store.journal.outbox import mark_undeliverable
from rumi.store.journal.records import StoredReply
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language

logger = logging.getLogger(__name__)

_PERMANENT: Final = re.compile(r"(?:^|[;:] )5\d\d\b")
_RECIPIENT: Final = re.compile(r"\S+@\S+: 5\d\d\b")


class Sends(Protocol):
    """Sends mails: `rumi.services.mail.client.Mailbox`."""

    async def send(
        self,
        mail: Outgoing,
        *,
        hand_over: Callable[[], Awaitable[None]],
        settle: Callable[[SentMail | MailError], Awaitable[None]] | None = None,
    ) -> SentMail:
        """Send a mail; see `Mailbox.send`."""
        ...

    async def append(self, folder: str, raw: bytes, flags: Sequence[str] = ()) -> None:
        """Store a mail in a folder."""
        ...

    async def has_sent(self, message_id: str) -> bool | None:
        """Return True if the folder of sent mails has this mail."""
        ...


@dataclass(slots=True)
class SenderFigures:
    """What the sender has done since the process began.

    `unknown` counts all mails whose outcome is unknown, also those of earlier processes.
    """

    sent: int = 0
    unknown: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Office:
    """How the channel sends: the mailbox, its own address, and the address of each owner for fallbacks."""

    mailbox: Sends
    sender: Recipient
    address_of: Callable[[str], str]
    now: Callable[[], float]
    save_sent: bool = True
    language: Language = "en"
    figures: SenderFigures = field(default_factory=SenderFigures)


class MailDelivery:
    """Delivers replies and files. `gone` is called with a chat whose person cannot be reached any more."""

    def __init__(
        self,
        office: Office,
        journal: ActorRef[JournalMessage],
        gone: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._office = office
        self._journal = journal
        self._gone = gone

    async def send_reply(self, chat: str, reply: StoredReply) -> None:
        """Send a reply as a mail, unless it was sent earlier.

        Raises:
            MailError: It was not sent now, and may be sent later.
        """
        language = reply.language
        turn = f"outbox:{reply.delivery}"
        unknown = [one for one in await self._journal.ask(unknown_mails(chat, False)) if one != turn]
        asks = any(button.words.startswith("/yes ") for button in reply.buttons)
        commands = tuple(one.words for one in reply.buttons if not one.words.startswith(("/yes ", "/no ")))
        parts = (
            mail_texts.unknown_outcome(language, len(unknown)) if unknown else "",
            with_commands(reply.text, commands),
            reply.note,
            mail_texts.how_to_answer(language) if asks else "",
        )
        envelope = await self._envelope(chat, reply.messages)
        token = token_hex(16)
        try:
            mail = reply_mail(
                envelope, self._office.sender, "\n\n".join(filter(None, parts)), token, self._office.now()
            )
        except MailError as error:  # no attempt can succeed
            await self._journal.ask(mark_undeliverable(chat, error.message, reply.delivery))
            return
        try:
            if await self._send(chat, turn, mail, reply.delivery) and unknown:
                await self._journal.ask(note_told(chat, tuple(unknown)))
        except MailError as error:
            await self._refused(chat, turn, reply, error, mail)

    async def _refused(
        self, chat: str, turn: str, reply: StoredReply, error: MailError, mail: Outgoing
    ) -> None:
        """Handle a mail that was not sent, or nobody knows. What may succeed later is raised again."""
        words = error.words
        if error.kind == "unknown":
            self._office.figures.unknown += 1
            logger.warning("a mail in %s has an unknown outcome", chat)
            await self._journal.ask(settle_mail(chat, turn, reply.delivery, mail_texts.UNKNOWN))
        elif error.kind == "refused" and _RECIPIENT.search(words):
            self._office.figures.refused += 1
            await self._failed(chat, turn, mail, words)
            await self._gone(chat, words)
        elif error.kind in ("too_large", "invalid") or (error.kind == "refused" and _PERMANENT.search(words)):
            self._office.figures.refused += 1
            await self._failed(chat, turn, mail, words)
            await self._journal.ask(mark_undeliverable(chat, words or error.message, reply.delivery))
        else:
            await self._failed(chat, turn, mail, words)
            raise error

    async def _failed(self, chat: str, turn: str, mail: Outgoing, words: str) -> None:
        await self._journal.ask(mark_effect(chat, turn, mail.message_id, "failed", words))

    async def _envelope(self, chat: str, messages: tuple[int, ...]) -> Envelope:
        found = await self._journal.ask(envelope_of(chat, messages))
        return found or Envelope(self._office.address_of(chat), "", "")

    async def _send(self, chat: str, turn: str, mail: Outgoing, delivery: int) -> bool:
        """Send a mail, unless it was sent earlier. Return False if it was not sent now.

        Raises:
            MailError: It was not sent; with the kind `unknown`, nobody knows.
        """
        ask = self._journal.ask
        what = f"mail to {', '.join(mail.recipients)}"
        earlier = await ask(reserve_mail(chat, turn, mail.message_id, what))
        if earlier is not None:
            await self._settle_earlier(chat, turn, delivery, earlier.key, done=earlier.state == "done")
            return False
        hand_over = partial(self._mark, chat, turn, mail.message_id)

        async def settle(ended: SentMail | MailError) -> None:
            if isinstance(ended, SentMail):
                await ask(settle_mail(chat, turn, delivery))

        await self._office.mailbox.send(mail, hand_over=hand_over, settle=settle)
        self._office.figures.sent += 1
        if self._office.save_sent:
            try:
                await self._office.mailbox.append("sent", mail.raw, ("\\Seen",))
            except MailError as error:  # the mail itself is on its way
                logger.warning("a sent mail was not stored: %s", error.message)
        return True

    async def _mark(self, chat: str, turn: str, id: str) -> None:
        await self._journal.ask(mark_effect(chat, turn, id, "handed_over"))

    async def _settle_earlier(self, chat: str, turn: str, delivery: int, id: str, *, done: bool) -> None:
        """Settle a mail that an earlier process handed over: it is not sent again, whatever became of it."""
        try:
            done = done or bool(await self._office.mailbox.has_sent(id))
        except MailError as error:
            if error.kind in ("unreachable", "timeout"):
                raise
        if not done:
            self._office.figures.unknown += 1
        await self._journal.ask(settle_mail(chat, turn, delivery, "" if done else mail_texts.UNKNOWN))

    async def send_file(self, chat: str, name: str, content: bytes) -> None:
        """Send a file in a mail of its own.

        Raises:
            RumiError: It was not sent, or nobody knows.
        """
        envelope = await self._envelope(chat, ())
        text = mail_texts.file_sent(self._office.language, name)
        attached = Attached(name, mimetypes.guess_type(name)[0] or "", content)
        token = token_hex(16)
        try:
            mail = reply_mail(envelope, self._office.sender, text, token, self._office.now(), (attached,))
            await self._send(chat, f"file:{token}", mail, 0)
        except MailError as error:
            if error.kind == "unknown":
                raise RumiError(
                    "The file could not be sent: {error}",
                    "It may have arrived nevertheless: ask before it is sent again.",
                    error=error.message,
                ) from None
            raise RumiError("The file could not be sent: {error}", error=error.message) from None
