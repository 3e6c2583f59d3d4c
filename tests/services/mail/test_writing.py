"""Mails that are written: every server can take them, and no text becomes a header or a recipient."""

import smtplib
from email import message_from_bytes, policy

import pytest

from rumi.services.mail.errors import MailError
from rumi.services.mail.reading import read_mail
from rumi.services.mail.writing import (
    Attached,
    Draft,
    Outgoing,
    Recipient,
    message_id,
    recipient_of,
    recipients_of,
    written,
)


def write(**more: object) -> Outgoing:
    fields = {"to": recipients_of(["bob@example.org"]), "subject": "x", "text": "x"} | more
    return written(Draft(Recipient("ana@example.org", "Ana"), **fields), "key", 1_790_000_000.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "address", "name"),
    [
        ("bob@example.org", "bob@example.org", ""),
        ("Bob <bob@Example.ORG>", "bob@example.org", "Bob"),
        ('"Muñoz, Bob" <bob@example.org>', "bob@example.org", "Muñoz, Bob"),
        ("<bob@example.org>", "bob@example.org", ""),
        ("info@bücher.example", "info@xn--bcher-kva.example", ""),
        ("jörg@example.org", "jörg@example.org", ""),
        ("bob+tag.x@sub.example.org", "bob+tag.x@sub.example.org", ""),
    ],
)
def test_an_address_is_understood(text: str, address: str, name: str) -> None:
    assert recipient_of(text) == Recipient(address, name)


@pytest.mark.parametrize(
    "text",
    [
        *("", "bob", "bob@", "@example.org", "bob@example", "a b@example.org", "bob@@example.org"),
        *("bob@example.org, eve@evil.example", "bob@example.org\r\nBcc: eve@evil.example"),
        *("bob@example.org eve@evil.example", "a@[127.0.0.1]", "a@127.1", "a@1.2.3.4", "a@exa/mple.org"),
        *("Bob\n <bob@example.org>", "x <bob@example.org> <eve@evil.example>", "a..b@example.org"),
        *("bob@example.org>\x00", "<bob@example.org> x"),
    ],
)
def test_no_other_text_is_a_recipient(text: str) -> None:
    with pytest.raises(MailError) as failed:
        recipient_of(text)
    assert failed.value.kind == "invalid"


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r", "\x00", "\x0b", "\x85", "\u2028"])
def test_a_subject_and_a_name_make_no_header(end: str) -> None:
    evil = f"x{end}Bcc: eve@evil.example"
    for more in ({"subject": evil}, {"to": (Recipient("bob@example.org", evil),)}):
        with pytest.raises(MailError):
            write(**more)
    mail = message_from_bytes(write(attached=(Attached(evil, "text/plain", b"x"),), text=evil).raw)
    assert mail.get_all("Bcc") is None
    assert all(part.get("Bcc") is None for part in mail.walk())
    answer = write(in_reply_to=f"<a@b>{end}Bcc: x@y.example", references=("<c@d>", evil)).raw
    assert b"Bcc" not in answer
    assert b"References: <c@d>" in answer


def test_every_server_can_take_it_and_it_says_the_same() -> None:
    text = "Grüße,\n.\n.dot\n" + "lang " * 500 + "\nFrom here\n日本語\r\nend\rlast"
    files = (
        Attached("Größe ñ.txt", "text/plain", "ä".encode()),
        Attached("x.eml", "message/rfc822", b"\xff" * 3),
    )
    sent = write(
        subject="Köln " * 60,
        text=text,
        to=recipients_of(["Jörg Müller, x <joerg@example.org>"]),
        cc=recipients_of(["c@example.org"]),
        bcc=recipients_of(["hidden@example.org"]),
        attached=files,
    )
    assert sent.raw.isascii()
    assert b"hidden" not in sent.raw
    assert sent.recipients == ("joerg@example.org", "c@example.org", "hidden@example.org")
    assert max(map(len, sent.raw.split(b"\r\n"))) <= 998
    assert b"\n" not in sent.raw.replace(b"\r\n", b"")
    read = read_mail(sent.raw)
    assert read.subject == ("Köln " * 60).strip()
    assert read.text == text.replace("\r\n", "\n").replace("\r", "\n")
    assert [(file.name, file.data) for file in read.attachments] == [(file.name, file.data) for file in files]
    assert [str(one) for one in read.to] == ["Jörg Müller, x <joerg@example.org>"]
    parsed = message_from_bytes(sent.raw, policy=policy.default)
    assert parsed["Message-ID"] == message_id("key", "ana@example.org") == sent.message_id
    assert smtplib.quotedata("x")  # the same rule of dots, in smtp.py, is tested with Postfix


def test_a_mail_has_bounds() -> None:
    for more in ({"to": recipients_of([f"a{n}@example.org" for n in range(51)])}, {"subject": "x" * 501}):
        with pytest.raises(MailError):
            write(**more)
