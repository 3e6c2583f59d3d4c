"""The triggers of a process: they check, read and store events of the listener and of the command line."""

import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from secrets import token_hex
from typing import Any, Final, Protocol

from rumi.channels.takers import NOT_STORED, Answer
from rumi.channels.triggers.reading import ReadEvent, bounded_id, delivery_id, is_ping, read_event
from rumi.channels.triggers.signatures import (
    TOLERANCE_S,
    Flaw,
    SecretForm,
    check_secret,
    flaw_of,
    flaw_of_head,
    signed_id,
)
from rumi.errors import RumiError, UsageError
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.schema import TriggerSection
from rumi.platform.config.secrets import Secret, trigger_key
from rumi.platform.logs.audit import AuditLog
from rumi.platform.redact import HIDDEN
from rumi.store.journal.deliveries import Taken, without_turn
from rumi.store.journal.records import Attachment, Incoming

logger = logging.getLogger(__name__)

PATH: Final = "/triggers"
"""URL path on the listener; the trigger's name follows."""

MOST_BYTES: Final = 1_000_000
"""Maximum size of an event, in bytes."""

SAME_S: Final = 60.0
"""An event without a delivery id counts as repeated if an equal one came in this many seconds.

If the request is signed, `TOLERANCE_S` counts, so that no request can be sent again while its time is valid.
"""

TOLD_EVERY_S: Final = 60.0
"""Minimum interval between two log lines about refused requests to one trigger, in seconds."""

COUNTED: Final = ("taken", "repeated", "refused", "limited", "not_stored")


UNREACHABLE_AGAIN_S: Final = 600
"""Time after which a sender may repeat an event for a chat to which nothing can be delivered, in seconds."""


class ChatUnreachable(RumiError):
    """An event was not stored, because nothing can be delivered to the trigger's chat."""


class AcceptEvent(Protocol):
    """Stores an event: `rumi.chats.inbox.Inbox.accept_event`."""

    def __call__(
        self, event: Incoming, delivery: str, most_per_hour: int, window_s: float = 0.0
    ) -> Awaitable[Taken]:
        """Store the event, unless its delivery was taken earlier."""
        ...


@dataclass(slots=True)
class Trigger:
    """A trigger, and what this process has counted: outcomes, and why requests were refused.

    `flaw` is why no request can be accepted, such as a missing secret; None if requests are accepted. A
    trigger without a secret has no door: only commands hand events to it.
    """

    name: str
    section: TriggerSection
    secret: Secret | None = None
    flaw: RumiError | None = None
    counts: Counter[str] = field(default_factory=Counter)
    flaws: Counter[str] = field(default_factory=Counter)
    told_at: float = -TOLD_EVERY_S

    @property
    def path(self) -> str:
        """Return the URL path on the listener."""
        return f"{PATH}/{self.name}"


def triggers_of(loaded: Loaded) -> dict[str, Trigger]:
    """Return the configured triggers with their secrets. Commands that print secrets must have run."""
    return {name: _trigger(name, section, loaded) for name, section in loaded.settings.triggers.items()}


def _trigger(name: str, section: TriggerSection, loaded: Loaded) -> Trigger:
    if section.secret is None:
        return Trigger(name, section)
    key = trigger_key(name)
    if (fault := loaded.secrets.faults.get(key)) is not None:
        return Trigger(name, section, flaw=fault)
    secret = loaded.secrets.keys.get(key)
    if secret is not None:
        try:
            check_secret(section.form, secret.reveal().strip())
        except SecretForm:
            flaw = RumiError(
                "The secret of the trigger {name} is not valid: after whsec_ it has to be Base64.",
                'Copy it again from the sender, or choose another form: {form} = "…"',
                name=name,
                form=f"triggers.{name}.form",
            )
            return Trigger(name, section, flaw=flaw)
    return Trigger(name, section, secret)


class Triggers:
    """All triggers of a process. `url` is the listener's address, empty if no listener takes events.

    `accept` stores an event; it is None if no chat can work on events. `now` returns the time in seconds
    since 1970.
    """

    def __init__(
        self,
        triggers: Mapping[str, Trigger],
        accept: AcceptEvent | None = None,
        audit: AuditLog | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.triggers = triggers
        self.url = ""
        self._accept = accept
        self._audit = audit
        self.now = now

    def doors(self) -> Sequence["TriggerDoor"]:
        """Return what takes the requests of the listener: one door for each trigger with a secret."""
        return [
            TriggerDoor(self, trigger)
            for trigger in self.triggers.values()
            if trigger.section.secret is not None
        ]

    def named(self, name: str) -> Trigger:
        """Return the trigger with a name.

        Raises:
            UsageError: There is none.
        """
        if (found := self.triggers.get(name)) is not None:
            return found
        if not self.triggers:
            raise UsageError(
                "There is no trigger {name}: no trigger is configured.",
                "Add a section [triggers.{name}] to config.toml. If it is there, start Rumi again.",
                name=name,
            )
        raise UsageError(
            "There is no trigger {name}.",
            "Triggers: {names}. A new section needs a new start of Rumi.",
            name=name,
            names=", ".join(self.triggers),
        )

    async def fire(self, name: str, text: str, id: str = "") -> tuple[str, Taken]:
        """Store the text of a command as an event; return the id of the delivery, and what became of it.

        Without an `id`, each call is a delivery of its own. On cancellation, the event may or may not be
        stored.

        Raises:
            UsageError: No trigger has this name, or the text is too long.
            RumiError: Nothing can be stored now, or too many events came.
        """
        trigger = self.named(name)
        body = text.encode("utf-8", "replace")
        if len(body) > MOST_BYTES:
            raise too_long()
        delivery = bounded_id(id) if id else f"cli:{token_hex(8)}"
        taken = await self.take(trigger, delivery, read_event({}, body), "rumi trigger")
        if taken.again_s:
            raise RumiError(
                "The trigger {name} took {most} events in an hour, and takes no more.",
                "Try again in {seconds:.0f} s, or raise {setting}.",
                name=name,
                most=trigger.section.most_per_hour,
                seconds=taken.again_s,
                setting=f"triggers.{name}.most_per_hour",
            )
        return delivery, taken

    async def take(
        self, trigger: Trigger, delivery: str, event: ReadEvent | None, sender: str, window_s: float = 0.0
    ) -> Taken:
        """Store an event, and count what became of it. Without an event, only its delivery is recorded.

        Raises:
            ChatUnreachable: Nobody could read the answer.
            RumiError: Nothing can be stored now.
        """
        assert self._accept is not None, "nothing takes events in this process"
        message = self._message(trigger, delivery, event, sender)
        try:
            taken = await self._accept(message, delivery, trigger.section.most_per_hour, window_s)
        except RumiError:
            trigger.counts["not_stored"] += 1
            raise
        if taken.unreachable:
            trigger.counts["not_stored"] += 1
            raise unreachable(trigger.section.chat, taken.unreachable)
        outcome = "limited" if taken.again_s else "repeated" if taken.repeated else "taken"
        trigger.counts[outcome] += 1
        if outcome == "taken" and self._audit is not None:
            chat = trigger.section.chat
            self._audit.write("trigger", chat_id=chat, trigger=trigger.name, delivery=delivery, sender=sender)
        return taken

    def refuse(self, trigger: Trigger, flaw: Flaw) -> None:
        """Count a request without a valid proof; at most once a minute, log it without its body."""
        trigger.counts["refused"] += 1
        trigger.flaws[flaw] += 1
        if (now := self.now()) - trigger.told_at >= TOLD_EVERY_S or now < trigger.told_at:
            trigger.told_at = now
            logger.warning(
                "the trigger %s refused a request: its proof is %s (%d refused so far)",
                *(trigger.name, flaw, trigger.counts["refused"]),
            )

    def counts(self) -> dict[str, int]:
        """Return what became of the requests to all triggers, since the process began."""
        return {name: sum(trigger.counts[name] for trigger in self.triggers.values()) for name in COUNTED}

    @staticmethod
    def _message(trigger: Trigger, delivery: str, event: ReadEvent | None, sender: str) -> Incoming:
        what = f"{event.kind} event" if event is not None and event.kind else "event"
        attachment = Attachment(
            "words",
            source=f"{what} of the trigger {trigger.name}, from {sender}, delivery {delivery}",
            text="" if event is None else event.text.strip() or "(The event has no text.)",
            cut=event is not None and event.cut,
        )
        section = trigger.section
        message = Incoming(
            chat=section.chat, text=section.prompt, trigger=trigger.name, attachments=(attachment,)
        )
        return message if event is not None else without_turn(message)


def too_long() -> UsageError:
    """Return the error for an event that is too long."""
    return UsageError(
        "The event is longer than {most} MB.", "Send a part of it.", most=f"{MOST_BYTES / 1_000_000:g}"
    )


def unreachable(chat: str, why: str) -> ChatUnreachable:
    """Return the error for an event whose chat cannot get an answer; `why` is the refusal of its source."""
    return ChatUnreachable(
        "Nothing can be delivered to the chat {chat}: {why}.",
        "As soon as somebody writes there, its triggers take events again.",
        chat=chat,
        why=why.rstrip("."),
    )


class TriggerDoor:
    """Takes the requests to one trigger: the listener's interface for deliveries."""

    most_bytes = MOST_BYTES

    def __init__(self, triggers: Triggers, trigger: Trigger) -> None:
        self._triggers = triggers
        self._trigger = trigger
        self.path = trigger.path

    def refuses(self, headers: Mapping[str, str]) -> int:
        """Return 401 if the headers show that the request proves nothing, 503 if the secret is missing."""
        trigger = self._trigger
        if trigger.flaw is not None or trigger.secret is None:
            return 503  # the sender repeats it; meanwhile, the operator can set the secret
        return self._judged(flaw_of_head(trigger.section.form, self._secret, headers, self._triggers.now()))

    async def take(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Check and store an event. 202 and 200 mean that it is stored: now, or earlier."""
        triggers, trigger = self._triggers, self._trigger
        # Over the raw bytes, before anything reads them: what a stranger sends is not parsed.
        flaw = flaw_of(trigger.section.form, self._secret, headers, body, triggers.now())
        if refused := self._judged(flaw):
            return Answer(refused)
        form = trigger.section.form
        delivery, given = delivery_id(headers, body, signed_id(form, headers))
        window_s = 0.0 if given else SAME_S if form == "plain" else TOLERANCE_S
        event = None
        if not (form == "github" and is_ping(headers)):
            event = read_event(headers, body)
            # Old versions of Gitea send the secret in the body.
            event = replace(event, text=event.text.replace(self._secret, HIDDEN))
        try:
            taken = await triggers.take(trigger, delivery, event, "the web", window_s)
        except RumiError as error:
            logger.warning("an event of the trigger %s was not stored: %s", trigger.name, error.message)
            if isinstance(error, ChatUnreachable):
                return Answer(503, "Nobody can read the answer now.", UNREACHABLE_AGAIN_S)
            return NOT_STORED
        if taken.again_s:
            return Answer(429, "Too many events came in the last hour.", int(taken.again_s) + 1)
        status = "repeated" if taken.repeated else "accepted" if event is not None else "pong"
        answer: dict[str, Any] = {"delivery": delivery, "status": status}
        return Answer(202 if status == "accepted" else 200, json.dumps(answer))

    def _judged(self, flaw: Flaw) -> int:
        if flaw:
            self._triggers.refuse(self._trigger, flaw)
        return 401 if flaw else 0

    @property
    def _secret(self) -> str:
        secret = self._trigger.secret
        return "" if secret is None else secret.reveal().strip()
