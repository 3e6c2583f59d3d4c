"""The turn: think, act, observe, until there is an answer or a breaker trips. It does not depend on chats."""

from rumi.agent.breakers import TurnLimits
from rumi.agent.conversation import complete
from rumi.agent.events import (
    ConfirmationAsked,
    ConfirmationEnded,
    Reason,
    Thinking,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from rumi.agent.fitting import in_short
from rumi.agent.gate import Confirm, Parking
from rumi.agent.intent import DeclareFor, declaring
from rumi.agent.parking import Parked, ParkedCalls, ParkedState, answers_in, in_words
from rumi.agent.prompt import Prompts, built_in, told_channel, words_in
from rumi.agent.turn import Kept, TurnInput, run_turn

__all__ = [
    "Confirm",
    "ConfirmationAsked",
    "ConfirmationEnded",
    "DeclareFor",
    "Kept",
    "Parked",
    "ParkedCalls",
    "ParkedState",
    "Parking",
    "Prompts",
    "Reason",
    "Thinking",
    "ToolFinished",
    "ToolProgress",
    "ToolStarted",
    "TurnEvent",
    "TurnFinished",
    "TurnInput",
    "TurnLimits",
    "answers_in",
    "built_in",
    "complete",
    "declaring",
    "in_short",
    "in_words",
    "run_turn",
    "told_channel",
    "words_in",
]
