"""Documents that lack a part, have a line before them, or put words where few programs do."""

from io import BytesIO

import pytest
import xlwt

from rumi.platform.file_kinds import kind_of_file
from rumi.web.readers.pages.documents.lines import NoDocumentError
from tests.web.readers.documents.builders import (
    OPEN,
    docx,
    lines,
    open_document,
    p,
    part,
    pptx,
    read,
    shape,
    xlsx,
    zipped,
)
from tests.web.readers.documents.test_books_and_old_files import BOOK

LINES = [b"HTTP/1.1 200 OK\r\nServer: a\r\n\r\n", b"\xef\xbb\xbf", b"\r\n", b"<!-- served by a cache -->\n"]
ARCHIVES = {
    "docx": docx(p("words")),
    "xlsx": xlsx({"a": "<row><c t='inlineStr'><is><t>words</t></is></c></row>"}),
    "pptx": pptx([shape("words")]),
    "odt": open_document("text", "<text:p>words</text:p>"),
    "epub": zipped(BOOK, first="mimetype"),
}


@pytest.mark.parametrize("before", LINES)
@pytest.mark.parametrize("kind", ARCHIVES)
def test_a_line_before_an_archive_hides_no_document(kind: str, before: bytes) -> None:
    body = before + ARCHIVES[kind]
    assert kind_of_file(body, "") == "document"
    assert read(body).format == kind
    assert lines(body) == lines(ARCHIVES[kind])


@pytest.mark.parametrize("name", ["", "a.txt", "a.zip"])
def test_other_texts_and_archives_are_no_documents(name: str) -> None:
    assert kind_of_file(b"A ZIP archive begins with PK\x03\x04, says word/ and ppt/.", name) is None
    assert kind_of_file(b"text\n" + zipped({"notes.txt": "words"}), name) is None


def test_parts_are_found_without_the_list_of_relations() -> None:
    parts = {
        "word/header1.xml": part("w:hdr", p("Letterhead")),
        "word/footer2.xml": part("w:ftr", p("Small print")),
        "word/footnotes.xml": part("w:footnotes", f"<w:footnote w:id='1'>{p('noted')}</w:footnote>"),
        "word/comments.xml": part("w:comments", f"<w:comment w:id='1'>{p('Really?')}</w:comment>"),
        "word/document.xml": part(
            "w:document", f"<w:body>{p('text')}<w:sectPr><w:headerReference r:id='r9'/></w:sectPr></w:body>"
        ),
    }
    body = zipped(parts)
    assert lines(body) == [
        "Header: Letterhead", "text", "[^1]: noted", "[comment 1]: Really?", "Footer: Small print",
    ]  # fmt: skip
    assert "its list of parts is missing" in read(body).lost


def test_texts_and_formats_of_sheets_are_found_without_the_list_of_relations() -> None:
    space = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    body = zipped(
        {
            "xl/workbook.xml": f"<workbook {space}><sheets><sheet name='Costs'/></sheets></workbook>",
            "xl/worksheets/sheet1.xml": f"<worksheet {space}><sheetData><row><c t='s'><v>0</v></c>"
            "<c s='0'><v>0.25</v></c></row></sheetData></worksheet>",
            "xl/sharedStrings.xml": f"<sst {space}><si><t>rent</t></si></sst>",
            "xl/styles.xml": f"<styleSheet {space}><cellXfs><xf numFmtId='9'/></cellXfs></styleSheet>",
        }
    )
    assert lines(body) == ["## Sheet Costs", "| rent | 25% |"]


@pytest.mark.parametrize(
    "drawing",
    [
        "<w:pict><v:shape><v:textpath string='DRAFT'/></v:shape></w:pict>",
        "<w:pict><v:shapetype><v:textpath on='t'/></v:shapetype><v:shape><v:textpath string='DRAFT'/></v:shape></w:pict>",
        "<w:object><v:shape><v:textpath on='t' string='DRAFT'/></v:shape></w:object>",
    ],
)
def test_the_letters_of_word_art_are_read(drawing: str) -> None:
    assert lines(docx(p("text", f"<w:r>{drawing}</w:r>"))) == ["text", "[text box] DRAFT"]
    header = {"word/header1.xml": part("w:hdr", p(f"<w:r>{drawing}</w:r>"))}
    assert "Header: [text box] DRAFT" in lines(docx(p("text"), header, [("header", "header1.xml")]))


@pytest.mark.parametrize(
    ("codes", "shown"),
    [
        ("&amp;CReport", "Header: Report"),
        ("&amp;L&amp;&quot;Arial,Bold&quot;&amp;12Draft&amp;RPage &amp;P of &amp;N", "Header: Draft Page of"),
        ("&amp;C&amp;K01+000Tom &amp;&amp; Eva", "Header: Tom & Eva"),
        ("&amp;D&amp;T", ""),
    ],
)
def test_headers_of_sheets_are_read_without_their_codes(codes: str, shown: str) -> None:
    rows = "<sheetData><row><c><v>1</v></c></row></sheetData>"
    around = f"<headerFooter><oddHeader>{codes}</oddHeader><evenHeader>{codes}</evenHeader></headerFooter>"
    assert lines(xlsx({"a": rows + around})) == ["## Sheet a", "| 1 |", *filter(None, [shown])]


def region(change: str) -> str:
    return f"<text:changed-region text:id='{change}'><text:deletion/></text:changed-region>"


def flat(body: str, styles: str = "") -> bytes:
    """A flat file with a tracked deletion `d`, and an insertion `i`."""
    return (
        f"<?xml version='1.0'?><office:document {OPEN}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:text><text:tracked-changes>{region('d')}<text:changed-region text:id='i'>"
        f"<text:insertion/></text:changed-region></text:tracked-changes>{body}</office:text></office:body>"
        "</office:document>"
    ).encode()


def marked(kind: str, text: str) -> str:
    return f"<text:change-start text:change-id='{kind}'/>{text}<text:change-end text:change-id='{kind}'/>"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"<text:p>The rent is {marked('d', '950')}{marked('i', '1150')} euros.</text:p>", ["The rent is 1150 euros."]),
        (f"<text:p>a {marked('d', '<text:span>old <text:span>x</text:span></text:span>')}b</text:p>", ["a b"]),
        (f"<text:p>one {marked('d', 'x</text:p><text:p>y</text:p><text:p>z')} two</text:p>", ["one ", " two"]),
        (f"<text:p>{marked('i', 'all new')}</text:p>", ["all new"]),
    ],
)  # fmt: skip
def test_deletions_that_a_flat_file_leaves_in_place_are_not_read(body: str, expected: list[str]) -> None:
    found = read(flat(body), "a.fodt")
    assert [line for line in found.text.splitlines() if line.strip()] == expected
    assert "1 tracked deletion" in found.lost


def test_hidden_words_are_marked() -> None:
    styles = "<style:style style:name='H'><style:text-properties text:display='none'/></style:style>"
    body = open_document(
        "text", "<text:p>a <text:span text:style-name='H'>b</text:span></text:p>", styles=styles
    )
    assert lines(body) == ["a [hidden: b]"]


def table(*rows: str) -> str:
    return (
        f"<table:table>{''.join(f'<table:table-row>{row}</table:table-row>' for row in rows)}</table:table>"
    )


def cell(inner: str) -> str:
    return f"<table:table-cell>{inner}</table:table-cell>"


def test_a_table_in_a_cell_adds_no_cells_to_the_row() -> None:
    inner = table(cell("<text:p>a</text:p>") + cell("<text:p>b</text:p>"))
    body = open_document("text", table(cell("<text:p>left</text:p>") + cell(inner)))
    assert lines(body) == ["| left | a · b |"]


def test_what_lies_over_a_sheet_follows_its_rows() -> None:
    box = "<draw:frame><draw:text-box><text:p>boxed</text:p></draw:text-box></draw:frame>"
    shape_ = "<draw:custom-shape><text:p>in a shape</text:p></draw:custom-shape>"
    rows = table(
        cell("<text:p>1</text:p>") + cell(f"{box}{shape_}<text:p>2</text:p>"), cell("<text:p>3</text:p>")
    )
    assert lines(open_document("spreadsheet", rows))[1:] == [
        "| 1 | 2 |",
        "| 3 |",
        "[text box] boxed",
        "in a shape",
    ]


def record(code: int, data: bytes = b"") -> bytes:
    return code.to_bytes(2, "little") + len(data).to_bytes(2, "little") + data


def on_sheet(kind: int, text: str = "") -> bytes:
    """The records of an object on a sheet; a text may continue in a second record."""
    drawn = record(0x5D, b"\x15\0\x12\0" + kind.to_bytes(2, "little") + b"\1\0" + bytes(14) + bytes(4))
    if not text:
        return drawn
    head = bytes(10) + len(text).to_bytes(2, "little") + bytes(6)
    first, second = text[:5], text[5:]
    return (
        drawn
        + record(0x1B6, head)
        + record(0x3C, b"\0" + first.encode("latin-1"))
        + record(0x3C, b"\1" + second.encode("utf-16-le"))
        + record(0x3C, bytes(16))
    )


def old_workbook(drawn: bytes) -> bytes:
    book = xlwt.Workbook()
    book.add_sheet("a").write(0, 0, "words")
    stream = book.get_biff_data()
    end = record(0x0A)
    assert stream.endswith(end)
    return bytes(stream.removesuffix(end) + drawn + end)


CHART = record(0x809, b"\0\6\x20\0" + bytes(12)) + record(0x0A)


def test_texts_on_an_old_sheet_are_read_and_its_charts_and_pictures_named() -> None:
    body = old_workbook(on_sheet(6, "Rent: 5 € – paid") + on_sheet(5) + CHART + on_sheet(8) + on_sheet(8))
    assert lines(body) == ["## Sheet a", "| words |", "[text box] Rent: 5 € – paid"]
    assert read(body).lost == "not in this text: 1 chart, 2 pictures"


def test_many_records_on_an_old_sheet_are_bounded() -> None:
    body = old_workbook(record(0x3C) * 1_000_000)
    assert lines(body) == ["## Sheet a", "| words |"]


def test_an_old_workbook_without_its_last_bytes_is_read() -> None:
    book, out = xlwt.Workbook(), BytesIO()
    book.add_sheet("a").write(0, 0, "words")
    book.save(out)
    found = read(out.getvalue()[:-20])
    assert "| words |" in found.text
    assert "the end of the file is missing" in found.lost


def test_an_open_document_without_its_content_says_so() -> None:
    whole = open_document("text", "<text:p>words</text:p>")
    at = whole.index(b"content.xml") - 30
    with pytest.raises(NoDocumentError, match="main part"):
        read(whole[:at])
