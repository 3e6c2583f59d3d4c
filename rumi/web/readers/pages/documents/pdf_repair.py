"""Repair of PDF files that have lost their end, and with it the list of their objects.

pdfium finds the objects of such a file by itself, but not the catalog if its place is unknown, and no objects
that lie compressed in object streams (ISO 32000-1, 7.5.7). So those are written out behind the rest, and a
new catalog lists the pages that are left.
"""

import re
import zlib
from collections.abc import Iterator
from typing import Final

_MOST_BYTES: Final = 64_000_000
_MOST_OBJECTS: Final = 200_000
_MOST_PAGES: Final = 10_000
_OBJECT: Final = re.compile(rb"(?<![0-9])(\d{1,9})\s+(\d{1,5})\s+obj\b")
_OBJECT_STREAM: Final = re.compile(rb"/Type\s*/ObjStm\b")
_PAGE: Final = re.compile(rb"/Type\s*/Page\b")
_CATALOG: Final = re.compile(rb"/Type\s*/Catalog\b")
_FORM: Final = re.compile(rb"/AcroForm\s*(\d+\s+\d+\s+R)")
_PAGES: Final = re.compile(rb"/Pages\s+(\d+)\s+\d+\s+R")
_DICTIONARY_BYTES: Final = 20_000


def repaired(body: bytes) -> bytes:
    """Return the file with a new end; empty if it has no pages or is encrypted."""
    if b"/Encrypt" in body:
        return b""
    body = body[: body.rfind(b"endobj") + 6] + b"\n"
    objects = dict(_objects(body))
    added = list[bytes]()
    for text in list(objects.values()):
        if _OBJECT_STREAM.search(text[:_DICTIONARY_BYTES]):
            for inner, content in _inner_objects(text):
                if len(objects) < _MOST_OBJECTS and inner not in objects:
                    objects[inner] = content
                    added.append(b"%d 0 obj\n%s\nendobj\n" % (inner, content))
    catalog = next((number for number, text in objects.items() if _is_whole_catalog(text, objects)), None)
    if catalog is None:
        pages = [number for number, text in objects.items() if _PAGE.search(text[:_DICTIONARY_BYTES])]
        if not pages:
            return b""
        catalog = max(objects) + 2
        kids = b" ".join(b"%d 0 R" % number for number in pages[:_MOST_PAGES])
        count = min(len(pages), _MOST_PAGES)
        added.append(b"%d 0 obj\n<</Type/Pages/Kids[%s]/Count %d>>\nendobj\n" % (catalog - 1, kids, count))
        form = _FORM.search(b"".join(added)) or _FORM.search(body)
        fields = b"/AcroForm %s" % form[1] if form else b""
        added.append(b"%d 0 obj\n<</Type/Catalog/Pages %d 0 R%s>>\nendobj\n" % (catalog, catalog - 1, fields))
    end = b"trailer\n<</Root %d 0 R/Size %d>>\nstartxref\n0\n%%%%EOF" % (catalog, max(objects) + 3)
    return body + b"".join(added) + end


def _objects(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and the contents of the file's objects; a later one replaces an earlier one."""
    places = [*_OBJECT.finditer(body)][:_MOST_OBJECTS]
    for found, after in zip(places, [*places[1:], None], strict=False):
        yield int(found[1]), body[found.end() : len(body) if after is None else after.start()]


def _is_whole_catalog(text: bytes, objects: dict[int, bytes]) -> bool:
    head = text[:_DICTIONARY_BYTES]
    pages = _PAGES.search(head)
    return bool(_CATALOG.search(head)) and pages is not None and int(pages[1]) in objects


def _inner_objects(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the objects in an object stream; nothing of a stream that is damaged or encoded otherwise."""
    begin = text.find(b"stream")
    first = re.search(rb"/First\s+(\d{1,9})", text[:begin])
    if begin < 0 or first is None or b"/FlateDecode" not in text[:begin]:
        return
    packed = text[begin + 6 :].lstrip(b"\r").removeprefix(b"\n")
    try:
        data = zlib.decompressobj().decompress(packed, _MOST_BYTES)
    except zlib.error:
        return
    at = int(first[1])
    numbers = [int(word) for word in data[:at].split() if word.isdigit() and len(word) < 10]
    starts = [at + offset for offset in numbers[1::2]]
    for number, start, end in zip(numbers[::2], starts, [*starts[1:], len(data)], strict=False):
        yield number, data[start:end].strip()
