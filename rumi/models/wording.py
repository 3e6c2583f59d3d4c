"""What people read of a model's troubles, in English and Spanish.

The adapters' errors are English, for logs; the chain, which knows whom it serves, says them again here.
"""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from rumi.models.limits import Cause
from rumi.models.types import FailureKind, ModelError

Language: TypeAlias = Literal["en", "es"]

_REASONS: Final[dict[FailureKind, str]] = {
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

_ADVICE: Final[dict[FailureKind, str]] = {
    "auth": "Revisá la clave del servidor.",
    "not_found": "Elegí otro modelo con model.default o --model.",
    "too_large": "Usá /reset o un mensaje más corto.",
    "timeout": "Probá de nuevo, o subí model.timeout_s.",
    "unreachable": "Revisá la red y la dirección del servidor.",
}


def reason(error: ModelError, language: Language) -> str:
    """Why a model did not answer: a sentence without its full stop."""
    if language == "en":
        return error.message.rstrip(". ")
    text = f"{error.model}: {_REASONS[error.kind]}" if error.model else _REASONS[error.kind]
    return f"{text} ({error.detail.rstrip('. ')})" if error.detail else text


def advice(error: ModelError, language: Language) -> str:
    """What to do about it, or nothing."""
    return error.advice if language == "en" else _ADVICE.get(error.kind, "")


def retrying(error: ModelError, language: Language) -> str:
    """Why there is a pause before the next attempt."""
    if language == "en":
        return f"{reason(error, language)}; trying again"
    return f"{reason(error, language)}; lo intento de nuevo"


def falling_back(error: ModelError, model: str, language: Language) -> str:
    """Why another model answers."""
    if language == "en":
        return f"{reason(error, language)}; trying {model} instead"
    return f"{reason(error, language)}; pruebo con {model}"


def queueing(cause: Cause, model: str, language: Language) -> str:
    """Why a call does not begin yet."""
    if language == "en":
        texts = {
            "busy": f"{model} is busy with other chats",
            "cool_down": f"{model} has reached its rate limit",
            "budget": f"{model} has used up its tokens for the moment",
        }
    else:
        texts = {
            "busy": f"{model} está ocupado con otros chats",
            "cool_down": f"{model} llegó a su límite de uso",
            "budget": f"{model} gastó sus tokens por ahora",
        }
    return texts[cause]


def all_failed(errors: Sequence[ModelError], language: Language) -> str:
    """What was tried, and why each did not answer."""
    tried = "; ".join(reason(error, language) for error in errors)
    if len(errors) == 1:
        return f"{tried}."
    return f"no model answered: {tried}." if language == "en" else f"ningún modelo respondió: {tried}."
