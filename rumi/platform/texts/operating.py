"""Texts for people about a running Rumi: failed chats, attached clients, the log."""

from collections.abc import Sequence

from rumi.platform.texts.replies import shortened
from rumi.texts import Language, Text, gettext, translate


def gave_up(language: Language) -> str:
    """Return the reply to a message whose chat crashed too often and reached its restart limit."""
    return gettext(
        language,
        "❌ This chat failed several times in a row and was stopped. Your next message starts it "
        "afresh; /retry tries the last one again.",
    )


def daemon_gone(language: Language) -> str:
    """Say that the daemon of an attached client has ended."""
    return gettext(language, "The process that served this chat has ended. Starting another one…")


def chat_moves(language: Language) -> str:
    """Say that another worker takes over the chat of an attached client."""
    return gettext(language, "Another worker takes over this chat…")


def perhaps_lost(language: Language, text: str) -> tuple[str, str]:
    """Say that a message may be lost because the daemon ended while the client sent it, and what to do."""
    quoted = shortened(text)
    return gettext(language, "I don't know whether this arrived: “{quoted}”.", quoted=quoted), gettext(
        language, "If no reply follows, send it again."
    )


def other_settings(language: Language, daemon: str, keys: Sequence[str]) -> str:
    """Say which settings and keys of an attached client are ignored, because the daemon's values differ."""
    named = ", ".join(keys)
    return gettext(
        language,
        "These settings of this window do not apply: {named}. {daemon} started with other settings and "
        "is busy.",
        named=named,
        daemon=daemon,
    )


def log_turn_finished(language: Language, turn: str, reason: str, tokens: int, cached: int) -> str:
    """Return the log's line for the end of a turn. People filter by `reason`, so it is not translated."""
    text = gettext(
        language, "turn {turn}: {reason}, {tokens} tokens", turn=turn, reason=reason, tokens=tokens
    )
    return text + gettext(language, " ({cached} cached)", cached=cached) if cached else text


def log_model_call(language: Language, model: str, tokens: int, usd: float) -> str:
    """Return the log's line for a model call."""
    text = gettext(language, "call of {model}: {tokens} tokens", model=model, tokens=tokens)
    return f"{text}, {usd:.4f} USD" if usd else text


def log_confirmed(language: Language, verdict: str) -> str:
    """Return the log's line for the answer to a confirmation question."""
    words = {
        "yes": gettext(language, "answered: yes"),
        "no": gettext(language, "answered: no"),
        "expired": gettext(language, "nobody answered in time"),
    }
    return words.get(verdict, verdict)


def log_actor(language: Language, event: str, actor: str, error: str) -> str:
    """Return the log's line for a crash, a restart or the end of an actor."""
    words = {
        "crashed": gettext(language, "{actor} crashed", actor=actor),
        "restarted": gettext(language, "{actor} was restarted", actor=actor),
        "failed": gettext(language, "{actor} gave up", actor=actor),
    }
    said = words.get(event, f"{actor} {event}")
    return f"{said}: {error}" if error else said


def log_columns(language: Language) -> tuple[str, ...]:
    """Return the column headings of the log's summary, such as day, chat, turns, tools and failures."""
    titles = (
        Text("day"),
        Text("chat"),
        Text("turns"),
        Text("tools"),
        Text("failed"),
        Text("tokens"),
        Text("time"),
        Text("longest"),
    )
    return tuple(translate(language, title) for title in titles)


def short_duration(seconds: float) -> str:
    """Return a duration such as `12 ms`, `3.2 s`, `2 min 05 s`, `3 h 05 min` or `7 d 00 h`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours < 48 else f"{hours // 24} d {hours % 24:02} h"


def short_size(count: float) -> str:
    """Return a number of bytes in a suitable unit: `812 B`, `4.1 MB`."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
