"""Conversion of e-mails (`eml`, `mbox`, and pages saved as MIME, `mht`) to text, with what is attached."""

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from typing import Any, Final

from rumi.platform.text_decoding import decode
from rumi.web.readers.pages.cleaning import one_line
from rumi.web.readers.pages.documents.lines import Lines, NoDocumentError, Reading
from rumi.web.readers.pages.html import to_markdown
from rumi.web.readers.pages.mail_headers import RawHeaders, charset_of, file_name_of, header_text

HEADERS: Final = ("From", "To", "Cc", "Bcc", "Reply-To", "Date", "Subject")

_MOST_MESSAGES: Final = 200
_MOST_PARTS: Final = 500
_MOST_DEPTH: Final = 20
_LOCKED: Final = ("multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime")
_FURNITURE: Final = (
    "application/pgp-signature",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
)
_MOST_BEFORE_BYTES: Final = 8192
_HEADERS: Final = re.compile(
    rb"^[A-Za-z][A-Za-z0-9-]{1,60}:(?:[^\r\n]*\r?\n[ \t])*[^\r\n]*\r?\n(?=[A-Za-z0-9-]+:|\r?\n)", re.MULTILINE
)
_BETWEEN: Final = re.compile(rb"^From [^\r\n]*\r?\n", re.MULTILINE)


def mail_lines(body: bytes, reading: Reading) -> Lines:
    """Yield the headers, texts and attachments of a message, or of the messages of a mailbox."""
    starts = [found.start() for found in _BETWEEN.finditer(body)] if body.startswith(b"From ") else []
    if not starts:
        begin = _HEADERS.search(body[:_MOST_BEFORE_BYTES])  # lines of other programs may stand before them
        yield from _Letter(reading).lines(_parsed(body[begin.start() :] if begin else body), 0)
        return
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(body)], strict=True), 1):
        if number > _MOST_MESSAGES:
            reading.losses.add("message", count=len(starts) - _MOST_MESSAGES)
            return
        yield f"## Message {number} of {len(starts)}"
        yield from _Letter(reading).lines(_parsed(_BETWEEN.sub(b"", body[start:end], count=1)), 0)


def attachment_lines(name: str, data: bytes, media_type: str, reading: Reading) -> Lines:
    """Yield the name of an attached file, and its text if it is a document or a text."""
    said = ", ".join(filter(None, (media_type, f"{len(data):,} bytes")))
    yield f"[attachment] {one_line(name) or 'without a name'} ({said})"
    if media_type.startswith("text/") and media_type not in ("text/html", "text/rtf"):
        yield from decode(data).splitlines()
        return
    try:
        yield from reading.nested(data, name)
    except NoDocumentError as error:
        yield f"[its content is not in this text: {error}]"
        reading.losses.add("attachment")


def html_lines(html: str, losses_of: Reading) -> Iterator[str]:
    """Yield the lines of the Markdown of an HTML document."""
    page = to_markdown(html, "", whole=True)
    if page.deeper:
        losses_of.losses.note("it is nested too deeply, and all from there on is missing")
    yield from page.text.strip().splitlines()


def _parsed(body: bytes) -> Message:
    return message_from_bytes(body, policy=RawHeaders())


class _Letter:
    """One message, with the messages in it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._parts = 0

    def lines(self, message: Message, depth: int) -> Lines:
        for name in HEADERS:
            for value in message.get_all(name, [])[:20]:
                yield f"{name}: {header_text(value, charset_of(message))}"
        yield ""
        yield from self._part(message, depth)

    def _part(self, part: Message, depth: int) -> Lines:
        self._parts += 1
        if depth > _MOST_DEPTH or self._parts > _MOST_PARTS:
            self._reading.losses.add("part of the message", "parts of the message")
            return
        kind = part.get_content_type()
        payload: Any = part.get_payload()
        inner: list[Message] | None = payload if isinstance(payload, list) else None
        if kind in _LOCKED and "signed-data" not in str(part.get("Content-Type", "")):
            self._reading.losses.add("encrypted part")
            yield "[encrypted part: it cannot be read without its recipient's key]"
        elif inner is not None and kind == "message/rfc822":
            yield "[attached message]"
            for message in inner[:1]:
                yield from self.lines(message, depth + 1)
        elif inner is not None and kind == "multipart/alternative":
            yield from self._best(inner, depth)
        elif inner is not None:
            for one in inner:
                yield from self._part(one, depth + 1)
                yield ""
        elif kind not in _FURNITURE:
            yield from self._leaf(part, kind)

    def _best(self, parts: list[Message], depth: int) -> Lines:
        """Yield one of several forms of the same text: the plain one, unless it says much less."""
        texts = [[line for line in self._part(part, depth + 1) if line is not None] for part in parts]
        sizes = [sum(map(len, text)) for text in texts]
        plain = next((n for n, part in enumerate(parts) if part.get_content_type() == "text/plain"), None)
        most = max(range(len(texts)), key=sizes.__getitem__, default=None)
        if most is None:
            return
        yield from texts[most if plain is None or sizes[most] > 3 * sizes[plain] + 200 else plain]

    def _leaf(self, part: Message, kind: str) -> Lines:
        name = file_name_of(part)
        data = part.get_payload(decode=True)
        data = data if isinstance(data, bytes) else b""
        shown = part.get_content_disposition() != "attachment"
        if shown and kind == "text/html":
            yield from html_lines(decode(data, charset_of(part), markup="html"), self._reading)
        elif shown and kind.startswith(("text/", "multipart/")) and kind != "text/rtf":
            yield from decode(data, charset_of(part)).splitlines()
        elif kind.startswith("image/") and part.get("Content-ID"):
            self._reading.losses.add("picture")
        elif kind.startswith("text/css"):
            pass
        else:
            yield from attachment_lines(name, data, kind, self._reading)
