"""The terminal's own texts, in English and Spanish. The texts of the chat come from the chat."""

from dataclasses import dataclass

from rumi.chats.commands import NAMES as COMMAND_NAMES
from rumi.platform.texts.language import Language, in_language, pick
from rumi.platform.texts.questions import yes_or_no


@dataclass(frozen=True, slots=True)
class Phrases:
    """The terminal's texts in one language. Texts with braces are for `str.format`."""

    language: Language
    greeting: str
    leave_hint: str
    goes_on: str
    thinking: str
    writing: str
    starting: str
    stop_hint: str
    stopping: str
    still_stopping: str
    not_confirmed: str
    waiting: str
    discarded: str
    asked: str
    whole: str
    unconfirmed: str
    confirmed: str
    failed: str
    exit_code: str
    truncated: str
    step: str
    steps: str
    more_lines: str
    earlier: str
    elsewhere: str
    yes: str
    no: str
    yes_or_no: str
    awaited: str
    queued: str
    nothing_to_send: str
    input_silent: str
    input_paused: str
    input_cut: str
    too_many_files: str
    file_cut: str
    not_a_file: str
    model_in_use: str
    model_chosen: str
    copied: str
    copied_beginning: str
    copy_needs_terminal: str
    nothing_to_copy: str
    recalled: str
    commands: tuple[tuple[str, str], ...]
    workspace: str = ""
    """The folder of the chat's files; it is needed to print the paths of shown files."""


_WORDS: dict[str, tuple[str, str]] = {
    "greeting": (
        "/help muestra los comandos · Alt-Enter empieza otra línea · Ctrl-D sale",
        "/help lists the commands · Alt-Enter starts a new line · Ctrl-D leaves",
    ),
    "leave_hint": ("Se sale con Ctrl-D o exit.", "Ctrl-D or exit leaves."),
    "goes_on": (
        "El turno sigue; su respuesta queda para la próxima vez: rumi chat",
        "The turn goes on; its reply waits for you: rumi chat",
    ),
    "thinking": ("pensando", "thinking"),
    "writing": ("escribiendo", "writing"),
    "starting": ("empezando", "starting"),
    "stop_hint": ("Ctrl-C detiene", "Ctrl-C stops"),
    "stopping": ("deteniendo", "stopping"),
    "still_stopping": (
        "Todavía deteniendo; otra vez para salir ya.",
        "Still stopping; once more to leave at once.",
    ),
    "not_confirmed": ("La cancelación no se confirmó a tiempo.", "The stop was not confirmed in time."),
    "waiting": ("⏳ {seconds} s · {why}", "⏳ {seconds} s · {why}"),
    "discarded": (
        "La respuesta se cortó; lo que decía arriba no vale.",
        "The reply was cut off; what it said above is void.",
    ),
    "asked": ("Pregunta:", "It asks:"),
    "whole": ("La pregunta entera:", "The whole question:"),
    "unconfirmed": (
        "no se hizo: hacía falta tu confirmación; ejecutalo otra vez con --yes para permitirlo",
        "not done: it needed your confirmation; run again with --yes to allow it",
    ),
    "confirmed": ("Sí (--yes).", "Yes (--yes)."),
    "failed": ("falló", "failed"),
    "exit_code": ("salida {code}", "exit {code}"),
    "truncated": ("recortado", "truncated"),
    "step": ("1 paso", "1 step"),
    "steps": ("{count} pasos", "{count} steps"),
    "more_lines": ("… {count} líneas más", "… {count} more lines"),
    "earlier": ("De antes:", "Earlier:"),
    "elsewhere": ("(en otra ventana)", "(in another window)"),
    "yes": ("sí", "yes"),
    "no": ("no", "no"),
    "yes_or_no": ("sí/no", "yes/no"),
    "awaited": ("esperando un sí o un no", "waiting for a yes or a no"),
    "queued": ("{count} en cola", "{count} queued"),
    "nothing_to_send": (
        "No hay nada que mandar: el texto está vacío.",
        "There is nothing to send: the text is empty.",
    ),
    "input_silent": (
        "No llegó nada por la entrada estándar en {seconds:g} s: el turno sigue sin ella.",
        "Nothing came on standard input for {seconds:g} s: the turn runs without it.",
    ),
    "input_paused": (
        "La entrada estándar hizo una pausa de {pause:g} s: el turno sigue con lo que llegó.",
        "Standard input paused for {pause:g} s: the turn runs with what had come by then.",
    ),
    "input_cut": (
        "Solo se usan los primeros {count} caracteres de la entrada ([session] handed_chars).",
        "Only the first {count} characters of standard input are used ([session] handed_chars).",
    ),
    "too_many_files": (
        "Un mensaje lleva a lo sumo {count} archivos.",
        "A message hands on at most {count} files.",
    ),
    "file_cut": (
        "De {name} solo se usan los primeros {count} caracteres ([session] handed_chars).",
        "Only the first {count} characters of {name} are used ([session] handed_chars).",
    ),
    "not_a_file": ("{name} no es un archivo.", "{name} is not a file."),
    "model_in_use": ("Modelo de esta ventana: {model}", "Model of this window: {model}"),
    "model_chosen": (
        "Desde el próximo mensaje de esta ventana: {model}",
        "From this window's next message on: {model}",
    ),
    "copied": (
        "Última respuesta copiada: {count} caracteres, si la terminal lo permite.",
        "Copied the last answer: {count} characters, if the terminal allows it.",
    ),
    "copied_beginning": (
        "Copiado el principio de la última respuesta: {count} caracteres.",
        "Copied the beginning of the last answer: {count} characters.",
    ),
    "copy_needs_terminal": (
        "/copy necesita una terminal: copia la última respuesta a su portapapeles.",
        "/copy needs a terminal: it copies the last answer to its clipboard.",
    ),
    "nothing_to_copy": ("Todavía no hay una respuesta para copiar.", "There is no answer to copy yet."),
    "recalled": ("Lo último de esta sesión:", "The end of this session so far:"),
}

_COMMANDS = (
    ("/help", "qué sabe hacer", "what it can do"),
    ("/stop", "detener lo que está en curso", "stop what is running"),
    ("/retry", "repetir el último mensaje que no terminó", "run the last unfinished message again"),
    ("/undo", "deshacer el último turno", "take the last turn back"),
    ("/new", "sesión nueva; la anterior queda guardada", "new session; the old one stays stored"),
    ("/reset", "sesión nueva: contenedor e historial limpios", "new session: container and history cleared"),
    ("/reset files", "lo mismo, y borra los archivos", "the same, and the files are removed"),
    ("/status", "qué está haciendo", "what it is doing"),
    ("/memory", "qué sabe de vos", "what it knows about you"),
    ("/recall", "buscar en lo que se dijo: /recall CONSULTA", "find what was said: /recall QUERY"),
    ("/forget_everything", "borrar todo lo que sabe de vos", "delete all that it knows of you"),
    ("/skills", "las habilidades", "the skills"),
    ("/research", "investigar una pregunta en segundo plano", "research a question in the background"),
    ("/tasks", "las tareas; /stop y un número detiene una", "the tasks; /stop and a number stops one"),
    ("/bots", "los bots", "the bots"),
    (
        "/bot",
        "un objetivo para un bot, o algo que decirle: /bot NOMBRE TEXTO",
        "a goal for a bot, or something to say to it: /bot NAME TEXT",
    ),
    ("/wake", "despertar un bot: /wake NOMBRE", "wake a bot: /wake NAME"),
    ("/remind", "recordar algo: /remind mañana 09:00: TEXTO", "be reminded: /remind tomorrow 09:00: TEXT"),
    ("/schedules", "los recordatorios y programas", "the reminders and schedules"),
    ("/timezone", "la zona horaria", "the time zone"),
    (
        "/yes",
        "permitir lo que un turno programado preguntó: /yes 1",
        "allow what a scheduled turn asked: /yes 1",
    ),
    ("/no", "rechazarlo: /no 1", "refuse it: /no 1"),
    (
        "/model",
        "qué modelo contesta; /model PROVEEDOR:NOMBRE lo cambia",
        "the model; /model PROVIDER:NAME changes it",
    ),
    ("/copy", "la última respuesta al portapapeles", "the last answer to the clipboard"),
    ("/exit", "salir", "leave"),
    ("/quit", "salir", "leave"),
)

LEAVING = frozenset({"/exit", "/quit"})
"""Commands that leave the chat; they are never sent to it."""

TYPED_LEAVING = LEAVING | {"exit", "quit"}
"""Lines that leave the chat when a person types them."""


def words_for(language: Language, workspace: str = "") -> Phrases:
    """Return the texts in the language, for a chat whose files are in the folder `workspace`."""
    commands = tuple((name, pick(language, es, en)) for name, es, en in _COMMANDS)
    own = in_language(language, _WORDS)
    return Phrases(language=language, commands=commands, workspace=workspace, **own)


def help_of_own(words: Phrases) -> str:
    """Return the help lines of the terminal's own commands."""
    own = [(name, does) for name, does in words.commands if name.split()[0][1:] not in COMMAND_NAMES]
    return "\n".join(f"- `{name}`: {does}" for name, does in own)


def is_stop(text: str) -> bool:
    """Return True if a line is `/stop`, the command that is sent immediately."""
    return text.lower().split()[:1] == ["/stop"]


def is_answer(text: str) -> bool:
    """Return True if a line is a yes or a no."""
    return yes_or_no(text) is not None
