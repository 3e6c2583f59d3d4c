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


def secret_not_sent(language: Language) -> str:
    """Say that a pasted secret was neither sent nor stored."""
    return gettext(
        language,
        "🔑 That looks like a secret, so I neither sent nor stored it. Keys of language models can be pasted "
        "here; for others: rumi config set NAME -",
    )


def key_refused(language: Language) -> str:
    """Answer a message that is nothing but a secret, on a channel that cannot take keys."""
    return gettext(
        language,
        "🔑 That looks like a secret key. I did not store it and no model saw it, but it has passed through "
        "this chat: delete the message, and revoke the key at its provider. On Rumi's machine, `rumi setup` "
        "takes a new one.",
    )


def whose_key(language: Language, titles: Sequence[str], *, sure: bool) -> str:
    """Ask which provider a pasted key belongs to; `sure` is False if it may be no key at all."""
    none = gettext(language, "none of them: discard it") if sure else gettext(language, "not a key: send it")
    choices = " · ".join(f"{number} {title}" for number, title in enumerate((*titles, none), 1))
    return gettext(language, "🔑 Whose API key is this? {choices}", choices=choices)


def key_dropped(language: Language) -> str:
    """Say that a pasted key was forgotten."""
    return gettext(language, "🔑 I have forgotten the key.")


def trying_key(language: Language, title: str) -> str:
    """Say that a pasted key is being tried."""
    return gettext(language, "🔑 A key of {title}: it is not sent as a message. Trying it…", title=title)


def key_not_used(language: Language, reason: str) -> str:
    """Say why a pasted key is not used."""
    return gettext(language, "❌ The key was not stored: {reason}", reason=reason)


def key_stored(language: Language, model: str, took_s: float, path: str) -> str:
    """Say that a pasted key works, and where it is stored."""
    return gettext(
        language,
        "✓ {model} answered in {took_s} s. The key is stored in {path}.",
        model=model,
        took_s=f"{took_s:.1f}",
        path=path,
    )


def key_needs_restart(language: Language, holder: str) -> str:
    """Say that the running process must be restarted to use a new key."""
    return gettext(
        language,
        "{holder} still runs with the old settings. Close the other windows and start `rumi` again; a "
        "service needs a restart.",
        holder=holder,
    )
