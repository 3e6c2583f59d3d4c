"""Texts for people about a running Rumi: failed chats, attached clients, the log."""

from collections.abc import Sequence

from rumi.platform.texts.language import Language, pick
from rumi.platform.texts.replies import shortened


def gave_up(language: Language) -> str:
    """Return the reply to a message whose chat crashed too often and reached its restart limit."""
    return pick(
        language,
        "❌ Este chat falló varias veces seguidas y lo detuve. Tu próximo mensaje lo empieza de nuevo;"
        " /retry intenta otra vez el último.",
        "❌ This chat failed several times in a row and was stopped. Your next message starts it afresh;"
        " /retry tries the last one again.",
    )


def attached(language: Language, daemon: str, model: str) -> str:
    """Return the first line that a client prints after it has attached to the daemon."""
    return pick(language, f"Ventana de {daemon} · modelo {model}", f"A window on {daemon} · model {model}")


def daemon_gone(language: Language) -> str:
    """Say that the daemon of an attached client has ended."""
    return pick(
        language,
        "El proceso que atendía este chat terminó. Empiezo otro…",
        "The process that served this chat has ended. Starting another one…",
    )


def chat_moves(language: Language) -> str:
    """Say that another worker takes over the chat of an attached client."""
    return pick(
        language,
        "Otro proceso se hace cargo de este chat…",
        "Another worker takes over this chat…",
    )


def perhaps_lost(language: Language, text: str) -> tuple[str, str]:
    """Say that a message may be lost because the daemon ended while the client sent it, and what to do."""
    quoted = shortened(text)
    return pick(
        language, f"No se sabe si llegó: «{quoted}».", f"It is not known whether this arrived: “{quoted}”."
    ), pick(language, "Si no hay respuesta, mandalo de nuevo.", "If no reply follows, send it again.")


def moved(language: Language, model: str) -> str:
    """Say that the chat continues in another process, and which model it uses."""
    return pick(language, f"El chat sigue · modelo {model}", f"The chat goes on · model {model}")


def other_settings(language: Language, daemon: str, keys: Sequence[str]) -> str:
    """Say which settings and keys of an attached client are ignored, because the daemon's values differ."""
    named = ", ".join(keys)
    return pick(
        language,
        f"Esta configuración de la ventana no se aplica: {named}. {daemon} empezó con otra y tiene trabajo.",
        f"These settings of this window do not apply: {named}. {daemon} began with others and is at work.",
    )


def waiting_for(language: Language, lock_holder: str) -> str:
    """Say that a client waits, because the process that has locked the home does not accept clients."""
    return pick(language, f"Esperando a {lock_holder}…", f"Waiting for {lock_holder}…")


def log_waiting(language: Language, seconds: float, why: str) -> str:
    """Return the log's line for a turn that waits for the model."""
    return pick(language, f"espera {seconds:.0f} s: {why}", f"waits {seconds:.0f} s: {why}")


def log_queued(language: Language, position: int) -> str:
    """Return the log's line for a message that waits for the running turn."""
    return pick(language, f"un mensaje espera, lugar {position}", f"a message waits, place {position}")


def log_turn_started(language: Language, turn: str) -> str:
    """Return the log's line for the start of a turn."""
    return pick(language, f"empieza el turno {turn}", f"turn {turn} begins")


def log_turn_finished(language: Language, turn: str, reason: str, tokens: int, cached: int) -> str:
    """Return the log's line for the end of a turn. People filter by `reason`, so it is not translated."""
    text = pick(
        language,
        f"termina el turno {turn}: {reason}, {tokens} tokens",
        f"turn {turn}: {reason}, {tokens} tokens",
    )
    return text + pick(language, f" ({cached} de la caché)", f" ({cached} cached)") if cached else text


def log_model_call(language: Language, model: str, tokens: int, usd: float) -> str:
    """Return the log's line for a model call."""
    text = pick(language, f"llamada a {model}: {tokens} tokens", f"call of {model}: {tokens} tokens")
    return f"{text}, {usd:.4f} USD" if usd else text


def log_confirm(language: Language, text: str) -> str:
    """Return the log's line for a confirmation question."""
    return pick(language, f"pregunta: {text}", f"asks: {text}")


def log_confirmed(language: Language, verdict: str) -> str:
    """Return the log's line for the answer to a confirmation question."""
    words = {
        "yes": pick(language, "respuesta: sí", "answered: yes"),
        "no": pick(language, "respuesta: no", "answered: no"),
        "expired": pick(language, "nadie respondió a tiempo", "nobody answered in time"),
    }
    return words.get(verdict, verdict)


def log_refused(language: Language) -> str:
    """Return the beginning of the log's line for a refused tool call."""
    return pick(language, "no se hizo", "not done")


def log_replied(language: Language) -> str:
    """Return the log's line for a reply that does not end a turn."""
    return pick(language, "responde", "replies")


def log_actor(language: Language, event: str, actor: str, error: str) -> str:
    """Return the log's line for a crash, a restart or the end of an actor."""
    words = {
        "crashed": pick(language, f"{actor} se cayó", f"{actor} crashed"),
        "restarted": pick(language, f"{actor} empezó de nuevo", f"{actor} was restarted"),
        "failed": pick(language, f"{actor} falló demasiadas veces y quedó detenido", f"{actor} gave up"),
    }
    said = words.get(event, f"{actor} {event}")
    return f"{said}: {error}" if error else said


def log_columns(language: Language) -> tuple[str, ...]:
    """Return the column headings of the log's summary, such as day, chat, turns, tools and failures."""
    if language == "es":
        return ("día", "chat", "turnos", "herr.", "fallos", "tokens", "tiempo", "el mayor")
    return ("day", "chat", "turns", "tools", "failed", "tokens", "time", "longest")


def log_empty(language: Language, path: str) -> str:
    """Say that no entry of the log matches the filter."""
    return pick(language, f"No hay nada de eso en {path}.", f"Nothing of that kind is in {path}.")


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
