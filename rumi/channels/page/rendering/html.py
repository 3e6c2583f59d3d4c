"""Parsed Markdown as sanitised HTML for the page: no script, style or form, whatever the text contains.

The parser escapes all HTML of the text but `<details>`, and a sanitizer drops every tag and attribute that is
not in an allowlist.
"""

import html
import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from rumi.channels.formulas import read_formulas
from rumi.channels.markdown import configured
from rumi.channels.page.rendering import mathml
from rumi.channels.page.rendering.colours import colours
from rumi.channels.page.rendering.details import PAIRS, read_details

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token
    from nh3 import Cleaner

TAGS: Final = {
    *("a", "blockquote", "br", "code", "details", "div", "em", "h3", "h4", "h5", "h6", "hr", "img", "li"),
    *("ol", "p", "pre", "s", "strong", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}

_DIRECTED: Final = ("blockquote", "details", "div", "h3", "h4", "h5", "h6", "ol", "p", "table", "ul")
"""Tags of top-level blocks. Their direction follows the text; the style sheet handles the blocks within."""

_FIXED: Final[dict[str, dict[str, set[str]]]] = {name: {"dir": {"auto"}} for name in _DIRECTED} | {
    "div": {"dir": {"auto"}, "tabindex": {"0"}},
    "pre": {"tabindex": {"0"}},
}
_ATTRIBUTES: Final[dict[str, set[str]]] = {
    "a": {"href"},
    "code": {"data-lang", "data-colours"},
    "details": {"open"},
    "div": {"data-note"},
    "img": {"alt", "data-picture"},
    "ol": {"start"},
    "sup": {"data-note"},
}

_ALIGNED: Final = {"l", "c", "r"}
"""Classes of left, centred and right cells: short, because each cell has one."""

_CLASSES: Final = {
    "code": {"tex"},
    "div": {"wide-table", "note"},
    "mtd": mathml.CELL_CLASSES,
    "td": _ALIGNED,
    "th": _ALIGNED,
}

_FOCUSABLE: Final = {"tabindex": "0"}
"""The attribute that makes content wider than the page scrollable with the keyboard."""

_DEEPEST: Final = 100
_HEADINGS: Final = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}
"""Headings of a text, below the page's own."""

_BETWEEN: Final = re.compile(
    r"\n*(</?(?:blockquote|br|details|div|h[3-6]|li|ol|p|pre|summary|table|tbody|td|th|thead|tr|ul)"
    r"(?: [^<>]*)?>)\n*"
)
_OPTIONAL: Final = re.compile(r"</(?:li|tbody|td|th|thead|tr)>")
"""End tags that a browser adds itself."""

_QUOTED_TAG: Final = re.compile(r'<[a-z0-9]+(?: [a-z-]+="[^"]*")+>')
_QUOTES: Final = re.compile(r'="([\w.,-]+)"(?=[ >])', re.ASCII)
"""Attributes that need no quotes; in JSON, each would be two characters."""


def block_tokens(text: str, environment: dict[str, Any]) -> "list[Token]":
    """Return the block tokens of a text, whose paragraphs are not parsed yet.

    `environment` collects the definitions of links and footnotes in the text.
    """
    environment[PAIRS] = None
    return _parser(True).parse(text, environment)


def html_of(tokens: "list[Token]", environment: dict[str, Any]) -> str:
    """Return tokens of `block_tokens` as sanitised HTML, without end tags that a browser adds itself.

    Links lead to http and https only. A link is followed by the name of its host, unless the link text is the
    URL itself. A picture of the workspace is an image without a source, whose `data-picture` is its path.
    """
    from markdown_it.rules_core import StateCore

    parser = _parser(False)
    state = StateCore("", parser, environment)
    state.tokens = tokens
    parser.core.process(state)
    unsafe = parser.renderer.render(state.tokens, parser.options, environment)
    clean = _cleaner().clean(unsafe.encode("utf-8", "replace").decode())
    compact = _OPTIONAL.sub("", _BETWEEN.sub(r"\1", clean)).rstrip("\n")
    return _QUOTED_TAG.sub(lambda tag: _QUOTES.sub(r"=\1", tag[0]), compact)


@cache
def _cleaner() -> "Cleaner":
    from nh3 import Cleaner

    return Cleaner(
        tags=TAGS | mathml.TAGS,
        attributes=_ATTRIBUTES | mathml.ATTRIBUTES,
        tag_attribute_values=_FIXED,
        allowed_classes=_CLASSES,
        set_tag_attribute_values={"a": {"target": "_blank"}},
        url_schemes={"http", "https"},
        url_relative="deny",
        link_rel="noreferrer",
    )


def plain_html(text: str) -> str:
    """Return a text as HTML that shows it as it is."""
    return f"<pre>{html.escape(text, quote=False)}</pre>" if text.strip() else ""


def code_html(code: str, language: str, runs: str) -> str:
    """Return a code block as HTML; its colours are the runs of `colours` in an attribute."""
    attributes = f' data-lang="{html.escape(language)}"' if language else ""
    attributes += f' data-colours="{runs}"' if runs else ""
    return f'<pre tabindex="0"><code{attributes}>{html.escape(code, quote=False)}</code></pre>'


@cache
def _parser(blocks: bool) -> "MarkdownIt":
    """Return a parser that reads only blocks, or one that reads what is in them."""
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin

    # Links in links are not worth the time that deep searches for them take.
    deepest = _DEEPEST if blocks else 20
    options = {"html": False, "breaks": True, "linkify": True, "maxNesting": deepest}
    parser = configured(MarkdownIt("commonmark", options))
    read_formulas(parser, as_text=False)
    footnote_plugin(parser, inline=False, move_to_end=False)
    alternatives = ["paragraph", "reference", "blockquote", "list"]
    parser.block.ruler.before("fence", "details", read_details, {"alt": alternatives})
    parser.block.ruler.before("table", "deep", _too_deep)
    assert parser.linkify is not None
    # Only complete URLs and mail addresses become links, no words that just look like a host name.
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
    parser.enable("linkify").core.ruler.push("page", _dress)
    for name, render in _RENDERED.items():
        parser.add_render_rule(name, render)
    if blocks:
        parser.core.ruler.enableOnly(["normalize", "block"])
    else:
        parser.core.ruler.disable(["normalize", "block"])
    return parser


def _too_deep(state: "StateBlock", line: int, end: int, silent: bool) -> bool:
    """Keep what is nested too deep as it is: the parser would drop it."""
    if state.level <= _DEEPEST - 5 or silent:
        return False
    token = state.push("code_block", "code", 0)
    token.content = state.getLines(line, end, state.blkIndent, True)
    token.map = [line, end]
    state.line = end
    return True


def _dress(state: "StateCore") -> None:
    """Change the tokens' tags and attributes to those that the page expects.

    Table columns are aligned by a class, because the page's content security policy forbids styles in the
    HTML.
    """
    dressed = []
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _HEADINGS[token.tag]
        elif token.type in ("th_open", "td_open"):
            aligned = str(token.attrs.get("style", "")).removeprefix("text-align:")[:1]
            token.attrs = {"class": aligned} if aligned else {}
        elif token.type == "table_open":
            dressed.append(_division("div_open", 1, {"class": "wide-table", **_FOCUSABLE}))
        if token.level == 0 and token.nesting == 1 and token.tag in _DIRECTED:
            token.attrSet("dir", "auto")
        dressed.append(token)
        if token.type == "table_close":
            dressed.append(_division("div_close", -1))
        if token.children:
            token.children = list(_with_hosts(token.children))
    state.tokens = dressed


def _with_hosts(tokens: Iterable["Token"]) -> Iterator["Token"]:
    """Append the host to each link whose text is not its URL, and make links of pictures of other hosts."""
    from markdown_it.token import Token

    address = words = ""
    in_link = False
    for token in tokens:
        if token.type == "image":
            source = str(token.attrs.get("src", ""))
            host = urlsplit(source).hostname or source
            if _is_path(source):
                yield token
            elif in_link or not source.startswith(("http://", "https://")):
                yield Token("text", "", 0, content=f"{token.content} ({host})")
            else:
                yield Token("link_open", "a", 1, attrs={"href": source})
                yield Token("text", "", 0, content=token.content or source)
                yield Token("link_close", "a", -1)
                yield Token("text", "", 0, content=f" ({host})")
            words += token.content
            continue
        if token.type == "link_open":
            address, words, in_link = str(token.attrs.get("href", "")), "", True
        words += token.content
        yield token
        if token.type == "link_close":
            in_link = False
            if token.info != "auto" and words != address:
                yield Token("text", "", 0, content=f" ({urlsplit(address).hostname or address})")


def _is_path(source: str) -> bool:
    """Return True for the path of a file, which has neither a scheme nor a host."""
    return bool(source) and re.match(r"[/\\]{2}|[A-Za-z][A-Za-z0-9+.-]*:|[#?]", source) is None


def _division(type: str, nesting: int, attrs: "dict[str, str | int | float] | None" = None) -> "Token":
    from markdown_it.token import Token

    return Token(type, "div", nesting, attrs=attrs or {}, block=True)  # type: ignore[arg-type]


def _formula(renderer: Any, tokens: "list[Token]", index: int, options: Any, environment: Any) -> str:
    token = tokens[index]
    shown = mathml.mathml(token.content, token.meta["display"])
    return shown or f'<code class="tex">{html.escape(token.info)}</code>'


def _fence(renderer: Any, tokens: "list[Token]", index: int, options: Any, environment: Any) -> str:
    """Return a code block. Its colours are runs in an attribute, as in a block that is all code."""
    token = tokens[index]
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
    return code_html(token.content, language, colours(token.content, language)) + "\n"


def _picture(renderer: Any, tokens: "list[Token]", index: int, options: Any, environment: Any) -> str:
    token = tokens[index]
    path, words = (
        unquote(str(token.attrs["src"])),
        renderer.renderInlineAsText(token.children, options, environment),
    )
    return f'<img data-picture="{html.escape(path)}" alt="{html.escape(words)}">'


def _note_mark(renderer: Any, tokens: "list[Token]", index: int, options: Any, environment: Any) -> str:
    number = tokens[index].meta["id"] + 1
    return f'<sup data-note="{number}">{number}</sup>'


def _note(renderer: Any, tokens: "list[Token]", index: int, options: Any, environment: Any) -> str:
    label = tokens[index].meta["label"]
    known = environment["footnotes"]["refs"].get(f":{label}", -1)
    number = str(known + 1) if known >= 0 else html.escape(label)
    direction = ' dir="auto"' if tokens[index].level == 0 else ""
    return f'<div class="note" data-note="{number}"{direction}><sup>{number}</sup> '


def _note_end(renderer: Any, tokens: "list[Token]", index: int, options: Any, environment: Any) -> str:
    return "</div>"


_RENDERED: Final = {
    "formula": _formula,
    "fence": _fence,
    "code_block": _fence,
    "image": _picture,
    "footnote_ref": _note_mark,
    "footnote_reference_open": _note,
    "footnote_reference_close": _note_end,
}
