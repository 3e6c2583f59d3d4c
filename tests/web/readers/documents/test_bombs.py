"""Documents that unpack, repeat or nest without end: each ends with a part of its text or a reason."""

import random
import traceback
import zlib
from collections.abc import Callable

import pytest

from rumi.web.messages import FetchError
from rumi.web.readers.pages.documents.lines import NoDocumentError
from rumi.web.readers.pages.readers import Readers
from tests.web.readers.documents.builders import (
    docx,
    open_document,
    p,
    pptx,
    read,
    shape,
    storage,
    xlsx,
    zipped,
)
from tests.web.readers.documents.test_books_and_old_files import BOOK
from tests.web.readers.documents.test_mail import multipart, text
from tests.web.readers.documents.test_routes import FORMATS

URL = "http://site.example/download"
MOST_CHARS = 1_000_000
LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'


def nested(count: int, inner: str, begin: str, end: str) -> str:
    return begin * count + inner + end * count


def repeated_cells() -> bytes:
    cell = "<table:table-cell table:number-columns-repeated='16384'><text:p>x</text:p></table:table-cell>"
    row = f"<table:table-row table:number-rows-repeated='1048576'>{cell}</table:table-row>"
    return open_document("spreadsheet", f"<table:table table:name='a'>{row}</table:table>")


def shared_string() -> bytes:
    cells = "<c t='s'><v>0</v></c>" * 200
    return xlsx({"a": f"<row>{cells}</row>" * 500}, strings=["x" * 32_000])


def nested_mail() -> bytes:
    inner = text("in the middle")
    for number in range(60):
        inner = multipart(f"mixed{number}", inner).partition(b"MIME-Version: 1.0\r\n")[2]
    return b"From: a@b.example\r\nMIME-Version: 1.0\r\n" + inner


def documents_in_documents() -> bytes:
    inner = docx(p("in the middle"))
    for _ in range(8):
        inner = docx(
            p("around") + "<w:altChunk r:id='r1'/>",
            {"word/inner.docx": inner, "word/_rels/document.xml.rels": relation("word/inner.docx")},
        )
    return inner


def relation(target: str) -> str:
    return f'<Relationships><Relationship Id="r1" Type="x/aFChunk" Target="/{target}"/></Relationships>'


def packed_objects() -> bytes:
    data = zlib.compress(b"\0" * 80_000_000)
    return (
        b"%PDF-1.5\n1 0 obj\n<</Type/ObjStm/N 1/First 9/Filter/FlateDecode>>stream\n"
        + data
        + b"\nendstream\nendobj\n"
    )


def loop_of_sectors() -> bytes:
    body = bytearray(storage({"Workbook": b"x" * 9000}))
    table = body.rfind((0xFFFFFFFD).to_bytes(4, "little")) & ~511
    body[table : table + 4] = (0).to_bytes(4, "little")
    return bytes(body)


BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "repeated cells": (repeated_cells, "the same in 1,048,556 more rows"),
    "one string in all cells": (shared_string, f"the rest, after {MOST_CHARS:,}"),
    "an XML part of 80 MB": (lambda: docx(p("x") + " " * 80_000_000), "unpacks to too much"),
    "many large parts": (
        lambda: zipped(BOOK | {f"a{n}.xhtml": " " * 60_000_000 for n in range(5)}),
        "unpacks to too much",
    ),
    "entities in a document": (
        lambda: zipped({"word/document.xml": LAUGHS + "<document><body/></document>"}),
        "entities",
    ),
    "entities in a sheet": (
        lambda: xlsx({"a": ""}, parts={"xl/worksheets/sheet1.xml": LAUGHS + "<x/>"}),
        "entities",
    ),
    "entities in flat XML": (lambda: ('<?xml version="1.0"?>' + LAUGHS + "<office:document/>").encode(), ""),
    "deep tables": (
        lambda: docx(nested(500, p("x"), "<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>")),
        "nested too deeply",
    ),
    "deep content controls": (
        lambda: docx(nested(900, p("x"), "<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>")),
        "nested too deeply",
    ),
    "deep runs": (
        lambda: docx(p(nested(1500, "<w:t>x</w:t>", "<w:smartTag>", "</w:smartTag>"))),
        "nested too deeply",
    ),
    "deep groups": (lambda: pptx([nested(900, shape("x"), "<p:grpSp>", "</p:grpSp>")]), "nested too deeply"),
    "deep sections": (
        lambda: open_document("text", nested(900, "<text:p>x</text:p>", "<text:section>", "</text:section>")),
        "nested too deeply",
    ),
    "deep spans": (
        lambda: open_document("text", f"<text:p>{nested(900, 'x', '<text:span>', '</text:span>')}</text:p>"),
        "nested too deeply",
    ),
    "many spaces": (
        lambda: open_document("text", "<text:p>a<text:s text:c='999999999'/>b</text:p>"),
        "a" + " " * 100 + "b",
    ),
    "wide spans": (
        lambda: docx(
            "<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val='999999999'/></w:tcPr></w:tc></w:tr></w:tbl>"
        ),
        "|",
    ),
    "merged without end": (
        lambda: xlsx(
            {
                "a": "<sheetData><row><c><v>7</v></c></row></sheetData>"
                + "<mergeCell ref='A1:XFD1048576'/>" * 5000
            }
        ),
        "| 7 |",
    ),
    "groups of RTF": (lambda: b"{\\rtf1 " + b"{" * 1_000_000, "nested too deeply"),
    "notes in notes of RTF": (lambda: b"{\\rtf1 " + b"{\\footnote x" * 1999, "x"),
    "a mail in a mail": (nested_mail, "part of the message"),
    "parts of a mail": (lambda: multipart("mixed", *[text("x")] * 5000), "parts of the message"),
    "documents in documents": (documents_in_documents, "inserted document"),
    "objects of a PDF": (packed_objects, "broken"),
    "sectors in a circle": (loop_of_sectors, ""),
}


@pytest.mark.long
async def test_each_bomb_ends_with_a_part_of_its_text_or_a_reason() -> None:
    wrong = list[str]()
    async with Readers(at_once=1).running() as readers:
        for name, (make, said) in BOMBS.items():
            try:
                page = await readers.read(
                    make(), media_type="application/octet-stream", charset=None, url=URL, max_chars=MOST_CHARS
                )
            except FetchError as error:
                heard = str(error)
            else:
                assert len(page.text) <= MOST_CHARS
                heard = f"{page.text} {page.cut} {page.described}"
            if said not in heard:
                wrong.append(f"{name}: {heard[:200]}")
    assert not wrong


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_bytes_give_a_text_or_a_reason(name: str) -> None:
    dice = random.Random(name)
    for _ in range(60):
        body = bytearray(FORMATS[name])
        for _ in range(dice.randint(1, 6)):
            at = dice.randrange(len(body))
            match dice.randrange(3):
                case 0:
                    body[at] = dice.randrange(256)
                case 1:
                    del body[at : at + dice.randint(1, 40)]
                case _:
                    body[at:at] = bytes(dice.choices(range(256), k=dice.randint(1, 8)))
        assert not fault_of_ours(bytes(body), name)


def fault_of_ours(body: bytes, name: str) -> str:
    """Where our own code failed. What a library raises becomes a reason in the process that reads."""
    try:
        read(body, name)
    except NoDocumentError as error:
        return "" if str(error) else "no reason"
    except Exception as error:  # noqa: BLE001 - whatever a library raises
        place = traceback.extract_tb(error.__traceback__)[-1]
        return str(place) if "/rumi/" in place.filename else ""
    return ""
