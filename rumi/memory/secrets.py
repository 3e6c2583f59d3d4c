"""Detects secrets in facts. Every prompt contains facts, so these must not contain secrets.

A secret can only be detected by its form: by the patterns of `rumi.platform.secret_forms` and, in a fact, by
the name of its key. A password that looks like a word under a neutral key (`wifi = sunflower`) is not
detected.
"""

import re
from typing import Final

from rumi.memory.messages import NewFact
from rumi.platform.redact import Redactor
from rumi.platform.secret_forms import ABOUT_ONE, CLEAR, made_up

_REDACTOR: Final = Redactor(())

_AMBIGUOUS: Final = r"claves?|pin|tokens?"
"""Words that name a secret only together with a text that looks like one."""

_NAMES_ONE: Final = re.compile(rf"(?:^|[\W_])(?:{CLEAR})(?:$|[\W_])", re.IGNORECASE)
_MAY_NAME_ONE: Final = re.compile(rf"(?:^|[\W_])(?:{_AMBIGUOUS})(?:$|[\W_])", re.IGNORECASE)
_HINTS_AT_ONE: Final = re.compile(
    rf"(?:^|[\W_])(?:{_AMBIGUOUS}|secrets?|secretos?)(?:$|[\W_])", re.IGNORECASE
)
_NUMBERED: Final = re.compile(r"[^\W\d_]+[0-9]{1,2}")
"""A word with a number, as people write in examples: value1."""
_STATED: Final = re.compile(
    rf"(?:^|[\W_])(?:{_AMBIGUOUS})\b[^:=.,;]{{0,40}}?(?:[:=]|\b(?:is|are|es|son)\b)[\s:=]*(?P<value>\S+)",
    re.IGNORECASE,
)

_HOLDS_NUMBERS: Final = re.compile(
    r"\b(?:cards?|tarjetas?|accounts?|cuentas?|iban|cbu|visa|mastercard|amex)\b", re.IGNORECASE
)
_LONG_NUMBER: Final = re.compile(r"[0-9](?:[ .-]?[0-9]){7,}")


def looks_secret(fact: NewFact) -> bool:
    """Return True if a fact seems to contain a key, a password or a card number."""
    return any(map(_holds_one, (fact.key, fact.value))) or _is_named(fact)


def mentions_secret(fact: NewFact) -> bool:
    """Return True if a fact mentions a secret at all.

    This check is too strict for facts that a user asks to remember.
    """
    whole = f"{fact.key} {fact.value}"
    if ABOUT_ONE.search(whole):
        return False
    return (
        _NAMES_ONE.search(whole) is not None
        or _HINTS_AT_ONE.search(fact.key) is not None
        or (_HINTS_AT_ONE.search(whole) is not None and any(map(made_up, fact.value.split())))
        or (_HOLDS_NUMBERS.search(whole) is not None and _LONG_NUMBER.search(whole) is not None)
    )


def _holds_one(text: str) -> bool:
    stated = _STATED.search(text)
    return _REDACTOR.text(text) != text or (stated is not None and made_up(stated["value"]))


def _is_named(fact: NewFact) -> bool:
    """Return True if the key names a secret and the value is short or contains a word like a password."""
    words = fact.value.split()
    if ABOUT_ONE.search(fact.key):
        return False
    if _NAMES_ONE.search(fact.key) and len(words) <= 2:
        return True
    if _NAMES_ONE.search(fact.key):
        return any(map(made_up, words))
    unusual = (word for word in words if not _NUMBERED.fullmatch(word))
    return _MAY_NAME_ONE.search(fact.key) is not None and any(map(made_up, unusual))
