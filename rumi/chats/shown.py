"""Collects what people see of a running turn, so that the journal stores it with the turn's messages."""

from dataclasses import replace
from typing import Final

from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    title_of,
)
from rumi.models.model import Message
from rumi.store.journal.shown import (
    MOST_WITHIN,
    CallFigures,
    CallWithin,
    Shown,
    ShownCall,
    ShownQuestion,
    ShownReply,
)

TITLE_CHARS: Final = 400
"""Maximum number of characters that are kept of a call's title."""

MOST_CALLS: Final = 10_000
"""Maximum number of model calls of a turn in one process; their numbers continue from there in the next."""


class SeenOfTurn:
    """What people saw of a turn and the journal has not stored yet: calls, questions, and model calls.

    `resumed` counts how often the turn went on after the end of a process.
    """

    def __init__(self, resumed: int = 0) -> None:
        self._number = resumed * MOST_CALLS
        self._titles: dict[str, str] = {}
        self._questions: dict[str, tuple[str, ShownQuestion]] = {}
        self._calls: dict[str, CallWithin] = {}
        self._call: CallFigures | None = None

    @property
    def questions(self) -> tuple[ShownQuestion, ...]:
        """The questions that were asked and belong to no stored call."""
        return tuple(question for _, question in self._questions.values())

    @property
    def numbered(self) -> int:
        """The number of the last model call; those of earlier processes have numbers up to it at first."""
        return self._number

    def resumes(self, count: int) -> None:
        """Number the model calls of a turn that goes on for the time `count` behind the earlier ones."""
        self._number = max(self._number, count * MOST_CALLS)

    def happened(self, event: TurnEvent) -> TurnEvent:
        """Take an event of the turn, and return it as clients get it."""
        match event:
            case CallFigures():
                self._number += 1
                event = replace(event, number=self._number)
                self._call = event if self._call is None else self._call + event
            case ToolStarted(call):
                self._titles[call.id] = title_of(event, str)[:TITLE_CHARS]
            case ConfirmationAsked(id, text, whole, call_id):
                self._questions[id] = (call_id, ShownQuestion(id, text, whole))
            case ConfirmationEnded(id, verdict) if id in self._questions:
                call_id, question = self._questions[id]
                self._questions[id] = (call_id, replace(question, verdict=verdict))
            case ToolFinished(call):
                asked = tuple(one for of, one in self._questions.values() if of == call.id)
                for question in asked:
                    del self._questions[question.id]
                shown = replace(event.shown, questions=asked)
                self._calls[call.id] = CallWithin(call.id, call.name, self._titles.pop(call.id, ""), shown)
            case _:
                pass
        return event

    def of(self, message: Message) -> Shown | None:
        """Return what people saw of a message that is stored now; None if they saw nothing but its text."""
        if message.role == "assistant":
            call, self._call = self._call, None
            return None if call is None else ShownReply(call)
        return None if message.role != "tool" else self._of_call(message.tool_call_id or "")

    def rest(self) -> ShownReply | None:
        """Return what people saw of the turn's last message, and of calls without a stored result."""
        call, self._call = self._call, None
        outer = [id for id in self._calls if not any(id.startswith(f"{other}.") for other in self._calls)]
        calls = []
        for id in outer[:MOST_WITHIN]:
            one = self._calls[id]
            shown = self._of_call(id)
            calls.append(one if shown is None else replace(one, call=shown))
        self._calls.clear()
        return ShownReply(call, tuple(calls)) if call is not None or calls else None

    def _of_call(self, id: str) -> ShownCall | None:
        """Return what people saw of a call, with the calls within it, and forget it."""
        found = self._calls.pop(id, None)
        within = [self._calls.pop(inner) for inner in list(self._calls) if inner.startswith(f"{id}.")]
        return None if found is None else replace(found.call, within=tuple(within[:MOST_WITHIN]))
