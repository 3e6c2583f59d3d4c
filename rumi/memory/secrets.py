"""Recognises secrets, because every prompt contains facts and must not contain secrets.

Only the form of a text can show this. A password that could be a word, under a key that does not name it
(`wifi = sunflower`), is not recognised.
"""

import re
from typing import Final

from rumi.memory.types import NewFact
from rumi.redact import Redactor

_REDACTOR: Final = Redactor(())

_KEYS: Final = re.compile(
    r"\bAKIA[0-9A-Z]{16}\b"
    r"|\bgh[opsur]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bAIza[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z0-9]{20,}|\bnpm_[A-Za-z0-9]{20,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\."
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
)
"""Prefixes of keys of known services, besides those that logs are searched for."""

_CLEAR: Final = (
    r"pass[ -]?(?:words?|phrases?|codes?)|passwd|pwd|contrase[nñ]as?|credentials?|credenciales|cv[vc]2?"
    r"|(?:api|private|secret|access)[ _-]?keys?|(?:access|auth|api|bearer|bot)[ _-]?tokens?|seed[ -]phrase"
)
_AMBIGUOUS: Final = r"claves?|pin|tokens?"
"""These words name a secret only beside a text that looks like one."""

_NAMES_ONE: Final = re.compile(rf"(?:^|[\W_])(?:{_CLEAR})(?:$|[\W_])", re.IGNORECASE)
_MAY_NAME_ONE: Final = re.compile(rf"(?:^|[\W_])(?:{_AMBIGUOUS})(?:$|[\W_])", re.IGNORECASE)
_HINTS_AT_ONE: Final = re.compile(
    rf"(?:^|[\W_])(?:{_AMBIGUOUS}|secrets?|secretos?)(?:$|[\W_])", re.IGNORECASE
)
_NUMBERED: Final = re.compile(r"[^\W\d_]+[0-9]{1,2}")
"""A word with a number, as people write examples: value1."""
_ABOUT_ONE: Final = re.compile(r"manager|gestor|administrador|policy|pol[ií]tica", re.IGNORECASE)
_TOLD: Final = re.compile(
    rf"(?:^|[\W_])(?:{_CLEAR}|{_AMBIGUOUS})\b[^:=.,;]{{0,40}}?(?:[:=]|\b(?:is|are|es|son)\b)[\s:=]*(?P<value>\S+)",
    re.IGNORECASE,
)

_HOLDS_NUMBERS: Final = re.compile(
    r"\b(?:cards?|tarjetas?|accounts?|cuentas?|iban|cbu|visa|mastercard|amex)\b", re.IGNORECASE
)
_LONG_NUMBER: Final = re.compile(r"[0-9](?:[ .-]?[0-9]){7,}")

_DIGITS: Final = re.compile(r"(?<![\w.,+])[0-9](?:[ -]?[0-9]){12,18}(?![\w])")
_CARD: Final = re.compile(
    r"4(?:.{12}|.{15}|.{18})|(?:5[1-5]|2[2-7]|35).{14}|3[47].{13}|3[068].{12}|6.{15,18}"
)
"""Prefixes and lengths of card numbers by issuer. A telephone number has neither."""


def looks_secret(fact: NewFact) -> bool:
    """Return True if a fact seems to hold a key, a password or a card number."""
    return any(map(_holds_one, (fact.key, fact.value))) or _is_named(fact)


def mentions_secret(fact: NewFact) -> bool:
    """Return True if a fact is about a secret at all: too strict for facts that a user asks to keep."""
    whole = f"{fact.key} {fact.value}"
    if _ABOUT_ONE.search(whole):
        return False
    return (
        _NAMES_ONE.search(whole) is not None
        or _HINTS_AT_ONE.search(fact.key) is not None
        or (_HINTS_AT_ONE.search(whole) is not None and any(map(_made_up, fact.value.split())))
        or (_HOLDS_NUMBERS.search(whole) is not None and _LONG_NUMBER.search(whole) is not None)
    )


def _holds_one(text: str) -> bool:
    told = _TOLD.search(text)
    return (
        _REDACTOR.text(text) != text
        or _KEYS.search(text) is not None
        or (told is not None and _made_up(told["value"]))
        or any(_is_card(found[0]) for found in _DIGITS.finditer(text))
    )


def _is_named(fact: NewFact) -> bool:
    """Return True if the key says that the value is a secret; statements about one are longer."""
    words = fact.value.split()
    if _ABOUT_ONE.search(fact.key):
        return False
    if _NAMES_ONE.search(fact.key) and len(words) <= 2:
        return True
    if _NAMES_ONE.search(fact.key):
        return any(map(_made_up, words))
    made_up = (word for word in words if not _NUMBERED.fullmatch(word))
    return _MAY_NAME_ONE.search(fact.key) is not None and any(map(_made_up, made_up))


def _made_up(word: str) -> bool:
    """Return True if a word looks like a password: it has a digit or a sign, or capitals inside."""
    word = word.strip("\"'“”«»`.,;:()")
    return len(word) >= 4 and not (word.isalpha() and (word[1:].islower() or word.isupper()))


def _is_card(text: str) -> bool:
    """Return True if the digits have an issuer's prefix and the check digit of ISO/IEC 7812."""
    digits = [int(c) for c in text if c.isdigit()]
    if _CARD.fullmatch("".join(map(str, digits))) is None:
        return False
    doubled = [d if place % 2 == 0 else sum(divmod(2 * d, 10)) for place, d in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0
