"""Translation of English sentences for people who read Spanish.

Rumi's errors, help texts and figures are written in English, because the code that writes them does not know
who will read them. Logs, programs and models get the English texts. Where a person reads a text, `translate`
converts it to the person's language. The catalogue `rumi.platform.texts.spanish` maps English sentences to
Spanish ones, with placeholders such as `{name}` for values.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from rumi.errors import RumiError, single
from rumi.platform.redact import Redactor
from rumi.platform.texts.language import Language

MOST_CHARS: Final = 4000
"""Maximum length of a text to translate, in characters. The catalogue contains no longer texts."""

MOST_PARTS: Final = 12
"""Maximum number of sentences in a text that is translated sentence by sentence."""

DEEPEST: Final = 4
"""Maximum depth at which a translated sentence is nested in the placeholder values of other sentences."""

MOST_ERROR_CHARS: Final = 300
"""Maximum length of the text that is shown for an error that is not a `RumiError`."""

INNER: Final = frozenset({"why", "rest", "advice", "source", "what", "holder"})
"""Placeholders whose values may be sentences of the catalogue. Other placeholders' values stay unchanged."""

_LONG: Final = frozenset({"why", "rest", "advice"})
"""Placeholders whose values may consist of several sentences."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_WITHIN_A_SENTENCE = r"(?:(?![.!?…]\s).)+?"
_BETWEEN = re.compile(r"(?<=[.!?…])\s+")


class _Template(NamedTuple):
    english: re.Pattern[str]
    spanish: str
    literal: str
    weight: int


def translate(language: Language, text: str) -> str:
    """Translate a text to the language, line by line. Parts that are not in the catalogue stay in English."""
    if language == "en" or not text or len(text) > MOST_CHARS:
        return text
    return "\n".join(_line(line, DEEPEST) for line in text.split("\n"))


def error_text(language: Language, error: BaseException) -> str:
    """Return the text of an error in the reader's language. All code that shows errors uses this function.

    The text of a `RumiError` is the message and the advice. Any other error is a bug: its text is the type
    and the message, on one line of at most `MOST_ERROR_CHARS` characters. A group of one error is shown as
    that error. The crash of an actor is shown as the cause of the crash.
    """
    error = single(error)
    if isinstance(error, RumiError):
        return f"{translate(language, error.message)} {translate(language, error.advice)}".strip()
    from actors import ActorError  # imported here: the start of a command line must not load it

    if isinstance(error, ActorError) and error.__cause__ is not None:
        return error_text(language, error.__cause__)
    # The text is from a library or a server, so it may contain a secret.
    text = Redactor(()).text(" ".join(str(error).split()))
    return f"{type(error).__name__}: {text}"[:MOST_ERROR_CHARS] if text else type(error).__name__


def _line(line: str, depth: int) -> str:
    bare = line.strip()
    if not bare:
        return line
    parts, known = _in_parts(bare, depth)
    found = parts if known else _whole(bare, depth)
    return line.replace(bare, parts if found is None else found, 1)


def _whole(text: str, depth: int) -> str | None:
    """Translate a text that matches one entry of the catalogue as a whole; return None if no entry matches.

    If several entries match, the one with the most literal text is used.
    """
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
    """Translate a text sentence by sentence; return the result, and True if all sentences were translated.

    Consecutive sentences that match one entry of the catalogue are translated together, longest run first.
    """
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
