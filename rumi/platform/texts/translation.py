"""Sentences that were made in English, for people who read Spanish.

Errors, commands and figures are made deep inside, where it is not known who will read them; logs, the audit
log, programs and models get them in English. At the edge, where a person reads, `told` says them in their
language. The catalogue `rumi.platform.texts.spanish` has each sentence by its English one, with `{names}` for
values.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from rumi.errors import RumiError, single
from rumi.platform.redact import Redactor
from rumi.platform.texts.language import Language

MOST_CHARS: Final = 4000
"""A longer text is not one of our sentences."""

MOST_PARTS: Final = 12
"""Sentences in a row that are looked at one by one."""

DEEPEST: Final = 4
"""How often a sentence may hold another one."""

MOST_ERROR_CHARS: Final = 300
"""Of an error that is not one of ours."""

INNER: Final = frozenset({"why", "rest", "advice", "source", "what", "holder"})
"""Places whose values may be sentences of ours themselves. Other values stay as they are."""

_LONG: Final = frozenset({"why", "rest", "advice"})
"""Places whose values may be several sentences."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_WITHIN_A_SENTENCE = r"(?:(?![.!?…]\s).)+?"
_BETWEEN = re.compile(r"(?<=[.!?…])\s+")


class _Template(NamedTuple):
    english: re.Pattern[str]
    spanish: str
    literal: str
    weight: int


def translate(language: Language, text: str) -> str:
    """Return the text in that language; unchanged if the catalogue does not have it."""
    if language == "en" or not text or len(text) > MOST_CHARS:
        return text
    return "\n".join(_line(line, DEEPEST) for line in text.split("\n"))


def error_text(language: Language, error: BaseException) -> str:
    """Return what a person reads of an error, in that language; every place that shows one asks here.

    One of ours is its sentence and its advice. Any other, which is a fault, is its type and its words on one
    line of `MOST_ERROR_CHARS`. A group of one error is that error, and the crash of an actor its cause.
    """
    error = single(error)
    if isinstance(error, RumiError):
        return f"{translate(language, error.message)} {translate(language, error.advice)}".strip()
    from actors import ActorError  # behind the start of a command line that fails in no such way

    if isinstance(error, ActorError) and error.__cause__ is not None:
        return error_text(language, error.__cause__)
    text = Redactor(()).text(" ".join(str(error).split()))  # words of a library, or of a server
    return f"{type(error).__name__}: {text}"[:MOST_ERROR_CHARS] if text else type(error).__name__


def _line(line: str, depth: int) -> str:
    bare = line.strip()
    if not bare:
        return line
    parts, known = _in_parts(bare, depth)
    found = parts if known else _whole(bare, depth)
    return line.replace(bare, parts if found is None else found, 1)


def _whole(text: str, depth: int) -> str | None:
    """Return the translation of one entry of the catalogue: of several, that with the most own words."""
    exact, templates = _catalogue()
    if (known := exact.get(text)) is not None:
        return known
    for template in templates:
        if template.literal in text and (match := template.english.fullmatch(text)) is not None:
            values = match.groupdict()
            for name in INNER & values.keys() if depth else ():
                values[name] = _line(values[name], depth - 1)
            return template.spanish.format_map(values)
    return None


def _in_parts(text: str, depth: int) -> tuple[str, bool]:
    """Sentence by sentence, as many in a row as are one of the catalogue's; whether all of them are in it."""
    parts = _BETWEEN.split(text)
    if not 1 < len(parts) <= MOST_PARTS:
        return text, False
    known = True
    said: list[str] = []
    at = 0
    while at < len(parts):
        for end in range(len(parts), at, -1):
            if (at, end) != (0, len(parts)) and (found := _whole(" ".join(parts[at:end]), depth)) is not None:
                said.append(found)
                at = end
                break
        else:
            said.append(parts[at])
            at += 1
            known = False
    return " ".join(said), known


@cache
def _catalogue() -> tuple[Mapping[str, str], tuple[_Template, ...]]:
    from rumi.platform.texts.spanish import SENTENCES

    exact = {english: spanish for english, spanish in SENTENCES.items() if not _PLACEHOLDER.search(english)}
    templates = [
        _compiled(english, spanish) for english, spanish in SENTENCES.items() if english not in exact
    ]
    return exact, tuple(sorted(templates, key=lambda template: -template.weight))


def _compiled(english: str, spanish: str) -> _Template:
    literals = _PLACEHOLDER.split(english)[::2]
    names = _PLACEHOLDER.findall(english)
    pattern = re.escape(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        value = ".+?" if name in _LONG else _WITHIN_A_SENTENCE
        pattern += f"(?P<{name}>{value})" + re.escape(literal)
    return _Template(re.compile(pattern), spanish, max(literals, key=len), sum(map(len, literals)))
