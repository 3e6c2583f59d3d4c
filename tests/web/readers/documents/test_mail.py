"""E-mails of all programs: headers, each text, and what is attached with its text."""

from email.message import EmailMessage

import pytest

from rumi.platform.file_kinds import kind_of_file
from tests.web.readers.documents.builders import docx, lines, p, read, storage

HEAD = b"From: Eva <eva@a.example>\r\nTo: bob@b.example\r\nSubject: Rent\r\nMIME-Version: 1.0\r\n"


def mail(content_type: str, body: bytes, *more: str) -> bytes:
    headers = "".join(f"{line}\r\n" for line in (f"Content-Type: {content_type}", *more))
    return HEAD + headers.encode() + b"\r\n" + body


def multipart(kind: str, *parts: bytes) -> bytes:
    line = f"--{kind}".encode()
    inner = b"".join(line + b"\r\n" + part + b"\r\n" for part in parts)
    return mail(f"multipart/{kind}; boundary={kind}", inner + line + b"--\r\n")


def text(body: str, kind: str = "plain", charset: str = "utf-8") -> bytes:
    head = f"Content-Type: text/{kind}; charset={charset}\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    return head.encode() + body.encode(charset)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (mail("text/plain; charset=utf-8", "Año".encode()), ["Año"]),
        (mail("text/plain; charset=windows-1251", "Привет".encode("cp1251")), ["Привет"]),
        (mail("text/plain; charset=iso-2022-jp", "こんにちは".encode("iso2022_jp")), ["こんにちは"]),
        (mail("text/plain; charset=unknown-8bit", "Año".encode()), ["Año"]),
        (mail("text/plain", "Año".encode()), ["Año"]),
        (
            mail(
                "text/plain; charset=utf-8", b"A=C3=B1o=\r\n s", "Content-Transfer-Encoding: quoted-printable"
            ),
            ["Año s"],
        ),
        (mail("text/plain; charset=utf-8", b"QcOxbw==", "Content-Transfer-Encoding: base64"), ["Año"]),
        (mail("text/plain; charset=utf-8", b"QcOx\r\nbw", "Content-Transfer-Encoding: base64"), ["Año"]),
        (mail("text/html; charset=utf-8", b"<p>Dear <b>Bob</b></p><script>x</script>"), ["Dear **Bob**"]),
        (
            multipart("alternative", text("the plain one"), text("<p>the plain one</p>", "html")),
            ["the plain one"],
        ),
        (
            multipart("alternative", text("no HTML?"), text(f"<p>{'long ' * 100}</p>", "html")),
            [("long " * 100).strip()],
        ),
        (multipart("alternative", text("<p>only</p>", "html")), ["only"]),
        (multipart("mixed", text("first"), text("second", charset="latin-1")), ["first", "second"]),
        (multipart("mixed", multipart("alternative", text("inner"))), ["inner"]),
        (
            multipart("signed", text("signed"), b"Content-Type: application/pgp-signature\r\n\r\nxyz"),
            ["signed"],
        ),
        (
            multipart(
                "mixed",
                text("see"),
                b"Content-Type: message/rfc822\r\n\r\nFrom: a@b.example\r\nSubject: inner\r\n\r\nwords",
            ),
            ["see", "[attached message]", "From: a@b.example", "Subject: inner", "words"],
        ),
        (
            multipart(
                "mixed", b"Content-Type: text/plain; name=a.csv\r\nContent-Disposition: attachment\r\n\r\nx;y"
            ),
            ["[attachment] a.csv (text/plain, 3 bytes)", "x;y"],
        ),
        (
            multipart(
                "mixed",
                b"Content-Type: application/zip\r\nContent-Disposition: attachment; filename*=utf-8''a%C3%B1o.zip\r\n\r\nPK",
            ),
            [
                "[attachment] año.zip (application/zip, 2 bytes)",
                "[its content is not in this text: Rumi does not read files of this format]",
            ],
        ),
        (mail("multipart/mixed; boundary=never", b"no parts at all"), ["no parts at all"]),
        (
            mail("multipart/encrypted; boundary=x", b"--x--"),
            ["[encrypted part: it cannot be read without its recipient's key]"],
        ),
    ],
)
def test_each_text_of_a_message_is_read(message: bytes, expected: list[str]) -> None:
    assert lines(message)[:3] == ["From: Eva <eva@a.example>", "To: bob@b.example", "Subject: Rent"]
    assert lines(message)[3:] == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"=?utf-8?B?QcOxbw==?= =?utf-8?Q?_nuevo?=", "Año nuevo"),
        (b"=?windows-1251?Q?=CF=F0=E8=E2=E5=F2?=", "Привет"),
        ("Año".encode(), "Año"),
        ("Año".encode("latin-1") + b"\r\nContent-Type: text/plain; charset=latin1", "Año"),
        (b"folded\r\n over two lines", "folded over two lines"),
        (b"=?utf-8?B?broken", "=?utf-8?B?broken"),
        (b"=?x-unknown?Q?abc?=", "abc"),
    ],
)
def test_a_subject_is_decoded(header: bytes, expected: str) -> None:
    assert f"Subject: {expected}" in lines(b"From: a@b.example\r\nSubject: " + header + b"\r\n\r\nx")


def test_the_documents_that_are_attached_are_read() -> None:
    message = EmailMessage()
    message["From"], message["Subject"] = "a@b.example", "contract"
    message.set_content("see attached")
    message.add_attachment(
        docx(p("The rent is 1150.")), maintype="application", subtype="msword", filename="c.docx"
    )
    outer = EmailMessage()
    outer["From"], outer["Subject"] = "c@b.example", "fwd"
    outer.set_content("forwarded")
    outer.add_attachment(message)
    shown = lines(outer.as_bytes())
    assert "Subject: contract" in shown
    assert any(line.startswith("[attachment] c.docx") for line in shown)
    assert shown[-1] == "The rent is 1150."


@pytest.mark.parametrize(
    "before", ["", "\r\n\r\n", "\ufeff", "*** from gateway 7 ***\r\n", "From a@b.example Fri\r\n"]
)
def test_a_line_before_the_headers_hides_no_message(before: str) -> None:
    message = before.encode() + HEAD + b"Content-Type: text/plain\r\n\r\nwords"
    assert kind_of_file(message, "a.eml") == "document"
    assert [line for line in lines(message, "a.eml") if "##" not in line][-2:] == ["Subject: Rent", "words"]


def test_a_mailbox_reads_message_by_message() -> None:
    box = b"".join(
        b"From a@b.example Fri Mar  6 08:00:00 2026\nFrom: a@b.example\nSubject: %d\n\nbody %d\n\n" % (n, n)
        for n in (1, 2)
    )
    assert lines(box, "in.mbox") == [
        "## Message 1 of 2",
        "From: a@b.example",
        "Subject: 1",
        "body 1",
        "## Message 2 of 2",
        "From: a@b.example",
        "Subject: 2",
        "body 2",
    ]


def test_a_page_that_was_saved_as_mime_is_read() -> None:
    page = multipart(
        "related",
        text("<h1>Saved</h1><p>page</p>", "html"),
        b"Content-Type: image/png\r\nContent-ID: <a>\r\n\r\nx",
    )
    assert lines(page, "report.doc")[3:] == ["# Saved", "page"]
    assert read(page).lost == "not in this text: 1 picture"


def outlook(streams: dict[str, bytes]) -> bytes:
    properties = (
        b"\0" * 32
        + (0x00390040).to_bytes(4, "little")
        + b"\0" * 4
        + (134_171_712_000_000_000).to_bytes(8, "little")
    )
    return storage({"__properties_version1.0": properties, **streams})


def named(number: str, text: str, kind: str = "001F") -> dict[str, bytes]:
    return {f"__substg1.0_{number}{kind}": text.encode("utf-16-le" if kind == "001F" else "cp1252")}


SUBJECT = named("0037", "Rent") | named("0C1A", "Eva Ruíz") | named("0E04", "Bob")
# `{\rtf1 Hello}` as compressed RTF would store it without any repetition.
STORED = b"\0" * 8 + b"MELA" + b"\0" * 4 + rb"{\rtf1\ansi Only as \'e9 RTF\par}"


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        (named("1000", "Hello\r\nBob"), ["Hello", "Bob"]),
        (named("1000", "Señor", "001E"), ["Señor"]),
        ({"__substg1.0_10130102": "<p>As <b>HTML</b> ñ</p>".encode().ljust(4096)}, ["As **HTML** ñ"]),
        ({"__substg1.0_10090102": STORED}, ["Only as é RTF"]),
        (
            named("1000", "see")
            | {
                "__attach_version1.0_#00000000/__substg1.0_37010102": docx(p("attached words")),
                "__attach_version1.0_#00000000/__substg1.0_3707001F": "c.docx".encode("utf-16-le"),
            },
            ["see", "[attachment] c.docx", "attached words"],
        ),
        (
            named("1000", "see")
            | {
                "__attach_version1.0_#00000000/__substg1.0_3701000D/__properties_version1.0": b"\0" * 24,
                "__attach_version1.0_#00000000/__substg1.0_3701000D/__substg1.0_0037001F": "inner".encode(
                    "utf-16-le"
                ),
                "__attach_version1.0_#00000000/__substg1.0_3701000D/__substg1.0_1000001F": "words".encode(
                    "utf-16-le"
                ),
            },
            ["see", "[attached message]", "Subject: inner", "words"],
        ),
    ],
)
def test_a_message_of_outlook_is_read(streams: dict[str, bytes], expected: list[str]) -> None:
    shown = lines(outlook(SUBJECT | streams))
    assert shown[:2] == ["From: Eva Ruíz", "To: Bob"]
    assert shown[3] == "Subject: Rent"
    assert [line.partition(" (")[0].strip() for line in shown[4:]] == expected


def test_compressed_rtf_is_unpacked() -> None:
    from rumi.web.readers.pages.documents.outlook import _unpacked

    # The example of MS-OXRTFCP 3.1: a text with references into the window.
    packed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
    )
    assert _unpacked(packed) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
