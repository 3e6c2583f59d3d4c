"""Where chats tell what happens and front ends listen. Publishing never waits for anyone."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from rumi.agent.events import ConfirmationAsked, ConfirmationEnded, ToolFinished, ToolStarted, TurnFinished
from rumi.chats.events import ChatEvent, Replied, TurnStarted, TurnState
from rumi.models.model import TextDelta, Waiting
from rumi.platform.texts.language import Language
from rumi.platform.topic import Backlog, Subscription, Topic

MAX_WAITING = 10_000
MAX_CHARACTERS = 32_000_000
"""Events, and characters in them, that a reader may be behind; one that is further behind loses the oldest,
but nothing that is waited for: no reply and no question."""

NEVER_LOST = (Replied, TurnFinished, ConfirmationAsked, ConfirmationEnded)

NOTHING_RUNS = TurnState()

HubSubscription: TypeAlias = Subscription[ChatEvent]
"""One reader's queue. Neighbouring text deltas of a turn are joined while it is slow."""


def _characters(event: ChatEvent) -> int:
    """Return how much an event holds, where it may be much."""
    match event.what:
        case TextDelta(text) | TurnStarted(text) | Replied(_, _, text) | TurnFinished(_, text):
            return len(text)
        case ToolStarted(call, _):
            return 2 * len(call.arguments)
        case ToolFinished(call, result):
            return len(call.arguments) + len(result.content) + len(result.diff)
        case _:
            return 0


def _joined(older: ChatEvent, newer: ChatEvent) -> ChatEvent | None:
    first, second = older.what, newer.what
    if older.turn == newer.turn and isinstance(first, TextDelta) and isinstance(second, TextDelta):
        return ChatEvent(older.chat, older.turn, older.time, TextDelta(first.text + second.text))
    return None


async def reply_to(events: HubSubscription, number: int) -> Replied:
    """The final reply to a message; what comes before it is dropped."""
    while True:
        what = (await events.receive()).what
        if isinstance(what, Replied) and number in what.messages:
            return what


class Hub:
    """Hands each event to those who listen to its chat, and to those who listen to all.

    `turns` has what the turn of a chat is at, until its reply, and what waits for it; chats without one are
    not in it.
    `questions` are those that wait for an answer, each with the number of the message that puts it before a
    person: 0 where front ends number nothing, None where nobody can read it yet.
    """

    def __init__(self) -> None:
        self._topic: Topic[str, ChatEvent] = Topic(
            Backlog(
                most=MAX_WAITING,
                most_weight=MAX_CHARACTERS,
                weight=_characters,
                retains=lambda event: isinstance(event.what, NEVER_LOST),
                joins=_joined,
            )
        )
        self.turns: dict[str, TurnState] = {}
        self.questions: dict[str, int | None] = {}
        self.unasked: set[str] = set()

    def publish(self, event: ChatEvent) -> None:
        """Give an event to the current subscribers."""
        state = self.turn(event.chat).apply(event)
        if state.turn or state.queued:
            self.turns[event.chat] = state
        else:
            self.turns.pop(event.chat, None)
        self._topic.publish(event.chat, event)

    def turn(self, chat: str) -> TurnState:
        """Return what the turn of the chat is at."""
        return self.turns.get(chat, NOTHING_RUNS)

    def has_shown(self, question: str, message: int = 0) -> None:
        """A person can read the question of that id. One that waits no more is forgotten already."""
        if question in self.questions:
            self.questions[question] = message

    def has_nobody(self, question: str) -> None:
        """Nobody is there who could answer the question of that id: the no to it is no person's."""
        if question in self.questions:
            self.unasked.add(question)

    def could_be_read(self, question: str, origin: int | None) -> bool:
        """Return True if the question was there before the message `origin` was written."""
        shown = self.questions.get(question)
        return shown is not None and (origin is None or origin > shown)

    def publish_to_running(self, what: Callable[[Language], Waiting], time: float) -> None:
        """Tell every chat with a turn what it waits for, in the language of the turn."""
        for chat, state in list(self.turns.items()):
            if state.started is not None:
                self.publish(ChatEvent(chat, state.turn, time, what(state.started.what.language)))

    def nothing_runs(self, chat: str) -> None:
        """A chat begins: of a turn that was told before, the end may never be told."""
        self.turns.pop(chat, None)

    def subscribe(self, chat: str | None = None, *, entering: bool = False) -> HubSubscription:
        """Listen to one chat, or to all, from now on.

        A subscriber that is `entering` a chat first gets the state of its turn, if one runs.
        """
        subscription = self._topic.subscribe(chat)
        if entering and chat is not None:
            for event in self.turn(chat).catch_up(chat):
                subscription.put(event)
        return subscription

    def listening(self, chat: str | None = None) -> AbstractContextManager[HubSubscription]:
        """Listen within a block."""
        return self._topic.listening(chat)
