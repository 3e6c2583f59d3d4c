"""Rules for names and items of lists."""

import re
from collections.abc import Iterable
from typing import Final, Literal, TypeAlias
from unicodedata import category, normalize

from rumi.platform.printable import one_line
from rumi.platform.unaccented import unaccented

NAME_CHARS: Final = 32
"""Maximum length of a list's name, in characters."""

ITEM_CHARS: Final = 200
"""Maximum length of an item, in characters."""

Verb: TypeAlias = Literal["add", "tick", "untick", "remove", "clear", "delete", "page"]

_WORDS: Final[dict[Verb, str]] = {
    "add": "add agrega agregar anade anadir anota anotar adiciona adicionar",
    "tick": "tick done hecho hecha marca marcar feito feita",
    "untick": "untick undone desmarca desmarcar",
    "remove": "remove quita quitar saca sacar remover tira tirar",
    "clear": "clear limpia limpiar limpa limpar",
    "delete": "delete borra borrar elimina eliminar apaga apagar excluir",
    "page": "page pagina",
}
VERBS: Final[dict[str, Verb]] = {word: verb for verb, words in _WORDS.items() for word in words.split()}
"""The words for changes in English, Spanish and Portuguese, without accents."""

_NAME: Final = re.compile(r"[\w-]+")
_JOINERS: Final = re.compile("[\u200c\u200d]")
_BETWEEN: Final = re.compile(r"(?<!\d),|,(?!\d)|[;\n；؛，、،]")


def verb_of(word: str) -> Verb | None:
    """Return the change that a word means; None if it means none."""
    return VERBS.get(unaccented(word))


def list_name(said: str) -> str:
    """Return the name of a list in its stored form: lower case, with - for spaces. Empty if it is no name.

    Vowel signs and accents count as parts of their letters, however a keyboard composes them.
    """
    name = normalize("NFC", "-".join(_JOINERS.sub("", said).casefold().split()))
    letters = "".join(one for one in name if not category(one).startswith("M"))
    fits = len(name) <= NAME_CHARS and _NAME.fullmatch(letters) is not None and verb_of(name) is None
    fits = fits and name[0] == letters[0]
    return name if fits else ""


def split_items(said: str) -> tuple[str, ...]:
    """Split items at commas, semicolons and line ends, but not at a comma within a number."""
    return cleaned(_BETWEEN.split(said))


def cleaned(items: Iterable[str]) -> tuple[str, ...]:
    """Return items as single lines without control characters; empty ones are left out."""
    lines = (one_line(item).strip() for item in items)
    return tuple(line for line in lines if line)
