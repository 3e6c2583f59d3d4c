"""Conversion of PDF documents to text, page by page, with the values of form fields and the notes."""

import ctypes
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

from rumi.web.readers.pages.cleaning import clean, one_line
from rumi.web.readers.pages.documents.lines import Lines, NoDocumentError, Reading
from rumi.web.readers.pages.documents.package import (
    BROKEN,
    LOCKED,
    MOST_XML_BYTES,
    all_named,
    local,
    parse_xml,
)
from rumi.web.readers.pages.documents.pdf_repair import repaired

_MARK: Final = b"%PDF-"
# pdfium's mark for the hyphen of a word that is divided at the end of a line.
_DIVIDED: Final = re.compile("[\ufffe\x02](?:\r?\n)?")
_MOST_ANNOTATIONS: Final = 5000
_MOST_VALUE_BYTES: Final = 200_000
_MOST_LISTED_CHARS: Final = 80


def pdf_lines(body: bytes, reading: Reading) -> Lines:
    """Yield the text of a PDF with a heading per page, the values of its form, and its notes.

    Raises:
        NoDocumentError: It needs a password, is broken, or has no text.
    """
    document, is_repaired = _opened(body[max(0, body.find(_MARK)) :])
    if is_repaired:
        reading.losses.note("the end of the file is missing, so pages may be, too")
    try:
        yield from _pages(document, reading)
    finally:
        document.close()


def _opened(body: bytes) -> tuple[Any, bool]:
    """Return the open document, and True if its end had to be rebuilt.

    Raises:
        NoDocumentError: It needs a password, or is broken.
    """
    import pypdfium2

    for is_repaired in (False, True):
        if is_repaired and not (body := repaired(body)):
            break
        try:
            document = pypdfium2.PdfDocument(body)
            if len(document):
                return document, is_repaired
            document.close()
        except pypdfium2.PdfiumError as error:
            if "password" in str(error).lower():
                raise NoDocumentError(LOCKED) from None
            if "security" in str(error).lower():
                raise NoDocumentError("it is encrypted in a way that Rumi does not know") from None
    raise NoDocumentError(BROKEN)


def _pages(document: Any, reading: Reading) -> Lines:
    import pypdfium2

    form = _Form(document)
    count = len(document)
    reading.title = one_line(document.get_metadata_dict().get("Title", ""))
    empty, broken, done, said = list[int](), list[int](), 0, False
    try:
        for number in range(count):
            try:
                page = document[number]
                shown = page.get_textpage()
                text = clean(_DIVIDED.sub("", shown.get_text_bounded(errors="ignore"))).strip()
                text = "\n".join(filter(None, (text, *form.lines(page))))
                shown.close()
                page.close()
            except pypdfium2.PdfiumError:
                text = ""
                broken.append(number + 1)
            done = number + 1
            if text:
                yield f"{chr(10) * said}## Page {number + 1} of {count}\n\n{text}"
                said = True
            else:
                empty.append(number + 1)
                yield None
        if form.is_xfa and not form.has_values:
            reading.losses.note("its form is of a kind that only Adobe's reader shows (XFA)")
            for line in form.xfa_values():
                yield line
                said = True
            if not said:
                raise NoDocumentError("it is a form that only Adobe's reader shows (XFA)")
        if not said and len(broken) == count:
            raise NoDocumentError("its pages are broken")
        if not said:
            raise NoDocumentError(
                "it has no text; its pages may be images, as of a scan; send pictures of the pages instead"
            )
    finally:
        if scans := [number for number in empty if number not in broken]:
            reading.losses.note(f"pages without text, which may be images: {_listed(scans)}")
        if broken:
            reading.losses.note(f"broken pages: {_listed(broken)}")
        if done < count:
            reading.losses.note(f"pages {done + 1} to {count} of {count} were not read")
        if files := form.attached():
            reading.losses.add("attached file", count=files)


def _listed(numbers: list[int]) -> str:
    return one_line(", ".join(map(str, numbers)), _MOST_LISTED_CHARS)


class _Form:
    """The form fields and notes of a document, which pdfium does not count as text of a page."""

    def __init__(self, document: Any) -> None:
        from pypdfium2 import raw

        self._raw = raw
        self._document = document
        self._said = set[tuple[str, str]]()
        kind = raw.FPDF_GetFormType(document)
        self.is_xfa = kind in (raw.FORMTYPE_XFA_FULL, raw.FORMTYPE_XFA_FOREGROUND)
        self.has_values = False
        if kind != raw.FORMTYPE_NONE:
            document.init_forms()

    def attached(self) -> int:
        """Return the number of files in the document."""
        return int(self._raw.FPDFDoc_GetAttachmentCount(self._document))

    def xfa_values(self) -> Iterator[str]:
        """Yield the values of a form of Adobe's, which are XML beside the pages."""
        raw = self._raw
        for number in range(min(100, raw.FPDF_GetXFAPacketCount(self._document))):
            size = ctypes.c_ulong()
            raw.FPDF_GetXFAPacketContent(self._document, number, None, 0, size)
            data = ctypes.create_string_buffer(min(size.value, MOST_XML_BYTES))
            raw.FPDF_GetXFAPacketContent(self._document, number, data, len(data), size)
            with suppress(NoDocumentError):
                root, _ = parse_xml(data.raw)
                sets = [root] if local(root) == "datasets" else [*all_named(root, "datasets")]
                for field in (leaf for found in sets for leaf in found.iter() if not len(leaf)):
                    if text := clean(field.text or "").strip():
                        yield f"[form field] {local(field)}: {text}"

    def lines(self, page: Any) -> Iterator[str]:
        """Yield the values and the notes of a page."""
        raw = self._raw
        for number in range(min(_MOST_ANNOTATIONS, raw.FPDFPage_GetAnnotCount(page))):
            annotation = raw.FPDFPage_GetAnnot(page, number)
            if not annotation:
                continue
            try:
                kind = raw.FPDFAnnot_GetSubtype(annotation)
                if kind == raw.FPDF_ANNOT_WIDGET:
                    yield from self._field(annotation)
                elif kind not in (raw.FPDF_ANNOT_LINK, raw.FPDF_ANNOT_POPUP):
                    yield from self._note(annotation)
            finally:
                raw.FPDFPage_CloseAnnot(annotation)

    def _field(self, annotation: Any) -> Iterator[str]:
        raw, form = self._raw, self._document.formenv
        if form is None:  # fields without a form: some programs lose its list when they cut a document
            name, value, kind = self._string(annotation, "T"), self._string(annotation, "V"), -1
        else:
            kind = raw.FPDFAnnot_GetFormFieldType(form, annotation)
            name = _read(lambda *to: raw.FPDFAnnot_GetFormFieldAlternateName(form, annotation, *to))
            name = name or _read(lambda *to: raw.FPDFAnnot_GetFormFieldName(form, annotation, *to))
            value = self._value(form, annotation, kind)
        key = (name, value)
        # A field may have several widgets, all with its value: each state of a check box is one of them.
        if value and key not in self._said:
            self._said.add(key)
            self.has_values = True
            yield f"[form field] {one_line(name)}: {clean(value).strip()}"

    def _value(self, form: Any, annotation: Any, kind: int) -> str:
        raw = self._raw
        if kind in (raw.FPDF_FORMFIELD_PUSHBUTTON, raw.FPDF_FORMFIELD_SIGNATURE):
            return ""
        if kind in (raw.FPDF_FORMFIELD_CHECKBOX, raw.FPDF_FORMFIELD_RADIOBUTTON):
            if not raw.FPDFAnnot_IsChecked(form, annotation):
                return "☐" if kind == raw.FPDF_FORMFIELD_CHECKBOX else ""
            means = _read(lambda *to: raw.FPDFAnnot_GetFormFieldExportValue(form, annotation, *to))
            return f"☒ {means}" if means.lower() not in ("", "yes", "on", "1") else "☒"
        if kind in (raw.FPDF_FORMFIELD_LISTBOX, raw.FPDF_FORMFIELD_COMBOBOX):
            count = min(_MOST_ANNOTATIONS, raw.FPDFAnnot_GetOptionCount(form, annotation))
            labels = [
                _read(lambda *to, at=at: raw.FPDFAnnot_GetOptionLabel(form, annotation, at, *to))
                for at in range(count)
                if raw.FPDFAnnot_IsOptionSelected(form, annotation, at)
            ]
            if labels:
                return ", ".join(labels)
        return _read(lambda *to: raw.FPDFAnnot_GetFormFieldValue(form, annotation, *to))

    def _note(self, annotation: Any) -> Iterator[str]:
        text = clean(self._string(annotation, "Contents")).strip()
        author = one_line(self._string(annotation, "T"))
        if text:
            yield f"[note{f' by {author}' if author else ''}] {text}"

    def _string(self, annotation: Any, key: str) -> str:
        name = key.encode()
        return _read(lambda *to: self._raw.FPDFAnnot_GetStringValue(annotation, name, *to))


def _read(getter: Callable[..., int]) -> str:
    """Return a text of pdfium's, which is UTF-16 and ends in a zero."""
    from pypdfium2 import raw

    size = getter(None, 0)
    if not 2 < size <= _MOST_VALUE_BYTES:
        return ""
    buffer = ctypes.create_string_buffer(size)
    getter(ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)), size)
    return buffer.raw[: size - 2].decode("utf-16-le", "replace")
