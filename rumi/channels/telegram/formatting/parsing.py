"""The Markdown parser for Telegram: the parser of all channels, changed so that no typed word is lost.

CommonMark drops backslashes and link definitions, and reads `2*3*4` as emphasis. HTML is parsed, so that its
indentation and its marks stay as they were typed.
"""

import re
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_block.table import table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.emphasis import tokenize as emphasis
from markdown_it.rules_inline.escape import escape
from markdown_it.rules_inline.strikethrough import tokenize as strikethrough
from markdown_it.token import Token

from rumi.channels.markdown import configured

_DEEPEST: Final = 20
_CELLS: Final = 50_000

_MARKUP: Final = re.compile(r"[&*<\[\\_`~]")
"""A paragraph without any of these characters is plain text."""

_STOPS: Final = re.compile(r"[\n&*<\[\]\\_`~]|!(?=\[)")
"""Where a rule may apply. The parser's default has more characters, which only other rules need."""

_ESCAPED: Final = frozenset("`*_#~|<>+-.!$&")
"""Characters that a backslash escapes.

Before other characters a backslash is text: `\\(a\\)`, `\\\\server`.
"""

_WITHIN_ADDRESS: Final = re.compile(r"https?://[^\s<>()\[\]`]*$")
_WITHIN_WINDOWS_PATH: Final = re.compile(
    r"(?:^|[\s\"'(`*_])(?:(?:[A-Za-z]:|\.{1,2}|%\w{1,32}%)\\|\\[A-Za-z0-9\\])[^\s*?\"<>|]*$"
)
_NAME_GOES_ON: Final = re.compile(r"[./\\]\w|\(")
_LOOK_BACK: Final = 300
_ADDRESS: Final = re.compile(
    r"https?://(?:[^\s/?#@]*@)?([^\s/?#:@\[\]]+)(?::\d{1,5})?(?:[/?#]\S*)?", re.IGNORECASE
)
_ADDRESS_CHARS: Final = 2000


class Overgrown(Exception):
    """The formatted result would be far larger than the text, or deeper than the parser reads."""


def parsed(source: str) -> list[Token]:
    """Return the block tokens of a text. Paragraphs without markup have no inline tokens.

    Raises `Overgrown` for a text that is nested deeper than the parser reads, or whose tables have far more
    cells than the text has characters.
    """
    tokens = _PARSER.parse(source)
    # The parser drops what is inside the deepest list or quote that it opens.
    if any(token.level >= _DEEPEST - 1 and token.nesting == 1 and token.block for token in tokens):
        raise Overgrown
    return tokens


def linkable(address: str) -> bool:
    """Return True if Telegram accepts `address` as a link: a web URL whose host name contains a dot."""
    if len(address) > _ADDRESS_CHARS or not address.isprintable():
        return False
    found = _ADDRESS.fullmatch(address)
    return found is not None and "." in found[1].strip(".")


class _Parser(MarkdownIt):
    """A parser that keeps addresses as they were typed. The writer decides which of them become links."""

    def normalizeLink(self, url: str) -> str:  # noqa: N802 - the library's name
        """Return a link's address as it is."""
        return url

    def normalizeLinkText(self, link: str) -> str:  # noqa: N802 - the library's name
        """Return an autolink's text as it is."""
        return link

    def validateLink(self, url: str) -> bool:  # noqa: N802 - the library's name
        """Accept every address."""
        return True


def _parser() -> MarkdownIt:
    options = {"html": True, "store_labels": True, "inline_definitions": True, "maxNesting": _DEEPEST}
    parser = configured(_Parser("commonmark", options))
    parser.core.ruler.at("inline", _inline)
    parser.core.ruler.disable(["normalize", "text_join"])
    parser.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    parser.inline.terminator_re = _STOPS
    parser.inline.ruler.at("escape", _escape)
    parser.inline.ruler.at("emphasis", _marks)
    parser.inline.ruler.disable("strikethrough")
    parser.inline.ruler2.after("emphasis", "plain_marks", _plain_marks)
    return parser


def _inline(state: StateCore) -> None:
    """Parse paragraphs that have markup. Definitions without a web address define no link."""
    if references := state.env.get("references"):
        state.env["references"] = {
            label: target for label, target in references.items() if linkable(target["href"])
        }
    for token in state.tokens:
        if token.type == "inline" and _MARKUP.search(token.content):
            token.children = state.md.inline.parse(token.content, state.md, state.env, [])


def _table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    found = table(state, first, end, silent)
    if found and len(state.tokens) > 3 * (_CELLS + len(state.src)):
        raise Overgrown
    return found


def _escape(state: StateInline, silent: bool) -> bool:
    """Read a backslash: as markup before a character that is markup, otherwise as text."""
    at = state.pos + 1
    if state.src[state.pos] != "\\" or at >= state.posMax:
        return False
    character = state.src[at]
    if character == "\n":
        return escape(state, silent)
    if not silent:
        plain = character not in _ESCAPED or _looks_back(_WITHIN_WINDOWS_PATH, state.src, at)
        state.append_pending("\\" + character if plain else character)
    state.pos += 2
    return True


def _marks(state: StateInline, silent: bool) -> bool:
    """Read marks of emphasis or strike-through, and note their positions for `_plain_marks`."""
    first = len(state.delimiters)
    if not (emphasis(state, silent) or strikethrough(state, silent)):
        return False
    at = state.pos
    for delimiter in reversed(state.delimiters[first:]):
        mark = state.tokens[delimiter.token]
        at -= len(mark.content)
        mark.meta["at"] = at
    return True


def _plain_marks(state: StateInline) -> None:
    """Change marks that are part of a URL, formula or name back to text."""
    opened: list[Token] = []
    for token in state.tokens:
        if token.type in ("em_open", "strong_open", "s_open"):
            opened.append(token)
        elif token.type in ("em_close", "strong_close", "s_close") and opened:
            start = opened.pop()
            inner = start.type == "strong_open"  # the second of its two marks became the token
            end = token.meta["at"] + len(start.markup)
            if _is_plain(state.src, start.markup, start.meta["at"] - inner, end):
                for mark in (start, token):
                    mark.type, mark.nesting, mark.content = "text", 0, mark.markup


def _is_plain(source: str, mark: str, start: int, end: int) -> bool:
    before, after = source[max(0, start - 1) : start], source[end : end + 1]
    joined = (before.isascii() and before.isalnum()) or before in (")", "]")
    return (
        (mark == "*" and joined and after.isascii() and after.isalnum())
        or (mark == "**" and joined and source[start + 2 : start + 3].isdigit())
        or (mark == "__" and (before in (".", "/", "\\") or _NAME_GOES_ON.match(source, end) is not None))
        or _looks_back(_WITHIN_ADDRESS, source, start)
    )


def _looks_back(pattern: re.Pattern[str], source: str, at: int) -> bool:
    # Bounded: searching from the start of the text at every mark would take quadratic time.
    return pattern.search(source[max(0, at - _LOOK_BACK) : at]) is not None


_PARSER: Final = _parser()
