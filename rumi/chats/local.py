"""Gives front ends access to a chat of this process, and to the past turns that they show."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import trio

from actors import ActorRef
from rumi.agent.prompts.message_entries import without_note
from rumi.chats.events import Replied
from rumi.chats.hub import Hub, HubSubscription
from rumi.chats.inbox import Inbox
from rumi.chats.port import PastTurn, Uploaded
from rumi.chats.session import ended
from rumi.platform.untrusted_text import read_block
from rumi.store.journal.outbox import mark_acknowledged, undelivered_replies
from rumi.store.journal.reading import read_history
from rumi.store.journal.records import Attachment, StoredEntry, StoredSession, Update
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language

RECENT: Final = 3
"""Number of past exchanges that an attached client shows."""

MOST_LISTED: Final = 200
"""Maximum number of sessions from which a client chooses."""

RECENT_ENTRIES: Final = 100
"""Number of history entries to search for these exchanges; a turn with many tool calls has many entries."""


@dataclass(eq=False, slots=True)
class LocalChat:
    """A front end's access to a chat of this process. If `language` is None, the configured one is used.

    With `apart`, each message's turn uses a new history instead of the chat's. `channel` is the name of the
    front end's channel, `chosen` the model for its messages, as `Chats.model_named` returns it. Turns can
    also use the skills of the folder `project`. `tainted` means that a program writes the messages, not a
    person. `zone` is the time zone of the person's device.
    """

    chat: str
    inbox: Inbox
    hub: Hub
    journal: ActorRef[JournalMessage]
    language: Language | None = None
    apart: bool = False
    channel: str = ""
    chosen: str = ""
    project: str = ""
    tainted: bool = False
    zone: str = ""

    @property
    def model(self) -> str:
        """The name of the model that works on the messages sent here."""
        return self.chosen or self.inbox.chats.own_model

    async def use_model(self, name: str) -> None:
        """Use this model for messages sent from now on.

        Raises:
            RumiError: the model cannot be used.
        """
        await trio.lowlevel.checkpoint()
        self.chosen = self.inbox.chats.model_named(name)

    async def recent(self) -> list[PastTurn]:
        """Return the last exchanges of the current session, without the running turn; oldest first."""
        rows = await self.journal.ask(read_history(self.chat, limit=RECENT_ENTRIES, going_on=True, told=True))
        runs = self.hub.turn(self.chat).turn
        return [exchange for exchange in past_turns_of(rows) if exchange.turn != runs][-RECENT:]

    async def sessions(self) -> list[StoredSession]:
        """Return the chat's sessions that can be reopened, the latest first, and the current one."""
        return list(await self.inbox.chats.sessions(self.chat, MOST_LISTED))

    async def send(
        self, text: str, attachments: Sequence[Attachment] = (), *, once: Update | None = None
    ) -> int:
        """Store a message or a command, wake the chat, and return its number; see `Inbox.accept`."""
        return await self.inbox.accept(
            self.chat,
            text,
            self.language,
            attachments,
            apart=self.apart,
            channel=self.channel,
            model=self.chosen,
            project=self.project,
            tainted=self.tainted,
            zone=self.zone,
            once=once,
        )

    async def upload(self, attachment: Attachment) -> Uploaded:
        """Return the attachment: front ends of this process store files before they attach them."""
        await trio.lowlevel.checkpoint()
        return Uploaded(attachment)

    def subscribe(self) -> HubSubscription:
        """Subscribe to the chat's events from now on, beginning with the state of the running turn."""
        return self.hub.subscribe(self.chat, entering=True)

    def shown(self, question: str) -> None:
        """Report that a person can read the question."""
        self.hub.has_shown(question)

    def unasked(self, question: str) -> None:
        """Report that no person can answer the question."""
        self.hub.has_nobody(question)

    async def undelivered(self, to: Sequence[int] = ()) -> list[Replied]:
        """Return replies not acknowledged yet, oldest first, including replies from earlier processes."""
        await self.inbox.chats.open(self.chat)
        stored = await self.journal.ask(undelivered_replies(self.chat, tuple(to)))
        return [
            Replied(reply.delivery, reply.messages, reply.text, reply.reason, note=reply.note)
            for reply in stored
        ]

    async def delivered(self, delivery: int) -> None:
        """Acknowledge a reply: record that a person has received it."""
        await self.journal.tell(mark_acknowledged(delivery))


def past_turns_of(rows: Iterable[StoredEntry]) -> list[PastTurn]:
    """Return the question and answer of each turn, without forwarded content that others wrote."""
    found: dict[str, PastTurn] = {}
    for row in rows:
        turn, message = row.entry.turn, row.entry.message
        known = found.get(turn, PastTurn(turn, "", ""))
        if message.role == "user" and read_block(message.content) is None:
            found[turn] = replace(known, question=without_note(message.content) or known.question)
        elif message.role == "assistant" and (said := ended(message.content)[0]):
            found[turn] = replace(known, answer=said)
    return [exchange for exchange in found.values() if exchange.question or exchange.answer]
