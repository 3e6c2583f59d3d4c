"""Conversion of books (`epub`) to text, in the order of their spine."""

from posixpath import dirname, join, normpath
from typing import Final
from urllib.parse import unquote

from rumi.web.readers.pages.charset import decode
from rumi.web.readers.pages.cleaning import one_line
from rumi.web.readers.pages.documents.lines import Lines, NoDocumentError, Reading
from rumi.web.readers.pages.documents.mail import html_lines
from rumi.web.readers.pages.documents.package import Package, all_named, attribute

_MOST_CHAPTERS: Final = 5000
_PAGES: Final = (".xhtml", ".html", ".htm", ".xml")


def book_lines(package: Package, reading: Reading) -> Lines:
    """Yield the text of a book's chapters, separated by empty lines.

    Raises:
        NoDocumentError: The chapters are encrypted, or there are none.
    """
    chapters = _chapters(package, reading)
    locked = _locked(package, reading)
    if not chapters:
        raise NoDocumentError("it has no chapters that can be read")
    if all(name in locked for name in chapters):
        raise NoDocumentError("it is encrypted by its shop (DRM)")
    for name in chapters[:_MOST_CHAPTERS]:
        data = None if name in locked else package.read(name)
        if data is None:
            reading.losses.add("chapter")
            continue
        yield from html_lines(decode(data, markup=True), reading)
        yield ""
    if len(chapters) > _MOST_CHAPTERS:
        reading.losses.add("chapter", count=len(chapters) - _MOST_CHAPTERS)


def _chapters(package: Package, reading: Reading) -> list[str]:
    """Return the parts of the spine; without one, all pages in the order of their names."""
    container = "META-INF/container.xml"
    root = package.xml(container, reading.losses) if container in package else None
    listed = [] if root is None else [attribute(found, "full-path") for found in all_named(root, "rootfile")]
    listed += [name for name in package.names if name.endswith(".opf")]
    name = next((name for name in listed if name in package), "")
    book = package.xml(name, reading.losses) if name else None
    if book is not None:
        title = next(all_named(book, "title"), None)
        reading.title = one_line("" if title is None else title.text or "")
        parts = {
            attribute(item, "id"): normpath(join(dirname(name), unquote(attribute(item, "href"))))
            for item in all_named(book, "item")
        }
        spine = next(all_named(book, "spine"), None)
        order = [] if spine is None else [parts.get(attribute(item, "idref"), "") for item in spine]
        if any(part in package for part in order):
            return [part for part in order if part]
    return sorted(name for name in package.names if name.endswith(_PAGES) and not name.startswith("meta-inf"))


def _locked(package: Package, reading: Reading) -> set[str]:
    """Return the encrypted parts. Fonts, which many books scramble, are none of the chapters."""
    name = "META-INF/encryption.xml"
    root = package.xml(name, reading.losses) if name in package else None
    found = () if root is None else all_named(root, "CipherReference")
    return {normpath(unquote(attribute(reference, "URI"))) for reference in found}
