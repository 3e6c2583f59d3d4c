"""Headers of e-mails, read liberally: what cannot be decoded stays as it is."""

from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.policy import Compat32
from typing import Final

from rumi.platform.text_decoding import decode
from rumi.web.readers.pages.cleaning import one_line

MOST_HEADER_CHARS: Final = 5000
_MOST_SOURCE_CHARS: Final = 30_000


class RawHeaders(Compat32):
    """A policy that returns headers as they were sent, cut to a length that parsers can take.

    Its base replaces bytes above 127. The parsers of parameters and addresses take quadratic time.
    """

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        """Return the name and the beginning of the value."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_MOST_SOURCE_CHARS]

    def header_fetch_parse(self, name: str, value: str) -> str:
        """Return the value unchanged."""
        return value


def header_text(value: object, charset: str = "") -> str:
    """Decode a header (RFC 2047) leniently, and return it on one line.

    `charset` is that of the text below; old programs use it for headers too.
    """
    raw = str(value or "")[:MOST_HEADER_CHARS]
    try:
        # Bytes above 127, which headers may not have, are surrogates here: they were not decoded yet.
        raw = decode(raw.encode("ascii", "surrogateescape"), charset)
    except UnicodeEncodeError:
        raw = raw.encode("utf-8", "replace").decode()
    try:
        pieces = decode_header(raw)
    except (HeaderParseError, ValueError):
        return one_line(raw, MOST_HEADER_CHARS)
    texts = [decode(piece, label or "") if isinstance(piece, bytes) else piece for piece, label in pieces]
    return one_line("".join(texts), MOST_HEADER_CHARS)


def charset_of(part: Message) -> str:
    """Return the encoding that a part declares; empty if it declares none."""
    try:
        return part.get_content_charset("") or ""
    except (LookupError, ValueError, TypeError):
        return ""


def file_name_of(part: Message) -> str:
    """Return the name of a part's file (RFC 2231, or as old programs write it); empty without one."""
    try:
        return header_text(part.get_filename(""))
    except (LookupError, ValueError, TypeError):
        return ""
