"""Books, workbooks and mails of old formats, exports with a wrong name, and files that cannot be read."""

import datetime
from io import BytesIO

import pytest
import xlwt

from rumi.platform.file_kinds import kind_of_file
from rumi.platform.texts.words import known
from rumi.texts import Text
from rumi.web.readers.pages.documents.lines import NoDocumentError
from tests.web.readers.documents.builders import lines, read, storage, zipped

CONTAINER = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
OPF = (
    '<package xmlns:dc="dc"><metadata><dc:title>The Boat</dc:title></metadata><manifest>'
    '<item id="b" href="b.xhtml"/><item id="a" href="text/a%20b.xhtml"/></manifest>'
    '<spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
)
CHAPTERS = {
    "OEBPS/text/a b.xhtml": '<?xml version="1.0"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x.dtd">'
    "<html><head><title>t</title></head><body><h1>One</h1><p>It begins<sup>1</sup>.</p>"
    "<aside><p>1 a note</p></aside></body></html>",
    "OEBPS/b.xhtml": "<html><body><nav>not a menu</nav><h1>Two</h1><p>It ends.</p></body></html>",
}
BOOK = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OEBPS/book.opf": OPF,
    **CHAPTERS,
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"mimetype": ""},
        {"META-INF/container.xml": "broken"},
        {"META-INF/encryption.xml": "<e><CipherReference URI='OEBPS/fonts/f.otf'/></e>"},
    ],
)
def test_a_book_reads_in_the_order_of_its_spine(changes: dict[str, str]) -> None:
    parts = {name: text for name, text in {**BOOK, **changes}.items() if text}
    document = read(zipped(parts, first="mimetype"))
    assert document.title == "The Boat"
    assert [line for line in document.text.splitlines() if line] == [
        "# One",
        "It begins^1.",
        "1 a note",
        "not a menu",
        "# Two",
        "It ends.",
    ]


def test_a_book_without_its_list_reads_by_the_names_of_its_chapters() -> None:
    book = zipped({**BOOK, "OEBPS/book.opf": "broken"})
    text = read(book).text
    assert text.index("It ends.") < text.index("It begins")


def test_a_missing_chapter_is_counted_and_a_locked_book_is_named() -> None:
    parts = {name: text for name, text in BOOK.items() if name != "OEBPS/b.xhtml"}
    assert read(zipped(parts)).lost == "not in this text: 1 chapter"
    locked = (
        "<e>" + "".join(f"<CipherReference URI='{name.replace(' ', '%20')}'/>" for name in CHAPTERS) + "</e>"
    )
    with pytest.raises(NoDocumentError, match="DRM"):
        read(zipped({**BOOK, "META-INF/encryption.xml": locked}))


def test_a_workbook_of_before_2007_reads_as_it_is_shown() -> None:
    book, out = xlwt.Workbook(), BytesIO()
    sheet = book.add_sheet("Données")
    cells: list[tuple[object, str]] = [
        ("Share", "General"),
        (0.25, "0%"),
        (1234.5, '#,##0.00 "€"'),
        (datetime.date(2026, 3, 1), "d mmm yyyy"),
        (True, "General"),
    ]
    for column, (value, code) in enumerate(cells):
        sheet.write(0, column, value, xlwt.easyxf(num_format_str=code))
    sheet.write_merge(1, 1, 0, 2, "all")
    sheet.write(2, 0, "unseen")
    sheet.row(2).hidden = True
    sheet.col(1).hidden = True
    book.add_sheet("Off").visibility = 1
    book.get_sheet(1).write(0, 0, "x")
    book.save(out)
    assert lines(out.getvalue(), "wrong.docx") == [
        "## Sheet Données",
        "(hidden columns: B)",
        "| Share | 25% | 1,234.50 € | 1 Mar 2026 | TRUE |",
        "| all |",
        "| unseen | (hidden row)",
        "## Sheet Off (hidden)",
        "| x |",
    ]


def test_a_workbook_without_its_container_is_read() -> None:
    import struct

    def record(number: int, data: bytes) -> bytes:
        return struct.pack("<HH", number, len(data)) + data

    label = struct.pack("<HH3sB", 0, 0, b"\0\0\0", 4) + b"rent"
    value = struct.pack("<HH3sd", 0, 1, b"\0\0\0", 500.0)
    book = record(9, b"\2\0\x10\0") + record(4, label) + record(3, value) + record(10, b"")
    assert kind_of_file(book, "export.xls") == "document"
    assert lines(book)[1:] == ["| rent | 500 |"]


def _record(number: int, data: bytes) -> bytes:
    """A record of a binary workbook (MS-XLSB 2.1.4)."""
    head = bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])
    return head + bytes([len(data)]) + data


def _wide(text: str) -> bytes:
    return len(text).to_bytes(4, "little") + text.encode("utf-16-le")


def test_a_binary_workbook_is_read_without_the_formats_of_its_numbers() -> None:
    import struct

    types = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relation = f'<Relationships><Relationship Id="r1" Type="{types}/worksheet" Target="worksheets/sheet1.bin"/></Relationships>'
    sheet = (
        _record(129, b"")
        + _record(148, struct.pack("<4I", 0, 0, 0, 1))
        + _record(145, b"")
        + _record(0, struct.pack("<IIHHBI", 0, 0, 300, 0, 0, 0) + b"\0" * 8)
        + _record(6, struct.pack("<II", 0, 0) + _wide("share"))
        + _record(5, struct.pack("<IId", 1, 0, 0.25))
        + _record(146, b"")
        + _record(130, b"")
    )
    workbook = (
        _record(131, b"")
        + _record(143, b"")
        + _record(156, struct.pack("<II", 0, 1) + _wide("r1") + _wide("Data"))
        + _record(144, b"")
        + _record(132, b"")
    )
    book = zipped(
        {
            "xl/workbook.bin": workbook,
            "xl/_rels/workbook.bin.rels": relation,
            "xl/worksheets/sheet1.bin": sheet,
        }
    )
    document = read(book)
    assert document.text == "## Sheet Data\n| share | 0.25 |"
    assert "without their formats" in document.lost


@pytest.mark.parametrize(
    ("body", "name", "expected"),
    [
        (b"<html><body><h1>Report</h1><p>words</p></body></html>", "report.doc", ["# Report", "words"]),
        (
            b"<table><tr><td>a</td><td>1</td></tr><tr><td>b</td><td>2</td></tr></table>",
            "e.xls",
            ["| a | 1 |", "| b | 2 |"],
        ),
        ("\ufeff<html><p>año</p></html>".encode("utf-16"), "e.xls", ["año"]),
        (rb"{\rtf1 words\par}", "letter.doc", ["words"]),
        (b"MIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n<p>words</p>", "e.xls", ["words"]),
        (
            zipped({"word/document.xml": "<document><body><p><r><t>words</t></r></p></body></document>"}),
            "x.pdf",
            ["words"],
        ),
        (zipped({"content.xml": "<d><body><text><p>words</p></text></body></d>"}), "x.docx", ["words"]),
    ],
)
def test_the_content_decides_before_the_name(body: bytes, name: str, expected: list[str]) -> None:
    shown = [line for line in lines(body, name) if set(line) - set("| -")]
    assert shown == expected


def ole(stream: str) -> bytes:
    return storage({stream: b"x"})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (ole("WordDocument"), r"before 2007 \(doc\).*save it as docx or PDF"),
        (ole("PowerPoint Document"), r"before 2007 \(ppt\).*save it as pptx or PDF"),
        (ole("EncryptedPackage"), "encrypted and needs a password"),
        (ole("Something"), "no known kind"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100, "broken"),
        (b"PK\x03\x04 nonsense", "broken"),
        (zipped({"photo.jpg": "x"}), "a ZIP archive, not a document"),
        (
            zipped({"META-INF/manifest.xml": "<encryption-data/>", "content.xml": "x"}),
            "encrypted and needs a password",
        ),
        (zipped({"word/document.xml": "no XML"}), "broken"),
        (zipped({"word/styles.xml": "<styles/>"}), "broken"),
        (b"\0\1\2\3", "does not read files of this format"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(body: bytes, why: str) -> None:
    with pytest.raises(NoDocumentError, match=why) as caught:
        read(body)
    assert isinstance(known(str(caught.value)), Text), "people can read it in their language"


@pytest.mark.parametrize("lost", [30, 200, 400])
def test_an_archive_without_its_end_is_read_as_far_as_it_goes(lost: int) -> None:
    parts = {
        "word/document.xml": "<document><body><p><r><t>words</t></r></p></body></document>",
        "word/z.xml": "<z/>" * 300,
    }
    whole = zipped(parts, first="word/document.xml")
    document = read(whole[: max(len(whole) - lost, 160)])
    assert document.text.startswith("words")
    assert "the end of the file is missing" in document.lost
