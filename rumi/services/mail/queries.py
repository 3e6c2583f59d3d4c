"""Searches in the words of IMAP (RFC 3501, and Gmail's own)."""

import re
from datetime import date
from typing import Final, TypeAlias

from rumi.services.mail.errors import MailError
from rumi.services.mail.messages import MailQuery

Part: TypeAlias = tuple[str | bytes, ...]
"""A part of a search: `str` for words of the protocol, and `bytes` for texts of the search."""

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MOST_CHARS: Final = 500


def parts_of(query: MailQuery, *, gmail: bool) -> tuple[Part, ...]:
    """Return the parts of a search; a mail must match all of them.

    Raises:
        MailError: A text of the search is too long or has control characters.
    """
    parts: list[Part] = []
    for word, text in (("FROM", query.sender), ("TO", query.to), ("SUBJECT", query.subject)):
        if text.strip():
            parts.append((word, _text(text)))
    if gmail and (query.text.strip() or query.has_attachment):
        raw = " ".join(filter(None, (query.text.strip(), "has:attachment" if query.has_attachment else "")))
        parts.append(("X-GM-RAW", _text(raw)))
    elif query.text.strip():
        parts.append(("TEXT", _text(query.text)))
    if query.since is not None:
        parts.append(("SINCE", _day(query.since)))
    if query.before is not None:
        parts.append(("BEFORE", _day(query.before)))
    if query.unread:
        parts.append(("UNSEEN",))
    return tuple(parts)


def is_foreign(part: Part) -> bool:
    """Return True if a part has characters outside of ASCII."""
    return any(isinstance(value, bytes) and not value.isascii() for value in part)


def _text(text: str) -> bytes:
    text = text.strip()
    if len(text) > _MOST_CHARS or re.search(r"[\x00-\x1f\x7f]", text):
        raise MailError(
            "invalid", "A text to look for has at most 500 characters, and no control characters."
        )
    return text.encode("utf-8", "replace")


def _day(day: date) -> str:
    return f"{day.day}-{_MONTHS[day.month - 1]}-{day.year:04d}"
