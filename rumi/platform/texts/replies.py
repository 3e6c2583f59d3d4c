"""Replies of a chat, for all channels."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from rumi.platform.texts.language import Language, pick
from rumi.platform.texts.translation import translate

Breaker: TypeAlias = Literal["max_turns", "repeated_call", "consecutive_errors", "timeout", "budget"]


QUOTED_CHARS = 120
"""Maximum number of characters of a message that a reply quotes."""


def shortened(message: str) -> str:
    """Return a message as a quotation in a reply: on one line, and cut if it is long."""
    quoted = " ".join(message.split())
    return quoted if len(quoted) <= QUOTED_CHARS else quoted[: QUOTED_CHARS - 1] + "…"


def busy(language: Language) -> str:
    """Say that the message is rejected, because a turn runs."""
    return pick(
        language,
        "⏳ Ya estoy trabajando en algo. Esperá a que termine o mandá /stop.",
        "⏳ Already working on something. Wait for it, or send /stop.",
    )


def queued(language: Language, position: int, most: int) -> str:
    """Say that the message waits until the running turn ends; at most `most` messages can wait."""
    return pick(
        language,
        f"⏳ En cola ({position} de {most}). Va después de este turno; /stop lo descarta.",
        f"⏳ Queued ({position} of {most}). It runs after this turn; /stop drops it.",
    )


def dropped(language: Language, count: int) -> str:
    """Say how many queued messages were dropped."""
    if count == 1:
        return pick(language, "Descarté 1 mensaje en cola.", "1 queued message was dropped.")
    return pick(language, f"Descarté {count} mensajes en cola.", f"{count} queued messages were dropped.")


def stopped(language: Language) -> str:
    """Say that the turn was stopped."""
    return pick(language, "⏹ Operación cancelada.", "⏹ Stopped.")


def nothing_running(language: Language) -> str:
    """Say that no turn runs, so there is nothing to stop."""
    return pick(language, "No hay ninguna operación en curso.", "Nothing is running.")


def reset(language: Language, facts: int, *, files: bool = False) -> str:
    """Say that the session was reset, how many `facts` were saved first, and whether `files` were deleted."""
    saved = pick(language, f"📝 Guardé {facts} hechos en memoria.", f"📝 Saved {facts} facts to memory.")
    done = pick(
        language,
        "✨ Sesión reiniciada: contenedor e historial limpios.",
        "✨ Session reset: container and history cleared.",
    )
    if files:
        done = pick(
            language,
            "✨ Sesión reiniciada: contenedor, historial y archivos borrados.",
            "✨ Session reset: container, history and files deleted.",
        )
    return f"{saved}\n{done}" if facts else done


def may_delete_files(language: Language, files: int, size: str) -> str:
    """Ask for confirmation of a reset that also deletes the chat's files."""
    es, en = ("un archivo", "1 file") if files == 1 else (f"{files} archivos", f"{files} files")
    return pick(
        language,
        f"¿Borro también los archivos de este chat ({es}, {size}), además de contenedor e historial?",
        f"Delete this chat's files as well ({en}, {size}), besides container and history?",
    )


def reset_ends_work(language: Language, files: int, size: str, waits: int) -> str:
    """Ask for confirmation of a reset that stops a turn, drops the queue, and deletes the chat's files."""
    es, en = ("un archivo", "1 file") if files == 1 else (f"{files} archivos", f"{files} files")
    if waits:
        wait_es = "un mensaje espera" if waits == 1 else f"{waits} mensajes esperan"
        wait_en = "1 message waits" if waits == 1 else f"{waits} messages wait"
        return pick(
            language,
            f"Hay un turno en curso y {wait_es}. ¿Lo detengo, descarto lo que espera y borro los archivos de "
            f"este chat ({es}, {size}), el contenedor y el historial? Mandá sí o no.",
            f"A turn is running and {wait_en}. Stop it, drop what waits, and delete this chat's files "
            f"({en}, {size}), container and history? Send yes or no.",
        )
    return pick(
        language,
        f"Hay un turno en curso. ¿Lo detengo y borro los archivos de este chat ({es}, {size}), el contenedor "
        "y el historial? Mandá sí o no.",
        f"A turn is running. Stop it, and delete this chat's files ({en}, {size}), container and history? "
        "Send yes or no.",
    )


def nothing_deleted(language: Language, *, answered: bool) -> str:
    """Say that nothing was deleted, because the user did not confirm the deletion."""
    if answered:
        return pick(language, "No borré nada.", "Nothing was deleted.")
    return pick(language, "No borré nada: nadie contestó.", "Nothing was deleted: nobody answered.")


def reset_needs_yes(language: Language) -> tuple[str, str]:
    """Say that nobody can confirm the deletion of the files in a single turn, and what to do instead."""
    return pick(
        language,
        "/reset files borra los archivos del chat, y acá nadie puede confirmarlo.",
        "/reset files deletes the chat's files, and nobody can confirm that here.",
    ), pick(language, "Agregá --yes si es lo que querés.", "Add --yes if that is what you want.")


def breaker(language: Language, reason: Breaker, max_turns: int) -> str:
    """Say which circuit breaker or limit has ended the turn."""
    return {
        "max_turns": pick(
            language,
            f"⚠️ Llegué al máximo de turnos ({max_turns}).",
            f"⚠️ Reached the maximum of {max_turns} turns.",
        ),
        "repeated_call": pick(language, "⚠️ Detecté un bucle y me detuve.", "⚠️ Detected a loop and stopped."),
        "consecutive_errors": pick(language, "⚠️ Demasiados errores seguidos.", "⚠️ Too many errors in a row."),
        "timeout": pick(language, "⚠️ Se acabó el tiempo de este turno.", "⚠️ This turn ran out of time."),
        "budget": pick(language, "⚠️ Se acabaron los tokens permitidos.", "⚠️ All allowed tokens are used."),
    }[reason]


def model_failed(language: Language, why: str) -> str:
    """Say that the model could not be reached, or refused the request."""
    why = why.strip().rstrip(".")
    return pick(
        language,
        f"❌ El modelo no responde: {why}. Mandá /retry para intentarlo de nuevo.",
        f"❌ The model did not answer: {why}. Send /retry to try again.",
    )


def crashed(language: Language) -> str:
    """Say that the chat crashed during a turn."""
    return pick(
        language,
        "❌ Algo falló y lo reinicié. Mandá /retry para intentarlo de nuevo.",
        "❌ Something failed and was restarted. Send /retry to try again.",
    )


def restarted(language: Language, message: str) -> str:
    """Say that Rumi was restarted while a turn worked on the message."""
    quoted = shortened(message)
    return pick(
        language,
        f"⚠️ Me reinicié mientras trabajaba en: «{quoted}». Mandá /retry para intentarlo de nuevo.",
        f"⚠️ I was restarted while working on: “{quoted}”. Send /retry to try again.",
    )


def lost_command(language: Language, command: str) -> str:
    """Say that a crash or restart prevented a command from completing."""
    return pick(
        language,
        f"⚠️ Me reinicié antes de terminar con {command}. Mandalo de nuevo.",
        f"⚠️ I was restarted before {command} was done. Send it again.",
    )


def new_session(language: Language) -> str:
    """Say that a new session has begun."""
    return pick(
        language,
        "✨ Sesión nueva: lo anterior queda guardado, y ya no lo tengo en cuenta.",
        "✨ New session: what was said before stays stored, and I no longer go by it.",
    )


def not_confirmed(text: str, why: str) -> str:
    """Return a text followed by a warning: `why` is the reason that a part of the text is not confirmed."""
    return f"{text}\n⚠️ {why}"


def unknown_command(language: Language, name: str, meant: str = "") -> str:
    """Say that a command is unknown. Suggest the command `meant`, if it is not empty."""
    perhaps = pick(language, f"¿Quisiste decir {meant}? ", f"Did you mean {meant}? ") if meant else ""
    return pick(
        language,
        f"No conozco el comando {name}. {perhaps}Con /help ves los que hay.",
        f"I don't know the command {name}. {perhaps}/help lists those that I know.",
    )


def not_yet(language: Language, name: str) -> str:
    """Say that this version does not support a command."""
    return pick(
        language,
        f"{name} todavía no hace nada en esta versión.",
        f"{name} does nothing in this version yet.",
    )


def nothing_to_retry(language: Language) -> str:
    """Say that no turn can be retried, because every turn of the session has completed."""
    return pick(language, "No hay nada para reintentar.", "There is nothing to retry.")


def greeting(language: Language) -> str:
    """Return the greeting of a chat."""
    return pick(
        language,
        "Hola, soy Rumi. Pedime algo y lo hago en un entorno aislado: archivos, comandos, cuentas. "
        "Con /help ves los comandos.",
        "Hello, I am Rumi. Ask me for something and I do it in a sandbox: files, commands, sums. "
        "/help lists the commands.",
    )


_COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("/start", "saluda", "says hello"),
    ("/help", "esta ayuda", "this help"),
    ("/stop", "corta lo que estoy haciendo; `/stop all` corta todo, en todos los chats",
     "stops what I am doing; `/stop all` stops everything, in all chats"),
    ("/new", "empieza otra sesión; la anterior queda guardada", "new session; the old one stays stored"),
    ("/reset", "borra la sesión; `/reset files` borra también los archivos",
     "clears the session; `/reset files` deletes the files as well"),
    ("/status", "qué estoy haciendo", "what I am doing"),
    ("/retry", "repite lo último que no terminó", "runs again what did not complete"),
    ("/undo", "deshace el último turno, con sus archivos", "takes the last turn back, with its files"),
    ("/memory", "lo que sé de vos", "what I know about you"),
    ("/recall", "busca en lo que se dijo: `/recall CONSULTA`", "finds what was said: `/recall QUERY`"),
    ("/forget_everything", "borra para siempre todo lo que sé de vos", "deletes for good all I know of you"),
    ("/skills", "lo que sé hacer", "what I have learned to do"),
    ("/research", "investiga una pregunta en la web mientras seguimos",
     "researches a question on the web while we go on"),
    ("/tasks", "las tareas en segundo plano; `/stop 7` detiene la 7",
     "the tasks in the background; `/stop 7` stops number 7"),
    ("/bots", "los bots; `/stop NOMBRE` detiene uno", "the bots; `/stop NAME` stops one"),
    ("/bot", "un objetivo para un bot: `/bot NOMBRE OBJETIVO`", "a goal for a bot: `/bot NAME GOAL`"),
    ("/wake", "despierta un bot: `/wake NOMBRE`", "wakes a bot: `/wake NAME`"),
    ("/usage", "lo que se usó y los presupuestos", "what was used, and the budgets"),
    ("/allow", "permite más por hoy: `/allow 2 USD today`", "allows more today: `/allow 2 USD today`"),
    ("/remind", "te recuerda algo: `/remind mañana 09:00: TEXTO`",
     "reminds you: `/remind tomorrow 09:00: TEXT`"),
    ("/schedules", "los recordatorios; `pause|resume|run|delete N` cambia uno",
     "the reminders; `pause|resume|run|delete N` changes one"),
    ("/timezone", "tu zona horaria: `/timezone Europe/Madrid`", "your time zone: `/timezone Europe/Madrid`"),
    ("/yes", "permite lo que un turno programado dejó en espera: `/yes 1`, `/yes 1 no 2`",
     "allows what a scheduled turn has left undone: `/yes 1`, `/yes 1 no 2`"),
    ("/no", "lo rechaza: `/no 1`", "refuses it: `/no 1`"),
    ("/whoami", "quién sos, tu rol y tu presupuesto", "who you are, your role and your budget"),
    ("/share", "en un grupo: comparte un dato tuyo, `/share CLAVE`",
     "in a group: shares a fact of yours, `/share KEY`"),
    ("/unshare", "lo deja de compartir: `/unshare CLAVE`", "takes it back: `/unshare KEY`"),
)  # fmt: skip


def commands(language: Language) -> list[tuple[str, str]]:
    """Return the chat commands, each with its description."""
    return [(name, es if language == "es" else en) for name, es, en in _COMMANDS]


def help_text(language: Language, may: Callable[[str], bool] = lambda name: True) -> str:
    """Return the list of the chat commands that the person `may` use."""
    first = pick(
        language,
        "Escribí lo que necesitás con tus palabras. Comandos:",
        "Write what you need in your own words. Commands:",
    )
    shown = [command for command in commands(language) if may(command[0].removeprefix("/"))]
    return "\n".join([first, "", *(f"- `{name}`: {does}" for name, does in shown)])


def chat_status(
    language: Language,
    *,
    chat: str,
    phase: str | None,
    seconds: float,
    container: str,
    messages: int,
    queued: int = 0,
) -> str:
    """Describe one chat in two lines. `phase` is None if no turn runs. Tool calls are not translated."""
    phase = phase and translate(language, phase)
    activity = (
        pick(language, "libre", "idle")
        if phase is None
        else pick(
            language, f"trabajando hace {seconds:.0f} s: {phase}", f"working for {seconds:.0f} s: {phase}"
        )
    )
    if queued:
        activity += pick(language, f"; {queued} en cola", f"; {queued} queued")
    box = container or pick(language, "ninguno", "none")
    return pick(
        language,
        f"Chat {chat}: {activity}.\nContenedor: {box}. Mensajes en el historial: {messages}.",
        f"Chat {chat}: {activity}.\nContainer: {box}. Messages in the history: {messages}.",
    )


def no_key(language: Language, variable: str = "GROQ_API_KEY") -> str:
    """Say that the API key for the configured model is missing."""
    return pick(
        language,
        f"Sin {variable}: uso el modelo offline (escribí «ayuda» para ver qué entiende).",
        f"No {variable}: using the offline model (type “help” for what it understands).",
    )


def ways_on(language: Language, home: str, servers: Sequence[str], variable: str = "GROQ_API_KEY") -> str:
    """Say what works without an API key, and list the three ways to get a language model.

    `servers` are the local model servers that are running.
    """
    found = " · ".join(servers)
    local = pick(
        language,
        f"un servidor local: {found} responde ahora" if found else "un servidor local (Ollama, llama.cpp)",
        f"a local server: {found} answers now" if found else "a local server (Ollama, llama.cpp)",
    )
    return pick(
        language,
        f"Sin {variable} contesta el modelo offline, que entiende pedidos simples:\n"
        "«ejecuta date», «abre URL», «ayuda». Comandos, archivos, web, memoria y\n"
        "habilidades funcionan. Para un modelo de lenguaje, `rumi setup` pregunta por\n"
        "una de estas tres cosas, la prueba y la guarda:\n"
        f"  1. una clave de Groq (gratis: https://console.groq.com/keys): GROQ_API_KEY en {home}/.env\n"
        f"  2. la clave de otro proveedor (OpenAI, Anthropic …): `rumi models list`\n"
        f"  3. {local}: lo mismo, sin clave",
        f"No {variable}: the offline model answers. It understands plain requests:\n"
        "“run date”, “fetch URL”, “help”. Commands, files, the web, memory and skills\n"
        "work. For a language model, `rumi setup` asks for one of these three, tries\n"
        "it out and stores it:\n"
        f"  1. a Groq key (free: https://console.groq.com/keys): GROQ_API_KEY in {home}/.env\n"
        f"  2. another provider's key (OpenAI, Anthropic …): `rumi models list`\n"
        f"  3. {local}: the same, without a key",
    )
