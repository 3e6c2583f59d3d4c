"""Check that a tool call contains only values that the user wrote in this turn's message."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from unicodedata import normalize

from rumi.models.model import Message
from rumi.platform.untrusted_text import read_block

LEAST_CHARS: Final = 4
"""Minimum length of a value that counts as the user's choice; shorter values occur in texts by chance."""

_LETTERS: Final = re.compile(r"[^\W\d_]+")
_HEXADECIMAL: Final = re.compile(r"[\W_]*0x[0-9a-f]+[\W_]*")
_LETTERS_OF_NUMBERS: Final = frozenset(
    " ".join(
        [
            "a am e p pm t z",  # powers, dates with times, halves of days
            "b cm d ft g gb h hr hrs hs k kb kg km lb m mb min mins mm ms nd px rd s sec secs st th",
            "ars aud brl btc cad chf clp cny cop dollar dollars eth eur euro euros gbp inr jpy mxn pen peso",
            "pesos pound pounds usd uyu",
        ]
    ).split()
)
_WORDS_OF_NO_CHOICE: Final = frozenset(
    ["true", "false", "null", "none", "undefined", "infinity", "-infinity"]
)
_JOINING: Final = frozenset("@._-/+%#~&?\\:")
"""Characters that can join two words into a longer unit, such as a URL, a path or a number."""


_NO_BLANK: Final = re.compile(r"(?<=[a-z0-9])\.(?=[A-Z][a-z])")
"""The end of a sentence that has no space after it, as in `www.example.org.Then`."""


def own_words(messages: Sequence[Message]) -> str:
    """Return the user's own text in these messages, without untrusted blocks and Rumi's notes."""
    said = (message.content for message in messages if message.role == "user")
    return "\n".join(text for text in said if not text.startswith("[") and read_block(text) is None)


class Words:
    """The user's own text in the message that started a turn, and what the user said during the turn."""

    def __init__(self, text: str = "") -> None:
        self._set(text)

    def add(self, text: str) -> None:
        """Add what the user says during the turn."""
        self._set(f"{self.text}\n{text}")

    def _set(self, text: str) -> None:
        self.text = text
        self._plain = plain(text)
        self._sentences = plain(_NO_BLANK.sub(". ", text))

    def have(self, value: object) -> bool:
        """Return True if the user's text contains the value, not just inside a longer word or number."""
        return stands_in(value, self._plain) or stands_in(value, self._sentences)

    def consent_to(self, value: object) -> bool:
        """Return True if the user chose the value: the text contains it, and it is not a trivial value."""
        return chooses(value) and self.have(value)

    def consent_to_all(
        self, arguments: Mapping[str, object], schema: Mapping[str, object], action_word: str = ""
    ) -> bool:
        """Return True if the user chose every value of a call, and the call has at least one value.

        Empty values and the schema's own defaults are ignored, and so are enum values that the message
        contains. `action_word` is the word of the message that names the action: a value that equals this
        word is not a choice.
        """
        chosen = False
        for argument in argument_values(arguments, schema):
            if argument.is_plain:
                continue
            if argument.listed and self.have(argument.value):
                continue
            if not self.consent_to(argument.value) or plain(str(argument.value)) == action_word:
                return False
            chosen = True
        return chosen

    def __len__(self) -> int:
        return len(self._plain.split())


def chooses(value: object) -> bool:
    """Return True if a value can express a choice: a text that is long enough and not a number.

    Numbers, booleans and short texts occur in many messages by chance.
    """
    if not isinstance(value, str):
        return False
    text = plain(value)
    if len(text) < LEAST_CHARS or text in _WORDS_OF_NO_CHOICE or not any(map(str.isalpha, text)):
        return False
    return not _is_number(text)


def _is_number(text: str) -> bool:
    """Return True for a number, a date or an amount in digits, with or without a unit."""
    if not any(map(str.isdigit, text)):
        return False
    return _HEXADECIMAL.fullmatch(text) is not None or _LETTERS_OF_NUMBERS.issuperset(_LETTERS.findall(text))


@dataclass(frozen=True, slots=True)
class ArgumentValue:
    """A value in a call's arguments, at any depth, with its name and its part of the tool's schema."""

    value: object
    name: str
    schema: Mapping[str, object]
    in_list: bool = False

    @property
    def is_plain(self) -> bool:
        """True if the value carries no information: it is empty, or the schema's constant or default."""
        if self.value is None or (isinstance(self.value, str) and not self.value.strip()):
            return True
        own = [self.schema[name] for name in ("const", "default") if name in self.schema]
        return _json(self.value) in map(_json, own)

    @property
    def listed(self) -> int:
        """The number of enum values in the schema if the schema lists this value; otherwise 0."""
        found = self.schema.get("enum")
        listed = [_json(value) for value in found] if isinstance(found, list | tuple) else []
        return len(listed) if _json(self.value) in listed else 0


def argument_values(arguments: Mapping[str, object], schema: Mapping[str, object]) -> Iterator[ArgumentValue]:
    """Yield each argument value, at any depth, and each name that the schema does not define.

    Names are included because a name can carry data too.
    """
    known = schema.get("properties")
    properties: Mapping[str, object] = known if isinstance(known, Mapping) else {}
    for name, value in arguments.items():
        schema_part = properties.get(name)
        if not isinstance(schema_part, Mapping):
            yield ArgumentValue(name, name, {})
        yield from _inside(value, name, schema_part if isinstance(schema_part, Mapping) else {})


def _inside(
    value: object, name: str, schema: Mapping[str, object], in_list: bool = False
) -> Iterator[ArgumentValue]:
    if isinstance(value, Mapping):
        for inner in argument_values(value, schema):
            yield ArgumentValue(inner.value, inner.name, inner.schema, in_list or inner.in_list)
    elif isinstance(value, list | tuple):
        items = schema.get("items")
        for item in value:
            yield from _inside(item, name, items if isinstance(items, Mapping) else {}, in_list=True)
    else:
        yield ArgumentValue(value, name, schema, in_list)


def stands_in(value: object, text: str) -> bool:
    """Return True if a `plain` text contains the value, not just inside a longer word, URL or number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return any(_stands_in(form, text) for form in _forms(value))
    return _stands_in(plain(str(value)), text)


def _forms(number: float) -> set[str]:
    """Return the usual ways to write a number."""
    if number != number or abs(number) > 1e15:
        return {str(number)}
    short = str(int(number)) if isinstance(number, int) or number.is_integer() else str(number)
    return {short, f"{number:.2f}", f"{number:,.2f}", f"{number:,.0f}" if "." not in short else short}


def _stands_in(wanted: str, text: str) -> bool:
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        end = at + len(wanted)
        if not _goes_on(wanted[-1], text[end : end + 60]) and not _goes_on(wanted[0], text[:at][-60:][::-1]):
            return True
        at = text.find(wanted, at + 1)
    return False


def _goes_on(edge: str, beyond: str) -> bool:
    """Return True if the word that ends with the character `edge` continues in the text `beyond`."""
    if not edge.isalnum() and edge not in _JOINING:
        return False
    for letter in beyond:
        if letter.isalnum():
            return True
        if letter not in _JOINING:
            return False
    return False


def plain(text: str) -> str:
    """Return a text normalized for comparison: case-folded, in NFC form, with single spaces."""
    return " ".join(normalize("NFC", text).casefold().split())


def _json(value: object) -> str:
    return json.dumps(value, default=str)
