r"""Formulas in Markdown: `$…$` and `\(…\)` within a line, `$$…$$` and `\[…\]` on lines of their own.

Prices ("$5 and $6"), variables of a shell and escaped brackets are text. A formula may not contain an empty
line.
"""

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.rules_inline import StateInline

LONGEST: Final = 3_000
"""Maximum length of a formula, in characters, with its delimiters. A longer one is text."""

GROWING: Final = "growing"
"""The key of a parser's environment that says that the text goes on: an open block is no paragraph yet."""

_CLOSING: Final = {"\\(": "\\)", "\\[": "\\]", "$$": "$$"}
_FORMULAS: Final = {
    "\\(": re.compile(r"\\\(((?:[^\\]|\\[^()])+?)\\\)"),
    "\\[": re.compile(r"\\\[((?:[^\\]|\\[^\[\]])+?)\\\](?!\()"),
    "$$": re.compile(r"\$\$(?!\$)((?:[^\\$]|\\.|\$(?!\$))+?)\$\$(?!\$)", re.DOTALL),
    "$": re.compile(r"\$(?![\s$])((?:[^\\$`\n]|\\.)+?)(?<!\s)\$(?![\d$]|(?!(?:th|st|nd|rd|s)\b)\w)"),
}
"""Formulas by their opening. None contains its own opening, so that a hostile text is read once."""

_NOT_WORDS: Final = re.compile(
    r"\\(?:text\w*|math\w+|mbox|operatorname\*?|begin|end|label|tag)\s*\{[^{}]*\}|\\[A-Za-z]+|\{[^{}]*\}"
)
_PROSE: Final = re.compile(r"[^\W\d_]{2,}\s+[^\W\d_]{2,}")
_AMOUNT: Final = re.compile(r"\d.*?(?:[^\W\d_]{3,}|[,;:]\s|\s[A-Z]{1,3}\Z)", re.DOTALL)
"""What follows the sign of a price up to the sign of the next: a word, a comma, or letters of a currency."""

_NUMBERS: Final = re.compile(r"[\d\s,.;–-]+")
_MATHEMATICAL: Final = re.compile(r"[\\^_=+<>{}|*/\d-]")


class Formula(NamedTuple):
    """A formula within a text. It ends at `end`; `display` formulas stand on a line of their own."""

    end: int
    tex: str
    display: bool


def formula_at(text: str, at: int, end: int) -> Formula | None:
    """Return the formula that begins at `at` and ends before `end`; None if there is none."""
    opening = text[at : at + 2] if text[at : at + 2] in _CLOSING else text[at : at + 1]
    if opening not in _FORMULAS or (opening[0] == "$" and at > 0 and _joins(text[at - 1])):
        return None
    end = min(end, at + LONGEST)
    if text.find(_CLOSING.get(opening, "$"), at + len(opening), end) < 0:
        return None
    found = _FORMULAS[opening].match(text, at, end)
    if found is None or not _is_formula(opening, found[1].strip()):
        return None
    return Formula(found.end(), found[1].strip(), opening in ("$$", "\\["))


def _joins(before: str) -> bool:
    return before.isalnum() or before in "$\\"


def _is_formula(opening: str, tex: str) -> bool:
    bare = _NOT_WORDS.sub(" ", tex)
    if not tex or _PROSE.search(bare):
        return False
    if opening == "$":
        return _AMOUNT.match(bare) is None
    if opening == "$$":
        return any(c.isalnum() or c == "\\" for c in tex)
    plain = _MATHEMATICAL.search(tex) is None
    return not (_NUMBERS.fullmatch(tex) if opening == "\\[" else False) and not (plain and len(tex) > 3)


def read_formulas(parser: "MarkdownIt", *, as_text: bool) -> None:
    """Let a parser read formulas: as text, or as tokens of type `formula` whose `info` is the source."""
    parser.inline.ruler.before("escape", "formula", formula_text if as_text else _formula_token)
    alternatives = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "formula", formula_block, {"alt": alternatives})
    if as_text:
        parser.core.ruler.push("formula_lines", _broken_lines)


def formula_text(state: "StateInline", silent: bool) -> bool:
    """Read a formula as text, with its delimiters."""
    found = formula_at(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        token = state.push("text", "", 0)
        token.content, token.info = state.src[state.pos : found.end], "formula"
    state.pos = found.end
    return True


def _formula_token(state: "StateInline", silent: bool) -> bool:
    found = formula_at(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        token = state.push("formula", "math", 0)
        token.content, token.info = found.tex, state.src[state.pos : found.end]
        token.meta = {"display": found.display}
    state.pos = found.end
    return True


def formula_block(state: "StateBlock", line: int, end: int, silent: bool) -> bool:
    """Read lines from an opening to its closing as one paragraph, whatever else the lines look like."""
    start = state.bMarks[line] + state.tShift[line]
    closing = _CLOSING.get(state.src[start : start + 2])
    if closing is None or closing == "\\)" or state.is_code_block(line):
        return False
    last = _last_line(state, line, end, closing)
    if last is None:
        return False
    if silent:
        return True
    state.line = last + 1
    token = state.push("paragraph_open", "p", 1)
    token.map = [line, state.line]
    token = state.push("inline", "", 0)
    token.content = state.getLines(line, state.line, state.blkIndent, False).strip()
    token.map, token.children = [line, state.line], []
    state.push("paragraph_close", "p", -1)
    return True


def _last_line(state: "StateBlock", line: int, end: int, closing: str) -> int | None:
    start = state.bMarks[line] + state.tShift[line]
    opening, limit = state.src[start : start + 2], start + LONGEST
    stop = state.src.find(closing, start + 2, limit)
    growing = stop < 0 and state.env.get(GROWING) and state.level == 0 and len(state.src) < limit
    # A second opening ends the search at once: otherwise a text of openings would be searched at each.
    if not growing and (stop < 0 or (opening != closing and opening in state.src[start + 2 : stop])):
        return None
    for current in range(line, end):
        if current > line and (state.isEmpty(current) or state.sCount[current] < state.blkIndent):
            return None
        if not growing and stop <= state.eMarks[current]:
            after = state.src[stop + 2 : state.eMarks[current]]
            return None if after.strip(" \t.,;") else current
    return end - 1 if growing else None


def _broken_lines(state: "StateCore") -> None:
    """Split formulas of several lines into text and line breaks."""
    from markdown_it.token import Token

    for token in state.tokens:
        if any(child.info == "formula" and "\n" in child.content for child in token.children or []):
            children = []
            for child in token.children or []:
                if child.info != "formula":
                    children.append(child)
                    continue
                for number, line in enumerate(child.content.split("\n")):
                    children += [Token("softbreak", "br", 0)] if number else []
                    children.append(Token("text", "", 0, content=line, level=child.level))
            token.children = children
