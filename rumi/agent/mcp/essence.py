"""What matters of a tool's description when it is compared with the accepted one.

A description is text for models: any new word in it may be an instruction, so a new word is a change. These
are none: another order of words (servers make texts from sets), another date, time or small number (a count
of files), another form of the same schema, a keyword that models never get.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from rumi.agent.mcp.described import DescriptionChange, schema_for_models
from rumi.models.schemas import SchemaError
from rumi.platform.untrusted_text import harmless

_DAY: Final = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
_MONTH: Final = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_VARIES: Final = re.compile(
    # dates and times: 2026-11-27T12:03:11.5+01:00, 12:03, 27.11.2026, Fri, 27 Nov 2026, November 27th, 2026
    r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[t ][0-9:.]+(?:z|[+-][0-9]{2}:?[0-9]{2})?)?\b"
    r"|\b[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?(?: ?[ap]m)?(?: ?(?:utc|gmt|z))?\b"
    r"|\b[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}\b"
    rf"|\b(?:{_DAY},? +)?[0-9]{{1,2}}(?:st|nd|rd|th)? +{_MONTH}\b(?:,? +[0-9]{{4}}\b)?"
    rf"|\b(?:{_DAY},? +)?{_MONTH} +[0-9]{{1,2}}(?:st|nd|rd|th)?\b(?:,? +[0-9]{{4}}\b)?"
    r"|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
    r"|(?<![\w.])1[6-9][0-9]{8}(?:[0-9]{3})?(?:\.[0-9]+)?(?![\w.])"  # seconds or milliseconds since 1970
    # counts and durations; no part of an address, a version or an account number
    r"|(?<![\w.:/@-])[0-9]{1,4}(?:\.[0-9]+)?(?:ms|s|%)?(?![\w:/@-]|\.[0-9])",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[0-9]+(?:[.:][0-9]+)+|[^\W_]+")
_UNORDERED: Final = frozenset({"required", "enum", "examples", "anyOf"})


def words_of(text: str) -> list[str]:
    """Return the words of a text in alphabetical order, without dates, times and small numbers.

    A word that occurs twice is there twice, so that repetition is a change too.
    """
    return sorted(_WORD.findall(_VARIES.sub(" ", harmless(text)).casefold()))


def essence_of(said: Mapping[str, object]) -> str:
    """Return a digest of what matters in a tool's description (`rumi.agent.mcp.described.said_of`)."""
    return _essence(json.dumps(said, sort_keys=True, default=dict))


@lru_cache(4096)
def _essence(text: str) -> str:
    said = json.loads(text)
    parameters = said.get("parameters")
    parameters = parameters if isinstance(parameters, Mapping) else {}
    try:
        schema = schema_for_models(parameters).schema
    except SchemaError:
        schema = dict(parameters)
    # "No hint" and "destructive" are the same, and "not destructive" has no effect on a tool that only reads.
    denies = said.get("destructive") is False and not said.get("read_only")
    destructive = "denied" if denies else said.get("destructive") is True
    hints = [said.get("read_only"), said.get("open_world"), destructive]
    essence = [words_of(str(said.get("description") or "")), hints, _schema(schema, "")]
    return hashlib.sha256(json.dumps(essence, sort_keys=True).encode()).hexdigest()


def _schema(schema: object, name: str) -> object:
    """Return what matters of a normalised schema; `name` is the property that it describes."""
    if not isinstance(schema, Mapping):
        return schema
    found: dict[str, Any] = {}
    for word, value in schema.items():
        if word == "description":
            found[word] = words_of(str(value))
        elif word == "title":
            if _plain(value) != _plain(name):  # generators make titles from names
                found[word] = words_of(str(value))
        elif word == "properties":
            found[word] = {key: _schema(inner, key) for key, inner in value.items()}
        elif word == "default" and isinstance(value, str) and not words_of(value):
            found[word] = bool(value)  # the time of the start
        elif word in _UNORDERED and isinstance(value, list):
            found[word] = sorted((_schema(item, name) for item in value), key=json.dumps)
        elif word != "additionalProperties" or value is not False:
            found[word] = _schema(value, name)
    return found


def _plain(text: object) -> str:
    return re.sub(r"[\W_]+", "", str(text)).casefold()


MOST_LINES: Final = 8
MOST_LINE_CHARS: Final = 200


def briefly(changes: Sequence[DescriptionChange]) -> list[str]:
    """Return the changes of a description that matter, a short line each, for a status."""
    lines = [line for change in changes if (line := _line(change))]
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"… +{more}"]


def _line(change: DescriptionChange) -> str:
    before, now = change.before, change.now
    if before is None or now is None or change.path.rpartition(".")[2] != "description":
        return f"{change.path}: {_cut(before)} → {_cut(now)}"
    old, new = Counter(words_of(_text(before))), Counter(words_of(_text(now)))
    words = [f"+{word}" for word in (new - old)] + [f"-{word}" for word in (old - new)]
    return _cut(f"{change.path}: {' '.join(words)}") if words else ""


def _text(value: str) -> str:
    """Return the text in a JSON value."""
    return str(json.loads(value))


def _cut(text: str | None) -> str:
    text = "-" if text is None else text
    return text if len(text) <= MOST_LINE_CHARS else f"{text[: MOST_LINE_CHARS - 1]}…"
