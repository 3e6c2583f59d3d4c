"""What a turn asks before it does something that it may have been talked into, and what an answer is."""

from collections.abc import Mapping
from typing import Literal, TypeAlias
from unicodedata import normalize

from rumi.texts.language import Language, pick

Deed: TypeAlias = Literal[
    "fetch",
    "send_file",
    "remember",
    "forget",
    "research",
    "schedule",
    "unschedule",
    "start_bot",
    "write_skill",
    "propose_plan",
    "mcp",
]


Verdict: TypeAlias = Literal["yes", "no", "expired"]
"""What became of such a question. Only yes is a yes."""


_DEEDS: dict[Deed, tuple[str, str]] = {
    "fetch": (
        "abrir esta dirección, que no diste vos ni una página",
        "open this address, which neither you nor a page gave",
    ),
    "send_file": ("mandarte este archivo", "send you this file"),
    "remember": ("guardar esto en la memoria", "save this to memory"),
    "forget": ("olvidar esto", "forget this"),
    "research": ("investigar esto afuera", "research this outside"),
    "schedule": ("programar esto para más tarde", "schedule this for later"),
    "unschedule": ("borrar este programa", "delete this schedule"),
    "start_bot": ("arrancar este bot, que trabaja solo", "start this bot, which works on its own"),
    "propose_plan": (
        "trabajar según este plan, sin preguntar más por lo que dice",
        "work by this plan, without asking again for what it says",
    ),
    "write_skill": ("guardar esta forma de trabajar", "keep this way of working"),
    "mcp": ("llamar a esta herramienta de otro programa", "call this tool of another program"),
}


_DETAILS = {
    "url": ("dirección", "address"),
    "host": ("servidor", "server"),
    "path": ("archivo", "file"),
    "key": ("clave", "key"),
    "value": ("valor", "value"),
    "question": ("pregunta", "question"),
    "text": ("texto", "text"),
    "prompt": ("pedido", "prompt"),
    "at": ("hora", "time"),
    "in_minutes": ("en minutos", "in minutes"),
    "cron": ("cron", "cron"),
    "id": ("número", "number"),
    "hosts": ("servidores, y cuántas veces", "hosts, and how often"),
    "recipient": ("el informe va a", "the report goes to"),
    "model_calls": ("llamadas al modelo, como máximo", "model calls, at most"),
    "money": ("dinero, como máximo", "money, at most"),
    "tool": ("herramienta", "tool"),
    "arguments": ("argumentos", "arguments"),
    "hours": ("vale, en horas", "holds, in hours"),
}


SHOWN_CHARS = 1500
"""How much of one argument a question shows."""


def question(language: Language, deed: Deed, details: Mapping[str, str], *, tainted: bool = True) -> str:
    """Return what the user is asked, from the real arguments: one line each, however they were written."""
    es, en = _DEEDS[deed]
    first = pick(language, f"¿Puedo {es}?", f"May I {en}?")
    if tainted:
        first = pick(
            language,
            f"En esta charla hay cosas que leí afuera. {first}",
            f"This chat holds things from outside. {first}",
        )
    return "\n".join(
        [
            first,
            *(f"  {_detail(language, name)}: {_shown(language, value)}" for name, value in details.items()),
        ]
    )


def _detail(language: Language, name: str) -> str:
    es, en = _DETAILS.get(name, (name, name))
    return pick(language, es, en)


def _shown(language: Language, value: str) -> str:
    """Return a text on one line, without what moves a cursor, hides, or turns the direction of reading."""
    plain = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in value)
    more = len(plain) - SHOWN_CHARS
    if more <= 0:
        return plain
    return plain[:SHOWN_CHARS] + pick(
        language, f"… (y {more} caracteres más)", f"… (and {more} more characters)"
    )


_YES = frozenset({"yes", "y", "sí", "si", "s", "ok", "okay", "dale"})


_NO = frozenset({"no", "n"})


def yes_or_no(text: str) -> bool | None:
    """Return True for a yes, False for a no; None for anything else."""
    # Some systems write í as an i and an accent.
    word = normalize("NFC", text).strip().strip(".!¡ ").casefold()
    return True if word in _YES else False if word in _NO else None


def verdict(language: Language, how: Verdict) -> str:
    """Return what became of a question, in a word or two."""
    return {
        "yes": pick(language, "✅ Sí.", "✅ Yes."),
        "no": pick(language, "❌ No.", "❌ No."),
        "expired": pick(language, "⌛ Sin respuesta: no.", "⌛ No answer: no."),
    }[how]
