"""Who sent a mail: the one address in its From header, and what marks mails that no person wrote."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

Headers: TypeAlias = Sequence[tuple[str, str]]
"""The headers of a mail in their order: names in lower case, and unfolded values."""

Automatic: TypeAlias = Literal["", "own", "bounce", "list", "automatic"]
"""Why a mail is not a person's word; empty if a person may have written it."""

_MOST_FROM_CHARS: Final = 1000
_ADDRESS: Final = r"[^\s<>()\[\],;:\\\"@]{1,64}@[A-Za-z0-9.-]{1,253}"
_FROM: Final = re.compile(rf'(?:"(?:[^"\\]|\\.)*"|[^"<>,;:@()\\])*<({_ADDRESS})>|({_ADDRESS})')
# RFC 5322 allows each of these once. A program could show the second, and the first is signed.
ONCE: Final = (
    *("from", "subject", "message-id", "date", "to", "cc", "sender", "reply-to", "in-reply-to", "references"),
    *("content-type", "content-transfer-encoding", "mime-version", "auto-submitted"),
)
_AUTOMATIC: Final = ("x-autoreply", "x-autorespond", "x-autoreply-from", "x-mail-autoreply")
_LISTS: Final = ("list-id", "list-post", "list-unsubscribe")
_NO_PEOPLE: Final = re.compile(
    r"(?:mailer-daemon|postmaster|(?:no|do-?not)[-._]?reply|bounces?)(?:[+=._-].*)?@.*"
)


def author_of(headers: Headers) -> str:
    """Return the address in the From header, in lower case; empty unless there is exactly one.

    The forms are those that people's programs write. Others, such as comments and groups, count as none.
    """
    values = [value.strip() for name, value in headers if name == "from"]
    if len(values) != 1 or len(values[0]) > _MOST_FROM_CHARS or not values[0].isascii():
        return ""
    found = _FROM.fullmatch(values[0])
    return "" if found is None else (found[1] or found[2]).lower()


def repeated_header(headers: Headers) -> str:
    """Return a header that is there twice, though it may be there once; empty if there is none."""
    seen = set[str]()
    for name, _ in headers:
        if name in ONCE and name in seen:
            return name
        seen.add(name)
    return ""


def automatic(headers: Headers, author: str, own: str) -> Automatic:
    """Return why a mail is not a person's word (RFC 3834): such mails get no answer.

    `own` is the channel's own address: a mail from it has come back.
    """
    first: Mapping[str, str] = {name: value.strip().lower() for name, value in reversed(headers)}
    if author == own.lower() or "x-rumi" in first:
        return "own"
    if first.get("return-path") == "<>" or first.get("content-type", "").startswith("multipart/report"):
        return "bounce"
    if any(name in first for name in _LISTS) or first.get("precedence", "") in ("bulk", "junk", "list"):
        return "list"
    submitted = first.get("auto-submitted", "no").partition(";")[0].strip()
    if submitted not in ("no", "") or first.get("precedence") == "auto_reply":
        return "automatic"
    if any(name in first for name in _AUTOMATIC) or _NO_PEOPLE.fullmatch(author):
        return "automatic"
    return ""


def ids_in(value: str) -> tuple[str, ...]:
    """Return the Message-IDs in a header such as References, in their order, with their brackets."""
    return tuple(re.findall(r"<[^<>\s]{1,900}>", value[:20_000]))
