"""What people read, in Spanish and English: the one place that says it."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

Language: TypeAlias = Literal["es", "en"]
Breaker: TypeAlias = Literal["max_turns", "repeated_call", "consecutive_errors", "timeout"]

QUOTED_CHARS = 120
"""How much of a message is quoted back to its sender."""


def detect_language(setting: Literal["auto", "es", "en"], environment: Mapping[str, str]) -> Language:
    """The language of the configuration; with `auto` that of the environment's locale, otherwise English.

    The C locale says nothing about a person: servers set it so that programs agree.
    """
    if setting != "auto":
        return setting
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        locale = environment.get(name, "").lower()
        if locale and locale.split(".")[0] not in ("c", "posix"):
            return "es" if locale.startswith("es") else "en"
    return "en"


def _pick(language: Language, es: str, en: str) -> str:
    return es if language == "es" else en


def busy(language: Language) -> str:
    """A message came while a turn runs."""
    return _pick(
        language,
        "⏳ Ya estoy trabajando en algo. Esperá a que termine o mandá /stop.",
        "⏳ Already working on something. Wait for it, or send /stop.",
    )


def stopped(language: Language) -> str:
    """The turn was stopped."""
    return _pick(language, "⏹ Operación cancelada.", "⏹ Stopped.")


def nothing_running(language: Language) -> str:
    """There was nothing to stop."""
    return _pick(language, "No hay ninguna operación en curso.", "Nothing is running.")


def reset(language: Language, facts: int) -> str:
    """The session was reset; `facts` were saved before."""
    saved = _pick(language, f"📝 Guardé {facts} hechos en memoria.", f"📝 Saved {facts} facts to memory.")
    done = _pick(
        language,
        "✨ Sesión reiniciada: contenedor e historial limpios.",
        "✨ Session reset: container and history cleared.",
    )
    return f"{saved}\n{done}" if facts else done


def breaker(language: Language, reason: Breaker, max_turns: int) -> str:
    """A circuit breaker or the turn's time limit tripped."""
    return {
        "max_turns": _pick(
            language,
            f"⚠️ Llegué al máximo de turnos ({max_turns}).",
            f"⚠️ Reached the maximum of {max_turns} turns.",
        ),
        "repeated_call": _pick(language, "⚠️ Detecté un bucle y me detuve.", "⚠️ Detected a loop and stopped."),
        "consecutive_errors": _pick(
            language, "⚠️ Demasiados errores seguidos.", "⚠️ Too many errors in a row."
        ),
        "timeout": _pick(language, "⚠️ Se acabó el tiempo de este turno.", "⚠️ This turn ran out of time."),
    }[reason]


def model_failed(language: Language, why: str) -> str:
    """The model could not be reached or refused."""
    why = why.strip().rstrip(".")
    return _pick(
        language,
        f"❌ El modelo no responde: {why}. Mandá /retry para intentarlo de nuevo.",
        f"❌ The model did not answer: {why}. Send /retry to try again.",
    )


def crashed(language: Language) -> str:
    """The chat crashed during a turn."""
    return _pick(
        language,
        "❌ Algo falló y lo reinicié. Mandá /retry para intentarlo de nuevo.",
        "❌ Something failed and was restarted. Send /retry to try again.",
    )


def restarted(language: Language, message: str) -> str:
    """The program was restarted while it worked on a message."""
    quoted = " ".join(message.split())
    if len(quoted) > QUOTED_CHARS:
        quoted = quoted[: QUOTED_CHARS - 1] + "…"
    return _pick(
        language,
        f"⚠️ Me reinicié mientras trabajaba en: «{quoted}». Mandá /retry para intentarlo de nuevo.",
        f"⚠️ I was restarted while working on: “{quoted}”. Send /retry to try again.",
    )


def lost_command(language: Language, command: str) -> str:
    """A command was not done before a crash or a restart."""
    return _pick(
        language,
        f"⚠️ Me reinicié antes de terminar con {command}. Mandalo de nuevo.",
        f"⚠️ I was restarted before {command} was done. Send it again.",
    )


def not_confirmed(text: str, why: str) -> str:
    """Behind what was done, what is not known to be done."""
    return f"{text}\n⚠️ {why}"


def stranger(language: Language, user: int) -> str:
    """Someone who is not on the list wrote."""
    return _pick(
        language,
        f"No te conozco todavía. Tu id es {user}; pedile al dueño que lo agregue a allowed_users.",
        f"I don't know you yet. Your id is {user}; ask the owner to add it to allowed_users.",
    )


def unknown_command(language: Language, name: str) -> str:
    """Something that looks like a command and is none."""
    return _pick(
        language,
        f"No conozco el comando {name}. Con /help ves los que hay.",
        f"I don't know the command {name}. /help lists those that I know.",
    )


def not_yet(language: Language, name: str) -> str:
    """A command that this version does not serve."""
    return _pick(
        language,
        f"{name} todavía no hace nada en esta versión.",
        f"{name} does nothing in this version yet.",
    )


def nothing_to_retry(language: Language) -> str:
    """Every turn of the session completed."""
    return _pick(language, "No hay nada para reintentar.", "There is nothing to retry.")


def greeting(language: Language) -> str:
    """The first words."""
    return _pick(
        language,
        "Hola, soy Rumi. Pedime algo y lo hago en un entorno aislado: archivos, comandos, cuentas. "
        "Con /help ves los comandos.",
        "Hello, I am Rumi. Ask me for something and I do it in a sandbox: files, commands, sums. "
        "/help lists the commands.",
    )


_COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("/start", "saluda", "says hello"),
    ("/help", "esta ayuda", "this help"),
    ("/stop", "corta lo que estoy haciendo", "stops what I am doing"),
    ("/reset", "borra la sesión; `/reset files` borra también los archivos",
     "clears the session; `/reset files` deletes the files as well"),
    ("/status", "qué estoy haciendo", "what I am doing"),
    ("/retry", "repite lo último que no terminó", "runs again what did not complete"),
    ("/memory", "lo que sé de vos", "what I know about you"),
    ("/skills", "lo que sé hacer", "what I have learned to do"),
)  # fmt: skip


def commands(language: Language) -> list[tuple[str, str]]:
    """The chat commands, each with what it does."""
    return [(name, es if language == "es" else en) for name, es, en in _COMMANDS]


def help_text(language: Language) -> str:
    """What can be said here."""
    first = _pick(
        language,
        "Escribí lo que necesitás con tus palabras. Comandos:",
        "Write what you need in your own words. Commands:",
    )
    return "\n".join([first, "", *(f"- `{name}`: {does}" for name, does in commands(language))])


def chat_status(
    language: Language, *, chat: str, phase: str | None, seconds: float, container: str, messages: int
) -> str:
    """One chat in a line or two. `phase` is None when nothing runs."""
    doing = (
        _pick(language, "libre", "idle")
        if phase is None
        else _pick(
            language, f"trabajando hace {seconds:.0f} s: {phase}", f"working for {seconds:.0f} s: {phase}"
        )
    )
    box = container or _pick(language, "ninguno", "none")
    return _pick(
        language,
        f"Chat {chat}: {doing}.\nContenedor: {box}. Mensajes en el historial: {messages}.",
        f"Chat {chat}: {doing}.\nContainer: {box}. Messages in the history: {messages}.",
    )


def no_key(language: Language) -> str:
    """There is no key for the model of the configuration."""
    return _pick(
        language,
        "Sin GROQ_API_KEY: uso el modelo offline (escribí «ayuda» para ver qué entiende).",
        "No GROQ_API_KEY: using the offline model (type “help” for what it understands).",
    )


def unsupported(language: Language, what: str) -> str:
    """A message of a kind that cannot be worked on. `what` is a key of `_KINDS_OF_MESSAGES`, or else any."""
    es, en = _KINDS_OF_MESSAGES.get(what, ("este tipo de mensaje", "this kind of message"))
    return _pick(
        language,
        f"No sé qué hacer con {es}. Mandame texto, una foto, un archivo o un mensaje de voz.",
        f"I cannot do anything with {en}. Send me text, a photo, a file or a voice message.",
    )


_KINDS_OF_MESSAGES = {
    "sticker": ("un sticker", "a sticker"),
    "animation": ("una animación", "an animation"),
    "video_note": ("un mensaje de video", "a video message"),
    "poll": ("una encuesta", "a poll"),
    "location": ("una ubicación", "a location"),
    "contact": ("un contacto", "a contact"),
    "dice": ("un dado", "a die"),
    "game": ("un juego", "a game"),
    "story": ("una historia", "a story"),
}


def file_too_large(language: Language, name: str, limit_mb: float) -> str:
    """A file that came is larger than what is taken."""
    return _pick(
        language,
        f"El archivo {name} es demasiado grande: puedo recibir hasta {limit_mb:g} MB.",
        f"The file {name} is too large: I can take up to {limit_mb:g} MB.",
    )


def no_ears(language: Language) -> str:
    """A voice message came, and there is nothing that could write it down."""
    return _pick(
        language,
        "No puedo escuchar mensajes de voz: falta GROQ_API_KEY. Escribime, por favor.",
        "I cannot listen to voice messages: there is no GROQ_API_KEY. Please write to me.",
    )


def not_brought(language: Language, why: str) -> str:
    """What came with a message could not be had."""
    why = why.strip().rstrip(".")
    return _pick(
        language,
        f"❌ No pude recibir lo que mandaste: {why}. Mandá /retry para intentarlo de nuevo.",
        f"❌ I could not get what you sent: {why}. Send /retry to try again.",
    )


def tool_runs(language: Language, what: str) -> str:
    """The line below a growing answer while a tool works."""
    return _pick(language, f"🔧 trabajando: {what}", f"🔧 working: {what}")


def thinking(language: Language) -> str:
    """Where an answer will grow, before its first word."""
    return _pick(language, "💭 pensando…", "💭 thinking…")


def serving(language: Language, bot: str, users: int) -> str:
    """The bot is there. `bot` is its name, empty while Telegram cannot be reached; `users` may talk to it."""
    if not bot:
        return _pick(
            language,
            "Telegram no responde todavía; lo sigo intentando. Con Ctrl-C termino.",
            "Telegram does not answer yet; I keep trying. Ctrl-C ends me.",
        )
    return _pick(
        language,
        f"Atiendo a @{bot}. Personas que pueden hablarle: {users}. Con Ctrl-C termino.",
        f"Serving @{bot}. People who may talk to it: {users}. Ctrl-C ends me.",
    )


def nobody_allowed(language: Language) -> str:
    """The list of users is empty."""
    return _pick(
        language,
        "Nadie puede hablarle todavía. Escribile al bot: te dice tu id. Ponelo en config.toml: "
        "[telegram] allowed_users = [TU_ID]",
        "Nobody may talk to it yet. Write to the bot: it tells you your id. Put that into config.toml: "
        "[telegram] allowed_users = [YOUR_ID]",
    )


def winding_down(language: Language, patience_s: float) -> str:
    """The program was told to end."""
    return _pick(
        language,
        f"Termino: espero hasta {patience_s:.0f} s a que acabe lo que está en marcha. Otro Ctrl-C lo corta.",
        f"Ending: waiting up to {patience_s:.0f} s for what is running. Ctrl-C again cuts it short.",
    )
