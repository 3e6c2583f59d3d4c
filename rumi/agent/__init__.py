"""The turn: think, act, observe, until there is an answer or a breaker trips. Knows no chat."""

from rumi.agent.breakers import Limits
from rumi.agent.events import (
    ConfirmationAsked,
    Reason,
    Thinking,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from rumi.agent.prompt import Surroundings, build_prompt
from rumi.agent.turn import TurnInput, complete, run_turn

__all__ = [
    "ConfirmationAsked",
    "Limits",
    "Reason",
    "Surroundings",
    "Thinking",
    "ToolFinished",
    "ToolStarted",
    "TurnEvent",
    "TurnFinished",
    "TurnInput",
    "build_prompt",
    "complete",
    "run_turn",
]
