"""Reading of mails: headers, addresses, text and attachments of any mail, however it was written.

A mail comes from others, so nothing of it is trusted, and nothing of it is fetched: pictures of other servers
are never loaded. What could deceive about the sender is named in `ReadMail.warnings`.
"""

import binascii
import re
from dataclasses import dataclass, field, replace
from datetime import UTC
from email import message_from_bytes
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import getaddresses, parsedate_to_datetime
from typing import Any, Final

from rumi.platform.text_decoding import decode
from rumi.services.mail.senders import MailAddress, warnings_about
from rumi.web.readers.pages.mail_headers import RawHeaders, charset_of, file_name_of, header_text

MOST_CHARS: Final = 1_000_000
"""Maximum length of a mail's text, in characters."""

_MOST_PARTS: Final = 500
_MOST_DEPTH: Final = 20
_MOST_ATTACHMENTS: Final = 100
_MOST_ADDRESSES: Final = 200
_MOST_CALENDAR: Final = 20_000
_LEAST_PLAIN: Final = 200
_ENCRYPTED: Final = ("multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime")
_SIGNATURES: Final = (
    "application/pgp-signature",
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
)
_UUENCODED: Final = re.compile(
    r"^begin [0-7]{3,4} (?P<name>[^\n]{1,200})\n(?:[ -`]{1,80}\n)*end$", re.MULTILINE
)
_ID: Final = re.compile(r"<[^<>\s]{1,900}>")


@dataclass(frozen=True, slots=True)
class MailFile:
    """A file of a mail. `number` counts from 1. `data` is decoded."""

    number: int
    name: str
    media_type: str
    data: bytes = field(repr=False)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class ReadMail:
    """A mail. All of it comes from others.

    `date` is the text of the header, and `sent_at` the same in seconds since 1970, or None if it is no date.
    `text` is the plain text, and `html` the source of the text in HTML; a mail may have one of them or both.
    `left_out` says what is missing, `warnings` what may deceive about the sender. `checked` is what the
    receiving server says about the sender (Authentication-Results), which others may have forged.
    """

    subject: str
    sender: tuple[MailAddress, ...]
    to: tuple[MailAddress, ...]
    cc: tuple[MailAddress, ...]
    reply_to: tuple[MailAddress, ...]
    date: str
    sent_at: float | None
    message_id: str
    references: tuple[str, ...]
    text: str
    html: str = ""
    attachments: tuple[MailFile, ...] = ()
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    checked: str = ""

    @property
    def prefers_html(self) -> bool:
        """True if the text in HTML says more than the plain one, as far as their lengths tell."""
        plain = len(self.text.strip())
        return bool(self.html) and (
            not plain or (plain < _LEAST_PLAIN and len(self.html) > 20 * plain + 2000)
        )


def read_mail(raw: bytes) -> ReadMail:
    """Read a mail, in a thread. It never fails: `left_out` names what cannot be read."""
    try:
        message = message_from_bytes(raw, policy=RawHeaders())
        return _Reader(message).mail()
    except (RecursionError, MemoryError):
        headers = BytesHeaderParser(policy=RawHeaders()).parsebytes(raw[: raw.find(b"\n\n") + 2 or 100_000])
        headers.set_payload("")
        del headers["Content-Type"]
        return replace(_Reader(headers).mail(), left_out=("the text: the mail is nested too deeply",))


class _Reader:
    def __init__(self, message: Message) -> None:
        self._message = message
        self._parts = 0
        self._texts: list[str] = []
        self._html: list[str] = []
        self._chars = 0
        self._attachments: list[MailFile] = []
        self._left_out: dict[str, None] = {}

    def mail(self) -> ReadMail:
        message = self._message
        self._part(message, 0)
        sender, reply_to = self._addresses("From"), self._addresses("Reply-To")
        date = self._header("Date")
        ids = _ID.findall(f"{message.get('References', '')} {message.get('In-Reply-To', '')}")
        return ReadMail(
            self._header("Subject"),
            sender,
            self._addresses("To"),
            self._addresses("Cc"),
            reply_to,
            date,
            _seconds(date),
            next(iter(_ID.findall(str(message.get("Message-ID", ""))[:2000])), ""),
            tuple(dict.fromkeys(ids)),
            "\n\n".join(filter(None, self._texts)),
            "\n<hr>\n".join(self._html),
            tuple(self._attachments),
            tuple(self._left_out),
            warnings_about(sender, reply_to),
            self._checked(),
        )

    def _header(self, name: str) -> str:
        return header_text(self._message.get(name, ""), charset_of(self._message))

    def _addresses(self, name: str) -> tuple[MailAddress, ...]:
        # Parsed before the words are decoded: decoded words could contain commas and brackets of addresses.
        raw = [str(value) for value in self._message.get_all(name, [])[:5]]
        try:
            found = getaddresses(raw)[:_MOST_ADDRESSES]
        except (ValueError, IndexError, TypeError):
            return tuple(MailAddress(header_text(value), "") for value in raw)
        label = charset_of(self._message)
        return tuple(
            MailAddress(header_text(name, label), header_text(address, label))
            for name, address in found
            if name or address
        )

    def _checked(self) -> str:
        """Return the results of the receiving server: those above the second server that had the mail."""
        received = 0
        for name, value in self._message.items():
            received += name.casefold() == "received"
            if received > 1:
                return ""
            if name.casefold() == "authentication-results":
                return header_text(value)[:1000]
        return ""

    def _part(self, part: Message, depth: int) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS or depth > _MOST_DEPTH:
            self._leave_out("further parts: there are too many of them")
            return
        kind = part.get_content_type()
        payload: Any = part.get_payload()
        inner: list[Message] | None = payload if isinstance(payload, list) else None
        if kind in _ENCRYPTED and "signed-data" not in str(part.get("Content-Type", "")):
            self._leave_out("an encrypted part, which only its receiver's key can open")
        elif kind in _SIGNATURES:
            self._leave_out("a signature, which was not checked")
        elif inner is not None and kind == "message/rfc822":
            self._message_within(part, inner, depth)
        elif inner is not None and kind == "multipart/alternative":
            self._alternatives(inner, depth)
        elif inner is not None:
            for one in inner:
                self._part(one, depth + 1)
        else:
            self._leaf(part, kind)

    def _alternatives(self, parts: list[Message], depth: int) -> None:
        """Read the forms of the same text: the last plain one, and one in HTML, which may say more."""
        plain = [part for part in parts if part.get_content_type() == "text/plain"]
        for part in (*plain[-1:], *(part for part in parts if part.get_content_type() != "text/plain")):
            self._part(part, depth + 1)

    def _message_within(self, part: Message, inner: list[Message], depth: int) -> None:
        for message in inner[:1]:
            label = charset_of(message)
            heads = (
                f"{name}: {header_text(message[name], label)}"
                for name in ("From", "To", "Subject", "Date")
                if message[name]
            )
            self._add_text("\n".join(("[attached mail]", *heads)))
            try:
                data = message.as_bytes()
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
                data = b""
            if data:
                self._attach(file_name_of(part) or "mail.eml", "message/rfc822", data)
            self._part(message, depth + 1)

    def _leaf(self, part: Message, kind: str) -> None:
        name, data = file_name_of(part), _decoded(part)
        shown = part.get_content_disposition() != "attachment" and not (name and not kind.startswith("text/"))
        if kind == "application/ms-tnef" or name.casefold() == "winmail.dat":
            self._leave_out("winmail.dat (TNEF), whose content cannot be read")
            self._attach(name, kind, data)
        elif kind == "text/calendar":
            text = decode(data, charset_of(part))[:_MOST_CALENDAR]
            self._add_text(f"[calendar invitation; nobody has accepted it]\n{text}")
            self._attach(name or "invitation.ics", kind, data)
        elif shown and kind == "text/html":
            self._html.append(self._within(decode(data, charset_of(part), markup="html")))
        elif shown and kind.startswith(("text/", "multipart/")) and kind not in ("text/rtf", "text/css"):
            self._add_text(self._without_uuencoded(decode(data, charset_of(part))))
        elif kind.startswith("message/") and not name:
            self._add_text(decode(data, charset_of(part)))
        elif kind != "text/css":
            self._attach(name, kind, data)

    def _without_uuencoded(self, text: str) -> str:
        def named(found: re.Match[str]) -> str:
            self._leave_out(f"the uuencoded file {found['name']}")
            return f"[uuencoded file: {found['name']}]"

        return _UUENCODED.sub(named, text.replace("\r\n", "\n")) if "\nend" in text else text

    def _add_text(self, text: str) -> None:
        self._texts.append(self._within(text.replace("\r\n", "\n").strip("\n")))

    def _within(self, text: str) -> str:
        """Return as much of a text as the mail may have."""
        left = max(0, MOST_CHARS - self._chars)
        self._chars += len(text)
        if len(text) > left:
            self._leave_out(f"the text after {MOST_CHARS} characters")
        return text[:left]

    def _attach(self, name: str, kind: str, data: bytes) -> None:
        if len(self._attachments) >= _MOST_ATTACHMENTS:
            self._leave_out(f"attachments after the first {_MOST_ATTACHMENTS}")
            return
        self._attachments.append(MailFile(len(self._attachments) + 1, name[:300], kind[:100], data))

    def _leave_out(self, what: str) -> None:
        if len(self._left_out) < 20:
            self._left_out[what] = None


def _decoded(part: Message) -> bytes:
    """Return the bytes of a part; a broken encoding gives what could be decoded."""
    try:
        data = part.get_payload(decode=True)
    except (ValueError, LookupError, TypeError, AttributeError, binascii.Error):
        data = None
    if isinstance(data, bytes):
        return data
    text = part.get_payload()
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else b""


def _seconds(date: str) -> float | None:
    try:
        at = parsedate_to_datetime(date)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
