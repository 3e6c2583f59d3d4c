"""Where chats tell what happens and front ends listen. Publishing never waits for anyone."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from rumi.agent import ConfirmationAsked, ConfirmationEnded, TurnFinished
from rumi.chats.events import ChatEvent, Replied
from rumi.models import TextDelta

MAX_WAITING = 10_000
"""Events that a reader may be behind; one that is further behind loses the oldest, but nothing that is
waited for: no reply and no question."""

NEVER_LOST = (Replied, TurnFinished, ConfirmationAsked, ConfirmationEnded)

IN_A_ROW = 64
"""Events that a reader may take before others get their turn. With one at a time, whoever listens to a
hundred busy chats would get one in each round of all their tasks, and fall behind by seconds."""


class HubSubscription:
    """One reader's queue. Neighbouring text deltas of a turn are joined while it is slow."""

    def __init__(self, hub: "Hub", chat: str | None) -> None:
        self._hub = hub
        self.chat = chat
        self._queue: deque[ChatEvent] = deque()
        self._arrived = trio.Event()
        self._in_a_row = 0

    async def receive(self) -> ChatEvent:
        """The next event. Cancelled, it loses nothing. It lets others run when it waits, and now and then."""
        while not self._queue:
            self._in_a_row = 0
            await self._arrived.wait()
            self._arrived = trio.Event()
        self._in_a_row = (self._in_a_row + 1) % IN_A_ROW
        if self._in_a_row:
            await trio.lowlevel.checkpoint_if_cancelled()
        else:
            await trio.lowlevel.checkpoint()
        return self._queue.popleft()

    async def reply_to(self, number: int) -> Replied:
        """The final reply to a message; what comes before it is dropped."""
        while True:
            what = (await self.receive()).what
            if isinstance(what, Replied) and number in what.messages:
                return what

    def close(self) -> None:
        """Stop listening."""
        self._hub.forget(self)

    def put(self, event: ChatEvent) -> None:
        """Add an event for the reader."""
        last = self._queue[-1] if self._queue else None
        if last is not None and last.turn == event.turn:
            older, newer = last.what, event.what
            if isinstance(older, TextDelta) and isinstance(newer, TextDelta):
                joined = TextDelta(older.text + newer.text)
                self._queue[-1] = ChatEvent(last.chat, last.turn, last.time, joined)
                return
        if len(self._queue) >= MAX_WAITING:
            self._lose_one()
        self._queue.append(event)
        self._arrived.set()

    def _lose_one(self) -> None:
        """Forget the oldest event that nobody waits for: a final reply is told once, and waited for."""
        for place, event in enumerate(self._queue):
            if not isinstance(event.what, NEVER_LOST):
                del self._queue[place]
                return


class Hub:
    """Hands each event to those who listen to its chat, and to those who listen to all.

    `questions` are those that wait for an answer, each with the number of the message that puts it before a
    person: 0 where front ends number nothing, None where nobody can read it yet.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[str | None, set[HubSubscription]] = {}
        self.questions: dict[str, int | None] = {}

    def publish(self, event: ChatEvent) -> None:
        """Give an event to whoever listens now."""
        for key in (event.chat, None):
            for subscription in self._subscriptions.get(key, ()):
                subscription.put(event)

    def has_shown(self, question: str, message: int = 0) -> None:
        """A person can read the question of that id. One that waits no more is forgotten already."""
        if question in self.questions:
            self.questions[question] = message

    def could_be_read(self, question: str, origin: int | None) -> bool:
        """Whether the question was there before the message `origin` was written."""
        shown = self.questions.get(question)
        return shown is not None and (origin is None or origin > shown)

    def subscribe(self, chat: str | None = None) -> HubSubscription:
        """Listen to one chat, or to all, from now on."""
        subscription = HubSubscription(self, chat)
        self._subscriptions.setdefault(chat, set()).add(subscription)
        return subscription

    @contextmanager
    def listening(self, chat: str | None = None) -> Iterator[HubSubscription]:
        """Listen within a block."""
        subscription = self.subscribe(chat)
        try:
            yield subscription
        finally:
            subscription.close()

    def forget(self, subscription: HubSubscription) -> None:
        """Stop giving events to it."""
        listeners = self._subscriptions.get(subscription.chat, set())
        listeners.discard(subscription)
        if not listeners:
            self._subscriptions.pop(subscription.chat, None)
