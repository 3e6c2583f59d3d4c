"""Syntax colours of code, as runs that the page's script turns into elements."""

import time
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pygments.lexer import Lexer

LANGUAGES: Final = frozenset(
    {
        *("bash", "sh", "shell", "console", "python", "py", "pycon", "javascript", "js", "typescript", "ts"),
        *("json", "yaml", "yml", "toml", "ini", "html", "xml", "css", "sql", "diff", "c", "cpp", "c++", "go"),
        *("rust", "rs", "java", "kotlin", "ruby", "rb", "php", "lua", "perl", "r", "make", "makefile"),
        *(
            "dockerfile",
            "docker",
            "markdown",
            "md",
            "tex",
            "latex",
            "swift",
            "haskell",
            "csharp",
            "c#",
            "csv",
        ),
    }
)
"""Languages with syntax colouring. Without this list, a text could load hundreds of Pygments modules."""

MOST_COLOURED: Final = 50_000
"""Maximum length of a coloured code block, in characters."""

LONGEST_S: Final = 0.5
"""Maximum time of colouring a block, in seconds: lexers are slow on hostile texts. The rest stays plain."""

CLASSES: Final = {"k", "s", "c", "m", "f", "i", "d"}
"""CSS classes of keywords, strings, comments, numbers, function names, inserted lines and deleted lines."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def colours(code: str, language: str) -> str:
    """Return the coloured runs of `code`, such as "3K1,4F"; empty for an unknown language. Blocking.

    A run is an optional gap and a comma, a length, and its CSS class in upper case. The gap is the distance
    from the end of the run before. Gaps and lengths are in UTF-16 code units, in base 36.
    """
    if len(code) > MOST_COLOURED or (lexer := _lexer(language.lower())) is None:
        return ""
    runs: list[str] = []
    gap = length = 0
    colour = ""
    until = time.monotonic() + LONGEST_S
    # A lexer may drop or add a character at the end. The runs before it are right.
    left = len(code)
    for kind, text in lexer.get_tokens(code):
        left -= len(text)
        if left < 0 or time.monotonic() > until:
            break
        size = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
        found = _colour(kind) if text.strip() else ""
        if found != colour and length:
            runs.append(f"{_base36(gap)},{_base36(length)}{colour.upper()}" if gap else _run(length, colour))
            gap = length = 0
        colour = found
        if found:
            length += size
        else:
            gap += size
    if length:
        runs.append(f"{_base36(gap)},{_base36(length)}{colour.upper()}" if gap else _run(length, colour))
    return "".join(runs)


def _run(length: int, colour: str) -> str:
    return _base36(length) + colour.upper()


@cache
def _lexer(language: str) -> "Lexer | None":
    if language not in LANGUAGES:
        return None
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, ensurenl=False, stripnl=False)
    except ClassNotFound:
        return None


@cache
def _colour(kind: Any) -> str:
    """Return the CSS class of a kind of token; empty for one without a colour."""
    from pygments.token import Token as Kind

    kinds = (
        *((Kind.Keyword, "k"), (Kind.Operator.Word, "k"), (Kind.Literal.String, "s"), (Kind.Comment, "c")),
        *((Kind.Literal.Number, "m"), (Kind.Name.Function, "f"), (Kind.Name.Class, "f")),
        *((Kind.Name.Tag, "k"), (Kind.Generic.Inserted, "i"), (Kind.Generic.Deleted, "d")),
    )
    return next((colour for known, colour in kinds if kind in known), "")


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"
