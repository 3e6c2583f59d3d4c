"""Mails to be sent: checked, and written so that every server can take them."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from hashlib import sha256
from typing import Final

from rumi.services.mail.errors import MailError

MOST_RECIPIENTS: Final = 50
_MOST_SUBJECT: Final = 500
_MOST_REFERENCES: Final = 20
_BAD: Final = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]")
_DOMAIN: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)+[a-z0-9-]*[a-z-][a-z0-9-]*")
_TYPE: Final = re.compile(r"(?!message/|multipart/)[a-z0-9.+-]+/[a-z0-9.+-]+")
_LOCAL: Final = re.compile(r"[^\s<>()\[\],;:\"\\@]{1,64}")
_ID: Final = re.compile(r"<[^<>\s]{1,900}>")
# Encoded words and 7-bit bodies: no server has to know 8BITMIME, and no line is too long.
_POLICY: Final = policy.SMTP.clone(cte_type="7bit", max_line_length=76)


@dataclass(frozen=True, slots=True)
class Attached:
    """A file to be sent: its name, its media type and its bytes."""

    name: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Recipient:
    """An address, in ASCII as far as its domain goes, and the name that the mail shows beside it."""

    address: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.name} <{self.address}>" if self.name else self.address


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A mail that is ready to be sent.

    `sender` and `recipients` are the addresses of the envelope. `raw` is the mail with CRLF as ends of lines,
    without Bcc. `needs_utf8` means that the server must support SMTPUTF8.
    """

    sender: str
    recipients: tuple[str, ...]
    message_id: str
    raw: bytes
    needs_utf8: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """What a mail says, before it is written. `in_reply_to` and `references` are Message-IDs.

    `headers` are further headers, such as `Auto-Submitted`. `html` is the same text in HTML, empty for none.
    """

    sender: Recipient
    to: tuple[Recipient, ...]
    cc: tuple[Recipient, ...] = ()
    bcc: tuple[Recipient, ...] = ()
    subject: str = ""
    text: str = ""
    attached: tuple[Attached, ...] = ()
    in_reply_to: str = ""
    references: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    html: str = ""


def recipient_of(text: str) -> Recipient:
    """Parse one recipient: `ana@example.org` or `Ana <ana@example.org>`.

    Raises:
        MailError: This is not exactly one address.
    """
    text = text.strip()
    if _BAD.search(text):
        raise MailError("invalid", "A recipient has a control character: {text}", text=repr(text[:100]))
    found = re.fullmatch(r'(?:"([^"]*)"|([^<>"]*))\s*<([^<>]*)>', text)
    name, address = ((found[1] or found[2] or "").strip(), found[3].strip()) if found else ("", text)
    return Recipient(address_of(address), name)


def address_of(text: str) -> str:
    """Return an address with its domain in ASCII (IDNA).

    Raises:
        MailError: The text is not an address.
    """
    local, at, domain = text.rpartition("@")
    host = _ascii_domain(domain) if at and _LOCAL.fullmatch(local) and not _BAD.search(local) else ""
    if not host or ".." in local or local.startswith(".") or local.endswith("."):
        raise MailError("invalid", "{text} is not a mail address.", text=text[:100] or '""')
    return f"{unicodedata.normalize('NFC', local)}@{host}"


def message_id(key: str, sender: str) -> str:
    """Return the Message-ID of the mail with a key: the same key always gives the same one."""
    digest = sha256(key.encode()).hexdigest()[:40]
    return f"<rumi-{digest}@{sender.rpartition('@')[2]}>"


def written(draft: Draft, key: str, at: float, *, keep_bcc: bool = False) -> Outgoing:
    """Write a mail, whose Message-ID follows from `key`; `at` is its date, in seconds since 1970.

    With `keep_bcc`, the mail names the hidden recipients: for the folder of drafts.

    Raises:
        MailError: The subject or a name has control characters, or there are too many recipients.
    """
    everyone = (*draft.to, *draft.cc, *draft.bcc)
    if len(everyone) > MOST_RECIPIENTS:
        raise MailError("invalid", "A mail has at most {most} recipients.", most=MOST_RECIPIENTS)
    if _BAD.search(draft.subject) or len(draft.subject) > _MOST_SUBJECT:
        raise MailError("invalid", "A subject is one line of at most {most} characters.", most=_MOST_SUBJECT)
    utf8 = any(not one.address.isascii() for one in (draft.sender, *everyone))
    mail = EmailMessage(policy=policy.SMTPUTF8.clone(cte_type="7bit") if utf8 else _POLICY)
    mail["From"] = _header_address(draft.sender)
    for header, people in (("To", draft.to), ("Cc", draft.cc), ("Bcc", draft.bcc if keep_bcc else ())):
        if people:
            mail[header] = [_header_address(one) for one in people]
    mail["Subject"] = draft.subject
    mail["Date"] = format_datetime(datetime.fromtimestamp(at, UTC).astimezone())
    mail["Message-ID"] = own = message_id(key, draft.sender.address)
    references = [one for one in (*draft.references, draft.in_reply_to) if _ID.fullmatch(one)]
    if references:
        mail["In-Reply-To"] = references[-1]
        mail["References"] = " ".join(dict.fromkeys([*references[:1], *references[-_MOST_REFERENCES:]]))
    for header, value in draft.headers:
        mail[header] = value
    text = re.sub("\r\n?", "\n", draft.text).encode("utf-8", "replace").decode()
    mail.set_content(text, charset="utf-8", cte=_encoding_for(text))
    if draft.html:
        mail.add_alternative(draft.html, subtype="html", charset="utf-8", cte="quoted-printable")
    for file in draft.attached:
        known = file.media_type if _TYPE.fullmatch(file.media_type) else "application/octet-stream"
        main, _, sub = known.partition("/")
        mail.add_attachment(file.data, maintype=main, subtype=sub, filename=_name(file.name))
    recipients = tuple(dict.fromkeys(one.address for one in everyone))
    return Outgoing(draft.sender.address, recipients, own, mail.as_bytes(), utf8)


def recipients_of(texts: Sequence[str]) -> tuple[Recipient, ...]:
    """Parse recipients, each in a text of its own.

    Raises:
        MailError: One of them is not an address.
    """
    return tuple(recipient_of(text) for text in texts)


def _header_address(one: Recipient) -> Address:
    if _BAD.search(one.name):
        raise MailError("invalid", "A name of a recipient has control characters.")
    # Not parsed again: `Address` refuses a local part that is not in ASCII, which SMTPUTF8 allows.
    local, _, domain = one.address.rpartition("@")
    return Address(one.name, local, domain)


def _encoding_for(text: str) -> str:
    """Return the transfer encoding that keeps a text readable for simple programs, and its lines short."""
    if re.fullmatch(r"(?:[\t\x20-\x7e]{0,76}\n)*[\t\x20-\x7e]{0,76}", text):
        return "7bit"
    return "quoted-printable" if sum(map(str.isascii, text)) * 2 > len(text) else "base64"


def _name(name: str) -> str:
    return _BAD.sub("_", name.rpartition("/")[2])[:200] or "file"


def _ascii_domain(domain: str) -> str:
    """Return a domain in ASCII, as the WHATWG parser writes it; empty if it is not one."""
    from rumi.web.url import host_of

    if len(domain) > 255 or re.search(r"[\s/?#@:%\\\[\]]", domain):
        return ""
    host = host_of(f"http://{domain}/")
    return host if _DOMAIN.fullmatch(host) else ""
