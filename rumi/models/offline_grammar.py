"""The grammar of the offline model: requests in English and Spanish, one tool call per step."""

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rumi.platform.unaccented import unaccented
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a request. A step without a `tool` asks for the stored facts about the user."""

    text: str
    language: Language
    tool: str | None = None
    arguments: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Unclear:
    """A step that the grammar does not understand."""

    text: str


_THEN: Final = re.compile(r";[ \t]+(?:then|luego)[ \t]+", re.IGNORECASE)
_QUOTES: Final = {'"': '"', "'": "'", "“": "”", "«": "»", "`": "`"}


def parse(text: str) -> list[Step | Unclear]:
    """Return the steps of a request, in order; at least one."""
    return [_step(part) for part in _THEN.split(text)]


def _step(text: str) -> Step | Unclear:
    # Only the beginning is stripped: `write` keeps the end of the text unchanged.
    text = text.lstrip()
    for pattern, language, tool, arguments in _RULES:
        if match := pattern.fullmatch(text):
            return Step(text.strip(), language, tool, arguments(match))
    if match := _USE_TOOL.fullmatch(text):
        arguments_of_tool = _object(match["rest"] or "{}")
        if arguments_of_tool is not None:
            spoken: Language = "en" if match["verb"].casefold().startswith("use") else "es"
            return Step(text.strip(), spoken, match["name"], arguments_of_tool)
    plain = _plain(text)
    for question, language in _ABOUT_ME:
        if question.fullmatch(plain):
            return Step(text.strip(), language)
    return Unclear(text.strip())


def language_of(text: str) -> Language | None:
    """Guess a text's language from common words; return None if both languages are equally likely."""
    words = re.findall(r"[a-z]+", _plain(text))
    spanish = sum(bool(_SPANISH.fullmatch(word)) for word in words) + bool(_SPANISH_MARKS.search(text))
    english = sum(bool(_ENGLISH.fullmatch(word)) for word in words)
    if spanish == english:
        return None
    return "es" if spanish > english else "en"


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


def _list(_: re.Match[str]) -> Mapping[str, str]:
    return {"command": "ls -A"}


def _read(match: re.Match[str]) -> Mapping[str, str]:
    return {"command": f"cat {_file(match['rest'])}"}


def _look(match: re.Match[str]) -> Mapping[str, str]:
    return {"path": _name(match["rest"])}


def _write(match: re.Match[str]) -> Mapping[str, str]:
    return {"command": f"tee {_file(match['name'])}", "stdin": match["rest"]}


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
_PATTERNS: Final[tuple[tuple[str, Language, str, _Arguments], ...]] = (
    (r"run\s" + _REST, "en", "bash", _command),
    (r"ejecut[aá]\s" + _REST, "es", "bash", _command),
    (r"\$" + _REST, "en", "bash", _command),
    (r"list(?:\s+(?:the|my|all))?\s+files[\s.!?]*", "en", "bash", _list),
    (r"list[aá](?:\s+(?:los|mis|todos\s+los))?\s+archivos[\s.!?]*", "es", "bash", _list),
    (r"look\s+at\s" + _REST, "en", "read_file", _look),
    (r"mir[aá]\s" + _REST, "es", "read_file", _look),
    (r"show\s" + _REST, "en", "send_file", _look),
    (r"mostr[aá]\s" + _REST, "es", "send_file", _look),
    (r"read\s" + _REST, "en", "bash", _read),
    (r"le[eé]\s" + _REST, "es", "bash", _read),
    (r"write\s(?P<name>[^:]*[^:\s][^:]*): ?(?P<rest>.*)", "en", "bash", _write),
    (r"escrib[eí]\s(?P<name>[^:]*[^:\s][^:]*): ?(?P<rest>.*)", "es", "bash", _write),
    (r"edit\s" + _CHANGE, "en", "edit_file", _edit),
    (r"edit[aá]\s" + _CHANGE, "es", "edit_file", _edit),
    (r"fetch\s" + _REST, "en", "web_fetch", _fetch),
    (r"abr[eí]\s" + _REST, "es", "web_fetch", _fetch),
    (r"download\s+(?P<name>\S+)\s+(?:as|to)\s" + _REST, "en", "web_fetch", _download),
    (r"(?:descarg|baj)[aá]\s+(?P<name>\S+)\s+(?:como|en)\s" + _REST, "es", "web_fetch", _download),
    (r"research\s+repo\s+(?P<name>\S*[/.]\S*?):?\s" + _REST, "en", "research_repo", _repository),
    (r"investig[aá]\s+repo\s+(?P<name>\S*[/.]\S*?):?\s" + _REST, "es", "research_repo", _repository),
    (r"research\s" + _REST, "en", "research", _research),
    (r"investig[aá]\s" + _REST, "es", "research", _research),
    (r"what\s+did\s+(?:we|i|you)\s+(?:say|decide|talk)\s+(?:about|on)?\s*" + _REST, "en", "recall", _search),
    (r"recall\s" + _REST, "en", "recall", _search),
    (
        r"¿?\s*qu[eé]\s+(?:dijimos|dije|dijiste|decidimos|hablamos)\s+(?:de|del|sobre)?\s*" + _REST,
        "es",
        "recall",
        _search,
    ),
    (r"search\s" + _REST, "en", "web_search", _search),
    (r"busc[aá]\s" + _REST, "es", "web_search", _search),
    (r"remind\s+me\s+(?P<name>[^\n]+?):\s" + _REST, "en", "remind", _remind),
    (r"rec(?:o|ue|ué)rdame\s+(?P<name>[^\n]+?):\s" + _REST, "es", "remind", _remind),
    (r"remember\s(?P<name>[^=]*[^=\s][^=]*)=" + _REST, "en", "remember", _remember),
    (r"record[aá]\s(?P<name>[^=]*[^=\s][^=]*)=" + _REST, "es", "remember", _remember),
    (r"recuerda\s(?P<name>[^=]*[^=\s][^=]*)=" + _REST, "es", "remember", _remember),
    (r"forget\s" + _REST, "en", "forget", _forget),
    (r"olvid[aá]\s" + _REST, "es", "forget", _forget),
    (r"use\s+(?:the\s+)?skill\s+(?P<name>[^:\s]+)\s*(?::(?P<rest>.*))?", "en", "use_skill", _skill),
    (r"us[aá]\s+(?:la\s+)?skill\s+(?P<name>[^:\s]+)\s*(?::(?P<rest>.*))?", "es", "use_skill", _skill),
)
_RULES: Final = [
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), language, tool, arguments)
    for pattern, language, tool, arguments in _PATTERNS
]
_ABOUT_ME: Final[list[tuple[re.Pattern[str], Language]]] = [
    (re.compile(r"what\s+do\s+you\s+know\s+about\s+me"), "en"),
    (re.compile(r"que\s+sabes\s+(?:de|sobre)\s+mi"), "es"),
]
