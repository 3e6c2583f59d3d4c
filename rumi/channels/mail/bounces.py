"""Reports of mail servers about mails that could not be delivered (RFC 3464)."""

import re
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from typing import Final

from rumi.channels.mail.senders import ids_in
from rumi.platform.untrusted_text import one_line

_MOST_PARTS: Final = 50
_PERMANENT: Final = re.compile(r"5\.\d{1,3}\.\d{1,3}")
_MOST_WORDS: Final = 200


@dataclass(frozen=True, slots=True)
class Bounce:
    """A report about a mail: its Message-ID, and why it was refused for ever. `why` is not trusted."""

    message_id: str
    why: str


def bounce_in(raw: bytes) -> Bounce | None:
    """Return what a report says about the mail that it returns; None if it reports no permanent failure."""
    try:
        parts = [part for _, part in zip(range(_MOST_PARTS), message_from_bytes(raw).walk(), strict=False)]
    except (RecursionError, ValueError):
        return None
    why = ""
    for part in parts:
        action = str(part.get("Action", "")).strip().lower()
        status = str(part.get("Status", "")).strip()
        if action == "failed" and _PERMANENT.fullmatch(status):
            said = str(part.get("Diagnostic-Code", "")).partition(";")[2] or status
            why = one_line(said, _MOST_WORDS)
    found = next((id for part in parts[1:] if (id := _id_in(part))), "") if why else ""
    return Bounce(found, why) if found else None


def _id_in(part: Message) -> str:
    """Return the Message-ID of the returned mail, which comes whole or as its headers."""
    if part.get_content_type() == "text/rfc822-headers":
        text = part.get_payload(decode=True)
        head = text.decode("ascii", "replace") if isinstance(text, bytes) else ""
        found = re.search(r"(?im)^message-id:\s*(<[^<>\s]{1,900}>)", head[:50_000])
        return found[1] if found else ""
    return next(iter(ids_in(str(part.get("Message-ID", "")))), "")
