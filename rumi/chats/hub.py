"""Where chats tell what happens and front ends listen. Publishing never waits for anyone."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from rumi.agent import ConfirmationAsked, ConfirmationEnded, ToolFinished, ToolStarted, TurnFinished
from rumi.chats.events import ChatEvent, Replied, TurnStarted, TurnState
from rumi.models import TextDelta, Waiting
from rumi.texts import Language

MAX_WAITING = 10_000
MAX_CHARACTERS = 32_000_000
"""Events, and characters in them, that a reader may be behind; one that is further behind loses the oldest,
but nothing that is waited for: no reply and no question."""

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
        self._characters = 0
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
        event = self._queue.popleft()
        self._characters -= _characters(event)
        return event

    @property
    def behind(self) -> int:
        """How many events wait to be received."""
        return len(self._queue)

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
                self._characters += len(newer.text)
                self._queue[-1] = ChatEvent(last.chat, last.turn, last.time, joined)
                return
        self._characters += _characters(event)
        self._queue.append(event)
        if len(self._queue) > MAX_WAITING:
            self._lose_one()
        while self._characters > MAX_CHARACTERS and self._lose_one():
            pass
        self._arrived.set()

    def _lose_one(self) -> bool:
        """Forget the oldest event that nobody waits for, if there is one: a final reply is told once."""
        for place, event in enumerate(self._queue):
            if not isinstance(event.what, NEVER_LOST):
                del self._queue[place]
                self._characters -= _characters(event)
                return True
        return False


def _characters(event: ChatEvent) -> int:
    """How much an event holds, where it may be much."""
    match event.what:
        case TextDelta(text) | TurnStarted(text) | Replied(_, _, text) | TurnFinished(_, text):
            return len(text)
        case ToolStarted(call, _):
            return 2 * len(call.arguments)
        case ToolFinished(call, result):
            return len(call.arguments) + len(result.content)
        case _:
            return 0


class Hub:
    """Hands each event to those who listen to its chat, and to those who listen to all.

    `turns` has what the turn of a chat is at, until its reply; chats without one are not in it.
    `questions` are those that wait for an answer, each with the number of the message that puts it before a
    person: 0 where front ends number nothing, None where nobody can read it yet.
    """

    def __init__(self) -> None:
        self._subscriptions: dict[str | None, set[HubSubscription]] = {}
        self.turns: dict[str, TurnState] = {}
        self.questions: dict[str, int | None] = {}

    def publish(self, event: ChatEvent) -> None:
        """Give an event to whoever listens now."""
        state = self.turns.get(event.chat, TurnState()).apply(event)
        if state.turn:
            self.turns[event.chat] = state
        else:
            self.turns.pop(event.chat, None)
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

    def tell_running(self, what: Callable[[Language], Waiting], time: float) -> None:
        """Tell every chat with a turn what it waits for, in the language of the turn."""
        for chat, state in list(self.turns.items()):
            if state.started is not None:
                self.publish(ChatEvent(chat, state.turn, time, what(state.started.what.language)))

    def nothing_runs(self, chat: str) -> None:
        """A chat begins: of a turn that was told before, the end may never be told."""
        self.turns.pop(chat, None)

    def subscribe(self, chat: str | None = None, *, entering: bool = False) -> HubSubscription:
        """Listen to one chat, or to all, from now on.

        Whoever is `entering` a chat is told first what its turn is at, if one runs.
        """
        subscription = HubSubscription(self, chat)
        if entering and chat is not None:
            for event in self.turns.get(chat, TurnState()).catch_up(chat):
                subscription.put(event)
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
