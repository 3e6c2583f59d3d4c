"""The turn: think, act, observe, until there is an answer or a breaker trips. Knows no chat."""

from rumi.agent.events import (
    Appended,
    ConfirmationAsked,
    Reason,
    Thinking,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)

__all__ = [
    "Appended",
    "ConfirmationAsked",
    "Reason",
    "Thinking",
    "ToolFinished",
    "ToolStarted",
    "TurnEvent",
    "TurnFinished",
]
