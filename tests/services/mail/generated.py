"""Mails in many charsets, encodings and structures, each with words by which it is found and read."""

import base64
import quopri
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.header import Header

WORDS = {
    "utf-8": "Grüße aus Köln – 日本語 ñandú",
    "iso-8859-1": "Señor Muñoz está en León",
    "iso-8859-15": "Preis: 20 € für Käse",
    "windows-1252": "“Zitat” — naïve café",
    "windows-1251": "Привет из Москвы",
    "koi8-r": "Доброе утро, коллеги",
    "iso-2022-jp": "会議は明日です",
    "shift_jis": "請求書を送ります",
    "gb18030": "你好，请查收附件",
    "big5": "會議改到星期三",
    "euc-kr": "안녕하세요 회의입니다",
    "iso-8859-7": "Καλημέρα κόσμε",
    "windows-1255": "שלום עולם",
    "windows-1256": "مرحبا بالعالم",
    "us-ascii": "Plain old words",
}


@dataclass(frozen=True)
class Made:
    """A mail, the word that only it has, its subject, and texts that must be read in it."""

    raw: bytes
    word: str
    subject: str
    texts: tuple[str, ...]
    attachments: tuple[tuple[str, bytes], ...] = ()


def _body(text: str, charset: str, cte: str, kind: str = "plain") -> bytes:
    data = text.replace("\n", "\r\n").encode(charset)
    if cte == "base64":
        data = base64.encodebytes(data).replace(b"\n", b"\r\n")
    if cte == "quoted-printable":
        data = quopri.encodestring(data).replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    head = f"Content-Type: text/{kind}; charset={charset}\r\nContent-Transfer-Encoding: {cte}\r\n\r\n"
    return head.encode() + data + b"\r\n"


def _multipart(kind: str, number: int, *parts: bytes) -> bytes:
    mark = f"=_b{number}_{kind}"
    inside = b"".join(b"--" + mark.encode() + b"\r\n" + part for part in parts)
    return (
        f'Content-Type: multipart/{kind}; boundary="{mark}"\r\n\r\n'.encode()
        + inside
        + f"--{mark}--\r\n".encode()
    )


def _file(name: str, data: bytes) -> bytes:
    star = "".join(f"%{byte:02X}" for byte in name.encode())
    head = "Content-Type: application/octet-stream\r\n"
    head += f"Content-Disposition: attachment; filename*=utf-8''{star}\r\n"
    return head.encode() + b"Content-Transfer-Encoding: base64\r\n\r\n" + base64.encodebytes(data) + b"\r\n"


Shape = Callable[[int, bytes, bytes, bytes], bytes]
SHAPES: dict[str, Shape] = {
    "plain": lambda number, text, html, file: text,
    "html": lambda number, text, html, file: html,
    "alternative": lambda number, text, html, file: _multipart("alternative", number, text, html),
    "mixed": lambda number, text, html, file: _multipart("mixed", number, text, file),
    "related": lambda number, text, html, file: _multipart(
        "mixed", number, _multipart("related", number, _multipart("alternative", number, text, html)), file
    ),
    "message": lambda number, text, html, file: _multipart(
        "mixed", number, b"Content-Type: message/rfc822\r\n\r\nSubject: inner\r\nFrom: x@y.example\r\n" + text
    ),
}


def mails(count: int) -> Iterator[Made]:
    """Yield mails; the same count gives the same ones."""
    dice = random.Random(count)
    charsets, shapes = list(WORDS), list(SHAPES)
    for number in range(count):
        charset, shape = charsets[number % len(charsets)], shapes[number % len(shapes)]
        word, said = f"kennwort{number:04d}", WORDS[charset]
        eight = "8bit" if charset not in ("us-ascii", "iso-2022-jp") else "7bit"
        cte = dice.choice(("base64", "quoted-printable", eight))
        text = _body(f"{said}\n\n{word} " + "line of words\n" * dice.randrange(1, 30), charset, cte)
        html = _body(
            f"<p>{said}</p><div>{word}</div><p style='display:none'>never{number}</p>",
            charset,
            "base64",
            "html",
        )
        data = dice.randbytes(50)
        name = f"Anhang {number} – ñ.bin"
        subject = f"{said} {number}"
        encoded = Header(subject, charset if charset != "us-ascii" else None, maxlinelen=60).encode(
            linesep="\r\n"
        )
        head = (
            f"From: =?utf-8?q?Ab=73ender_{number}?= <sender{number}@example.org>\r\nTo: dora@example.test\r\n"
            f"Subject: {encoded}\r\nMessage-ID: <m{number}@example.org>\r\n"
            f"Date: Mon, {1 + number % 28} Jun 2026 10:00:00 +0200\r\nMIME-Version: 1.0\r\n"
        )
        body = SHAPES[shape](number, text, html, _file(name, data))
        has_file = shape in ("mixed", "related")
        yield Made(head.encode() + body, word, subject, (said, word), ((name, data),) if has_file else ())
