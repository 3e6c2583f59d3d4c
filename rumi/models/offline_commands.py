"""Decides whether a line is a shell command or prose: `sort names.txt` is a command, `sort this out` is not.

A line that may be prose is never run. The person can still run it with `$` or `run` in front.
"""

import re
from itertools import pairwise
from typing import Final

from runner.programs import CORE, WORK

_PROGRAMS: Final = frozenset((*CORE, *WORK))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALSO_WORDS: Final = _words(
    "arch cal cat column cut date dd du expand factor file find fmt fold free groups head hostname id install"
    " join kill less link make more node paste patch pip python rename seq sed shred sleep sort split stat"
    " sum sync tail tar test timeout touch tree truncate unlink uptime users which who zip"
)
"""Programs whose names are also words, in English, Spanish or Portuguese: `date prisa`, `id a casa`."""

_NEVER: Final = _words("yes true false [ time nice top watch")
"""Programs that a person means as a word, such as an answer; the last two would never end."""

_BY_THEMSELVES: Final = _words(
    "ls pwd date cal whoami id uname arch nproc hostname df du ps tree uptime env printenv groups"
)
"""Programs that do something sensible without arguments."""

_READERS_OF_ONE: Final = _words("cat head tail stat file less more")
"""Programs that also take one plain name without a sign that it is a file, such as `cat notes`."""

_PROSE: Final = _words(
    # English
    "me my mine you your yours this that these those the it its us our we they them their him her his an and"
    " or but out off up down please for of to in on at with about from is are was be some any all everything"
    " something anything nothing what who how why when where now today tomorrow here there if because"
    # Spanish and Portuguese
    " el la los las lo un una unos unas mi mis tu tus su sus de del al en con por para que y si no favor todo"
    " todos toda todas algo nada esto eso este esta ese esa hoy mañana ahora aquí"
    " os as um uma meu minha seu sua do da dos das em com e se não tudo isso isto agora aqui"
)
"""Words that do not occur as arguments of a command, in lower case."""

_TECHNICAL: Final = re.compile(r"^-{1,2}\w|[/*|<>$=~]|\w\.\w|^\.{1,2}$|^[\"'].*[\"']$|^\d+$|^\+[%\d]")
"""Pattern of a word that shows that a line is a command: an option, a path, a pattern, a number."""

_PIPED: Final = re.compile(r"\s(?:\||>>?|&&)\s")


def is_command(line: str) -> bool:
    """Return True if a line is a command of an allowed program, and not prose."""
    line = line.strip()
    words = line.split()
    if not words or "\n" in line or line.endswith(("?", "!", "…")):
        return False
    name, arguments = words[0], words[1:]
    if not arguments:
        return name.casefold() in _BY_THEMSELVES
    if name not in _PROGRAMS or name in _NEVER:
        return False
    if name in ("echo", "printf"):  # they print prose
        return True
    plain = [word.strip(".,;:¿¡").casefold() for word in arguments]
    if _PROSE & {*plain} or _has_article(plain):
        return False
    technical = [word for word in arguments if _TECHNICAL.search(word.rstrip(".,;:"))]
    if name in _ALSO_WORDS:
        if not all(map(str.isdigit, arguments)):  # `make 10 pancakes`, but `sleep 5`
            technical = [word for word in technical if not word.isdigit()]
        reads_one = name in _READERS_OF_ONE and len(arguments) == 1
        return bool(technical) or bool(_PIPED.search(line)) or reads_one
    # One plain name, or names with a sign that they are names: `rm old notes` may be prose.
    return len(arguments) == 1 or bool(technical) or name in ("cp", "mv", "diff", "cmp", "grep", "git")


def _has_article(words: list[str]) -> bool:
    """Return True if an `a` stands before a longer word: `a file` is prose, `cp a b` is not."""
    return any(word in ("a", "o") and len(after) > 2 for word, after in pairwise(words))


def command_of(line: str) -> str:
    """Return the command of a line for which `is_command` returned True."""
    line = line.strip()
    return line.casefold() if len(line.split()) == 1 else line
