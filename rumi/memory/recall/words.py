"""Reduces Spanish or English words of passages and queries to their stems, and omits stop words.

A folded word has no capitals and no accents.
"""

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from rumi.platform.unaccented import unaccented
from rumi.texts import Language

if TYPE_CHECKING:
    from snowballstemmer.basestemmer import BaseStemmer

NUMBER, DATE, NAME = 1, 2, 4
"""Flags of a passage: it contains a number, a date or time, or a name within a sentence."""

_NO_BLANKS: Final = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Scripts that do not separate words by blanks, such as Thai, Khmer and Chinese."""
_EMOJI: Final = r"[\U0001f1e6-\U0001f1ff]{2}|[\u2600-\u27bf\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
"""A flag, or an emoji without its variant."""
_LETTERS: Final = rf"(?:(?![{_NO_BLANKS}])(?:[^\W_]|[\u0900-\u0dff]))+"
"""A word of other scripts. Vowel signs of Indian scripts are parts of words, though they are no letters."""
_WORD: Final = re.compile(
    rf"(?P<pairs>[{_NO_BLANKS}]+)|(?P<emoji>{_EMOJI})"
    rf"|(?P<signed>[a-z][a-z0-9]*(?:\+\+|\#))(?!\w)|(?P<parts>{_LETTERS}(?:-{_LETTERS})*)"
)
_SIGNS: Final = {"+": "plus", "#": "sharp"}
"""Words for signs of names such as `C++`, because the index contains only letters and digits."""
MOST_WORDS: Final = 2000
"""Maximum number of indexed words of one text."""
_MOST_WORD: Final = 40

_IN_SPANISH: Final = (
    "a acordas acuerdas ahi al algo alguien algun alguna algunos alla alli ante antes aquel aquella aqui "
    "asi aun aunque bien bueno cada casi comente como con contame conte contra cosa creo cual cuales "
    "cuando cuanta cuantas cuanto cuantos cuya cuyas cuyo cuyos da dale de debe decime del desde despues "
    "dice dije dijimos dijiste dijo dime donde dos e el ella ellas ellos en entonces entre era eran eras "
    "eres es esa esas ese eso esos esta estaba estan estar estas este esto estos estoy fue fueron fui "
    "gracias ha haber habia hablamos hace hacer haces hacia hago han has hasta hay he hemos hizo hola iba "
    "igual incluso ir jamas la las le les lo los luego mas me mejor mencione menos mi mia mias mientras "
    "mio mios mis misma mismo mucha muchas mucho muchos muy nada nadie ni ninguna ninguno no nos nosotros "
    "nuestra nuestro o os otra otras otro otros para parece pero poco podes podria por porque puede "
    "puedes puedo pues que quedamos quedo quien quienes quiero recordas recuerdas sabes se sea ser si "
    "sido siempre sin sobre sois solo somos son sos soy su sus suya suyo tal tambien tampoco tan tanto te "
    "tenemos tener tenes tengo tenia ti tiene tienen tienes toda todas todavia todo todos tu tus tuya "
    "tuyo u un una unas uno unos va vale vamos van vas ver vez vos voy y ya yo "
)
SPANISH: Final = frozenset(_IN_SPANISH.split())
"""Spanish stop words."""
_IN_ENGLISH: Final = (
    "a about after again all also am an and any anything are as ask asked at be because been before being "
    "but by can could did discuss discussed do does doing done dont during each else ever every few for "
    "from get gets getting go goes going got had has have having he hello her here hers him his how i if "
    "im in into is it its ive just kind know let like lot make many may me mention mentioned might mine "
    "more most much must my need no nor not now of off ok okay on once one only or other our out over own "
    "please really remember remind said same say says she should so some something still such sure talk "
    "talked tell thanks that the their them then there these they thing things this those though through "
    "to told too until up us very was way we well were what when where which while who whom whose why "
    "will with without would yes yet you your yours "
)
ENGLISH: Final = frozenset(_IN_ENGLISH.split())
"""English stop words."""

_DATE: Final = re.compile(
    r"\b(?:\d{1,2}[:/]\d{2}|\d{4}-\d{2}-\d{2}|\d{1,2}(?:st|nd|rd|th)|mon|tues|wednes|thurs|fri|satur|sun)(?:day)?\b|"
    r"\b(?:lunes|martes|miercoles|jueves|viernes|sabado|domingo|january|february|march|april|june|july|august|"
    r"september|october|november|december|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|"
    r"setiembre|octubre|noviembre|diciembre|tomorrow|yesterday|manana|ayer|week|semana|noon|midnight|"
    r"mediodia|a las \d)\b"
)
_NAME: Final = re.compile(r"(?<=[\w,;:] )[A-ZÁÉÍÓÚÑ][a-záéíóúñ]+")


@cache
def _stemmers() -> dict[Language, "BaseStemmer"]:
    import snowballstemmer

    return {"es": snowballstemmer.stemmer("spanish"), "en": snowballstemmer.stemmer("english")}


@lru_cache(maxsize=60_000)
def stem(word: str, language: Language) -> str:
    """Return the stem of a folded word."""
    return str(_stemmers()[language].stemWord(word)) if word.isascii() and word.isalpha() else word


@lru_cache(maxsize=20_000)
def both(word: str) -> tuple[str, ...]:
    """Return the stems of a folded word in both languages."""
    return tuple(dict.fromkeys((stem(word, "es"), stem(word, "en"))))


def language_of(words: list[str]) -> Language:
    """Return the language of folded words, judged by the stop words among them."""
    spanish = sum(word in SPANISH for word in words)
    return "es" if spanish > sum(word in ENGLISH for word in words) else "en"


def plain_words(text: str) -> list[str]:
    """Return the first `MOST_WORDS` words of a text, without case and accents.

    Scripts without blanks give pairs of characters, `C++` gives `cplusplus`, and `wi-fi` also gives `wifi`.
    """
    words: list[str] = []
    for found in _WORD.finditer(unaccented(text[: MOST_WORDS * 8])):
        word = found[0]
        match found.lastgroup:
            case "pairs":
                words += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
            case "signed":
                words.append("".join(_SIGNS.get(sign, sign) for sign in word)[:_MOST_WORD])
            case "emoji":
                words.append(word)
            case _:
                parts = word.split("-")
                words += [part[:_MOST_WORD] for part in parts]
                joined = "".join(parts)
                if len(parts) > 1 and len(joined) <= _MOST_WORD and not joined.isdigit():
                    words.append(joined)
    return words[:MOST_WORDS]


def says_something(word: str) -> bool:
    """Return True if a folded word is not a stop word and therefore helps to tell passages apart."""
    return (
        word not in SPANISH
        and word not in ENGLISH
        and (len(word) > 1 or word.isdigit() or ord(word) > 0x2000)
    )


def stems_of(text: str) -> list[str]:
    """Return the stems of the words that are not stop words, in the language of the text."""
    words = plain_words(text)
    language = language_of(words)
    return [stem(word, language) for word in words if says_something(word)]


def flags_of(text: str) -> int:
    """Return the flags of a text, which say whether it contains a `NUMBER`, a `DATE` or a `NAME`."""
    number = NUMBER if any(c.isdigit() for c in text) else 0
    return number | (DATE if _DATE.search(unaccented(text)) else 0) | (NAME if _NAME.search(text) else 0)


FILE: Final = "lexicon.txt"


@cache
def concepts() -> Mapping[str, frozenset[str]]:
    """Return the lexicon: for each stem the stems of related words in both languages. Blocking."""
    found: dict[str, set[str]] = {}
    for line in files("rumi.memory.recall").joinpath(FILE).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        stems = {stem for word in line.split() for stem in both(word)}
        for stem in stems:
            found.setdefault(stem, set()).update(stems)
    return {stem: frozenset(others - {stem}) for stem, others in found.items()}


def related(word: str) -> frozenset[str]:
    """Return the stems of words related to a folded word, without the stems of the word itself."""
    own = both(word)
    return frozenset().union(*(concepts().get(stem, frozenset()) for stem in own)).difference(own)
