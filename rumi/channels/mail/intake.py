"""The intake: decides what a mail is, and stores mails of people as messages. Other mails are data, and stay.

Nobody gets an answer whose mail is not accepted: its sender's address may be forged (RFC 3834).
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from actors import ActorError
from rumi.channels.mail.bounces import bounce_in
from rumi.channels.mail.content import HtmlToText, content_of, visible_text
from rumi.channels.mail.senders import author_of, automatic, ids_in
from rumi.channels.mail.signatures import Flaw, Keys, Mail, headers_of, proof_of
from rumi.chats.commands import parse_chat_command
from rumi.errors import RumiError
from rumi.platform.chat_ids import MAIL
from rumi.platform.texts import mail as mail_texts
from rumi.platform.texts.questions import yes_or_no
from rumi.platform.threads import Offload
from rumi.services.mail.errors import MailError
from rumi.services.mail.messages import FoundMail
from rumi.services.mail.reading import ReadMail, read_mail
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.deliveries import Taken
from rumi.store.journal.effects import Effect
from rumi.store.journal.mails import (
    MOST_REFERENCES,
    Envelope,
    ReceivedMail,
    asked_in,
    chat_of_mails,
    mails_named,
)
from rumi.store.journal.records import Incoming
from rumi.texts import Language

logger = logging.getLogger(__name__)

MOST_PER_HOUR: Final = 120
"""Maximum number of mails that are accepted from one person in an hour: a bound for programs that answer."""

DEFER_S: Final = 86_400.0
"""For how long a mail waits whose key cannot be looked up, in seconds."""


@dataclass(frozen=True, slots=True)
class MailPerson:
    """A person who may write by mail: the name in `[people]`, and if they are an admin."""

    name: str
    admin: bool = False


@dataclass(slots=True)
class IntakeFigures:
    """What became of mails since the process began, and why mails of people proved nothing."""

    counts: Counter[str] = field(default_factory=Counter)
    flaws: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class MailSenders:
    """Whose mails are accepted: `people` by their address in lower case.

    `own` is the channel's address. `signed_by` are domains whose signatures count for the domains below them.
    """

    people: Mapping[str, MailPerson]
    own: str
    signed_by: tuple[str, ...] = ()
    language: Language = "en"


class MailIntake:
    """Takes the mails of the channel's inbox, one after another.

    `accept` stores a message. `fetch` returns the bytes of a mail. `unreachable` is called with the chat of a
    mail that a server has returned for ever, and the server's words.
    """

    def __init__(
        self,
        rules: MailSenders,
        *,
        accept: Callable[[ReceivedMail, int], Awaitable[Taken]],
        fetch: Callable[[FoundMail], Awaitable[bytes]],
        unreachable: Callable[[str, str], Awaitable[None]],
        ask: AskJournal,
        keys: Keys,
        html: HtmlToText,
        offload: Offload,
        now: Callable[[], float],
        figures: IntakeFigures,
    ) -> None:
        self._senders = rules
        self._accept = accept
        self._fetch = fetch
        self._unreachable = unreachable
        self._ask = ask
        self._keys = keys
        self._html = html
        self._offload = offload
        self._now = now
        self._figures = figures

    async def take_all(self, mails: Sequence[FoundMail]) -> Sequence[FoundMail]:
        """Take mails, oldest first. Return those that cannot be decided now.

        Raises:
            RumiError: The mailbox or the journal cannot be used now.
        """
        later = []
        for found in mails:
            try:
                decided = await self._take(found)
            except (RumiError, ActorError):
                raise
            except Exception:  # one mail must not end the watcher, which would meet it again
                logger.exception("a mail was not read")
                self._figures.counts["damaged"] += 1
                decided = True
            if not decided:
                later.append(found)
        return later

    async def _take(self, found: FoundMail) -> bool:
        """Take a mail. Return False if it cannot be decided now."""
        if not self._concerns(found):
            self._figures.counts["strangers"] += 1
            return True
        try:
            raw = await self._fetch(found)
        except MailError as error:
            if error.kind not in ("gone", "too_large"):
                raise
            logger.warning("a mail was not read: %s", error.message)
            self._figures.counts["damaged"] += 1
            return True
        headers = await self._offload(partial(headers_of, raw))
        if headers is None:
            return self._refused("unreadable")
        author = author_of(headers)
        kind = automatic(headers, author, self._senders.own)
        if kind == "bounce":
            await self._take_bounce(raw)
        if kind:
            self._figures.counts["automatic"] += 1
            return True
        person = self._senders.people.get(author)
        if person is None:
            self._figures.counts["strangers"] += 1
            return True
        arrived = found.arrived or self._now()
        mail = Mail(raw, headers, author, arrived, self._senders.own)
        try:
            proof = await proof_of(mail, self._keys, self._offload, self._now(), self._senders.signed_by)
        except RumiError as error:
            logger.warning("%s", error.message)
            if self._now() - arrived < DEFER_S:
                return False
            return self._refused("no_key")
        if proof.flaw is not None:
            return self._refused(proof.flaw)
        read = await self._offload(partial(read_mail, raw))
        answers = next(iter(ids_in(next((v for name, v in headers if name == "in-reply-to"), ""))), "")
        taken = await self._store(person, author, found, read, answers, proof.marks)
        outcome = "limited" if taken.again_s else "repeated" if taken.repeated else "accepted"
        self._figures.counts[outcome] += 1
        return True

    def _concerns(self, found: FoundMail) -> bool:
        """Return True if a mail may be a person's, or a report about a mail; others are not fetched."""
        sender = found.sender.lower()
        return any(one in sender for one in (*self._senders.people, "mailer-daemon", "postmaster", "<>"))

    def _refused(self, flaw: Flaw) -> bool:
        self._figures.counts["damaged" if flaw == "unreadable" else "unproved"] += 1
        self._figures.flaws[flaw] += 1
        logger.warning("a mail with an address of a person was not accepted: %s", flaw)
        return True

    async def _take_bounce(self, raw: bytes) -> None:
        bounce = await self._offload(partial(bounce_in, raw))
        if bounce is None:
            return
        # The Message-ID is random, so only servers that had the mail can know it.
        for mail in await self._ask(mails_named((bounce.message_id,))):
            await self._unreachable(mail.note, bounce.why)

    async def _store(
        self,
        person: MailPerson,
        author: str,
        found: FoundMail,
        read: ReadMail,
        answers: str,
        marks: Sequence[str],
    ) -> Taken:
        owner = f"{MAIL.text}{person.name}"
        references = tuple(dict.fromkeys((*read.references, *((answers,) if answers else ()))))
        known = {mail.key: mail for mail in await self._ask(mails_named(references))}
        ours = [known[id] for id in references if id in known and known[id].note.startswith(f"{owner}_")]
        chat = ours[-1].note if ours else await self._ask(chat_of_mails(owner, references))
        in_thread = bool(chat)
        chat = chat or new_chat(owner, read.message_id or marks[0])
        text = await visible_text(read, self._html)
        content = await self._offload(partial(content_of, read, text, found, in_thread=in_thread))
        words, attachments, answer = content.words, content.attachments, None
        verdict, asked = yes_or_no(content.first_line), known.get(answers)
        if parse_chat_command(content.first_line) is not None:
            words, attachments = content.first_line, ()
        elif verdict is not None and asked is not None and asked in ours:
            command, answer = await self._answered(chat, asked, verdict)
            words, attachments = (command, ()) if command else (words, attachments)
        if not words and not attachments:
            answer = mail_texts.no_words(self._senders.language)
        message = Incoming(
            chat=chat,
            text=words,
            language=self._senders.language,
            admin=person.admin,
            origin=found.uid,
            attachments=attachments,
            answer=answer,
            channel="mail",
            sent=read.sent_at or 0.0,
        )
        ids = (read.message_id,) if read.message_id else ()
        envelope = Envelope(author, read.subject, read.message_id, references[-MOST_REFERENCES:])
        return await self._accept(ReceivedMail(message, owner, (*ids, *marks), envelope), MOST_PER_HOUR)

    async def _answered(self, chat: str, mail: Effect, yes: bool) -> tuple[str, str | None]:
        """Return the command that an answer to a mail means, and the reply if it is late.

        If the mail asked nothing that waits, there is neither: then the answer is words as others.
        """
        delivery = mail.turn.removeprefix("outbox:")
        asked = await self._ask(asked_in(chat, int(delivery) if delivery.isdecimal() else 0))
        if not asked.numbers:
            return "", None
        if self._now() - asked.at > mail_texts.ANSWER_DAYS * 86_400:
            return "", mail_texts.too_late(self._senders.language)
        return f"/{'yes' if yes else 'no'} {' '.join(map(str, asked.numbers))}", None


def new_chat(owner: str, message_id: str) -> str:
    """Return the id of the chat of a new thread: the same mail always begins the same chat."""
    return f"{owner}_{int.from_bytes(hashlib.sha256(message_id.encode()).digest()[:8]) % 10**12}"
