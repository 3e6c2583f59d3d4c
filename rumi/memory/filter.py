"""The filter that decides, in code, which extracted facts are stored; a model cannot bypass it.

A model may be persuaded to extract anything, or invent facts. So the user's words must support a fact: they
must contain every number and every name in the fact's value, and half of the other meaningful words in it.
Words are compared by their beginnings, without accents. For example, "vivo" supports "vive". A fact about
health, religion and similar subjects must be supported by messages that ask to remember it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Final

from rumi.memory.dates import numbers_of
from rumi.memory.messages import Fact, FactRefused, NewFact
from rumi.memory.secrets import mentions_secret
from rumi.memory.writing import checked, folded
from rumi.platform.unaccented import unaccented

_PASSING: Final = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|right now|at the moment|just now|for now|this (?:week|morning|"
    r"afternoon|evening|weekend)|next week|hoy|ayer|anoche|ahora mismo|en este momento|por ahora|"
    r"esta (?:semana|tarde|noche|mañana)|este (?:finde|fin de semana)|(?:la )?semana que viene|mañana por la|"
    r"(?:is|feels?) (?:tired|hungry|thirsty|busy|bored|sad|angry|in a hurry|sleepy|sick|ill)|"
    r"has a (?:cold|headache|fever)|le duelen?|"
    r"(?:está|se siente) (?:cansad|aburrid|ocupad|trist|enojad|apurad|enferm|resfriad)\w*|"
    r"tiene (?:hambre|sueño|sed|frío|calor|prisa|fiebre))\b",
    re.IGNORECASE,
)
"""Expressions that show that a fact is only valid for a short time."""

_SENSITIVE: Final = re.compile(
    # Health, without professions and studies
    r"\b(?:health|salud|allerg|alerg|diabet|asthma|asma\b|depress|depresi|anxiety|ansiedad|cancer|tumou?r|"
    r"hiv\b|vih\b|pregnan|embaraz|medication|medicacion|medicament|illness|disease|enfermedad|disab|"
    r"discapac|therapy|terapia|surgery|cirugia|operacion|c(?:o)?eliac|hypertens|hipertens|adhd|tdah|autis|"
    r"bipolar|insulin|epilep|migraine|migrana|diagnos|chronic|cronic[ao]|"
    # Religion; Christian is a name as well
    r"relig|catholic|catolic|(?:a|practi[cs]ing) christian|christianity|cristian[oa]s?\b|cristianismo|"
    r"evangelic|jew(?:ish)?\b|judi[oa]s?\b|judaism|muslim|musulm|islam|buddhis|budis|hindu|atheis|"
    r"ate[oa]s?\b|agnostic|protestant|mormon|goes to (?:church|mass|mosque)|va a (?:misa|la iglesia)|"
    # Sexuality, politics, unions, convictions
    r"gay\b|lesbian|bisexual|homosexual|transgender|transexual|queer|sexual|politic|votes?\b|voto|voted|"
    r"vota\b|peronis|socialis|comunis|communis|left-wing|right-wing|de (?:izquierda|derecha)s?\b|"
    r"trade union|sindicat|criminal record|antecedentes penales|convicted|ethnic|etni)",
    re.IGNORECASE,
)
"""Words of sensitive subjects. A fact with such a word is stored only if the user asks to remember it."""
_REMEMBER: Final = re.compile(
    r"(?<!\bi )(?<!\byou )(?<!n't )\bremember\b|\bdon'?t forget\b|\bkeep in mind\b|"
    r"\bmake a note\b|\bnote that\b|"
    r"\b(?:recorda|recuerda|anota|guarda)(?:lo|la|me|r|telo)?\b|\brecuerdes\b|\b(?:acordate|acuerdate)\b|"
    r"\bno (?:te )?olvides\b|\bten(?:e)? en cuenta\b"
)

_SAVE: Final = re.compile(r"\b(?:save|store|memori[sz]e|memoriza)\b")
_FORGET: Final = re.compile(
    r"(?<!t )(?<!never )\b(?:forget|delete|remove|erase|clear)\b|"
    r"(?<!no )(?<!no te )\b(?:olvid|borr|elimin)(?:a|e|es|ar)?(?:te|lo|la|los|las)?\b"
)

_WORD: Final = re.compile(r"\w+")
_ADDRESS: Final = re.compile(r"\S*\w[@/.:_\\]\w\S*")
_SMALL: Final = frozenset(map(str, range(1, 13)))
_FILLERS: Final = (
    "user users usuario usuaria assistant asistente the and that this with from have has his her hers "
    "their they she him them for are was were been being who whose which what when where not but also "
    "very some any called named name likes like loves love prefers prefer wants want lives live works "
    "work uses use he is in of on to at an it or as by no my me we los las una unos unas del que con por "
    "para sus suyo suya ella ellos ellas este esta esto ese esa eso como cuando donde quien cual muy mas "
    "pero tambien tiene tener estan ser son fue hay nombre llama llamado llamada gusta gustan quiere "
    "prefiere vive trabaja usa el la lo le un de en es se su si al ya mi me te tu y a o i since desde"
)
_MEANS_NOTHING: Final = frozenset(_FILLERS.split())
"""Words that occur in many facts and do not distinguish one fact from another."""
_BEGINNING: Final = 3
"""Minimum number of first letters that two forms of the same word share."""
_WITHOUT_BLANKS: Final = "\u2e80"
"""From this code point on, scripts do not separate words by blanks."""


def worth_keeping(
    found: Sequence[NewFact], known: Sequence[Fact], said: Sequence[str], today: date
) -> tuple[NewFact, ...]:
    """Return the new facts that are not secret, not temporary, and supported by the user's messages `said`.

    `today` is the date of these messages. A new fact may replace a fact only if that fact is in `known` and
    is not tainted.
    """
    seen = {(folded(fact.key), folded(fact.value)) for fact in known}
    # The model got no tainted facts, so it cannot mean one by `replaces`.
    keys = {folded(fact.key) for fact in known if not fact.tainted}
    heard = _UserWords(said, today)
    to_remember = _UserWords([text for text in said if _REMEMBER.search(unaccented(text))], today)
    kept: list[NewFact] = []
    for new_fact in found:
        try:
            fact = checked(new_fact.key, new_fact.value)
        except FactRefused:
            continue
        same = (folded(fact.key), folded(fact.value))
        if same in seen or _PASSING.search(fact.value) or mentions_secret(fact):
            continue
        sensitive = _SENSITIVE.search(unaccented(f"{fact.key}: {fact.value}"))
        if not (to_remember if sensitive else heard).bears_out(fact):
            continue
        seen.add(same)
        kept.append(replace(fact, replaces=new_fact.replaces if folded(new_fact.replaces) in keys else ""))
    return tuple(kept)


def asks_to_remember(text: str) -> bool:
    """Return True if a message of the user asks to remember something."""
    plain = unaccented(text)
    return bool(_REMEMBER.search(plain) or _SAVE.search(plain))


def asks_to_forget(text: str) -> bool:
    """Return True if a message of the user asks to delete something."""
    return bool(_FORGET.search(unaccented(text)))


class _UserWords:
    """The words of the user, including the words of dates that the user gave relative to today."""

    def __init__(self, said: Sequence[str], today: date) -> None:
        self._text = "\n".join(map(unaccented, said))
        self._beginnings: dict[str, set[str]] = {}
        for word in (*_WORD.findall(self._text), *numbers_of(self._text, today)):
            self._beginnings.setdefault(word[:_BEGINNING], set()).add(word)

    def bears_out(self, fact: NewFact) -> bool:
        """Return True if the user's words support the fact.

        A fact whose value has no meaningful word, such as "yes", is judged by its key.
        """
        distinctive = _distinctive(fact.value)
        ordinary = _ordinary(fact.value) - distinctive
        if not all(map(self._has, distinctive)):
            return False
        if not distinctive and not ordinary:
            return any(map(self._has, _ordinary(fact.key)))
        return 2 * sum(map(self._has, ordinary)) >= len(ordinary)

    def _has(self, word: str) -> bool:
        alike = self._beginnings.get(word[:_BEGINNING], set())
        if word in alike or (word[0] >= _WITHOUT_BLANKS and word in self._text):
            return True
        return word.isalpha() and any(_alike(word, other) for other in alike)


def _alike(one: str, other: str) -> bool:
    """Return True if two words begin alike, as forms of one word do: "vivo" and "vive", "dog" and "dogs"."""
    shorter, longer = sorted((len(one), len(other)))
    same = next((at for at in range(shorter) if one[at] != other[at]), shorter)
    return same >= _BEGINNING and 3 * same >= 2 * shorter and 2 * same >= longer


def _distinctive(value: str) -> set[str]:
    """Return the parts of a value that cannot be paraphrased, so that the user must have written them.

    These are numbers, except small ones that people write as words; capitalized words that do not begin a
    sentence; and the parts of addresses such as URLs, because an address with one wrong part is another
    address.
    """
    words = list(_WORD.finditer(value))
    found = {word[0] for word in words if any(c.isdigit() for c in word[0]) and word[0] not in _SMALL}
    for word in words[1:]:
        if word[0][0].isupper() and not value[: word.start()].rstrip().endswith((".", "!", "?", ":")):
            found.add(word[0])
    for address in _ADDRESS.findall(value):
        found.update(_WORD.findall(address))
    return {unaccented(word) for word in found}


def _ordinary(text: str) -> set[str]:
    """Return the meaningful words of a text, without case and accents."""
    return {word for word in _WORD.findall(unaccented(text)) if len(word) > 1 and word not in _MEANS_NOTHING}
