"""The events of a running turn. Chat, terminal, journal and audit log all read them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rumi.agent.tool import ToolResult
from rumi.models.model import Discarded, TextDelta, ToolCall, Usage, Used, Waiting
from rumi.platform.texts.questions import Verdict
from rumi.store.journal.records import Reason


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model call begins; the words so far are a separate message. 0 is a breaker's closing call."""

    call: int


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call begins. `arguments` is what the model wrote, parsed; empty if it was not a JSON object."""

    call: ToolCall
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool call has reached a step, which `text` tells people on one short line.

    `call` is the id of the call. `step` counts its steps from 1.
    """

    call: str
    text: str
    step: int


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended, after so many `steps`."""

    call: ToolCall
    result: ToolResult
    steps: int = 0


@dataclass(frozen=True, slots=True)
class ConfirmationAsked:
    """The turn waits for the user's yes or no to `text`.

    `whole` is the same question with every value whole; it is empty where `text` shortens none. A channel
    shows it too.
    """

    id: str
    text: str
    whole: str = ""


@dataclass(frozen=True, slots=True)
class ConfirmationEnded:
    """The question `id` is answered, or void because the turn was stopped; later answers do not count."""

    id: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn has ended. `answer` is the text that the user reads, including a breaker's warning."""

    reason: Reason
    answer: str
    usage: Usage = field(default_factory=Usage)


TurnEvent: TypeAlias = (
    Thinking
    | TextDelta
    | Discarded
    | Waiting
    | Used
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ConfirmationAsked
    | ConfirmationEnded
    | TurnFinished
)
