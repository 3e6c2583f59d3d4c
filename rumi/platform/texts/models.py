"""Texts for people about errors and delays of models.

Model adapters write their error messages in English, for logs. The model chain knows the language of the
user, and shows errors to the user with these texts.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from rumi.platform.texts.language import Language, pick
from rumi.platform.texts.translation import translate

_REASONS_ES: Final[Mapping[str, str]] = {
    "auth": "el servidor rechazó la clave",
    "not_found": "el servidor no conoce ese modelo",
    "rate_limited": "llegó a su límite de uso",
    "too_large": "la conversación es demasiado larga para este modelo",
    "timeout": "dejó de responder",
    "unreachable": "no hay conexión, o se cortó",
    "server": "el servidor falló",
    "malformed": "la respuesta no se entiende",
    "empty": "la respuesta vino vacía",
    "refused": "el servidor rechazó el pedido",
}

_ADVICE_ES: Final[Mapping[str, str]] = {
    "auth": "Revisá la clave del servidor.",
    "not_found": "Elegí otro modelo con model.default o --model.",
    "too_large": "Usá /reset o un mensaje más corto.",
    "timeout": "Probá de nuevo, o subí model.timeout_s o model.first_token_timeout_s.",
    "unreachable": "Revisá la red y la dirección del servidor.",
}


def model_reason(language: Language, kind: str, model: str, message: str, detail: str) -> str:
    """Return the reason why a model did not answer, as a sentence without a full stop.

    `message` is the message of the error; `detail` is the message from the server.
    """
    said = translate(language, message)
    if language == "en" or said != message:
        return said.rstrip(". ")
    text = f"{model}: {_REASONS_ES[kind]}" if model else _REASONS_ES[kind]
    return f"{text} ({detail.rstrip('. ')})" if detail else text


def model_advice(language: Language, kind: str, advice: str) -> str:
    """Return the advice for an error of this kind, or an empty text. `advice` is the error's own advice."""
    said = translate(language, advice)
    return said if said != advice else pick(language, _ADVICE_ES.get(kind, ""), advice)


def model_retrying(language: Language, why: str) -> str:
    """Say why Rumi waits before it calls the model again."""
    return pick(language, f"{why}; lo intento de nuevo", f"{why}; trying again")


def model_falls_back(language: Language, why: str, model: str) -> str:
    """Say why the next model of the chain answers instead."""
    return pick(language, f"{why}; pruebo con {model}", f"{why}; trying {model} instead")


def model_takes_less(language: Language, model: str) -> str:
    """Say that a request was too large for the model, and that Rumi sends a shorter one."""
    return pick(
        language,
        f"{model} no admite tanto de una vez; lo acorto y pruebo de nuevo",
        f"{model} does not take so much at once; trying again with less",
    )


def model_queues(language: Language, cause: Literal["busy", "cool_down", "budget"], model: str) -> str:
    """Say why a model call has not started yet."""
    return {
        "busy": pick(language, f"{model} está ocupado con otros chats", f"{model} is busy with other chats"),
        "cool_down": pick(
            language, f"{model} llegó a su límite de uso", f"{model} has reached its rate limit"
        ),
        "budget": pick(
            language,
            f"{model} gastó sus tokens por ahora",
            f"{model} has used up its tokens for the moment",
        ),
    }[cause]


def models_failed(language: Language, reasons: Sequence[str]) -> str:
    """Say that no model answered. `reasons` names each model that was tried, and why it failed."""
    tried = "; ".join(reasons)
    if len(reasons) == 1:
        return f"{tried}."
    return pick(language, f"ningún modelo respondió: {tried}.", f"no model answered: {tried}.")


def cut_off(language: Language) -> str:
    """Say that the answer is incomplete, because it exceeds the model's limit even in several pieces."""
    return pick(
        language,
        "⚠️ La respuesta quedó cortada: es más larga de lo que el modelo puede escribir. Pedime que siga.",
        "⚠️ The answer is cut off: it is longer than the model can write. Ask me to go on.",
    )


def takes_no_pictures(language: Language, model: str, others: Sequence[str]) -> str:
    """Say that a model cannot see the pictures of a message, and which models can."""
    advice = pick(
        language,
        "Configurá uno que sí, con pictures = true en su [model.custom.NAME].",
        "Configure one that does, with pictures = true in its [model.custom.NAME].",
    )
    if others:
        advice = pick(
            language,
            f"Usá /model {others[0]} y mandala otra vez.",
            f"Use /model {others[0]} and send it again.",
        )
    return pick(
        language, f"🖼 {model} no ve imágenes. {advice}", f"🖼 {model} does not take pictures. {advice}"
    )
