"""A document is read by the same readers however it comes: sent as a file, fetched, or attached to a mail."""

import random
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path

import pytest
import xlwt

from rumi.platform.file_kinds import kind_of_file
from rumi.platform.threads import Threads
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import about_file
from rumi.sandbox.workspace import prepare_workspace
from rumi.web.readers.files.reading import Looks, ViewLimits
from rumi.web.readers.files.viewer import Viewer
from tests.fakes.web_server import gives, serving
from tests.web.fetching import fetcher
from tests.web.pdfs import pdf
from tests.web.readers.documents.builders import docx, open_document, p, pptx, r, shape, xlsx, zipped
from tests.web.readers.documents.test_books_and_old_files import BOOK
from tests.web.readers.documents.test_mail import SUBJECT, named, outlook
from tests.web.readers.test_viewer import USER

OFFICE = "application/vnd.openxmlformats-officedocument"
TRACKED = docx(p("The rent is ", f"<w:ins>{r('1150')}</w:ins>", " euros.", "<w:del/>"))


def old_workbook() -> bytes:
    book, out = xlwt.Workbook(), BytesIO()
    book.add_sheet("a").write(0, 0, "words")
    book.save(out)
    return out.getvalue()


FORMATS = {
    "a.docx": docx(p("words")),
    "a.xlsx": xlsx({"a": "<row><c t='inlineStr'><is><t>words</t></is></c></row>"}),
    "a.pptx": pptx([shape("words")]),
    "a.odt": open_document("text", "<text:p>words</text:p>"),
    "a.pdf": pdf([b"(words) Tj"]),
    "a.rtf": rb"{\rtf1\ansicpg1253{\fonttbl{\f0\fcharset128 A;}{\f1\fcharset255 B;}}\f0 \f1 words\par}",
    "a.epub": zipped(BOOK, first="mimetype"),
    "a.xls": old_workbook(),
    "a.msg": outlook(SUBJECT | named("1000", "words", "001E")),
    "a.html": b"<html><body><p>words</p></body></html>",
}


def letter() -> bytes:
    message = EmailMessage()
    message["From"], message["Subject"] = "a@b.example", "all of them"
    message.set_content("see attached")
    for name, content in FORMATS.items():
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


async def test_every_format_is_read_in_a_process_that_may_do_nothing() -> None:
    heard = await Looks(ViewLimits()).look("document", letter(), "a.eml")
    assert heard["format"] == "eml"
    assert heard["lost"] == ""
    parts = str(heard["text"]).split("[attachment] ")[1:]
    assert [part.partition(" ")[0] for part in parts] == list(FORMATS)
    assert all("words" in part or "It begins" in part for part in parts)


@pytest.mark.parametrize(
    ("media_type", "path"),
    [
        (f"{OFFICE}.wordprocessingml.document", "/contract"),
        ("application/octet-stream", "/contract.docx"),
        ("application/zip", "/contract.docx"),
        ("application/msword", "/contract.doc"),
        ("binary/octet-stream", "/download?id=7"),
    ],
)
async def test_a_document_that_is_fetched_reads_like_one_that_is_sent(
    media_type: str, path: str, tmp_path: Path
) -> None:
    async with serving({path.partition("?")[0]: gives(TRACKED, media_type=media_type)}) as server:
        async with fetcher(server.endpoint) as world:
            page = await world.fetch(server.url(path))
    workspace = prepare_workspace(tmp_path, "cli", *USER)
    (workspace / "contract.docx").write_bytes(TRACKED)
    seen = await Viewer(
        ChatFiles(tmp_path / "workspace", USER), USER, SandboxLimits(), ViewLimits(), Threads(2)
    ).file("cli", "contract.docx")
    assert seen is not None
    assert page.text == seen.text == "The rent is 1150 euros."
    assert page.cut == seen.lost == "not in this text: 1 tracked deletion"


async def test_a_large_document_is_fetched_whole() -> None:
    body = docx(
        p("the first") + p("the last"), {"word/media/photo.png": random.Random(7).randbytes(1_500_000)}
    )
    async with serving({"/a": gives(body, media_type="application/octet-stream")}) as server:
        async with fetcher(server.endpoint) as world:
            page = await world.fetch(server.url("/a"))
    assert (page.text, page.cut) == ("the first\nthe last", "")


async def test_mails_and_books_that_are_fetched_are_read() -> None:
    types = {
        "/a": "message/rfc822",
        "/b": "application/epub+zip",
        "/c": "text/rtf",
        "/d": "application/vnd.ms-excel",
    }
    bodies = {
        "/a": b"From: a@b.example\r\nSubject: x\r\n\r\nwords",
        "/b": FORMATS["a.epub"],
        "/c": FORMATS["a.rtf"],
        "/d": FORMATS["a.xls"],
    }
    async with serving({path: gives(bodies[path], media_type=types[path]) for path in types}) as server:
        async with fetcher(server.endpoint) as world:
            pages = [await world.fetch(server.url(path)) for path in types]
    assert all("words" in page.text or "It begins" in page.text for page in pages)


async def test_what_is_left_out_is_named_before_a_text_that_is_cut(tmp_path: Path) -> None:
    workspace = prepare_workspace(tmp_path, "cli", *USER)
    body = docx("".join(p(f"paragraph {number}") for number in range(100)) + p("<w:del/>"))
    (workspace / "long.docx").write_bytes(body)
    viewer = Viewer(ChatFiles(tmp_path / "workspace", USER), USER, SandboxLimits(), ViewLimits(), Threads(2))
    seen = await viewer.sent("cli", about_file("long.docx", "application/zip", len(body)), 500)
    assert seen.about.splitlines()[1].startswith("[The text of this docx file: 100 lines")
    assert seen.about.splitlines()[1].endswith("; not in this text: 1 tracked deletion]")
    assert "characters left out" in seen.about


HTML, PLAIN_MAIL = b"<html><body>x", b"From: a@b.example\nTo: b@b.example\nMIME-Version: 1.0\n\nx"


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        *((content[:2048], name, "document") for name, content in FORMATS.items() if name != "a.html"),
        *((content[:2048], "download", "document") for name, content in FORMATS.items() if name != "a.html"),
        (FORMATS["a.docx"], "photo.jpg", "document"),
        (zipped({"notes.txt": "x"}), "a.zip", None),
        (zipped({"notes.txt": "x"}), "a.docx", "document"),
        (zipped({"META-INF/MANIFEST.MF": "x"}), "a.jar", None),
        (b"junk\r\n%PDF-1.4\r\n%\xe2\xe3\xcf\xd3", "a", "document"),
        (b"junk\r\n%PDF-1.4\r\n", "a.pdf", "document"),
        (b"A PDF begins with %PDF-1.4 and", "a.txt", None),
        (HTML, "page.html", None),
        (HTML, "export.xls", "document"),
        (HTML, "letter.doc", "document"),
        (b"<?xml version='1.0'?><?mso-application progid='Word.Document'?>", "a.xml", "document"),
        (b"<?xml version='1.0'?><rss/>", "a.xml", None),
        (b"a;b\n1;2\n", "export.xls", None),
        (b"a,b\n1,2\n", "a.csv", None),
        (PLAIN_MAIL, "a.eml", "document"),
        (PLAIN_MAIL, "message", "document"),
        (PLAIN_MAIL, "notes.txt", None),
        (b"Subject: x\nBody: y\n\nz", "notes", None),
        (b"key: value\nother: value\n", "settings.yaml", None),
        (b"From here on, all is text.", "a.mbox", None),
        (b"MIME-Version: 1.0\r\nContent-Type: multipart/related\r\n\r\n", "page.doc", "document"),
        (b"", "empty.docx", None),
        (b"words", "a.docx", None),
    ],
)
def test_a_document_is_known_by_its_bytes(head: bytes, name: str, kind: str | None) -> None:
    assert kind_of_file(head, name) == kind
