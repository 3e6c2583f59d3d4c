"""Texts for people about errors and delays of models.

Model adapters write their error messages in English, for logs. The model chain knows the language of the
user, and shows errors to the user with these texts.
"""

from collections.abc import Sequence
from typing import Literal

from rumi.texts import Language, gettext


def model_queues(language: Language, cause: Literal["busy", "cool_down", "budget"], model: str) -> str:
    """Say why a model call has not started yet."""
    return {
        "busy": gettext(language, "{model} is busy with other chats", model=model),
        "cool_down": gettext(language, "{model} has reached its rate limit", model=model),
        "budget": gettext(language, "{model} has used up its tokens for the moment", model=model),
    }[cause]


def models_failed(language: Language, reasons: Sequence[str]) -> str:
    """Say that no model answered. `reasons` names each model that was tried, and why it failed."""
    tried = "; ".join(reasons)
    if len(reasons) == 1:
        return f"{tried}."
    return gettext(language, "no model answered: {tried}.", tried=tried)


def takes_no_pictures(language: Language, model: str, others: Sequence[str]) -> str:
    """Say that a model cannot see the pictures of a message, and which models can."""
    advice = gettext(language, "Configure one that does, with pictures = true in its [model.custom.NAME].")
    if others:
        advice = gettext(language, "Use /model {others} and send it again.", others=others[0])
    return gettext(language, "🖼 {model} does not take pictures. {advice}", model=model, advice=advice)
