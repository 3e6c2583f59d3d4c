"""What the terminal itself says, in both languages. What the chat says comes from the chat."""

from dataclasses import dataclass

from rumi.texts import Language, yes_or_no


@dataclass(frozen=True, slots=True)
class Words:
    """One language's words. Those with braces are for `str.format`."""

    language: Language
    greeting: str
    leave_hint: str
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
    unconfirmed: str
    confirmed: str
    failed: str
    exit_code: str
    truncated: str
    more_lines: str
    earlier: str
    elsewhere: str
    yes: str
    no: str
    yes_or_no: str
    awaited: str
    nothing_to_send: str
    input_silent: str
    input_paused: str
    input_cut: str
    commands: tuple[tuple[str, str], ...]


_WORDS: dict[Language, Words] = {
    "en": Words(
        language="en",
        greeting="/help lists the commands · Alt-Enter starts a new line · Ctrl-D leaves",
        leave_hint="Ctrl-D or /exit leaves.",
        thinking="thinking",
        writing="writing",
        starting="starting",
        stop_hint="Ctrl-C stops",
        stopping="stopping",
        still_stopping="Still stopping; once more to leave at once.",
        not_confirmed="The stop was not confirmed in time.",
        waiting="⏳ {seconds} s · {why}",
        discarded="The reply was cut off; what it said above is void.",
        asked="It asks:",
        unconfirmed="No one can answer here, so that is a no. --yes says yes.",
        confirmed="Yes (--yes).",
        failed="failed",
        exit_code="exit {code}",
        truncated="truncated",
        more_lines="… {count} more lines",
        earlier="Earlier:",
        elsewhere="(in another window)",
        yes="yes",
        no="no",
        yes_or_no="yes/no",
        awaited="waiting for a yes or a no",
        nothing_to_send="There is nothing to send: the text is empty.",
        input_silent="Nothing came on standard input for {seconds:g} s: the turn runs without it.",
        input_paused="Standard input paused for {pause:g} s: the turn runs with what had come by then.",
        input_cut="Only the first {count} characters of standard input are used ([session] handed_chars).",
        commands=(
            ("/help", "what it can do"),
            ("/stop", "stop what is running"),
            ("/retry", "run the last unfinished message again"),
            ("/reset", "new session: container and history cleared"),
            ("/reset files", "the same, and the files are removed"),
            ("/status", "what it is doing"),
            ("/memory", "what it knows about you"),
            ("/skills", "the skills"),
            ("/exit", "leave"),
            ("/quit", "leave"),
        ),
    ),
    "es": Words(
        language="es",
        greeting="/help muestra los comandos · Alt-Enter empieza otra línea · Ctrl-D sale",
        leave_hint="Se sale con Ctrl-D o /exit.",
        thinking="pensando",
        writing="escribiendo",
        starting="empezando",
        stop_hint="Ctrl-C detiene",
        stopping="deteniendo",
        still_stopping="Todavía deteniendo; otra vez para salir ya.",
        not_confirmed="La cancelación no se confirmó a tiempo.",
        waiting="⏳ {seconds} s · {why}",
        discarded="La respuesta se cortó; lo que decía arriba no vale.",
        asked="Pregunta:",
        unconfirmed="Acá nadie puede contestar, así que es un no. Con --yes es un sí.",
        confirmed="Sí (--yes).",
        failed="falló",
        exit_code="salida {code}",
        truncated="recortado",
        more_lines="… {count} líneas más",
        earlier="De antes:",
        elsewhere="(en otra ventana)",
        yes="sí",
        no="no",
        yes_or_no="sí/no",
        awaited="esperando un sí o un no",
        nothing_to_send="No hay nada que mandar: el texto está vacío.",
        input_silent="No llegó nada por la entrada estándar en {seconds:g} s: el turno sigue sin ella.",
        input_paused="La entrada estándar hizo una pausa de {pause:g} s: el turno sigue con lo que llegó.",
        input_cut="Solo se usan los primeros {count} caracteres de la entrada ([session] handed_chars).",
        commands=(
            ("/help", "qué sabe hacer"),
            ("/stop", "detener lo que está en curso"),
            ("/retry", "repetir el último mensaje que no terminó"),
            ("/reset", "sesión nueva: contenedor e historial limpios"),
            ("/reset files", "lo mismo, y borra los archivos"),
            ("/status", "qué está haciendo"),
            ("/memory", "qué sabe de vos"),
            ("/skills", "las habilidades"),
            ("/exit", "salir"),
            ("/quit", "salir"),
        ),
    ),
}

LEAVING = frozenset({"/exit", "/quit"})
"""Commands of the terminal: they never reach the chat."""


def words_for(language: Language) -> Words:
    """The words of that language."""
    return _WORDS[language]


def is_stop(text: str) -> bool:
    """Whether a line is the command that waits for nothing."""
    return text.lower().split()[:1] == ["/stop"]


def is_answer(text: str) -> bool:
    """Whether a line is a yes or a no."""
    return yes_or_no(text) is not None
