"""The entry of all readers of documents: detection of the format by the content, and one result for all."""

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePosixPath
from typing import Final

from rumi.platform.file_kinds import BARE_WORKBOOKS, has_office_archive
from rumi.platform.text_decoding import decode
from rumi.web.readers.pages.cleaning import clean
from rumi.web.readers.pages.documents import legacy
from rumi.web.readers.pages.documents.epub import book_lines
from rumi.web.readers.pages.documents.lines import Lines, NoDocumentError, Reading, text_of
from rumi.web.readers.pages.documents.mail import html_lines, mail_lines
from rumi.web.readers.pages.documents.opendocument import flat_open_document_lines, open_document_lines
from rumi.web.readers.pages.documents.package import Element, Package, all_named, local, parse_xml
from rumi.web.readers.pages.documents.pdf import pdf_lines
from rumi.web.readers.pages.documents.rtf import rtf_lines
from rumi.web.readers.pages.documents.sheets import plain_sheet_lines, sheet_lines
from rumi.web.readers.pages.documents.slides import slide_lines
from rumi.web.readers.pages.documents.word import plain_word_lines, word_lines

HEAD_BYTES: Final = 4096
_MOST_DEPTH: Final = 3
"""How deep documents may lie in documents: an attachment of an attached message of a message."""

_MOST_NESTED: Final = 100
_SECTOR_BYTES: Final = 512
"""The smallest sector of an OLE file: its size is a multiple of this."""

_OPEN_DOCUMENT: Final = {"text": "odt", "spreadsheet": "ods", "presentation": "odp", "drawing": "odg"}
_OFFICE: Final[dict[str, tuple[str, Callable[[Package, str, Reading], Lines]]]] = {
    "document": ("docx", word_lines),
    "workbook": ("xlsx", sheet_lines),
    "presentation": ("pptx", slide_lines),
}
"""The format and its reader by the name of the main part's root element."""

_MAIN_PARTS: Final = re.compile(r"(?:^|/)(?:document\d*|workbook\d*|presentation\d*)\.xml$")
_PLAIN: Final = (".txt", ".md", ".csv")
_MAIL: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*(?:From [^\r\n]+\r?\n)?"
    rb"(?:[A-Za-z][A-Za-z0-9-]{1,60}:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*){2}"
)


@dataclass(frozen=True, slots=True)
class DocumentText:
    """The text of a document. `lost` describes what is not in it; `cut` describes the missing rest."""

    format: str
    title: str = ""
    text: str = ""
    lost: str = ""
    cut: str = ""


def read_document(body: bytes, name: str, max_chars: int) -> DocumentText:
    """Convert a document to text. This function limits the text and the time, but not the memory.

    `name` is the file's name, or empty; its ending decides only if the content does not.

    Raises:
        NoDocumentError: The document cannot be read.
    """
    left = [_MOST_NESTED]
    reading = Reading(nested=lambda data, name: _nested(data, name, reading, 1, left))
    kind, lines = _found(body, name, reading)
    text, cut = text_of(lines, max_chars)
    return DocumentText(kind, reading.title, clean(text), str(reading.losses), cut)


def _nested(body: bytes, name: str, outer: Reading, depth: int, left: list[int]) -> Lines:
    left[0] -= 1
    if depth > _MOST_DEPTH or left[0] < 0:
        raise NoDocumentError("it lies too deep, or there are too many")
    inner = Reading(
        nested=lambda data, name: _nested(data, name, inner, depth + 1, left), losses=outer.losses
    )
    try:
        yield from _found(body, name, inner)[1]
    except (NoDocumentError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - parsers raise what they like; the document around this one is read on
        raise NoDocumentError(f"it is broken ({type(error).__name__})") from None


def _found(body: bytes, name: str, reading: Reading) -> tuple[str, Lines]:
    """Return the format of a document and its lines.

    Raises:
        NoDocumentError: It is of no known format, or it is plainly broken.
    """
    head = body[:HEAD_BYTES]
    start = head.lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n\0")
    ending = PurePosixPath(name).suffix.lower()
    if head.startswith(b"PK\x03\x04") and (b"%PDF-" not in head or zipfile.is_zipfile(BytesIO(body))):
        return _zipped(body, reading)
    if b"%PDF-" in head:
        return "pdf", pdf_lines(body, reading)
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return _ole(body, reading)
    if head.startswith(BARE_WORKBOOKS):
        return "xls", legacy.xls_lines(body, reading)
    if start.startswith(b"{\\rtf"):
        return "rtf", rtf_lines(body, reading)
    if has_office_archive(head):
        return _zipped(body, reading)
    if ending in (".eml", ".mbox", ".mht", ".mhtml") or (_MAIL.match(head) and ending not in _PLAIN):
        return "eml", mail_lines(body, reading)
    if start.replace(b"\0", b"").startswith(b"<"):
        return _marked_up(body, reading)
    if ending in (".html", ".htm", ".xhtml"):
        return "html", html_lines(decode(body, markup="html"), reading)
    raise NoDocumentError("Rumi does not read files of this format")


def _zipped(body: bytes, reading: Reading) -> tuple[str, Lines]:
    package = Package.of_zip(body, reading.losses)
    mime = (package.read("mimetype") or b"").strip().decode("latin-1")
    if mime == "application/epub+zip" or (not mime and "META-INF/container.xml" in package):
        return "epub", book_lines(package, reading)
    if "xl/workbook.bin" in package:
        return "xlsb", legacy.xlsb_lines(body, reading)
    if found := _office(package, reading):
        return found
    if "content.xml" in package or mime.startswith("application/vnd.oasis.opendocument."):
        subtype = mime.rpartition(".")[2].removesuffix("-template")
        return _OPEN_DOCUMENT.get(subtype, "odt"), open_document_lines(package, reading)
    raise NoDocumentError("it is a ZIP archive, not a document")


def _office(package: Package, reading: Reading) -> tuple[str, Lines] | None:
    """Return the format and the lines of an Open XML document; None for other archives."""
    mains = package.of_kind("", "officeDocument", reading.losses)
    mains += sorted((name for name in package.names if _MAIN_PARTS.search(name)), key=len)
    found = False
    for name in dict.fromkeys(mains):
        if name not in package:
            continue
        found = True
        head = (package.read(name) or b"")[:HEAD_BYTES].replace(b"\0", b"")  # it may be UTF-16
        for root, (kind, reader) in _OFFICE.items():
            if re.search(rb"<(?:\w+:)?%s[\s/>]" % root.encode(), head):
                return kind, reader(package, name, reading)
    if any(name.startswith("xl/worksheets/") for name in package.names):
        return "xlsx", sheet_lines(package, mains[0] if mains else "xl/workbook.xml", reading)
    if any(name.startswith("ppt/slides/") for name in package.names):
        return "pptx", slide_lines(package, mains[0] if mains else "ppt/presentation.xml", reading)
    if found or any(name.startswith(("word/", "xl/", "ppt/")) for name in package.names):
        raise NoDocumentError("its main part is broken")
    return None


def _ole(body: bytes, reading: Reading) -> tuple[str, Lines]:
    kind = legacy.ole_kind(body)
    if kind == "xls" and (missing := -len(body) % _SECTOR_BYTES):
        reading.losses.note("the end of the file is missing, so parts of the document may be, too")
        body += bytes(missing)
    return kind, (legacy.xls_lines if kind == "xls" else legacy.msg_lines)(body, reading)


def _marked_up(body: bytes, reading: Reading) -> tuple[str, Lines]:
    """Return the reader of a document that is one file of XML or HTML, as some programs export them."""
    root: Element | None = None
    if re.search(rb"<\0?\?\0?x\0?m\0?l|mso-application|office:document", body[:HEAD_BYTES]):
        try:
            root, _ = parse_xml(body)
        except NoDocumentError:
            root = None
    match "" if root is None else local(root):
        case "package":
            package = Package.of_flat_xml(root)
            if found := _office(package, reading):
                return found
        case "document" if next(all_named(root, "body"), None) is not None:
            return "odt", flat_open_document_lines(root, reading)
        case "wordDocument":
            return "doc", plain_word_lines(root, reading)
        case "Workbook":
            return "xls", plain_sheet_lines(root)
    return "html", html_lines(decode(body, markup="html"), reading)
