"""Markdown rendering: the parser for the terminal and the page, and conversion to HTML for the page."""

import html
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

_TASKS: Final = {"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "}

_TAGS: Final = {
    *("a", "blockquote", "br", "code", "div", "em", "hr", "li", "ol", "p", "pre", "s", "strong", "ul"),
    *("span", "table", "tbody", "td", "th", "thead", "tr"),
}
_LANGUAGES: Final = frozenset(
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

MOST_COLOURED: Final = 20_000
"""Maximum length of a coloured code block, in characters: lexers are slow on hostile texts."""

_COLOURS: Final = {"k", "s", "c", "m", "f", "i", "d"}
"""CSS classes of keywords, strings, comments, numbers, function names, inserted lines and deleted lines."""

_ALIGNED: Final = {"left", "center", "right"}
_CLASSES: Final = {
    "div": {"wide-table"}, "p": {"heading"}, "td": _ALIGNED, "th": _ALIGNED, "span": _COLOURS
}  # fmt: skip
MOST_CHARS: Final = 100_000
"""Maximum length of a parsed text, in characters; parsing a longer one would block the process."""

_FOCUSABLE: Final = {"tabindex": "0"}
"""The attribute that makes content wider than the page scrollable with the keyboard."""


def parser() -> "MarkdownIt":
    """Return a parser for CommonMark with tables, strike-through and task lists.

    HTML in the source is parsed as plain text, so that it stays visible in the output.
    """
    return _parser(False)


@cache
def _parser(for_page: bool) -> "MarkdownIt":
    from markdown_it import MarkdownIt

    options = {
        "html": False,
        "breaks": True,
        "linkify": for_page,
        "highlight": _coloured if for_page else None,
    }
    parser = configured(MarkdownIt("commonmark", options))
    if for_page:
        assert parser.linkify is not None
        # Only complete URLs and mail addresses become links, no words that just look like a host name.
        parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
        parser.enable("linkify").core.ruler.push("page", _dress)
    return parser


def configured(parser: "MarkdownIt") -> "MarkdownIt":
    """Enable what all channels read beyond CommonMark: tables, strike-through and task lists."""
    parser.enable(["table", "strikethrough"]).core.ruler.before("inline", "tasks", _mark_tasks)
    return parser


def finished_lines(text: str) -> int:
    """Return the number of leading lines whose blocks cannot change when more text is appended.

    Only the last block of a Markdown text can still grow or become another kind of block. For example, a
    paragraph can become a heading, and a line with bars a table.
    """
    starts = [
        token.map[0]
        for token in parser().parse(text)
        if token.level == 0 and token.nesting >= 0 and token.map is not None
    ]
    return starts[-1] if len(starts) > 1 else 0


@lru_cache(maxsize=64)
def to_html(text: str) -> str:
    """Return the text as HTML for the page: no script, style, image or form, whatever the text contains.

    The parser escapes all HTML of the text, and a sanitizer drops every tag and attribute that is not in an
    allowlist. Links lead to http and https only. A link is followed by the name of its host, unless the link
    text is the URL itself. A hostile text takes up to two seconds of CPU time: call this function in a
    thread.
    """
    import nh3

    if len(text) > MOST_CHARS:
        return f"<pre>{html.escape(text)}</pre>"

    return nh3.clean(
        _parser(True).render(text),
        tags=_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        allowed_classes=_CLASSES,
        set_tag_attribute_values={"a": {"target": "_blank"}, "pre": _FOCUSABLE, "div": _FOCUSABLE},
        url_schemes={"http", "https"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )


@lru_cache(maxsize=64)
def growing_html(text: str) -> tuple[int, str, str]:
    """Split a growing text into a first part, whose HTML can no longer change, and the remaining text.

    Returns the length of the first part, its HTML, and the HTML of the remaining text.
    """
    final = sum(len(line) for line in text.splitlines(keepends=True)[: finished_lines(text)])
    return final, to_html(text[:final]) if final else "", to_html(text[final:])


def _coloured(code: str, language: str, attrs: object) -> str:
    """Return code as HTML with a CSS class on each coloured token; empty for an unknown language."""
    if language.lower() not in _LANGUAGES or len(code) > MOST_COLOURED:
        return ""
    from pygments import lex
    from pygments.lexers import get_lexer_by_name
    from pygments.token import Token as Kind
    from pygments.util import ClassNotFound

    kinds = (
        *((Kind.Keyword, "k"), (Kind.Operator.Word, "k"), (Kind.Literal.String, "s"), (Kind.Comment, "c")),
        *(
            (Kind.Literal.Number, "m"),
            (Kind.Name.Function, "f"),
            (Kind.Name.Class, "f"),
            (Kind.Name.Tag, "k"),
        ),
        *((Kind.Generic.Inserted, "i"), (Kind.Generic.Deleted, "d")),
    )
    try:
        lexer = get_lexer_by_name(language, ensurenl=False, stripnl=False)
    except ClassNotFound:
        return ""
    coloured = ""
    for kind, text in lex(code, lexer):
        colour = next((colour for known, colour in kinds if kind in known), "")
        text = html.escape(text)
        coloured += f'<span class="{colour}">{text}</span>' if colour and text.strip() else text
    return coloured


def _mark_tasks(state: "StateCore") -> None:
    """Replace the checkbox of a task, such as "[x] " at the start of a list item, with a character."""
    for index, token in enumerate(state.tokens):
        if token.type == "inline" and index >= 2 and state.tokens[index - 2].type == "list_item_open":
            token.content = _TASKS.get(token.content[:4], token.content[:4]) + token.content[4:]


def _dress(state: "StateCore") -> None:
    """Change the tokens' tags and classes to those that the page's style sheet expects.

    Headings become paragraphs, because they must not mix with the page's own headings. Table columns are
    aligned by a class, because the page's content security policy forbids styles in the HTML.
    """
    dressed = []
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
            token.attrs = {"class": "heading"}
        elif token.type in ("th_open", "td_open"):
            token.attrs = {"class": str(token.attrs.get("style", "")).removeprefix("text-align:")}
        elif token.type == "table_open":
            dressed.append(_block("div_open", 1, {"class": "wide-table"}))
        dressed.append(token)
        if token.type == "table_close":
            dressed.append(_block("div_close", -1))
        if token.children:
            token.children = list(_with_hosts(token.children))
    state.tokens = dressed


def _with_hosts(tokens: Iterable["Token"]) -> Iterator["Token"]:
    """Replace images with their text and URL; append the host to each link whose text is not its URL."""
    from markdown_it.token import Token

    address = words = ""
    for token in tokens:
        if token.type == "image":
            token = Token("text", "", 0, content=f"{token.content} ({token.attrs.get('src', '')})")
        if token.type == "link_open":
            address, words = str(token.attrs.get("href", "")), ""
        words += token.content
        yield token
        if token.type == "link_close" and token.info != "auto" and words != address:
            yield Token("text", "", 0, content=f" ({urlsplit(address).hostname or address})")


def _block(type: str, nesting: int, attrs: "dict[str, str | int | float] | None" = None) -> "Token":
    from markdown_it.token import Token

    return Token(type, "div", nesting, attrs=attrs or {}, block=True)  # type: ignore[arg-type]
