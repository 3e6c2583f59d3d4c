"""Mails of people, signed by DKIM as their servers do it, and the keys of their domains."""

import base64
import time
from collections.abc import Sequence
from email import policy
from email.message import EmailMessage
from email.utils import formatdate
from functools import cache
from itertools import count

import dkim
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

RUMI = "bob@example.test"
ANA = "ana@example.test"
DOMAIN = "example.test"
SELECTOR = "s1"

_numbers = count(1)


@cache
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 1024)


def key_record() -> bytes:
    """Return the text record of the key."""
    public = (
        private_key()
        .public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return b"v=DKIM1; k=rsa; p=" + base64.b64encode(public)


async def keys(name: str) -> bytes | None:
    """Look a key up: that of the domain exists."""
    return {f"{SELECTOR}._domainkey.{DOMAIN}": key_record()}.get(name)


def letter(
    text: str = "What is on today?",
    *,
    sender: str = ANA,
    to: str = RUMI,
    subject: str = "Today",
    answers: str = "",
    references: Sequence[str] = (),
    html: str = "",
    files: Sequence[tuple[str, bytes]] = (),
    headers: Sequence[tuple[str, str]] = (),
    at: float | None = None,
    id: str = "",
) -> bytes:
    """Write a mail of a person."""
    mail = EmailMessage(policy=policy.SMTP)
    mail["From"] = f"Ana <{sender}>"
    mail["To"] = to
    mail["Subject"] = subject
    mail["Date"] = formatdate(time.time() if at is None else at)
    mail["Message-ID"] = id or f"<{next(_numbers)}.{time.time_ns()}@{DOMAIN}>"
    if answers:
        mail["In-Reply-To"] = answers
        mail["References"] = " ".join((*references, answers))
    for name, value in headers:
        mail[name] = value
    if text or not html:
        mail.set_content(text)
        if html:
            mail.add_alternative(html, subtype="html")
    else:
        mail.set_content(html, subtype="html")
    for name, data in files:
        mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return mail.as_bytes()


def signed(
    raw: bytes,
    *,
    domain: str = DOMAIN,
    cover: Sequence[bytes] = (b"from", b"to", b"subject", b"date", b"message-id"),
    length: bool = False,
) -> bytes:
    """Sign a mail as the server of a domain does."""
    pem = private_key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return (
        dkim.sign(
            raw,
            SELECTOR.encode(),
            domain.encode(),
            pem,
            include_headers=list(cover),
            canonicalize=(b"relaxed", b"relaxed"),
            length=length,
        )
        + raw
    )
