"""Conversion of PDF documents to text, page by page."""

import re
import time
from typing import Final

from rumi.web.links import links_in
from rumi.web.messages import PageText
from rumi.web.readers.pages.cleaning import clean, cut_to, one_line

_PATIENCE_S: Final = 6.0  # after this time, the pages read so far are the result
# pdfium's mark for the hyphen of a word that is divided at the end of a line.
_DIVIDED: Final = re.compile("[\ufffe\x02](?:\r?\n)?")


def read_pdf(body: bytes, max_chars: int) -> PageText:
    """Return the text of a PDF with a heading per page, or a description if it has no readable text."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        locked = "password" in str(error).lower()
        why = "it is encrypted and needs a password" if locked else "it is broken"
        return PageText(described=f"A PDF, {len(body):,} bytes, that cannot be read: {why}.")
    try:
        count = len(document)
        title = one_line(document.get_metadata_dict().get("Title", ""))
        pages, broken = _pages(document, count, max_chars)
    finally:
        document.close()
    if not any(page for page in pages):
        seems = "its pages are broken" if broken else "it has no text; its pages may be images"
        return PageText(title, described=f"A PDF of {_counted(count)}, {len(body):,} bytes: {seems}.")
    headed = (f"## Page {number} of {count}\n\n{page}" for number, page in enumerate(pages, 1) if page)
    kept, cut = cut_to("\n\n".join(headed), max_chars)
    if not all(pages):
        empty = ", ".join(str(number) for number, page in enumerate(pages, 1) if not page)
        said = f"pages without text, which may be images: {one_line(empty, 80)}"
        cut = f"{cut}; {said}" if cut else said
    if len(pages) < count:
        left = f"pages {len(pages) + 1} to {count} of {count} were not read"
        cut = f"{cut}; {left}" if cut else left
    return PageText(title, kept, links_in(kept), cut)


def _pages(document: object, count: int, max_chars: int) -> tuple[list[str], int]:
    """Return the texts of the first pages, about `max_chars` in total, and the number of unreadable pages."""
    import pypdfium2

    assert isinstance(document, pypdfium2.PdfDocument)
    until = time.monotonic() + _PATIENCE_S
    pages: list[str] = []
    chars = broken = 0
    for number in range(count):
        try:
            page = document[number]
            shown = page.get_textpage()
            text = clean(_DIVIDED.sub("", shown.get_text_bounded(errors="ignore"))).strip()
            shown.close()
            page.close()
        except pypdfium2.PdfiumError:
            text, broken = "", broken + 1
        pages.append(text)
        chars += len(text)
        if chars > max_chars or time.monotonic() > until:
            break
    return pages, broken


def _counted(pages: int) -> str:
    return f"{pages} page" if pages == 1 else f"{pages:,} pages"
