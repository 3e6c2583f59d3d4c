"""Proof of a mail's sender: a DKIM signature (RFC 6376) of the domain of its From address.

Only what is signed counts. So a signature must cover the whole text and the headers that a person reads, and
it must be new, and of a mail to this mailbox: whoever has got a mail can send it again, also to others. What
a signature does not prove is in docs/decisions/0147-mail-as-a-channel.md.
"""

import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from email.utils import getaddresses, parsedate_to_datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from rumi.channels.mail.senders import ONCE, Headers, repeated_header
from rumi.platform.threads import Offload

if TYPE_CHECKING:
    from dkim import DKIM

FRESH_S: Final = 7 * 86_400.0
"""Maximum time between a signature and the mail's arrival, in seconds. Servers try for five days."""

OLDEST_S: Final = 21 * 86_400.0
"""Maximum age of a signature, in seconds: less than the time for which received mails are remembered."""

SLOP_S: Final = 3600.0
"""Tolerance for clocks that are wrong, in seconds."""

MOST_SIGNATURES: Final = 5
"""Maximum number of signatures of the right domain that are looked at."""

_LEAST_KEY_BITS: Final = 1024
_NAME: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,250}[a-z0-9_])?")
_MUST_COVER: Final = ("from", "subject", "date")

Flaw: TypeAlias = Literal[
    "repeated",
    "unsigned",
    "unaligned",
    "partial",
    "uncovered",
    "elsewhere",
    "old",
    "no_key",
    "invalid",
    "unreadable",
]
"""Why a mail proves nothing.

`repeated`: a header is there twice. `unsigned`: there is no signature. `unaligned`: none is of the sender's
domain. `partial`: it covers a part of the text (`l=`). `uncovered`: a header that is read is not signed.
`elsewhere`: no signed To or Cc has the mailbox's address. `old`: it is too old, has expired, or has no time.
`no_key`: the domain publishes no such key. `invalid`: it does not fit the mail. `unreadable`: the mail cannot
be parsed.
"""

Keys: TypeAlias = Callable[[str], Awaitable[bytes | None]]
"""Returns the text record of a name; None if there is none. Raises a RumiError if it cannot be known now."""


@dataclass(frozen=True, slots=True)
class MailProof:
    """The result of a check: `marks` identify a proved mail's signatures; otherwise, `flaw` says why."""

    flaw: Flaw | None = None
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail as its bytes are signed. `arrived` is the time of its arrival, in seconds since 1970.

    `own` is the address of the mailbox that it has come to.
    """

    raw: bytes
    headers: Headers
    author: str
    arrived: float
    own: str


async def proof_of(
    mail: Mail, keys: Keys, offload: Offload, now: float, signed_by: Sequence[str] = ()
) -> MailProof:
    """Check that the domain of the mail's author has signed it.

    The signing domain must be the author's own, or one of `signed_by` above it. No other domain is asked for
    keys. Blocking work runs in threads by `offload`.

    Raises:
        RumiError: A key cannot be looked up now.
    """
    if repeated_header(mail.headers):
        return MailProof("repeated")
    signatures = [value for name, value in mail.headers if name == "dkim-signature"]
    if not signatures:
        return MailProof("unsigned")
    domain = mail.author.rpartition("@")[2]
    ours = [(index, _tags(value)) for index, value in enumerate(signatures)]
    ours = [(index, tags) for index, tags in ours if _is_aligned(tags.get("d", ""), domain, signed_by)]
    if not ours:
        return MailProof("unaligned")
    ours = ours[:MOST_SIGNATURES]
    marks = tuple(dict.fromkeys(_mark(tags, mail.headers) for _, tags in ours))
    flaw: Flaw | None = None
    for index, tags in ours:
        flaw = _flaw_of(tags, mail, now) or await _verified(mail.raw, index, tags, keys, offload)
        if flaw is None:
            return MailProof(marks=marks)
    return MailProof(flaw)


def headers_of(raw: bytes) -> Headers | None:
    """Return a mail's headers as the check of signatures reads them; None if it cannot read them."""
    import dkim

    head = raw[: raw.find(b"\r\n\r\n") + 4] if b"\r\n\r\n" in raw else raw
    # Programs disagree about such lines: one would read another text than the one that is checked.
    if (
        b"\0" in head
        or b"\nFrom " in b"\n" + head
        or b"\n" in head.replace(b"\r\n", b"")
        or b"\r" in head.replace(b"\r\n", b"")
    ):
        return None
    try:
        found, _ = dkim.rfc822_parse(head)
    except (dkim.DKIMException, IndexError):
        return None
    return [
        (bytes(name).decode("ascii").lower(), re.sub(r"\r\n(?=[ \t])|\r\n\Z", "", _text(bytes(value))))
        for name, value in found
    ]


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _tags(value: str) -> dict[str, str]:
    from dkim.util import InvalidTagValueList, parse_tag_value

    try:
        found = parse_tag_value(value.encode("utf-8", "surrogateescape"))
    except InvalidTagValueList:
        return {}
    return {_text(name): _text(text) for name, text in found.items()}


def _is_aligned(signing: str, domain: str, signed_by: Sequence[str]) -> bool:
    # No list of public suffixes: a domain above the author's may belong to somebody else.
    signing = signing.lower()
    return signing == domain or (signing in signed_by and domain.endswith(f".{signing}"))


def _mark(tags: dict[str, str], headers: Headers) -> str:
    """Return a digest of what is signed: others can write the same signature (`b=`) in many ways."""
    covered = _covered(tags)
    signed = [
        *sorted(f"{name}={''.join(value.split())}" for name, value in tags.items() if name != "b"),
        *sorted(f"{name}:{' '.join(value.split())}" for name, value in headers if name in covered & {*ONCE}),
    ]
    text = "\n".join(signed)
    return f"dkim:{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:40]}"


def _covered(tags: dict[str, str]) -> set[str]:
    """Return the names of the headers that a signature covers."""
    return {name.strip().lower() for name in tags.get("h", "").split(":")}


def _is_addressed(mail: Mail, covered: set[str]) -> bool:
    """Return True if a signed To or Cc has the mailbox's address, also with a part behind a plus."""
    values = [value for name, value in mail.headers if name in covered & {"to", "cc"}]
    found = {address.lower() for _, address in getaddresses(values)}
    return mail.own.lower() in found | {re.sub(r"\+[^@]*@", "@", address) for address in found}


def _flaw_of(tags: dict[str, str], mail: Mail, now: float) -> Flaw | None:
    """Return what a signature does not prove, whether or not it is valid."""
    if "l" in tags:
        return "partial"
    if tags.get("a", "").lower() not in ("rsa-sha256", "ed25519-sha256"):
        return "invalid"
    covered = _covered(tags)
    there = {name for name, _ in mail.headers}
    if any(name not in covered for name in _MUST_COVER if name in there or name == "from"):
        return "uncovered"
    if not _is_addressed(mail, covered):
        return "elsewhere"
    signed_at = _number(tags.get("t", "")) or _date(mail.headers)
    expires = _number(tags.get("x", ""))
    if signed_at is None or signed_at > mail.arrived + SLOP_S or mail.arrived > now + SLOP_S:
        return "old"
    if mail.arrived - signed_at > FRESH_S or now - signed_at > OLDEST_S:
        return "old"
    return "old" if expires is not None and mail.arrived > expires + SLOP_S else None


def _number(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 13 else None


def _date(headers: Headers) -> float | None:
    value = next((value for name, value in headers if name == "date"), "")
    try:
        return parsedate_to_datetime(value.strip()).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


async def _verified(
    raw: bytes, index: int, tags: dict[str, str], keys: Keys, offload: Offload
) -> Flaw | None:
    selector, domain = tags.get("s", "").lower(), tags["d"].lower()
    if not _NAME.fullmatch(selector):
        return "invalid"
    key = await keys(f"{selector}._domainkey.{domain}")
    if key is None:
        return "no_key"
    return None if await offload(lambda: _is_valid(raw, index, key)) else "invalid"


def _is_valid(raw: bytes, index: int, key: bytes) -> bool:
    import dkim

    check: DKIM = dkim.DKIM(raw, logger=logging.getLogger("dkimpy.quiet"), minkey=_LEAST_KEY_BITS)
    try:
        return bool(check.verify(index, dnsfunc=lambda name, timeout=0: key))
    except (dkim.DKIMException, ValueError, TypeError, KeyError, IndexError):
        return False
