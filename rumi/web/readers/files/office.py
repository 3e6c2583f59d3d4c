"""Conversion of office files to text in a confined process, with limits on characters and time."""

import re
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from typing import Any, Final

MOST_ENTRIES: Final = 10_000
MOST_BYTES: Final = 256_000_000
MOST_XML_BYTES: Final = 64_000_000
"""Maximum number of parts in a file, and maximum unpacked sizes of all parts and of XML parts, in bytes."""

MOST_COLUMNS: Final = 200
MOST_ROWS: Final = 1_100_000
"""Maximum number of rows to read from all sheets; Excel's limit for one sheet is slightly lower."""

PATIENCE_S: Final = 6.0
"""Maximum time to read a document, in seconds. After this time, the text read so far is the result."""

_DECLARES: Final = re.compile(rb"<\0?!\0?(?:D\0?O\0?C\0?T\0?Y\0?P\0?E|E\0?N\0?T\0?I\0?T\0?Y)", re.IGNORECASE)


class NoDocumentError(Exception):
    """The document cannot be read. The message is a clause that completes a sentence."""


def check_parts(body: bytes) -> None:
    """Refuse an archive that is encrypted, unpacks to too much data, or has XML that declares entities.

    Raises:
        NoDocumentError: The archive is refused, or the file is not a valid archive.
    """
    try:
        with zipfile.ZipFile(BytesIO(body)) as archive:
            parts = archive.infolist()
            if len(parts) > MOST_ENTRIES or sum(part.file_size for part in parts) > MOST_BYTES:
                raise NoDocumentError("it unpacks to too much")
            if any(part.flag_bits & 1 for part in parts):
                raise NoDocumentError("it is encrypted and needs a password")
            xml = [part for part in parts if _is_xml(archive, part)]
            if sum(part.file_size for part in xml) > MOST_XML_BYTES:
                raise NoDocumentError("it unpacks to too much")
            for part in xml:
                # `zipfile` reads no more than the size that the archive declares, which was checked above.
                if _DECLARES.search(archive.read(part)):
                    raise NoDocumentError("its XML declares entities, which no office program writes")
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, OSError):
        raise NoDocumentError("it is broken") from None


def _is_xml(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> bool:
    """Return True if the content of a part begins like XML, regardless of the part's name."""
    with archive.open(part) as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n").startswith(b"<")


def text_of(lines: Iterable[str | None], max_chars: int) -> tuple[str, str]:
    """Join lines to one text; return the text, and a description of the omitted part.

    The description is empty if nothing was omitted.

    `lines` may contain None, which is not a line but only a chance to check the time limit.
    """
    until, size = time.monotonic() + PATIENCE_S, 0
    kept: list[str] = []
    for line in lines:
        if line is not None:
            size += len(line) + 1
            if size > max_chars:
                return "\n".join(kept), f"the rest, after {size - len(line) - 1:,} characters, was not read"
            kept.append(line)
        if time.monotonic() > until:
            return "\n".join(kept), "the rest was not read, since reading took too long"
    return "\n".join(kept), ""


def docx_lines(body: bytes) -> Iterator[str]:
    """Yield the paragraphs and tables of a Word document in order."""
    import docx
    from docx.table import Table

    document = docx.Document(BytesIO(body))
    names = {style.style_id: style.name or "" for style in document.styles}
    for block in document.iter_inner_content():
        if isinstance(block, Table):
            yield from ("", *(_row(cell.text for cell in row.cells) for row in block.rows), "")
            continue
        heading = re.fullmatch(r"Heading ([1-6])", names.get(block._p.style or "", ""))
        if (text := block.text).strip():
            yield f"{'#' * int(heading[1])} {text}" if heading else text


def xlsx_lines(body: bytes) -> Iterator[str | None]:
    """Yield the non-empty rows of each sheet. A cell with a formula yields the formula's stored result."""
    import openpyxl

    book = openpyxl.load_workbook(BytesIO(body), read_only=True, data_only=True)
    left = MOST_ROWS
    for sheet in book.worksheets:
        yield f"## Sheet {sheet.title}"
        for row in sheet.iter_rows(max_row=left, max_col=MOST_COLUMNS, values_only=True):
            left -= 1
            if any(value is not None for value in row):
                yield _row("" if value is None else str(value) for value in _trimmed(row))
            elif left % 1000 == 0:
                yield None
            if left <= 0:
                return


def pptx_lines(body: bytes) -> Iterator[str]:
    """Yield the texts and notes of each slide."""
    import pptx

    for number, slide in enumerate(pptx.Presentation(BytesIO(body)).slides, 1):
        yield f"## Slide {number}"
        for shape in slide.shapes:
            yield from _shape(shape, 0)
        if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None and frame.text:
            yield f"Notes: {frame.text}"


def odt_lines(body: bytes) -> Iterator[str]:
    """Yield the headings, paragraphs and table rows of an OpenDocument text."""
    from odf import opendocument, teletype

    def walk(node: Any, depth: int) -> Iterator[str]:
        for child in getattr(node, "childNodes", ()):
            match getattr(child, "qname", ("", ""))[1]:
                case "h":
                    level = child.getAttribute("outlinelevel") or "1"
                    yield f"{'#' * min(6, int(level))} {teletype.extractText(child)}"
                case "p":
                    yield teletype.extractText(child)
                case "table-row":
                    yield _row(teletype.extractText(cell) for cell in child.childNodes)
                case _ if depth < 100:
                    yield from walk(child, depth + 1)

    return walk(opendocument.load(BytesIO(body)).body, 0)


LINES: Final[dict[str, Callable[[bytes], Iterator[str | None]]]] = {
    "docx": docx_lines,
    "xlsx": xlsx_lines,
    "pptx": pptx_lines,
    "odt": odt_lines,
}
"""Maps each kind of document to the function that reads it."""


def _shape(shape: Any, depth: int) -> Iterator[str]:
    if shape.has_text_frame and shape.text_frame.text.strip():
        yield shape.text_frame.text
    if getattr(shape, "has_table", False):
        yield from (_row(cell.text for cell in row.cells) for row in shape.table.rows)
    if depth < 20:
        for inner in getattr(shape, "shapes", ()):
            yield from _shape(inner, depth + 1)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |"


def _trimmed(row: tuple[object, ...]) -> tuple[object, ...]:
    end = len(row)
    while end and row[end - 1] is None:
        end -= 1
    return row[:end]


def _docx_sample() -> bytes:
    import docx

    document, out = docx.Document(), BytesIO()
    document.add_heading("a", 1)
    document.add_table(1, 1)
    document.save(out)
    return out.getvalue()


def _xlsx_sample() -> bytes:
    # Written by hand: openpyxl writes through temporary files, which this process may not create.
    schemas, types = "http://schemas.openxmlformats.org", "application/vnd.openxmlformats-officedocument"
    related, sheets = f"{schemas}/officeDocument/2006/relationships", f"{schemas}/spreadsheetml/2006/main"

    def related_to(target: str, kind: str) -> str:
        package = f'<Relationships xmlns="{schemas}/package/2006/relationships">'
        return f'{package}<Relationship Id="r1" Target="{target}" Type="{related}/{kind}"/></Relationships>'

    parts = {
        "[Content_Types].xml": f'<Types xmlns="{schemas}/package/2006/content-types"><Override'
        f' PartName="/xl/workbook.xml" ContentType="{types}.spreadsheetml.sheet.main+xml"/></Types>',
        "_rels/.rels": related_to("xl/workbook.xml", "officeDocument"),
        "xl/_rels/workbook.xml.rels": related_to("worksheets/sheet1.xml", "worksheet"),
        "xl/workbook.xml": f'<workbook xmlns="{sheets}" xmlns:r="{related}"><sheets>'
        '<sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{sheets}"><sheetData><row r="1">'
        '<c r="A1" t="inlineStr"><is><t>a</t></is></c><c r="B1"><v>1</v></c></row></sheetData></worksheet>',
    }
    out = BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def _pptx_sample() -> bytes:
    import pptx

    slides, out = pptx.Presentation(), BytesIO()
    slides.slides.add_slide(slides.slide_layouts[0])
    slides.save(out)
    return out.getvalue()


def _odt_sample() -> bytes:
    from odf import opendocument, text

    document, out = opendocument.OpenDocumentText(), BytesIO()
    document.text.addElement(text.P(text="a"))
    document.write(out)
    return out.getvalue()


SAMPLES: Final[dict[str, Callable[[], bytes]]] = {
    "docx": _docx_sample,
    "xlsx": _xlsx_sample,
    "pptx": _pptx_sample,
    "odt": _odt_sample,
}
"""A small file of each kind. Reading it imports all modules that the kind's reader imports at first use."""
