"""What a turn tells while it runs. Chat, terminal, journal and audit log all read these events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rumi.models import Discarded, TextDelta, ToolCall, Usage, Waiting
from rumi.texts import Verdict
from rumi.tools import ToolResult

Reason: TypeAlias = Literal[
    "complete",
    "max_turns",
    "repeated_call",
    "consecutive_errors",
    "timeout",
    "stopped",
    "model_error",
    "crashed",
    "interrupted",
]
"""How a turn ended; also the audit log's `stopped_reason`."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """A model call begins; the words so far are a message of their own. 0 is a breaker's closing call."""

    call: int


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call begins. `arguments` is what the model wrote, parsed; empty where it was no JSON object."""

    call: ToolCall
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class ConfirmationAsked:
    """The turn waits for the user's yes or no to what `text` says."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class ConfirmationEnded:
    """The question `id` is settled, or void because the turn was stopped: no answer counts any more."""

    id: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """The turn's end. `answer` is what the user reads, a breaker's warning included."""

    reason: Reason
    answer: str
    usage: Usage = field(default_factory=Usage)


TurnEvent: TypeAlias = (
    Thinking
    | TextDelta
    | Discarded
    | Waiting
    | ToolStarted
    | ToolFinished
    | ConfirmationAsked
    | ConfirmationEnded
    | TurnFinished
)
