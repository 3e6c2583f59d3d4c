"""Mails as events of triggers: each new mail that a trigger's rule matches is an event, read as data."""

import hashlib
import logging
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from actors import ActorError
from rumi.channels.mail.content import HtmlToText, visible_text
from rumi.channels.mail.watcher import ListsMails, Take, WatchedMailbox
from rumi.channels.triggers.reading import EVENT_CHARS, ReadEvent, bounded_id
from rumi.channels.triggers.triggers import ChatUnreachable, Trigger, Triggers
from rumi.errors import RumiError
from rumi.platform.config.schema import MailSection, TriggerSection
from rumi.platform.threads import Offload
from rumi.platform.untrusted_text import one_line
from rumi.services.mail.errors import MailError
from rumi.services.mail.messages import FoundMail
from rumi.services.mail.reading import ReadMail, read_mail

logger = logging.getLogger(__name__)

MOST_NAMED: Final = 10
"""Maximum number of mails that were left out, and whose subjects the next event names."""

_MOST_FIELD_CHARS: Final = 5000


class RuleMailbox(ListsMails, Protocol):
    """A mailbox: `rumi.services.mail.client.Mailbox`."""

    async def fetch(self, folder: str, uid: int, validity: int | None = None) -> bytes:
        """Return a mail as it is stored."""
        ...


def matches(section: TriggerSection, mail: FoundMail) -> bool:
    """Return True if a trigger's rule matches a mail by its headers, which others wrote."""
    fields = (
        (section.mail_from, mail.sender),
        (section.mail_to, mail.to),
        (section.mail_subject, mail.subject),
    )
    return all(_has(pattern, field) for pattern, field in fields)


def _has(pattern: str, field: str) -> bool:
    """Return True if the parts of a pattern, between its stars, are in a field in this order."""
    field, at = field[:_MOST_FIELD_CHARS].casefold(), 0
    for part in pattern.casefold().split("*"):
        found = field.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


def watched_by_rules(
    triggers: Triggers,
    boxes: Mapping[str, tuple[MailSection, RuleMailbox]],
    account_of: Callable[[MailSection], str],
    offload: Offload,
    html: HtmlToText,
) -> tuple[WatchedMailbox, ...]:
    """Return the mailboxes that triggers need, each with who takes the mails of its folders."""
    wanted: defaultdict[str, defaultdict[str, list[Trigger]]] = defaultdict(lambda: defaultdict(list))
    for trigger in triggers.triggers.values():
        if trigger.section.mail is not None:
            wanted[trigger.section.mail][trigger.section.mail_folder].append(trigger)
    found = []
    for name, folders in wanted.items():
        section, box = boxes[name]
        takes: dict[str, Take] = {
            folder: MailRules(triggers, rules, partial(_fetch, box), offload, html).take
            for folder, rules in folders.items()
        }
        found.append(WatchedMailbox(name, account_of(section), box, takes, section.poll_s))
    return tuple(found)


async def _fetch(box: RuleMailbox, mail: FoundMail) -> bytes:
    return await box.fetch(mail.folder, mail.uid, mail.validity)


@dataclass(slots=True)
class LeftOut:
    """Mails that a trigger has left out: their number, and the subjects of the last ones."""

    count: int = 0
    subjects: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_NAMED))

    def add(self, subject: str) -> None:
        """Count a mail."""
        self.count += 1
        self.subjects.append(subject)

    @property
    def named(self) -> str:
        """The subjects, and how many more there are."""
        more = self.count - len(self.subjects)
        return "; ".join(self.subjects) + (f" and {more} more" if more else "")

    def __bool__(self) -> bool:
        return bool(self.count)


class MailRules:
    """Takes the new mails of one folder for the triggers that look at it."""

    def __init__(
        self,
        triggers: Triggers,
        rules: Sequence[Trigger],
        fetch: Callable[[FoundMail], Awaitable[bytes]],
        offload: Offload,
        html: HtmlToText,
    ) -> None:
        self._html = html
        self._triggers = triggers
        self._rules = rules
        self._fetch = fetch
        self._offload = offload
        self._left: defaultdict[str, LeftOut] = defaultdict(LeftOut)

    async def take(self, mails: Sequence[FoundMail]) -> Sequence[FoundMail]:
        """Store the mails that match as events. Return those whose chat cannot be reached now.

        If more came than a trigger takes in an hour, the newest are taken, and the next event names the rest.

        Raises:
            RumiError: The mailbox or the journal cannot be used now.
        """
        later: dict[int, FoundMail] = {}
        for trigger in self._rules:
            chosen = [mail for mail in mails if matches(trigger.section, mail)]
            most = trigger.section.most_per_hour
            for mail in chosen[:-most]:
                self._leave(trigger, mail)
            for mail in chosen[-most:]:
                try:
                    await self._take(trigger, mail)
                except ChatUnreachable as error:
                    logger.warning("a mail for the trigger %s waits: %s", trigger.name, error.message)
                    later[mail.uid] = mail
                except (RumiError, ActorError):
                    raise
                except Exception:  # one mail must not end the watcher, which would meet it again
                    logger.exception("a mail for the trigger %s was not read", trigger.name)
        return tuple(later.values())

    async def _take(self, trigger: Trigger, mail: FoundMail) -> None:
        try:
            raw = await self._fetch(mail)
        except MailError as error:
            if error.kind == "gone":
                return
            if error.kind != "too_large":
                raise
            raw = b""
        left = self._left[trigger.name]
        read = await self._offload(partial(read_mail, raw)) if raw else None
        text = "" if read is None else await visible_text(read, self._html)
        event = event_of(mail, read, text, left)
        source = f"the mailbox {trigger.section.mail}"
        taken = await self._triggers.take(trigger, delivery_of(mail), event, source)
        if taken.again_s:
            self._leave(trigger, mail)
        elif not taken.repeated:
            del self._left[trigger.name]

    def _leave(self, trigger: Trigger, mail: FoundMail) -> None:
        logger.warning("the trigger %s has left out a mail: too many came", trigger.name)
        self._left[trigger.name].add(one_line(mail.subject, 80) or "(no subject)")


def delivery_of(mail: FoundMail) -> str:
    """Return the id of a mail as a delivery: its Message-ID, or a digest of what does not change."""
    if mail.message_id:
        return bounded_id(mail.message_id)
    known = f"{mail.sender}\n{mail.to}\n{mail.subject}\n{mail.date}\n{mail.size}"
    return f"mail:{hashlib.sha256(known.encode('utf-8', 'replace')).hexdigest()[:40]}"


def event_of(mail: FoundMail, read: ReadMail | None, text: str, left: LeftOut | None = None) -> ReadEvent:
    """Return a mail as an event; `read` is None if it is too large.

    `left` are the mails that were left out before it.
    """
    lines = [f"{left.count} earlier mails came too, and are left out: {left.named}", ""] if left else []
    if read is None:
        lines += [f"From: {mail.sender}", f"To: {mail.to}", f"Subject: {mail.subject}", f"Date: {mail.date}"]
        return ReadEvent("\n".join([*lines, "(The mail is too large to be read.)"]), kind="mail")
    lines += [
        f"From: {', '.join(map(str, read.sender))}",
        f"To: {', '.join(map(str, read.to))}",
        f"Subject: {read.subject}",
        f"Date: {read.date}",
        *(f"Warning: {warning}" for warning in read.warnings),
        *(f"Attachment: {one.name} ({one.media_type}, {one.size} bytes)" for one in read.attachments),
        "",
        text.strip(),
    ]
    event = "\n".join(lines)
    return ReadEvent(event[:EVENT_CHARS], len(event) > EVENT_CHARS, "mail")
