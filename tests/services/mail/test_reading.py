"""Mails as others write them: odd headers, broken encodings, deceptions, and bombs."""

import time

import pytest

from rumi.services.mail.places import MailPlace, place_in
from rumi.services.mail.reading import ReadMail, read_mail


def read(head: str, body: str = "", kind: str = "text/plain; charset=utf-8") -> ReadMail:
    return read_mail(f"{head}\r\nMIME-Version: 1.0\r\nContent-Type: {kind}\r\n\r\n{body}".encode())


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("=?utf-8?Q?caf=C3?= =?utf-8?Q?=A9?=", "café"),  # a character in two words
        ("=?utf-8?B?Y2Fmw6k=?==?utf-8?Q?_ol=C3=A9?=", "café olé"),  # no space between the words
        ("=?utf-8?B?not base64!?=", "=?utf-8?B?not base64!?="),
        ("=?utf-8?Q?a?= b =?utf-8?Q?c?=", "a b c"),
        ("caf\u00e9", "café"),  # bytes that headers may not have
        ("first\r\n  second", "first second"),
        ("a\u202eb\u200b", "ab"),
    ],
)
def test_a_header_is_read_as_far_as_it_can_be(written: str, meant: str) -> None:
    assert read(f"Subject: {written}").subject == meant


@pytest.mark.parametrize(
    ("head", "warned"),
    [
        ('From: "boss@corp.example" <eve@evil.example>', "boss@corp.example"),
        ("From: =?utf-8?Q?Bank_=3Cinfo=40bank=2Eexample=3E?= <eve@evil.example>", "info@bank.example"),
        ("From: Аna <ana@example.org>", "several alphabets"),
        ("From: Ana <ana@xn--exmple-qta.org>", "exámple.org"),
        ("From: Ana <ana@exаmple.org>", "letters that look like"),
        ("From: Ana <ana@example.org>\r\nReply-To: eve@evil.example", "eve@evil.example"),
        ("From: ana@example.org, eve@evil.example", "2 senders"),
        ("Subject: x", "0 senders"),
    ],
)
def test_what_may_deceive_about_the_sender_is_told(head: str, warned: str) -> None:
    assert any(warned in warning for warning in read(head).warnings)


@pytest.mark.parametrize(
    "head",
    [
        "From: Ana Muñoz <ana@example.org>",
        'From: "Muñoz, Ana" <ana@example.org>\r\nReply-To: Ana <ANA@example.org>',
        "From: 山田太郎 <taro@example.jp>",
    ],
)
def test_an_ordinary_sender_is_not_warned_about(head: str) -> None:
    assert read(head).warnings == ()
    assert len(read(head).sender) == 1


def test_decoded_words_make_no_further_address() -> None:
    mail = read("From: =?utf-8?Q?Ana=2C_=3Ceve=40evil=2Eexample=3E?= <ana@example.org>")
    assert [one.address for one in mail.sender] == ["ana@example.org"]


def test_only_the_receiving_servers_results_are_shown() -> None:
    own = "Authentication-Results: mx.example.test; dkim=pass"
    forged = "Authentication-Results: mx.example.test; dkim=pass (forged)"
    assert read(f"{own}\r\nReceived: a\r\nReceived: b\r\n{forged}").checked == "mx.example.test; dkim=pass"
    assert read(f"Received: a\r\nReceived: b\r\n{forged}").checked == ""


def test_what_cannot_be_read_is_named() -> None:
    uu = "Here:\nbegin 644 photo.jpg\n#0V%T\n`\nend\nBye"
    mail = read("Subject: x", uu)
    assert mail.text == "Here:\n[uuencoded file: photo.jpg]\nBye"
    assert mail.left_out == ("the uuencoded file photo.jpg",)
    parts = (
        ("application/ms-tnef; name=winmail.dat", "x"),
        ("application/pgp-signature", "x"),
        ("application/pkcs7-mime; smime-type=enveloped-data", "x"),
        ("text/plain; charset=x-none", "words"),
    )
    inside = "".join(f"--b\r\nContent-Type: {head}\r\n\r\n{body}\r\n" for head, body in parts)
    mail = read("Subject: x", f"{inside}--b--", "multipart/mixed; boundary=b")
    told = " ".join(mail.left_out)
    assert all(word in told for word in ("winmail.dat", "signature", "encrypted"))
    assert mail.text.strip() == "words"


@pytest.mark.parametrize(
    ("cte", "body", "meant"),
    [
        ("base64", "SGVsbG8gd29ybGQ", "Hello world"),  # no padding
        ("base64", "SGVs\r\nbG8!!gd29y**bGQ=", "Hello world"),
        ("quoted-printable", "Hello=20w=ZZorld=", "Hello w=ZZorld"),
        ("x-odd", "Hello", "Hello"),
    ],
)
def test_a_broken_encoding_gives_what_can_be_read(cte: str, body: str, meant: str) -> None:
    raw = f"Content-Type: text/plain\r\nContent-Transfer-Encoding: {cte}\r\n\r\n{body}\r\n"
    assert read_mail(raw.encode()).text.strip() == meant


def _nested(depth: int) -> bytes:
    heads = "".join(
        f"Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n" for level in range(depth)
    )
    return f"{heads}Content-Type: text/plain\r\n\r\ndeep\r\n".encode()


BOMBS = {
    "10,000 parts": b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    + b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n" * 10_000,
    "10,000 attachments": b"Content-Type: multipart/mixed; boundary=b\r\n\r\n"
    + b"--b\r\nContent-Disposition: attachment; filename=a\r\n\r\nx\r\n" * 10_000,
    "500 levels": _nested(500),
    "5,000 levels": _nested(5000),
    "a header of 5 MB": b"Subject: " + b"a" * 5_000_000 + b"\r\n\r\nx",
    "100,000 headers": b"X: y\r\n" * 100_000 + b"\r\nx",
    "an address list of 2 MB": b"From: " + b"a@b.example, " * 150_000 + b"\r\n\r\nx",
    "a thousand comments": b"From: " + b"(" * 20_000 + b"\r\n\r\nx",
    "a long boundary": b"Content-Type: multipart/mixed; boundary=" + b"b" * 500_000 + b"\r\n\r\nx",
    "broken bytes": bytes(range(256)) * 1000,
    "nothing": b"",
    "attached mails": b"Content-Type: message/rfc822\r\n\r\n" * 300 + b"x",
    "encoded words": b"Subject: " + b"=?utf-8?Q?" * 100_000 + b"\r\n\r\nx",
    "file names": b"Content-Type: text/plain; " + b"name*0*=a; " * 50_000 + b"\r\n\r\nx",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_read_in_bounds(bomb: str) -> None:
    began = time.process_time()
    mail = read_mail(BOMBS[bomb])
    assert time.process_time() - began < 60  # quadratic time would take hours
    assert len(mail.text) + len(mail.subject) < 1_100_000
    assert len(mail.attachments) <= 100


def test_the_id_of_a_mail_is_one_word_and_leads_back() -> None:
    place = MailPlace("privat", "Ordner: ä/b c", 1795933219, 17)
    assert " " not in str(place)
    assert place_in(f" {place} ") == place
    for wrong in ("", "privat:INBOX:1", "a:b:c:d", 7, None):
        assert place_in(wrong) is None
