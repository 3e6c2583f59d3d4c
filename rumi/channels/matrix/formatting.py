"""Replies as contents of events: cut to the size that servers take, as text and as sanitised HTML."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from html import unescape
from typing import TYPE_CHECKING, Any, Final

from rumi.channels.markdown import html_of, parser
from rumi.store.journal.transaction import clean

if TYPE_CHECKING:
    from nh3 import Cleaner

MOST_CHARS: Final = 12_000
"""Maximum length of a message's Markdown, in characters."""

MOST_BYTES: Final = 23_000
"""Maximum size of a message's content.

An edit has it twice, encryption makes four bytes of three, and servers take events of 65,536 bytes.
"""

NOTHING: Final = "…"

_TAGS: Final = {
    *(
        "a",
        "blockquote",
        "br",
        "code",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
    ),
    *("s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
"""Tags that the specification lets clients show, of those that Markdown can have."""


def parts_of(text: str) -> tuple[str, ...]:
    """Return a reply as one or more messages in Markdown. The same text always gives the same messages."""
    parts = list[str]()
    for part in _cut(clean(text).strip(), MOST_CHARS):
        parts += _fitting(part)
    return tuple(parts) or (NOTHING,)


def content_of(markdown: str) -> dict[str, Any]:
    """Return the content of a message: its text, and HTML if it has any formatting. It mentions nobody."""
    content: dict[str, Any] = {"msgtype": "m.text", "body": markdown or NOTHING, "m.mentions": {}}
    html = html_in(markdown)
    if html:
        content |= {"format": "org.matrix.custom.html", "formatted_body": html}
    return content if _size(content) <= MOST_BYTES else plain(markdown)


def plain(text: str) -> dict[str, Any]:
    """Return the content of a message without formatting."""
    return {"msgtype": "m.text", "body": text or NOTHING, "m.mentions": {}}


def html_in(markdown: str) -> str:
    """Return Markdown as sanitised HTML; empty if its text says the same."""
    html = _cleaner().clean(html_of(markdown)).strip()
    if html.count("<p>") == 1 and html.startswith("<p>") and html.endswith("</p>"):
        html = html.removeprefix("<p>").removesuffix("</p>")
    return "" if "<" not in html and unescape(html) == markdown.strip() else html


def edit_of(event: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of an event that replaces the content of another one."""
    new = {name: value for name, value in content.items() if name != "m.relates_to"}
    edit: dict[str, Any] = {
        **new,
        "m.new_content": new,
        "m.relates_to": {"rel_type": "m.replace", "event_id": event},
    }
    edit["body"] = f"* {new['body']}"
    if "formatted_body" in new:
        edit["formatted_body"] = f"* {new['formatted_body']}"
    return edit


@cache
def _cleaner() -> "Cleaner":
    import nh3

    return nh3.Cleaner(
        tags=_TAGS,
        attributes={"a": {"href"}, "code": {"class"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto", "geo", "magnet", "matrix"},
        link_rel=None,
    )


def _size(content: Mapping[str, Any]) -> int:
    return len(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))


def _fitting(part: str) -> Iterator[str]:
    """Yield a part in pieces whose text alone fits."""
    if _size(plain(part)) <= MOST_BYTES:
        yield part
        return
    half = len(part) // 2
    for piece in _cut(part, half):
        yield from _fitting(piece)


def _cut(text: str, most: int) -> Iterator[str]:
    """Cut Markdown between blocks, or else between lines or words. A code block goes on in the next part."""
    if len(text) <= most:
        if text:
            yield text
        return
    lines, part, size = text.split("\n"), list[str](), 0
    for first, end, fence in _blocks(text, len(lines)):
        block = "\n".join(lines[first:end])
        if size + len(block) + 1 > most and part:
            yield "\n".join(part).strip("\n")
            part, size = [], 0
        if len(block) > most:
            *whole, block = _long(block, most, fence)
            yield from whole
        part.append(block)
        size += len(block) + 1
    if "".join(part).strip():
        yield "\n".join(part).strip("\n")


def _blocks(text: str, lines: int) -> Iterator[tuple[int, int, str]]:
    """Yield the first line of each block, the line behind it, and the line that opens it if it is a fence."""
    starts = [(0, "")]
    for token in parser().parse(text):
        if token.level == 0 and token.nesting >= 0 and token.map is not None:
            fence = f"{token.markup}{token.info}" if token.type == "fence" else ""
            if token.map[0] == starts[-1][0]:
                starts[-1] = (token.map[0], fence)
            else:
                starts.append((token.map[0], fence))
    for (first, fence), (end, _) in zip(starts, [*starts[1:], (lines, "")], strict=True):
        yield first, end, fence


def _long(block: str, most: int, fence: str) -> list[str]:
    """Cut a block that is longer than a message between its lines, or else within them."""
    opening, closing = (f"{fence}\n", f"\n{fence[:3]}") if fence else ("", "")
    if fence:
        block = block.strip("\n").removeprefix(fence).removeprefix("\n").removesuffix(fence[:3]).rstrip("\n")
    room = max(most - len(opening) - len(closing), 1)
    pieces, piece = list[str](), ""
    for line in block.split("\n"):
        while len(line) > room:
            if piece:
                pieces.append(piece)
                piece = ""
            at = line.rfind(" ", room // 2, room) + 1 or room
            pieces.append(line[:at])
            line = line[at:]
        if piece and len(piece) + len(line) + 1 > room:
            pieces.append(piece)
            piece = line
        else:
            piece = f"{piece}\n{line}" if piece else line
    return [f"{opening}{one}{closing}" for one in (*pieces, piece) if one.strip()] or [""]
