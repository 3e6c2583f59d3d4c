"""The sender: sends replies as mails, each once. A mail whose outcome is unknown is never sent again."""

import logging
import mimetypes
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from secrets import token_hex
from typing import Final, Protocol, TypeAlias

import trio
from typing_extensions import override

from actors import Actor, ActorError, ActorRef, Backoff, Refused, answers
from rumi.channels.mail.composing import reply_mail
from rumi.channels.sending import DeliverFile, Flush, LeaveChats, LookFor, TakeChats
from rumi.chats.events import Replied, with_commands
from rumi.chats.hub import Hub
from rumi.errors import RumiError
from rumi.platform.texts import mail as mail_texts
from rumi.services.mail.errors import MailError
from rumi.services.mail.messages import Sent
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
from rumi.store.journal.outbox import mark_undeliverable, undelivered_chats, undelivered_replies
from rumi.store.journal.records import StoredReply
from rumi.store.journal.store import NotOwner
from rumi.store.journal.transaction import JournalMessage
from rumi.store.journal.unreachable import mark_unreachable
from rumi.store.ownership import partition_of
from rumi.texts import Language

logger = logging.getLogger(__name__)

MailSenderMessage: TypeAlias = DeliverFile | Flush | LookFor | TakeChats | LeaveChats

WAITS: Final = Backoff(first_s=5.0, factor=2.0, cap_s=900.0)
"""Pauses after a failure of the mail server, in seconds."""

AT_ONCE: Final = 2
"""Maximum number of mails that are sent at the same time."""

LOOK_S: Final = 0.5
_PERMANENT: Final = re.compile(r"(?:^|[;:] )5\d\d\b")
_RECIPIENT: Final = re.compile(r"\S+@\S+: 5\d\d\b")


class Sends(Protocol):
    """Sends mails: `rumi.services.mail.client.Mailbox`."""

    async def send(
        self,
        mail: Outgoing,
        *,
        hand_over: Callable[[], Awaitable[None]],
        settle: Callable[[Sent | MailError], Awaitable[None]] | None = None,
    ) -> Sent:
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
    """What the sender has done since the process began, and what is in its way.

    `unknown` counts all mails whose outcome is unknown, also those of earlier processes.
    """

    sent: int = 0
    unknown: int = 0
    refused: int = 0
    trouble: str = ""


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


class MailSender(Actor[MailSenderMessage]):
    """Sends the stored replies of the channel's chats, in the order of each chat.

    `owns` returns True for chats of the channel, `serves` for those that this process serves. `ended` ends a
    chat whose person cannot be reached any more.
    """

    concurrency = 64
    SHUTDOWN_S = 10.0

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
        self._office = office
        self._journal = journal
        self._hub = hub
        self._ended = ended
        self._owns = owns
        self._serves = serves
        self._random = random or Random()
        self._free = trio.CapacityLimiter(AT_ONCE)
        self._driving: dict[str, trio.CancelScope] = {}
        self._again: set[str] = set()
        self._resting: set[str] = set()
        self._left: set[int] = set()

    async def started(self) -> None:
        """Subscribe to replies, then look for those that earlier processes have stored."""
        self._office.figures.unknown = len(await self._journal.ask(unknown_mails()))
        await self.start(self._listen)
        await self._look()

    async def receive(self, message: MailSenderMessage) -> None:
        """Handle the message to which no caller waits for an answer."""
        if isinstance(message, LookFor):
            self._look_in(message.chats)

    @override
    def activity(self) -> str:
        return f"waits: {self._office.figures.trouble}" if self._resting else ""

    @override
    def metrics(self) -> Mapping[str, object]:
        figures = self._office.figures
        counts = {"sent": figures.sent, "unknown": figures.unknown, "refused": figures.refused}
        return {**counts, "waiting": len(self._driving), "trouble": figures.trouble or None}

    # Which chats have something to send

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        with self._hub.listening() as events:
            task_status.started()
            while True:
                event = await events.receive()
                if isinstance(event.what, Replied):
                    self._look_in((event.chat,))

    async def _look(self, partitions: frozenset[int] | None = None) -> None:
        self._look_in(await self._journal.ask(undelivered_chats(partitions)))

    def _look_in(self, chats: Sequence[str]) -> None:
        for chat in chats:
            if not self._owns(chat) or not self._serves(chat) or partition_of(chat) in self._left:
                continue
            if chat in self._driving:
                self._again.add(chat)
            else:
                self._driving[chat] = trio.CancelScope()
                self.start_soon(self._drive, chat)

    async def _drive(self, chat: str) -> None:
        """Send a chat's replies until none is left. A failure pauses this chat only."""
        attempt = 0
        with self._driving[chat]:
            while True:
                self._again.discard(chat)
                try:
                    await self._send_all(chat)
                except NotOwner:
                    break  # another worker serves the chat
                except (MailError, ActorError) as error:
                    await self._rest(chat, attempt, error)
                    attempt += 1
                    continue
                except Exception:
                    logger.exception("replies in %s were not sent", chat)
                    await self._rest(chat, attempt, None)
                    attempt += 1
                    continue
                self._office.figures.trouble = ""
                attempt = 0
                if chat not in self._again:
                    break
        # No await since the last look: a later reply opens the chat again.
        del self._driving[chat]

    async def _rest(self, chat: str, attempt: int, error: Exception | None) -> None:
        trouble = error.message if isinstance(error, RumiError) else type(error).__name__
        if trouble != self._office.figures.trouble:
            logger.warning("mails wait: %s", trouble)
        self._office.figures.trouble = trouble
        self._resting.add(chat)
        try:
            await trio.sleep(WAITS.delay_s(attempt) * self._random.uniform(0.5, 1.0))
        finally:
            self._resting.discard(chat)

    async def _send_all(self, chat: str) -> None:
        for reply in await self._journal.ask(undelivered_replies(chat)):
            # A reply to a terminal or to the page: its reader sees it there.
            if reply.origin is None and not (reply.task or reply.schedule or reply.trigger):
                continue
            async with self._free:
                await self._send_reply(chat, reply)

    # One mail

    async def _send_reply(self, chat: str, reply: StoredReply) -> None:
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
            await self.unreachable(chat, words)
        elif error.kind in ("too_large", "invalid") or (error.kind == "refused" and _PERMANENT.search(words)):
            self._office.figures.refused += 1
            await self._failed(chat, turn, mail, words)
            await self._journal.ask(mark_undeliverable(chat, words or error.message, reply.delivery))
        else:
            await self._failed(chat, turn, mail, words)
            raise error

    async def _failed(self, chat: str, turn: str, mail: Outgoing, words: str) -> None:
        await self._journal.ask(mark_effect(chat, turn, mail.message_id, "failed", words))

    async def unreachable(self, chat: str, why: str) -> None:
        """Record that nothing reaches the chat's person, and end the chat."""
        logger.warning("nobody can be reached in %s", chat)
        await self._journal.ask(mark_unreachable(chat, why))
        self.start_soon(self._end, chat)

    async def _end(self, chat: str) -> None:
        try:
            await self._ended(chat)
        except Exception:
            logger.exception("%s could not be ended", chat)

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

        async def settle(ended: Sent | MailError) -> None:
            if isinstance(ended, Sent):
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

    # Requests

    @answers(DeliverFile)
    async def send_file(self, file: DeliverFile) -> None:
        """Send a file in a mail of its own."""
        if not self._owns(file.chat):
            raise Refused(RumiError("{chat} is not a chat by mail.", chat=file.chat))
        envelope = await self._envelope(file.chat, ())
        text = mail_texts.file_sent(self._office.language, file.name)
        attached = Attached(file.name, mimetypes.guess_type(file.name)[0] or "", file.content)
        token = token_hex(16)
        try:
            mail = reply_mail(envelope, self._office.sender, text, token, self._office.now(), (attached,))
            async with self._free:
                await self._send(file.chat, f"file:{token}", mail, 0)
        except MailError as error:
            if error.kind == "unknown":
                raise Refused(
                    RumiError(
                        "The file could not be sent: {error}",
                        "It may have arrived nevertheless: ask before it is sent again.",
                        error=error.message,
                    )
                ) from None
            raise Refused(RumiError("The file could not be sent: {error}", error=error.message)) from None

    @answers(TakeChats)
    async def take_chats(self, message: TakeChats) -> None:
        """Send what is stored for the chats in these partitions."""
        self._left -= message.partitions
        await self._look(message.partitions)

    @answers(LeaveChats)
    async def leave_chats(self, message: LeaveChats) -> None:
        """Let sends of these partitions end, then cancel those that wait."""
        self._left |= message.partitions

        def theirs() -> list[str]:
            return [chat for chat in self._driving if partition_of(chat) in message.partitions]

        with trio.move_on_after(message.patience_s):
            while set(theirs()) - self._resting:  # noqa: ASYNC110
                await trio.sleep(LOOK_S)
        for chat in theirs():
            self._driving[chat].cancel()
        while theirs():  # noqa: ASYNC110  # a send in progress ends within the client's bounds
            await trio.sleep(LOOK_S)

    @answers(Flush)
    async def flush(self, message: Flush) -> None:
        """Wait until every reply is sent or cannot be sent now."""
        try:
            await self._look()
        except ActorError:
            logger.warning("the journal did not say what waits")
        while set(self._driving) - self._resting:  # noqa: ASYNC110
            await trio.sleep(LOOK_S / 10)
