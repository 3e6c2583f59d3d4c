"""The hub distributes the events of chats to subscribers. Publishing never waits for a subscriber."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from rumi.agent.events import ConfirmationAsked, ConfirmationEnded, ToolFinished, ToolStarted, TurnFinished
from rumi.chats.events import ChatEvent, Replied, TurnRestarted, TurnStarted, TurnState
from rumi.models.model import TextDelta, Waiting
from rumi.platform.topic import Backlog, Subscription, Topic
from rumi.texts import Language

MAX_WAITING = 10_000
MAX_CHARACTERS = 32_000_000
"""Maximum number of events, and of characters in them, that a subscriber's queue holds.

A slower subscriber loses its oldest events, but never an event that somebody waits for (`NEVER_LOST`).
"""

NEVER_LOST = (Replied, TurnFinished, ConfirmationAsked, ConfirmationEnded)

NOTHING_RUNS = TurnState()

HubSubscription: TypeAlias = Subscription[ChatEvent]
"""The queue of one subscriber. Adjacent text deltas of a turn are joined while the subscriber is slow."""


def _characters(event: ChatEvent) -> int:
    """Return the number of characters in the long texts of an event; 0 for events without such texts."""
    match event.what:
        case TextDelta(text) | TurnStarted(text) | TurnRestarted(text):
            return len(text)
        case Replied(_, _, text) | TurnFinished(_, text):
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
    """Wait for the final reply to a message and return it; discard the events received before the reply."""
    while True:
        what = (await events.receive()).what
        if isinstance(what, Replied) and number in what.messages:
            return what


class Hub:
    """Passes each event to the subscribers of its chat and to the subscribers of all chats.

    `turns` maps each chat that has a turn or queued messages to the state of the turn; an entry is removed
    after the turn's reply. `questions` maps each pending question to the number of the message that shows it
    to a person: 0 if the front end has no message numbers, None while no person can read the question yet.
    `unasked` are the pending questions that no person can answer.
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
        """Update the state of the chat's turn and pass the event to the current subscribers."""
        # The state and the queues change in the same step, so that a subscriber which catches up from the
        # state neither misses an event nor gets it twice.
        state = self.turn(event.chat).apply(event)
        if state.turn or state.queued:
            self.turns[event.chat] = state
        else:
            self.turns.pop(event.chat, None)
        self._topic.publish(event.chat, event)

    def turn(self, chat: str) -> TurnState:
        """Return the state of the chat's turn."""
        return self.turns.get(chat, NOTHING_RUNS)

    def has_shown(self, question: str, message: int = 0) -> None:
        """Record that a person can read the question with this id. Ignore a question that is not pending."""
        if question in self.questions:
            self.questions[question] = message

    def has_nobody(self, question: str) -> None:
        """Record that no person can answer this question; a no to it is then not a person's decision."""
        if question in self.questions:
            self.unasked.add(question)

    def could_be_read(self, question: str, origin: int | None) -> bool:
        """Return True if a person could already read the question when they wrote the message `origin`."""
        shown = self.questions.get(question)
        return shown is not None and (origin is None or origin > shown)

    def publish_to_running(self, what: Callable[[Language], Waiting], time: float) -> None:
        """Publish a `Waiting` event to each running turn; `what` creates the event in the turn's language."""
        for chat, state in list(self.turns.items()):  # a copy: `publish` changes `turns`
            if state.started is not None:
                self.publish(ChatEvent(chat, state.turn, time, what(state.started.what.language)))

    def nothing_runs(self, chat: str) -> None:
        """Forget the state of the chat's turn after a start or handover: its end may never be published."""
        self.turns.pop(chat, None)

    def subscribe(self, chat: str | None = None, *, entering: bool = False) -> HubSubscription:
        """Subscribe to one chat, or to all, from now on.

        A subscriber that is `entering` a chat first gets the state of the chat's running turn, if any.
        """
        subscription = self._topic.subscribe(chat)
        if entering and chat is not None:
            for event in self.turn(chat).catch_up(chat):
                subscription.put(event)
        return subscription

    def listening(self, chat: str | None = None) -> AbstractContextManager[HubSubscription]:
        """Return a context manager that subscribes while its block runs, and then unsubscribes."""
        return self._topic.listening(chat)
