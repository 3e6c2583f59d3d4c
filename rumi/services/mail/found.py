"""Mails that were found: their headers, decoded, and whether they have attachments."""

import re
from collections.abc import Sequence
from datetime import datetime
from email.parser import BytesHeaderParser
from typing import Any, Final

from rumi.services.mail.imap import HEADER_BYTES, HEADERS, ImapSession
from rumi.services.mail.messages import FoundMail
from rumi.services.mail.responses import Value, text_of
from rumi.web.readers.pages.mail_headers import RawHeaders, header_text

_ITEMS: Final = (
    f"UID FLAGS INTERNALDATE RFC822.SIZE BODYSTRUCTURE BODY.PEEK[HEADER.FIELDS ({HEADERS})]<0.{HEADER_BYTES}>"
)
_AT_ONCE: Final = 100
_MOST_DEPTH: Final = 30


def mails_from(imap: ImapSession, uids: Sequence[int]) -> tuple[FoundMail, ...]:
    """Return the mails with these UIDs in the open folder, in the same order; a missing one is left out."""
    assert imap.folder is not None
    found: dict[int, dict[str, Value]] = {}
    for start in range(0, len(uids), _AT_ONCE):
        found |= imap.fetch(uids[start : start + _AT_ONCE], _ITEMS)
    return tuple(_mail(imap.folder.name, imap.validity, uid, found[uid]) for uid in uids if uid in found)


def _mail(folder: str, validity: int, uid: int, fields: dict[str, Value]) -> FoundMail:
    raw = next((value for name, value in fields.items() if name.startswith("BODY[HEADER")), b"")
    headers = BytesHeaderParser(policy=RawHeaders()).parsebytes(raw if isinstance(raw, bytes) else b"")

    def header(name: str) -> str:
        return header_text(headers.get(name, ""))

    flags = {str(flag).casefold() for flag in fields.get("FLAGS") or ()}
    size = text_of(fields.get("RFC822.SIZE"))
    return FoundMail(
        folder,
        validity,
        uid,
        header("From"),
        header("To"),
        header("Subject"),
        header("Date"),
        _arrival(fields.get("INTERNALDATE")),
        int(size) if size.isdigit() else 0,
        "\\seen" not in flags,
        _has_attachment(fields.get("BODYSTRUCTURE")),
        header("Message-ID"),
    )


def _arrival(value: Any) -> float:
    """Return the time of an INTERNALDATE, such as `17-Jul-1996 02:44:25 -0700`."""
    try:
        return datetime.strptime(text_of(value).strip(), "%d-%b-%Y %H:%M:%S %z").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _has_attachment(structure: Value, depth: int = 0) -> bool:
    """Return True if a BODYSTRUCTURE has a part that is an attachment, or has a file's name."""
    if not isinstance(structure, list) or depth > _MOST_DEPTH:
        return False
    if structure and isinstance(structure[0], bytes):
        word = structure[0].upper()
        if word == b"ATTACHMENT":
            return True
        names = [item.upper() for item in structure[::2] if isinstance(item, bytes)]
        if any(re.fullmatch(rb"(?:FILE)?NAME\*?(?:0\*?)?", name) for name in names):
            return True
    return any(_has_attachment(part, depth + 1) for part in structure)
