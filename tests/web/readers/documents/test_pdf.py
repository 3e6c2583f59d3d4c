"""PDFs: the values of forms, notes, and files that lost a piece or got one before their beginning."""

import zlib

import pytest

from rumi.web.readers.pages.documents.lines import NoDocumentError
from tests.web.pdfs import pdf as pages
from tests.web.readers.documents.builders import lines, read

FORM = b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[%s]/DA(/F1 12 Tf)/DR<</Font<</F1 4 0 R>>>>>>>>"


def pdf(*annotations: bytes, catalog: bytes = b"", fields: bool = True, more: bytes = b"") -> bytes:
    """A PDF of one page with these annotations, which are the objects 10, 11, …"""
    references = b" ".join(b"%d 0 R" % (10 + number) for number in range(len(annotations)))
    content = b"BT /F1 12 Tf 20 200 Td (Application) Tj ET"
    objects = {
        1: catalog or (FORM % references if fields else b"<</Type/Catalog/Pages 2 0 R>>"),
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 300]/Contents 5 0 R/Resources<</Font<</F1 4 0 R>>>>"
        b"/Annots[%s]>>" % references,
        4: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        5: b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        **dict(enumerate(annotations, 10)),
    }
    return whole(objects, more)


def whole(objects: dict[int, bytes], more: bytes = b"") -> bytes:
    out, places = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"), dict[int, int]()
    for number, text in objects.items():
        places[number] = len(out)
        out += b"%d 0 obj\n%s\nendobj\n" % (number, text)
    table = len(out)
    out += b"xref\n0 1\n0000000000 65535 f \n"
    out += b"".join(b"%d 1\n%010d 00000 n \n" % (number, place) for number, place in places.items())
    out += b"trailer<</Size 100/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF" % (more, table)
    return bytes(out)


def widget(kind: bytes, name: str, more: bytes) -> bytes:
    return b"<</Type/Annot/Subtype/Widget/Rect[0 0 90 20]/F 4/FT/%s/T(%s)%s>>" % (kind, name.encode(), more)


ON = b"/AP<</N<</Yes 5 0 R/Off 5 0 R>>>>"


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (widget(b"Tx", "name", b"/V(Ana Ruiz)"), "[form field] name: Ana Ruiz"),
        (widget(b"Tx", "name", b"/V<FEFF00D1006F00F10061>"), "[form field] name: Ñoña"),
        (widget(b"Tx", "a.b", b"/TU(Your street)/V(Gran V\\355a)"), "[form field] Your street: Gran Vía"),
        (widget(b"Tx", "text", b"/Ff 4096/V(one\\rtwo)"), "[form field] text: one|two"),
        (widget(b"Btn", "paid", b"/V/Yes/AS/Yes" + ON), "[form field] paid: ☒"),
        (widget(b"Btn", "paid", b"/V/Off/AS/Off" + ON), "[form field] paid: ☐"),
        (
            widget(b"Btn", "kind", b"/Ff 32768/V/Dog/AS/Dog/AP<</N<</Dog 5 0 R/Off 5 0 R>>>>"),
            "[form field] kind: ☒ Dog",
        ),
        (widget(b"Ch", "city", b"/Ff 131072/Opt[(Lugo)(Vigo)]/V(Vigo)"), "[form field] city: Vigo"),
        (widget(b"Ch", "city", b"/Ff 131072/Opt[[(l)(Lugo)][(v)(Vigo)]]/V(v)"), "[form field] city: Vigo"),
        (widget(b"Ch", "many", b"/Ff 2097152/Opt[(a)(b)(c)]/V[(a)(c)]/I[0 2]"), "[form field] many: a, c"),
        (
            b"<</Type/Annot/Subtype/FreeText/Rect[0 0 90 20]/Contents(Typed on top)/DA(/F1 12 Tf)>>",
            "[note] Typed on top",
        ),
        (
            b"<</Type/Annot/Subtype/Text/Rect[0 0 9 9]/T(Eva)/Contents(Please check)>>",
            "[note by Eva] Please check",
        ),
        (
            b"<</Type/Annot/Subtype/Highlight/Rect[0 0 9 9]/QuadPoints[0 0 9 0 0 9 9 9]/Contents(Wrong)>>",
            "[note] Wrong",
        ),
        (b"<</Type/Annot/Subtype/Stamp/Rect[0 0 9 9]/Contents(APPROVED)>>", "[note] APPROVED"),
    ],
)
def test_what_was_typed_into_a_pdf_is_read(field: bytes, expected: str) -> None:
    assert "|".join(lines(pdf(field))[2:]) == expected


def test_a_value_that_fields_inherit_is_read_once() -> None:
    kids = b"<</FT/Tx/T(iban)/V(ES12)/Kids[11 0 R 12 0 R]>>"
    one = b"<</Type/Annot/Subtype/Widget/Rect[0 0 9 9]/Parent 10 0 R>>"
    assert lines(pdf(kids, one, one))[2:] == ["[form field] iban: ES12"]


def test_fields_without_a_form_are_read() -> None:
    assert lines(pdf(widget(b"Tx", "name", b"/V(Ana)"), fields=False))[2:] == ["[form field] name: Ana"]


def test_a_form_of_adobes_is_named() -> None:
    catalog = b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[]/XFA 5 0 R>>>>"
    document = read(pdf(catalog=catalog))
    assert "XFA" in document.lost
    assert "Application" in document.text


@pytest.mark.parametrize("parts", [b"6 0 R", b"[(template)5 0 R(datasets)6 0 R]"])
def test_the_values_of_a_form_of_adobes_are_read(parts: bytes) -> None:
    data = b"<xfa:datasets xmlns:xfa='x'><xfa:data><form><name>Ana Ruiz</name><city/></form></xfa:data></xfa:datasets>"
    body = whole(
        {
            1: b"<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[]/XFA %s>>>>" % parts,
            2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 300]>>",
            5: b"<</Length 4>>stream\n<a/>\nendstream",
            6: b"<</Length %d>>stream\n%s\nendstream" % (len(data), data),
        }
    )
    document = read(body)
    assert document.text == "[form field] name: Ana Ruiz"
    assert "XFA" in document.lost


def test_attached_files_are_counted() -> None:
    catalog = b"<</Type/Catalog/Pages 2 0 R/Names<</EmbeddedFiles<</Names[(a.txt)10 0 R]>>>>>>"
    file = b"<</Type/Filespec/F(a.txt)/EF<</F 5 0 R>>>>"
    assert "1 attached file" in read(pdf(file, catalog=catalog)).lost


@pytest.mark.parametrize("lost", [1, 5, 10, 30, 60, 100, 150])
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\n",
        b"PK\x03\x04\x14abc\xe2\xe93454",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"<br />\n<b>Notice</b>: x\n",
        b"\xef\xbb\xbf",
    ],
)
def test_a_pdf_without_its_end_or_with_a_line_before_it_is_read(lost: int, before: bytes) -> None:
    body = before + pages([b"(one) Tj", b"(two) Tj"])[:-lost]
    assert lines(body) == ["## Page 1 of 2", "one", "## Page 2 of 2", "two"]


@pytest.mark.parametrize("after", [b"\0" * 80_000, b"\n\n%%EOF\n%%EOF", b"PKabc\xe2\xe9", b"<!-- cached -->"])
def test_a_pdf_with_bytes_behind_its_end_is_read(after: bytes) -> None:
    assert lines(pages([b"(one) Tj"]) + after) == ["## Page 1 of 1", "one"]


def test_a_pdf_whose_second_half_is_missing_is_read_as_far_as_it_goes() -> None:
    body = pages([b"(" + b"%d " % number * 50 + b") Tj" for number in range(1, 9)])
    document = read(body[: len(body) // 2])
    assert "1 1 1" in document.text
    assert "the end of the file is missing" in document.lost


def test_a_pdf_with_packed_objects_that_lost_its_end_is_read() -> None:
    packed = {
        1: b"<</Type/Catalog/Pages 2 0 R>>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 300]/Contents 5 0 R/Resources<</Font<</F1 4 0 R>>>>>>",
        4: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    }
    inner, at, head = b"", 0, b""
    for number, text in packed.items():
        head += b"%d %d " % (number, at)
        inner += text + b" "
        at = len(inner)
    data = zlib.compress(head + inner)
    content = b"BT /F1 12 Tf 20 200 Td (unpacked) Tj ET"
    body = (
        b"%%PDF-1.5\n5 0 obj\n<</Length %d>>stream\n%s\nendstream\nendobj\n" % (len(content), content)
        + b"6 0 obj\n<</Type/ObjStm/N 4/First %d/Filter/FlateDecode/Length %d>>stream\n"
        % (len(head), len(data))
        + data
        + b"\nendstream\nendobj\n7 0 obj\n<</Type/XRef/Root 1 0 R"
    )
    assert lines(body) == ["## Page 1 of 1", "unpacked"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (pages([b""]), "no text; its pages may be images"),
        (pages([zlib.compress(b"x")], encrypted=True), "encrypted and needs a password"),
        (b"%PDF-1.4 nonsense", "broken"),
        (b"%PDF-1.4\n", "broken"),
    ],
)
def test_a_pdf_that_cannot_be_read_says_why(body: bytes, why: str) -> None:
    with pytest.raises(NoDocumentError, match=why):
        read(body)
