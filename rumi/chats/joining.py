"""Joins what the journal has of a running turn with the turn's live events, so that nothing comes twice."""

from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    Thinking,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
)
from rumi.chats.events import ChatEvent, TurnRestarted, TurnStarted
from rumi.models.model import Discarded, TextDelta, Used, Waiting
from rumi.store.journal.shown import CallFigures, ShownCall, ShownReply
from rumi.store.journal.transcript import StoredMessage


class StoredTurn:
    """Tells which events of a turn are shown by the entries that the journal had of it.

    The reader subscribes to the chat with `entering`, reads the journal then, and passes each event of the
    subscription to `has`, in order. Each model call has a number, which is stored with its message: all that
    came before the last stored number is stored. Of the tool calls behind it, those with a result are stored.
    """

    def __init__(self, message: StoredMessage) -> None:
        self._turn = message.turn
        self._over = message.answered
        self._number = 0
        self._open: set[str] = set()
        self._stored: set[str] = set()
        self._questions: set[str] = set()
        for row in message.entries:
            said, shown = row.entry.message, row.entry.shown
            if said.role == "assistant":
                self._open, self._stored = {call.id for call in said.tool_calls}, set()
            elif said.role == "tool":
                self._open.discard(said.tool_call_id or "")
                self._stored.add(said.tool_call_id or "")
            if isinstance(shown, ShownReply) and shown.call is not None:
                self._number = max(self._number, shown.call.number)
            if isinstance(shown, ShownCall):
                self._questions.update(question.id for question in shown.questions)
        self._reached = self._number == 0

    def has(self, event: ChatEvent) -> bool:
        """Return True if the entries show the event already. Events of other turns are not shown."""
        if event.turn != self._turn:
            return False
        match event.what:
            case TurnStarted(numbered=numbered):
                self._reached = self._number <= numbered
                return self._over
            case _ if self._over:
                return True
            case TurnRestarted():
                self._begin_step()
                return False
            case CallFigures(number=number) if number > self._number:
                self._begin_step()
                return False
            case CallFigures(number=number):
                self._reached = self._reached or number == self._number
                return True
            case ToolStarted(call) | ToolFinished(call):
                return self._has_call(call.id)
            case ToolProgress(id) | ToolOutput(id):
                return self._has_call(id)
            case ConfirmationAsked(id, call=call_id):
                return id in self._questions or self._has_call(call_id)
            case ConfirmationEnded(id):
                return id in self._questions
            case Thinking() | TextDelta() | Discarded() | Waiting() | Used():
                return not self._reached
            case _:
                return False

    def _begin_step(self) -> None:
        """From here on, nothing is stored: a model may use the ids of calls again."""
        self._reached = True
        self._open, self._stored = set(), set()

    def _has_call(self, id: str) -> bool:
        outer = next((part for part in (id, *_outer(id)) if part in self._open | self._stored), None)
        return not self._reached if outer is None else outer in self._stored


def _outer(id: str) -> list[str]:
    """Return the ids of the calls that a call may have run within: the beginnings of its id before a dot."""
    parts = id.split(".")
    return [".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1)]
