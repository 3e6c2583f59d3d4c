"""Texts for people about errors and delays of models.

Model adapters write their error messages in English, for logs. The model chain knows the language of the
user, and shows errors to the user with these texts.
"""

from collections.abc import Sequence
from typing import Literal

from rumi.texts import Language, gettext


def model_retrying(language: Language, why: str) -> str:
    """Say why Rumi waits before it calls the model again."""
    return gettext(language, "{why}; trying again", why=why)


def model_falls_back(language: Language, why: str, model: str) -> str:
    """Say why the next model of the chain answers instead."""
    return gettext(language, "{why}; trying {model} instead", why=why, model=model)


def model_takes_less(language: Language, model: str) -> str:
    """Say that a request was too large for the model, and that Rumi sends a shorter one."""
    return gettext(language, "{model} does not take so much at once; trying again with less", model=model)


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


def cut_off(language: Language) -> str:
    """Say that the answer is incomplete, because it exceeds the model's limit even in several pieces."""
    return gettext(
        language, "⚠️ The answer is cut off: it is longer than the model can write. Ask me to go on."
    )


def takes_no_pictures(language: Language, model: str, others: Sequence[str]) -> str:
    """Say that a model cannot see the pictures of a message, and which models can."""
    advice = gettext(language, "Configure one that does, with pictures = true in its [model.custom.NAME].")
    if others:
        advice = gettext(language, "Use /model {others} and send it again.", others=others[0])
    return gettext(language, "🖼 {model} does not take pictures. {advice}", model=model, advice=advice)
