"""The Markdown parser for Telegram: the parser of all channels, changed so that no typed word is lost.

CommonMark drops backslashes and link definitions, and reads `2*3*4` as emphasis. HTML is parsed, so that its
indentation and its marks stay as they were typed.
"""

import re
from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from markdown_it import MarkdownIt
from markdown_it.rules_block import (
    StateBlock,
    blockquote,
    code,
    fence,
    heading,
    hr,
    html_block,
    lheading,
    list_block,
    paragraph,
    reference,
    table,
)
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import (
    StateInline,
    autolink,
    backtick,
    entity,
    html_inline,
    image,
    link,
    newline,
    text,
)
from markdown_it.rules_inline.emphasis import tokenize as emphasis
from markdown_it.rules_inline.escape import escape
from markdown_it.rules_inline.strikethrough import tokenize as strikethrough
from markdown_it.token import Token

from rumi.channels.markdown import configured

BlockRule: TypeAlias = Callable[[StateBlock, int, int, bool], bool]

_DEEPEST: Final = 40
_TOKENS: Final = 50_000

_MARKUP: Final = re.compile(r"[&*<\[\\_`~]")
"""A paragraph without any of these characters is plain text."""

_SIMPLE_EMPHASIS: Final = re.compile(
    r"(\*\*?)(?![\s*])([^*_~`!&<>\[\]\\\n]*[^*_~`!&<>\[\]\\\s])\1(?=[\s.,:;!?)]|$)"
)
"""Stars around words without further markup. Behind white space they can be nothing else than emphasis."""

_STOPS: Final = re.compile(r"[\n&*<\[\]\\_`~]|!(?=\[)")
"""Where a rule may apply. The parser's default has more characters, which only other rules need."""

_ESCAPED: Final = frozenset("`*_#~|<>+-.!$&")
"""Characters that a backslash escapes.

Before other characters a backslash is text: `\\(a\\)`, `\\\\server`.
"""

_WITHIN_ADDRESS: Final = re.compile(r"https?://[^\s<>()\[\]`]*\Z")
_WITHIN_WINDOWS_PATH: Final = re.compile(
    r"(?:^|[\s\"'(`*_])(?:(?:[A-Za-z]:|\.{1,2}|%\w{1,32}%)\\|\\[A-Za-z0-9\\])[^\s*?\"<>|]*\Z"
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
    return _PARSER.parse(source)


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
    # Trying only the rules for a line's first character, and for a mark, halves the time of parsing.
    parser.block.ruler.enableOnly("code")  # the parser asks for this name
    parser.block.ruler.at("code", _block)
    for name, interrupting in _INTERRUPTING.items():
        parser.block.ruler.push(f"interrupts_{name}", interrupting, {"alt": [name]})
    parser.inline.terminator_re = _STOPS
    parser.inline.ruler.enableOnly("text")
    parser.inline.ruler.at("text", _mark_or_text)
    parser.inline.ruler2.after("emphasis", "plain_marks", _plain_marks)
    return parser


def _rules(state: StateBlock, line: int) -> tuple[BlockRule, ...]:
    """Return the rules for blocks that may begin at a line."""
    start = state.bMarks[line] + state.tShift[line]
    rules = _BLOCKS.get(state.src[start], ())
    return (_table, *rules) if state.src.find("|", start, state.eMarks[line]) >= 0 else rules


def _block(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """Read the block that begins at a line."""
    if state.level > _DEEPEST - 3:  # the parser drops the content of a list or quote that is nested deeper
        raise Overgrown
    if state.is_code_block(line):
        return code(state, line, end, silent)
    for rule in _rules(state, line):
        if rule(state, line, end, silent):
            return True
    one_line = line + 1 >= state.lineMax or state.isEmpty(line + 1)
    return (not one_line and lheading(state, line, end, silent)) or paragraph(state, line, end, silent)


def _interrupts(without: Collection[BlockRule]) -> BlockRule:
    """Return a rule that says whether a line begins a block although another block is open."""

    def interrupts(state: StateBlock, line: int, end: int, silent: bool) -> bool:
        for rule in _rules(state, line):  # noqa: SIM110 - any() would cost more than the rules
            if rule not in without and rule(state, line, end, silent):
                return True
        return False

    return interrupts


def _table(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    found = table(state, first, end, silent)
    if len(state.tokens) > _TOKENS + 2 * len(state.src):
        raise Overgrown
    return found


_BLOCKS: Final[dict[str, tuple[BlockRule, ...]]] = {
    **dict.fromkeys("`~", (fence,)),
    **dict.fromkeys("*-", (hr, list_block)),
    **dict.fromkeys("+0123456789", (list_block,)),
    "_": (hr,),
    ">": (blockquote,),
    "<": (html_block,),
    "#": (heading,),
    "[": (reference,),
}
"""The rules for blocks by their first character."""

_INTERRUPTING: Final = {
    "paragraph": _interrupts({reference}),
    "reference": _interrupts({reference}),
    "blockquote": _interrupts({reference, _table}),
    "list": _interrupts({reference, _table, list_block, html_block, heading}),
}


def _inline(state: StateCore) -> None:
    """Parse paragraphs that have markup. Definitions without a web address define no link."""
    if references := state.env.get("references"):
        state.env["references"] = {
            label: target for label, target in references.items() if linkable(target["href"])
        }
    for token in state.tokens:
        if token.type == "inline" and _MARKUP.search(token.content):
            content = StateInline(token.content, state.md, state.env, [])
            state.md.inline.tokenize(content)
            if content.delimiters or any(level and level["delimiters"] for level in content.tokens_meta):
                for rule in state.md.inline.ruler2.getRules(""):
                    rule(content)
            token.children = content.tokens


def _mark_or_text(state: StateInline, silent: bool) -> bool:
    """Read a mark with the rule for its character, or the text before the next mark."""
    rule = _MARKS.get(state.src[state.pos], text)
    return rule(state, silent)


def _angle(state: StateInline, silent: bool) -> bool:
    return autolink(state, silent) or html_inline(state, silent)


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
    if silent:
        return False
    apart = state.pos == 0 or state.src[state.pos - 1] in " \n"
    if apart and (simple := _SIMPLE_EMPHASIS.match(state.src, state.pos, state.posMax)):
        kind = "strong" if len(simple[1]) == 2 else "em"
        state.push(f"{kind}_open", kind, 1)
        state.push("text", "", 0).content = simple[2]
        state.push(f"{kind}_close", kind, -1)
        state.pos = simple.end()
        return True
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
        if "at" not in token.meta or not token.nesting:
            continue
        if token.nesting == 1:
            opened.append(token)
        else:
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


_MARKS: Final = {
    "\n": newline,
    "\\": _escape,
    "`": backtick,
    **dict.fromkeys("*_~", _marks),
    "[": link,
    "!": image,
    "<": _angle,
    "&": entity,
}
"""The rules for marks by their first character."""

_PARSER: Final = _parser()
