"""Files of all kinds, made for tests."""

import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO

import docx
import openpyxl
import pptx
from odf import opendocument, table, text
from PIL import Image


def picture(width: int, height: int, kind: str = "PNG", mode: str = "RGB", **options: object) -> bytes:
    """A picture with red at its top left corner."""
    out = BytesIO()
    image = Image.new(mode, (width, height))
    if mode in ("RGB", "RGBA"):
        red = Image.new(mode, (max(1, width // 2), max(1, height // 2)), "red")
        image.paste(red, (0, 0))
    image.save(out, kind, **options)
    return out.getvalue()


def turned_photo(width: int, height: int) -> bytes:
    """A photo that its camera has turned, with the place where it was made."""
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "SECRET PLACE"
    return picture(width, height, "JPEG", exif=exif.tobytes(), comment=b"SECRET PLACE")


def huge_png(width: int, height: int) -> bytes:
    """A picture whose header says how large it is, and that has next to no content."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def word(*paragraphs: str) -> bytes:
    document, out = docx.Document(), BytesIO()
    document.add_heading("Report", 1)
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    rows = document.add_table(1, 2).rows
    rows[0].cells[0].text, rows[0].cells[1].text = "rent", "500"
    document.save(out)
    return out.getvalue()


def sheet(*rows: tuple[object, ...]) -> bytes:
    book, out = openpyxl.Workbook(), BytesIO()
    book.active.title = "Budget"
    for row in rows:
        book.active.append(row)
    book.save(out)
    return out.getvalue()


def slides(*titles: str) -> bytes:
    show, out = pptx.Presentation(), BytesIO()
    for title in titles:
        slide = show.slides.add_slide(show.slide_layouts[5])
        slide.shapes.title.text = title
        slide.notes_slide.notes_text_frame.text = f"about {title}"
    show.save(out)
    return out.getvalue()


def open_document(*paragraphs: str) -> bytes:
    document, out = opendocument.OpenDocumentText(), BytesIO()
    document.text.addElement(text.H(outlinelevel=2, text="Report"))
    for paragraph in paragraphs:
        document.text.addElement(text.P(text=paragraph))
    rows = table.Table()
    row = table.TableRow()
    for cell_text in ("rent", "500"):
        cell = table.TableCell()
        cell.addElement(text.P(text=cell_text))
        row.addElement(cell)
    rows.addElement(row)
    document.text.addElement(rows)
    document.write(out)
    return out.getvalue()


def changed(archive: bytes, changes: Mapping[str, Callable[[bytes], bytes]]) -> bytes:
    """An archive with some of its parts changed."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(archive)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, changes.get(name, bytes)(old.read(name)))
    return out.getvalue()


def pdf(words: str) -> bytes:
    """A PDF of one page."""
    stream = f"BT /F1 24 Tf 72 700 Td ({words}) Tj ET".encode()
    parts = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R"
        b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream),
    )
    out, offsets = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        offsets.append(len(out))
        out += b"%d 0 obj%s endobj\n" % (number, part)
    table_at = len(out)
    out += b"xref\n0 5\n0000000000 65535 f \n" + b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return out + b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % table_at
