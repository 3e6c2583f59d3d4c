"""What people read about a Rumi that runs: a chat that gave up, windows on it, its log."""

from rumi.texts.language import Language, pick
from rumi.texts.replies import shortened


def gave_up(language: Language) -> str:
    """The reply to what a chat was at when it crashed once too often."""
    return pick(
        language,
        "❌ Este chat falló varias veces seguidas y lo detuve. Tu próximo mensaje lo empieza de nuevo;"
        " /retry intenta otra vez el último.",
        "❌ This chat failed several times in a row and was stopped. Your next message starts it afresh;"
        " /retry tries the last one again.",
    )


def attached(language: Language, holder: str, model: str) -> str:
    """The first line of a window on another process."""
    return pick(language, f"Ventana de {holder} · modelo {model}", f"A window on {holder} · model {model}")


def holder_gone(language: Language) -> str:
    """The process that a window was on has ended."""
    return pick(
        language,
        "El Rumi que atendía este chat terminó. Sigo sin él…",
        "The Rumi that served this chat has ended. Going on without it…",
    )


def perhaps_lost(language: Language, text: str) -> tuple[str, str]:
    """The process ended while it was sent a message, and what to do."""
    quoted = shortened(text)
    return pick(
        language, f"No se sabe si llegó: «{quoted}».", f"It is not known whether this arrived: “{quoted}”."
    ), pick(language, "Si no hay respuesta, mandalo de nuevo.", "If no reply follows, send it again.")


def moved(language: Language, model: str) -> str:
    """Another process serves the chat from now on: this one, or that of another window."""
    return pick(language, f"El chat sigue · modelo {model}", f"The chat goes on · model {model}")


def other_project(language: Language) -> str:
    """The skills of the folder in which a window was opened do not count."""
    return pick(
        language,
        "Las habilidades de esta carpeta (.rumi/skills) no cuentan acá: ese Rumi empezó en otra.",
        "The skills of this folder (.rumi/skills) do not count here: that Rumi began in another one.",
    )


def waiting_for(language: Language, holder: str) -> str:
    """The home is held by something that takes no windows, or not yet."""
    return pick(language, f"Esperando a {holder}…", f"Waiting for {holder}…")


def windows_at_work(language: Language, count: int) -> str:
    """Leaving would end the work of other windows."""
    if count == 1:
        return pick(
            language,
            "Espero a que termine lo que hace otra ventana; Ctrl-C lo corta.",
            "Waiting for what another window is at; Ctrl-C ends it.",
        )
    return pick(
        language,
        f"Espero a que termine lo que hacen otras {count} ventanas; Ctrl-C lo corta.",
        f"Waiting for what {count} other windows are at; Ctrl-C ends it.",
    )


def log_waiting(language: Language, seconds: float, why: str) -> str:
    """A line of the log: the model is waited for."""
    return pick(language, f"espera {seconds:.0f} s: {why}", f"waits {seconds:.0f} s: {why}")


def log_turn_started(language: Language, turn: str) -> str:
    """A line of the log."""
    return pick(language, f"empieza el turno {turn}", f"turn {turn} begins")


def log_turn_finished(language: Language, turn: str, reason: str, tokens: int, cached: int) -> str:
    """A line of the log. `reason` is the log's own word, so that people can filter by it."""
    text = pick(
        language,
        f"termina el turno {turn}: {reason}, {tokens} tokens",
        f"turn {turn}: {reason}, {tokens} tokens",
    )
    return text + pick(language, f" ({cached} de la caché)", f" ({cached} cached)") if cached else text


def log_confirm(language: Language, text: str) -> str:
    """A line of the log."""
    return pick(language, f"pregunta: {text}", f"asks: {text}")


def log_confirmed(language: Language, verdict: str) -> str:
    """A line of the log."""
    words = {
        "yes": pick(language, "respuesta: sí", "answered: yes"),
        "no": pick(language, "respuesta: no", "answered: no"),
        "expired": pick(language, "nadie respondió a tiempo", "nobody answered in time"),
    }
    return words.get(verdict, verdict)


def log_replied(language: Language) -> str:
    """A line of the log: a reply that was no turn's."""
    return pick(language, "responde", "replies")


def log_actor(language: Language, event: str, actor: str, error: str) -> str:
    """A line of the log: what happened to a part of the program."""
    words = {
        "crashed": pick(language, f"{actor} se cayó", f"{actor} crashed"),
        "restarted": pick(language, f"{actor} empezó de nuevo", f"{actor} was restarted"),
        "failed": pick(language, f"{actor} falló demasiadas veces y quedó detenido", f"{actor} gave up"),
    }
    said = words.get(event, f"{actor} {event}")
    return f"{said}: {error}" if error else said


def log_columns(language: Language) -> tuple[str, ...]:
    """The heads of the summary's columns: day, chat, turns, tools, failures, tokens, time, longest turn."""
    if language == "es":
        return ("día", "chat", "turnos", "herr.", "fallos", "tokens", "tiempo", "el mayor")
    return ("day", "chat", "turns", "tools", "failed", "tokens", "time", "longest")


def log_empty(language: Language, path: str) -> str:
    """Nothing in the log is what was asked for."""
    return pick(language, f"No hay nada de eso en {path}.", f"Nothing of that kind is in {path}.")


def short_duration(seconds: float) -> str:
    """`12 ms`, `3.2 s`, `2 min 05 s`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s"


def short_size(count: float) -> str:
    """Bytes in the unit that fits: `812 B`, `4.1 MB`."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
