"""Sending of mails as effects: reserved before, marked before the final line, settled after.

See docs/decisions/0142-effects-are-reserved.md and 0144-mailboxes.md.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, TypeAlias

from rumi.services.mail.client import Mailbox
from rumi.services.mail.errors import MailError
from rumi.services.mail.messages import SentMail
from rumi.services.mail.writing import Outgoing
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.effects import (
    Effect,
    effects_since,
    mark_effect,
    read_effect,
    reserve_effect,
)

DAY_S: Final = 86_400.0

Ended: TypeAlias = Literal["sent", "not_sent", "unknown"]


@dataclass(frozen=True, slots=True)
class EffectOfMail:
    """The row of a mail in the journal: in one turn, what has the same key is sent once.

    `what` says for people what is sent and to whom.
    """

    chat: str
    turn: str
    key: str
    what: str

    @property
    def message_key(self) -> str:
        """The key from which the Message-ID follows."""
        return f"{self.turn} {self.key}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """The end of a mail that was sent. `copy_failed` says why the copy was not stored; empty if it was."""

    sent: SentMail
    copy_failed: str = ""


class SentBefore(MailError):
    """The same mail was handed over in the same turn before. `effect` is its row."""

    def __init__(self, effect: Effect) -> None:
        if effect.state == "done":
            super().__init__("refused", "This mail was sent already, and is not sent twice.")
        else:
            super().__init__(
                "unknown",
                "This mail was handed over before, and nobody knows if it was sent, so it is not sent again.",
                "Look into the folder of sent mails.",
            )
        self.effect = effect


def key_of(account: str, values: Mapping[str, object]) -> str:
    """Return the key of a mail: a digest of all that is sent, and of the mailbox."""
    text = json.dumps([account, values], ensure_ascii=False, sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def kind_of(account: str) -> str:
    """Return the kind of the effects of a mailbox."""
    return f"mail:{account}"


async def deliver(
    ask: AskJournal, mailbox: Mailbox, mail: Outgoing, effect: EffectOfMail, now: float
) -> Delivered:
    """Send a mail once, and store a copy in the folder of sent mails. A failed copy sends nothing again.

    On cancellation before the final line, nothing was sent; after it, the row says what is known.

    Raises:
        SentBefore: The same mail was sent before, or nobody knows if it was.
        MailError: It was not sent; with the kind `unknown`, nobody knows.
    """
    chat, turn, key, kind = effect.chat, effect.turn, effect.key, kind_of(mailbox.name)
    most = mailbox.section.most_per_day
    if await ask(effects_since(kind, now - DAY_S)) >= most:
        raise MailError(
            "refused",
            "Within 24 hours, {most} mails were sent from {name}, which is the limit.",
            "mail.{name}.most_per_day sets the limit.",
            most=most,
            name=mailbox.name,
        )
    earlier = await ask(reserve_effect(chat, turn, key, kind, effect.what))
    if earlier is not None:
        raise SentBefore(earlier)

    async def hand_over() -> None:
        await ask(mark_effect(chat, turn, key, "handed_over"))

    async def settle(answer: SentMail | MailError) -> None:
        if isinstance(answer, SentMail):
            await ask(mark_effect(chat, turn, key, "done", answer.answer))
        elif answer.kind != "unknown":
            await ask(mark_effect(chat, turn, key, "failed", str(answer.message)))

    sent = await mailbox.send(mail, hand_over=hand_over, settle=settle)
    if not mailbox.section.save_sent:
        return Delivered(sent)
    try:
        await mailbox.append("sent", mail.raw, ("\\Seen",))
    except MailError as error:
        return Delivered(sent, str(error.message))
    return Delivered(sent)


async def how_it_ended(
    ask: AskJournal, mailbox: Mailbox, effect: EffectOfMail, message_id: str
) -> tuple[Ended, str]:
    """Return how the sending of a mail ended that a restart interrupted, and what the server said.

    Raises:
        MailError: The folder of sent mails cannot be read.
    """
    stored = await ask(read_effect(effect.turn, effect.key))
    if stored is None or stored.state in ("reserved", "failed"):
        return "not_sent", "" if stored is None else stored.note
    if stored.state == "done":
        return "sent", stored.note
    if await mailbox.has_sent(message_id):
        note = "found in the folder of sent mails"
        await ask(mark_effect(effect.chat, effect.turn, effect.key, "done", note))
        return "sent", note
    return "unknown", ""
