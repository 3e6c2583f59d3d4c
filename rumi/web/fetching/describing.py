"""Words for what is not read: the answer to a HEAD, and bodies that are no text."""

from rumi.web.fetching.body import Body
from rumi.web.fetching.headers import Headers
from rumi.web.reading.kinds import SNIFFED_BYTES, looks_like

_MOST_CHARS = 60


def describe_head(headers: Headers) -> str:
    """Type, size and date, as far as the server tells them."""
    told = [headers.media_type or "no type told", _size(headers)]
    if modified := _plain(headers.first("last-modified")):
        told.append(f"last modified {modified}")
    return ", ".join(filter(None, told))


def describe_body(headers: Headers, body: Body) -> str:
    """What it is that cannot be read as text."""
    seems = looks_like(body.data[:SNIFFED_BYTES])
    told = [headers.media_type or "no type told", _size(headers), f"looks like {seems}" if seems else ""]
    return f"Not a text: {', '.join(filter(None, told))}. It was not downloaded."


def _size(headers: Headers) -> str:
    size = headers.size
    packed = " compressed" if headers.first("content-encoding") not in ("", "identity") else ""
    return "" if size is None else f"{size:,} bytes{packed}"


def _plain(words: str) -> str:
    """A server's words, if they are short and of one line."""
    return words if len(words) <= _MOST_CHARS and words.isascii() and words.isprintable() else ""
