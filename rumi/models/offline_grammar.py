"""The grammar of the demo model: requests in English, Spanish and Portuguese, one tool call per step."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rumi.models.offline_commands import command_of, is_command
from rumi.models.offline_facts import fact_in
from rumi.models.offline_sums import read_sum
from rumi.platform.unaccented import unaccented
from rumi.texts import Language

Topic: TypeAlias = Literal["facts", "time", "hello", "thanks", "help", "sum"]
"""What a step asks that the model answers itself, without a tool."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a request: a tool call, or a `topic`. `answer` is the answer to a sum; empty for `1/0`."""

    text: str
    language: Language
    tool: str | None = None
    arguments: Mapping[str, object] | None = None
    topic: Topic = "facts"
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Unclear:
    """A step that the grammar does not understand."""

    text: str


_THEN: Final = re.compile(r";[ \t]+(?:then|luego|depois)[ \t]+", re.IGNORECASE)
_PLEASE: Final = re.compile(r"(?:please|por favor)[,:]?\s+(?=\S)", re.IGNORECASE)
_QUOTES: Final = {'"': '"', "'": "'", "“": "”", "«": "»", "`": "`"}


def parse(text: str, language: Language = "en") -> list[Step | Unclear]:
    """Return the steps of a request, in order; at least one. `language` is that of a bare sum or command."""
    return [_step(part, language) for part in _THEN.split(text)]


def _step(text: str, language: Language) -> Step | Unclear:
    # Only the beginning is stripped: `write` keeps the end of the text unchanged.
    text = text.lstrip()
    text = _PLEASE.sub("", text, count=1) if _PLEASE.match(text) else text
    base = language.partition("_")[0]
    if is_command(text):
        return Step(text.strip(), base, "bash", {"command": command_of(text)})
    for pattern, spoken, tool, arguments in _RULES:
        if match := pattern.fullmatch(text):
            return Step(text.strip(), spoken, tool, arguments(match))
    if (fact := fact_in(text)) is not None:
        return Step(text.strip(), fact.language, "remember", fact.arguments)
    if match := _USE_TOOL.fullmatch(text):
        arguments_of_tool = _object(match["rest"] or "{}")
        if arguments_of_tool is not None:
            said: Language = "en" if match["verb"].casefold().startswith("use") else "es"
            return Step(text.strip(), said, match["name"], arguments_of_tool)
    plain = _plain(text)
    for question, spoken, topic in _TOPICS:
        if question.fullmatch(plain):
            return Step(text.strip(), spoken or base, topic=topic)
    if (found := read_sum(text, base)) is not None:
        answer, spoken = found
        return Step(text.strip(), spoken, topic="sum", answer=answer)
    return Unclear(text.strip())


def language_of(text: str) -> Language | None:
    """Guess a text's language from common words; return None if both languages are equally likely."""
    words = re.findall(r"[a-z]+", _plain(text))
    counts = {
        "es": sum(bool(_SPANISH.fullmatch(word)) for word in words) + bool(_SPANISH_MARKS.search(text)),
        "en": sum(bool(_ENGLISH.fullmatch(word)) for word in words),
        "pt": sum(bool(_PORTUGUESE.fullmatch(word)) for word in words) + bool(_PORTUGUESE_MARKS.search(text)),
    }
    first, second = sorted(counts, key=counts.__getitem__, reverse=True)[:2]
    return first if counts[first] > counts[second] else None


_PORTUGUESE_MARKS: Final = re.compile(r"[ãõçêôâÃÕÇÊÔÂ]")
_PORTUGUESE: Final = re.compile(
    r"ola|oi|obrigad[oa]|que|quais|qual|onde|quem|os|as|um|uma|de|do|da|dos|das|em|no|na|por|para|com|sem|meus?|minhas?|seus?|suas?"
    r"|voce|sou|e|esta|pode|quero|preciso|faca|faz|diga|ajuda|execute|rode|liste|leia|mostre|escreva|edite"
    r"|abra|baixe|busque|procure|pesquise|lembre|esqueca|depois|arquivos?|agora|horas"
)
_SPANISH_MARKS: Final = re.compile(r"[¿¡ñáéíóúÁÉÍÓÚ]")
_SPANISH: Final = re.compile(
    r"hola|buenas|gracias|que|como|cual|donde|quien|el|los|las|un|una|de|del|en|por|para|con|sin|mi|mis|tu|sos"
    r"|eres|soy|es|esta|puedes|podes|quiero|necesito|haz|hace|dime|decime|ayuda|ejecuta|lista|lee|mira|mostra|escribe|edita"
    r"|abre|descarga|busca|investiga|recuerda|olvida|usa|luego|archivos?"
)
_ENGLISH: Final = re.compile(
    r"hello|hi|hey|thanks|please|what|how|which|where|who|the|an|of|for|with|without|my|your|you|are|is|can"
    r"|could|want|need|do|make|tell|help|run|list|read|look|show|write|edit|fetch|download|search|remember|forget|use|then|files?"
)

_USE_TOOL: Final = re.compile(
    r"(?P<verb>use\s+tool|us[aá]\s+(?:la\s+)?herramienta)\s+(?P<name>[A-Za-z0-9_-]{1,64})\s*(?P<rest>\{.*\})?\s*",
    re.IGNORECASE | re.DOTALL,
)


def _object(text: str) -> Mapping[str, object] | None:
    """Return the JSON object in `text`; None if it is not a JSON object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


_Arguments = Callable[[re.Match[str]], Mapping[str, str]]


def _command(match: re.Match[str]) -> Mapping[str, str]:
    return {"command": match["rest"].strip()}


def _today(_: re.Match[str]) -> Mapping[str, str]:
    return {}


def _list(_: re.Match[str]) -> Mapping[str, str]:
    return {"command": "ls -A"}


def _read(match: re.Match[str]) -> Mapping[str, str]:
    return {"command": f"cat {_file(match['rest'])}"}


def _delete(match: re.Match[str]) -> Mapping[str, str]:
    return {"command": f"rm {_file(match['rest'])}"}


def _look(match: re.Match[str]) -> Mapping[str, str]:
    return {"path": _name(match["rest"])}


def _write(match: re.Match[str]) -> Mapping[str, str]:
    name = _name(match["name"])
    folder = name.rpartition("/")[0]
    made = f"mkdir -p {_file(folder)} && " if folder else ""
    return {"command": f"{made}tee {_file(name)}", "stdin": match["rest"]}


def _edit(match: re.Match[str]) -> Mapping[str, str]:
    return {"path": _name(match["name"]), "old_text": match["old"], "new_text": match["rest"]}


def _fetch(match: re.Match[str]) -> Mapping[str, str]:
    return {"url": match["rest"].strip().strip("<>")}


def _download(match: re.Match[str]) -> Mapping[str, str]:
    return {"url": match["name"].strip("<>"), "save": _name(match["rest"])}


def _search(match: re.Match[str]) -> Mapping[str, str]:
    return {"query": match["rest"].strip()}


def _remember(match: re.Match[str]) -> Mapping[str, str]:
    return {"key": match["name"].strip(), "value": match["rest"].strip()}


def _forget(match: re.Match[str]) -> Mapping[str, str]:
    return {"key": match["rest"].strip()}


def _skill(match: re.Match[str]) -> Mapping[str, str]:
    return {"name": match["name"].strip(), "input": (match["rest"] or "").strip()}


def _research(match: re.Match[str]) -> Mapping[str, str]:
    return {"question": match["rest"].strip()}


def _repository(match: re.Match[str]) -> Mapping[str, str]:
    return {"uri": match["name"].strip("<>"), "question": match["rest"].strip()}


def _remind(match: re.Match[str]) -> Mapping[str, str]:
    return {"at": match["name"].strip(), "text": match["rest"].strip()}


def _file(name: str) -> str:
    """Return a file name quoted as one word of a shell command; the word cannot be taken for an option."""
    name = _name(name)
    return shlex.quote(f"./{name}" if name.startswith("-") else name)


def _name(name: str) -> str:
    """Return a file name without surrounding quotes."""
    name = name.strip()
    return name[1:-1] if len(name) > 1 and _QUOTES.get(name[0]) == name[-1] else name


def _plain(text: str) -> str:
    """Return the text in lower case, without accents and without question and exclamation marks around it."""
    return unaccented(text).strip(" \t\n¿?¡!.")


_REST: Final = r"(?P<rest>\s*\S.*)"
_CHANGE: Final = r"(?P<name>[^:]*[^:\s][^:]*): ?(?P<old>.+?) => ?(?P<rest>.*)"
# A name with spaces needs quotes or an ending: `write me a poem: …` names no file.
_NAMED: Final = r"(?P<name>\s*(?:[^:\s]+|[\"'“«`][^:]+[\"'”»`]|[^:\n]*[^:\s]\.\w{1,8})\s*): ?(?P<rest>.*)"
# `delete everything` and `remove the bug` name no file.
_PATH: Final = r"(?P<rest>(?:[^\s*?\"'“«`]*[./][^\s*?\"'“«`]*\w/?|[\"'“«`][^\n]+[\"'”»`]))\s*"
_URL: Final = r"\s*(?P<rest><?\S*(?:://|\w\.\w|localhost)\S*)\s*"
_FACT: Final = r"(?P<name>[^=]*[^=\s][^=]*)=" + _REST
_CLOCK: Final = r"(?:(?:at|a\s+las?|[àa]s?)\s+\d{1,2}(?::\d\d)?|\d{1,2}:\d\d)(?:\s?[ap]m|\s?hs?)?"
_IN: Final = (
    r"(?:in|en|em|dentro\s+de|daqui\s+a)\s+\d+\s+"
    r"(?:minutes?|mins?|minutos?|hours?|horas?|days?|d[ií]as?|weeks?|semanas?)"
)
_DAY: Final = (
    r"(?:tomorrow|today|tonight|(?:pasado\s+)?ma[nñ]ana|hoy|esta\s+noche|amanh[ãa]|hoje"
    r"|(?:on\s+|el\s+)?(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|lunes|martes|mi[eé]rcoles|jueves|viernes|s[aá]bado|domingo))"
)
_WHEN: Final = rf"(?:{_IN}|{_DAY},?\s+{_CLOCK}|{_CLOCK})"
"""A time as a person says it in a sentence. The reminder tool reads it, and refuses what is unclear."""

_PATTERNS: Final[tuple[tuple[str, Language, str, _Arguments], ...]] = (
    (r"run\s" + _REST, "en", "bash", _command),
    (r"ejecut[aá]\s" + _REST, "es", "bash", _command),
    (r"(?:execute|rode)\s" + _REST, "pt", "bash", _command),
    (r"\$" + _REST, "en", "bash", _command),
    (r"(?:list|show)(?:\s+me)?(?:\s+(?:the|my|all|all\s+my))?\s+files[\s.!?]*", "en", "bash", _list),
    (
        r"(?:list|mu[eé]str|mostr)[aá](?:me)?(?:\s+(?:los|mis|todos\s+los|todos\s+mis))?\s+archivos[\s.!?]*",
        "es",
        "bash",
        _list,
    ),
    (r"(?:liste|mostre)(?:\s+(?:os|meus|os\s+meus|todos\s+os))?\s+arquivos[\s.!?]*", "pt", "bash", _list),
    (r"look\s+at\s" + _REST, "en", "read_file", _look),
    (r"mir[aá]\s" + _REST, "es", "read_file", _look),
    (r"show\s" + _REST, "en", "send_file", _look),
    (r"(?:mostr|muestr)[aá]\s" + _REST, "es", "send_file", _look),
    (r"mostre\s" + _REST, "pt", "send_file", _look),
    (r"read\s" + _REST, "en", "bash", _read),
    (r"le[eé]\s" + _REST, "es", "bash", _read),
    (r"leia\s" + _REST, "pt", "bash", _read),
    (r"(?:delete|remove)\s" + _PATH, "en", "bash", _delete),
    (r"(?:borr|elimin)[aá]\s" + _PATH, "es", "bash", _delete),
    (r"(?:apague|exclua)\s" + _PATH, "pt", "bash", _delete),
    (r"write\s" + _NAMED, "en", "bash", _write),
    (r"escrib[eí]\s" + _NAMED, "es", "bash", _write),
    (r"escreva\s" + _NAMED, "pt", "bash", _write),
    (r"edit\s" + _CHANGE, "en", "edit_file", _edit),
    (r"edit[aá]\s" + _CHANGE, "es", "edit_file", _edit),
    (r"edite\s" + _CHANGE, "pt", "edit_file", _edit),
    (r"(?:fetch|open)\s" + _URL, "en", "web_fetch", _fetch),
    (r"abr[eí]\s" + _URL, "es", "web_fetch", _fetch),
    (r"abra\s" + _URL, "pt", "web_fetch", _fetch),
    (r"download\s+(?P<name>\S+)\s+(?:as|to)\s" + _REST, "en", "web_fetch", _download),
    (r"(?:descarg|baj)[aá]\s+(?P<name>\S+)\s+(?:como|en)\s" + _REST, "es", "web_fetch", _download),
    (r"baixe\s+(?P<name>\S+)\s+(?:como|em)\s" + _REST, "pt", "web_fetch", _download),
    (r"research\s+repo\s+(?P<name>\S*[/.]\S*?):?\s" + _REST, "en", "research_repo", _repository),
    (r"investig[aá]\s+repo\s+(?P<name>\S*[/.]\S*?):?\s" + _REST, "es", "research_repo", _repository),
    (r"research\s" + _REST, "en", "research", _research),
    (r"investig[aá]\s" + _REST, "es", "research", _research),
    (r"pesquise\s" + _REST, "pt", "research", _research),
    (
        r"(?:(?:my|show\s+my)\s+)?(?:calendar|agenda)(?:\s+(?:for\s+)?today)?[\s.!?]*",
        "en",
        "calendar_read",
        _today,
    ),
    (r"(?:mi\s+)?calendario(?:\s+de\s+hoy)?[\s.!?]*|mi\s+agenda[\s.!?]*", "es", "calendar_read", _today),
    (
        r"(?:meu\s+)?calend[aá]rio(?:\s+de\s+hoje)?[\s.!?]*|minha\s+agenda[\s.!?]*",
        "pt",
        "calendar_read",
        _today,
    ),
    (r"what\s+did\s+(?:we|i|you)\s+(?:say|decide|talk)\s+(?:about|on)?\s*" + _REST, "en", "recall", _search),
    (r"recall\s" + _REST, "en", "recall", _search),
    (
        r"¿?\s*qu[eé]\s+(?:dijimos|dije|dijiste|decidimos|hablamos)\s+(?:de|del|sobre)?\s*" + _REST,
        "es",
        "recall",
        _search,
    ),
    (r"search\s+(?:for\s+)?" + _REST, "en", "web_search", _search),
    (r"busc[aá]\s" + _REST, "es", "web_search", _search),
    (r"busque\s" + _REST, "pt", "web_search", _search),
    (r"remind\s+me\s+(?P<name>[^\n]+?):\s" + _REST, "en", "remind", _remind),
    (rf"remind\s+me\s+(?P<name>{_WHEN})\s+(?:to|that|about)\s" + _REST, "en", "remind", _remind),
    (
        rf"remind\s+me\s+(?:to|that|about)\s(?P<rest>\S.*?)\s+(?P<name>{_WHEN})[\s.!]*",
        "en",
        "remind",
        _remind,
    ),
    (r"rec(?:o|ue|ué)rdame\s+(?P<name>[^\n]+?):\s" + _REST, "es", "remind", _remind),
    (rf"rec(?:o|ue|ué)rdame\s+(?P<name>{_WHEN}),?\s+(?:que\s)?" + _REST, "es", "remind", _remind),
    (
        rf"rec(?:o|ue|ué)rdame\s+(?:que\s+)?(?P<rest>\S.*?)\s+(?P<name>{_WHEN})[\s.!]*",
        "es",
        "remind",
        _remind,
    ),
    (r"(?:me\s+lembre|lembre-me)\s+(?P<name>[^\n]+?):\s" + _REST, "pt", "remind", _remind),
    (
        rf"(?:me\s+lembre|lembre-me)\s+(?P<name>{_WHEN}),?\s+(?:de\s|que\s)?" + _REST,
        "pt",
        "remind",
        _remind,
    ),
    (
        rf"(?:me\s+lembre|lembre-me)\s+(?:de\s+|que\s+)?(?P<rest>\S.*?)\s+(?P<name>{_WHEN})[\s.!]*",
        "pt",
        "remind",
        _remind,
    ),
    (r"remember\s" + _FACT, "en", "remember", _remember),
    (r"record[aá]\s" + _FACT, "es", "remember", _remember),
    (r"recuerda\s" + _FACT, "es", "remember", _remember),
    (r"lembre\s" + _FACT, "pt", "remember", _remember),
    (r"forget\s" + _REST, "en", "forget", _forget),
    (r"olvid[aá]\s" + _REST, "es", "forget", _forget),
    (r"esque[çc]a\s" + _REST, "pt", "forget", _forget),
    (r"use\s+(?:the\s+)?skill\s+(?P<name>[^:\s]+)\s*(?::(?P<rest>.*))?", "en", "use_skill", _skill),
    (r"us[aá]\s+(?:la\s+)?skill\s+(?P<name>[^:\s]+)\s*(?::(?P<rest>.*))?", "es", "use_skill", _skill),
)
_RULES: Final = [
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), language, tool, arguments)
    for pattern, language, tool, arguments in _PATTERNS
]
# Questions and greetings that the model answers itself, in the form of `_plain`. Without a language, the
# answer is in that of the chat.
_QUESTIONS: Final[tuple[tuple[str, Language, Topic], ...]] = (
    (r"what\s+do\s+you\s+(?:know|remember)\s+about\s+me", "en", "facts"),
    (r"que\s+(?:sabes|recuerdas|recordas)\s+(?:de|sobre)\s+mi", "es", "facts"),
    (r"o\s+que\s+(?:voce\s+)?sabe\s+(?:de|sobre)\s+mim", "pt", "facts"),
    (
        r"what(?:'s|’s| is)?\s+(?:the\s+)?(?:time|date|day)(?:\s+is\s+(?:it|today))?"
        r"(?:\s+(?:now|today))?",
        "en",
        "time",
    ),
    (r"what(?:'s|’s| is)\s+today(?:'s|’s)\s+date", "en", "time"),
    (r"que\s+(?:hora|dia|fecha)(?:\s+es)?(?:\s+(?:hoy|ahora))?", "es", "time"),
    (r"(?:a\s+)?que\s+fecha\s+estamos", "es", "time"),
    (r"que\s+horas?\s+sao(?:\s+agora)?|que\s+dia\s+e\s+hoje", "pt", "time"),
    (r"(?:hello|hi|hey|good\s+(?:morning|afternoon|evening))(?:\s+(?:there|rumi))?", "en", "hello"),
    (r"(?:hola|buen(?:os|as)\s+(?:dias|tardes|noches)|buenas|buen\s+dia)(?:\s+rumi)?", "es", "hello"),
    (r"(?:ola|oi|bom\s+dia|boa\s+(?:tarde|noite))(?:\s+rumi)?", "pt", "hello"),
    (
        r"(?:many\s+)?thanks(?:\s+a\s+lot|\s+so\s+much)?|thank\s+you(?:\s+(?:very|so)\s+much)?|thx",
        "en",
        "thanks",
    ),
    (r"(?:muchas\s+|mil\s+)?gracias", "es", "thanks"),
    (r"(?:muito\s+)?obrigad[oa]", "pt", "thanks"),
    (r"what\s+can\s+(?:you|i)\s+do(?:\s+(?:for\s+me|here))?|what\s+do\s+you\s+understand", "en", "help"),
    (r"que\s+(?:puedes|podes|sabes)\s+hacer(?:\s+por\s+mi)?|ayuda(?:me)?", "es", "help"),
    (r"o\s+que\s+(?:voce\s+)?(?:pode|sabe)\s+fazer|ajuda", "pt", "help"),
    (r"help(?:\s+me)?|who\s+are\s+you", "", "help"),
    (r"quien\s+eres|quien\s+sos", "es", "help"),
)
_TOPICS: Final = [(re.compile(pattern), language, topic) for pattern, language, topic in _QUESTIONS]
