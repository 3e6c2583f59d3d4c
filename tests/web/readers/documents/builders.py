"""Builders of documents from a few lines of their XML."""

import zipfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import quoteattr

from rumi.web.readers.pages.documents.document import DocumentText, read_document

TRANSITIONAL: Final = "http://schemas.openxmlformats.org"
STRICT: Final = "http://purl.oclc.org/ooxml"

Parts = Mapping[str, str | bytes]


def read(body: bytes, name: str = "", max_chars: int = 1_000_000) -> DocumentText:
    return read_document(body, name, max_chars)


def lines(body: bytes, name: str = "") -> list[str]:
    """The lines of the text that are not empty."""
    return [line for line in read(body, name).text.splitlines() if line.strip()]


def zipped(parts: Parts, *, first: str = "") -> bytes:
    out = BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(parts, key=lambda name: name != first):
            archive.writestr(name, parts[name])
    return out.getvalue()


def relations(targets: Sequence[tuple[str, str]], *, strict: bool = False) -> str:
    """Relations with the ids r1, r2, …, from kinds and targets. A target with a scheme is external."""
    types = f"{STRICT if strict else TRANSITIONAL}/officeDocument{'' if strict else '/2006'}/relationships"
    external = ' TargetMode="External"'
    inner = "".join(
        f'<Relationship Id="r{number}" Type="{types}/{kind}" Target="{target}"{external * (":" in target)}/>'
        for number, (kind, target) in enumerate(targets, 1)
    )
    return f'<Relationships xmlns="{TRANSITIONAL}/package/2006/relationships">{inner}</Relationships>'


def namespaces(*, strict: bool = False) -> str:
    base, year = (STRICT, "") if strict else (TRANSITIONAL, "/2006")
    names = {
        "w": f"{base}/wordprocessingml{year}/main",
        "r": f"{base}/officeDocument{year}/relationships",
        "a": f"{base}/drawingml{year}/main",
        "p": f"{base}/presentationml{year}/main",
        "c": f"{base}/drawingml{year}/chart",
        "dgm": f"{base}/drawingml{year}/diagram",
        "wp": f"{base}/drawingml{year}/wordprocessingDrawing",
        "pic": f"{base}/drawingml{year}/picture",
        "xdr": f"{base}/drawingml{year}/spreadsheetDrawing",
        "m": f"{base}/officeDocument{year}/math",
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "v": "urn:schemas-microsoft-com:vml",
        "o": "urn:schemas-microsoft-com:office:office",
    }
    return " ".join(f'xmlns:{prefix}="{name}"' for prefix, name in names.items())


def docx(
    body: str, parts: Parts | None = None, related: Sequence[tuple[str, str]] = (), *, strict: bool = False
) -> bytes:
    """A Word document with this body. `related` are the kinds and targets of the relations r1, r2, …"""
    document = f"<w:document {namespaces(strict=strict)}><w:body>{body}</w:body></w:document>"
    return zipped(
        {
            "_rels/.rels": relations([("officeDocument", "word/document.xml")], strict=strict),
            "word/document.xml": document,
            "word/_rels/document.xml.rels": relations(related, strict=strict),
            **(parts or {}),
        }
    )


def part(name: str, inner: str) -> str:
    """A part of an Open XML document, with all namespaces."""
    return f"<{name} {namespaces()}>{inner}</{name}>"


def p(*runs: str) -> str:
    """A paragraph of Word's. What begins with `<` is XML, anything else is a run of text."""
    return f"<w:p>{''.join(run if run.startswith('<') else r(run) for run in runs)}</w:p>"


def r(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def xlsx(
    sheets: Mapping[str, str],
    *,
    strings: Sequence[str] = (),
    styles: str = "",
    parts: Parts | None = None,
    states: Mapping[str, str] | None = None,
    workbook: str = "",
    strict: bool = False,
    prefix: str = "",
) -> bytes:
    """A workbook from the XML of its sheets' rows, or of whole sheets."""
    base = f"{STRICT}/spreadsheetml/main" if strict else f"{TRANSITIONAL}/spreadsheetml/2006/main"
    colon = f"{prefix}:" if prefix else ""
    space = f'xmlns{f":{prefix}" if prefix else ""}="{base}" {namespaces(strict=strict)}'
    made: dict[str, str | bytes] = {}
    targets, listed = list[tuple[str, str]](), ""
    for number, (name, rows) in enumerate(sheets.items(), 1):
        inner = rows if "<sheetData" in rows or prefix else f"<sheetData>{rows}</sheetData>"
        made[f"xl/worksheets/sheet{number}.xml"] = f"<{colon}worksheet {space}>{inner}</{colon}worksheet>"
        targets.append(("worksheet", f"worksheets/sheet{number}.xml"))
        state = (states or {}).get(name, "visible")
        listed += f'<{colon}sheet name="{name}" sheetId="{number}" state="{state}" r:id="r{number}"/>'
    if strings:
        items = "".join(f"<si>{text if text.startswith('<') else f'<t>{text}</t>'}</si>" for text in strings)
        made["xl/sharedStrings.xml"] = f"<sst {space}>{items}</sst>"
        targets.append(("sharedStrings", "sharedStrings.xml"))
    if styles:
        made["xl/styles.xml"] = f"<styleSheet {space}>{styles}</styleSheet>"
        targets.append(("styles", "styles.xml"))
    made |= {
        "_rels/.rels": relations([("officeDocument", "xl/workbook.xml")], strict=strict),
        "xl/workbook.xml": f"<{colon}workbook {space}>{workbook}<{colon}sheets>{listed}</{colon}sheets></{colon}workbook>",
        "xl/_rels/workbook.xml.rels": relations(targets, strict=strict),
    }
    return zipped({**made, **(parts or {})})


def numbers(*formats: str) -> str:
    """Styles: number n of the cells' styles has format n, and number 0 has none."""
    codes = "".join(
        f"<numFmt numFmtId='{200 + number}' formatCode={quoteattr(code)}/>"
        for number, code in enumerate(formats)
    )
    cells = "".join(f'<xf numFmtId="{200 + number}"/>' for number in range(len(formats)))
    return f'<numFmts>{codes}</numFmts><cellXfs><xf numFmtId="0"/>{cells}</cellXfs>'


def pptx(
    slides: Sequence[str],
    parts: Parts | None = None,
    *,
    related: Sequence[tuple[str, str]] = (),
    show: str = "1",
) -> bytes:
    """A presentation from the XML of its slides' shapes; `related` are the relations of the first slide."""
    made: dict[str, str | bytes] = {
        f"ppt/slides/slide{number}.xml": f'<p:sld {namespaces()} show="{show}"><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>'
        for number, shapes in enumerate(slides, 1)
    }
    targets = [("slide", f"slides/slide{number}.xml") for number in range(1, len(slides) + 1)]
    listed = "".join(
        f'<p:sldId id="{255 + number}" r:id="r{number}"/>' for number in range(1, len(slides) + 1)
    )
    made |= {
        "_rels/.rels": relations([("officeDocument", "ppt/presentation.xml")]),
        "ppt/presentation.xml": part("p:presentation", f"<p:sldIdLst>{listed}</p:sldIdLst>"),
        "ppt/_rels/presentation.xml.rels": relations(targets),
        "ppt/slides/_rels/slide1.xml.rels": relations(related),
    }
    return zipped({**made, **(parts or {})})


def shape(*paragraphs: str) -> str:
    inner = "".join(f"<a:p><a:r><a:t>{text}</a:t></a:r></a:p>" for text in paragraphs)
    return f"<p:sp><p:txBody>{inner}</p:txBody></p:sp>"


def chart(title: str, series: Mapping[str, Sequence[float]], categories: Sequence[str] = ()) -> str:
    """A chart's part, with its stored values."""

    def points(values: Sequence[object]) -> str:
        inner = "".join(f'<c:pt idx="{at}"><c:v>{value}</c:v></c:pt>' for at, value in enumerate(values))
        return f"<c:numRef><c:numCache>{inner}</c:numCache></c:numRef>"

    inner = "".join(
        f"<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>{name}</c:v></c:pt></c:strCache></c:strRef></c:tx>"
        f"<c:cat>{points(categories)}</c:cat><c:val>{points(values)}</c:val></c:ser>"
        for name, values in series.items()
    )
    head = f"<c:title><c:tx><c:rich><a:p><a:r><a:t>{title}</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    return part(
        "c:chartSpace", f"<c:chart>{head}<c:plotArea><c:barChart>{inner}</c:barChart></c:plotArea></c:chart>"
    )


OPEN: Final = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "style", "presentation", "form", "chart")
) + (
    ' xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" xmlns:xlink="http://www.w3.org/1999/xlink"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:svg="urn:svg"'
)


def open_document(
    kind: str, body: str, parts: Parts | None = None, *, styles: str = "", template: bool = False
) -> bytes:
    """An OpenDocument file of a kind: text, spreadsheet, presentation."""
    content = (
        f"<office:document-content {OPEN}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    mime = f"application/vnd.oasis.opendocument.{kind}{'-template' if template else ''}"
    return zipped({"mimetype": mime, "content.xml": content, **(parts or {})}, first="mimetype")


def storage(streams: Mapping[str, bytes]) -> bytes:
    """An OLE file (MS-CFB, version 3) with these streams; folders in their names become storages."""
    padded = {name: data.ljust(4096, b"\0") for name, data in streams.items()}
    entries: list[tuple[str, int, list[int], int, int]] = [("Root Entry", 5, [], 0xFFFFFFFE, 0)]
    sectors: list[bytes] = []
    fat: list[int] = []
    folders: dict[str, int] = {"": 0}

    def folder(path: str) -> int:
        if path not in folders:
            above, _, name = path.rpartition("/")
            entries[folder(above)][2].append(len(entries))
            folders[path] = len(entries)
            entries.append((name, 1, [], 0, 0))
        return folders[path]

    for path, data in padded.items():
        above, _, name = path.rpartition("/")
        entries[folder(above)][2].append(len(entries))
        start = len(sectors)
        pieces = [data[at : at + 512].ljust(512, b"\0") for at in range(0, len(data), 512)]
        sectors += pieces
        fat += [*range(start + 1, start + len(pieces)), 0xFFFFFFFE]
        # The size is what was given, so that readers get no padding.
        entries.append((name, 2, [], start, max(4096, len(streams[path]))))
    right = dict[int, int]()
    for _, _, inside, _, _ in entries:
        for one, other in pairwise(inside):
            right[one] = other
    listed = b""
    for number, (name, kind, inside, start, size) in enumerate(entries):
        label = name.encode("utf-16-le") + b"\0\0"
        listed += (
            label.ljust(64, b"\0")
            + len(label).to_bytes(2, "little")
            + bytes([kind, 1])
            + b"\xff" * 4
            + right.get(number, 0xFFFFFFFF).to_bytes(4, "little")
            + (inside[0] if inside else 0xFFFFFFFF).to_bytes(4, "little")
            + b"\0" * 36
            + start.to_bytes(4, "little")
            + size.to_bytes(8, "little")
        )
    directory = len(sectors)
    pieces = [listed[at : at + 512].ljust(512, b"\0") for at in range(0, len(listed), 512)]
    sectors += pieces
    fat += [*range(directory + 1, directory + len(pieces)), 0xFFFFFFFE]
    tables = -(-(len(fat) + 1) // 127)
    first_table = len(sectors)
    fat += [0xFFFFFFFD] * tables
    raw = b"".join(entry.to_bytes(4, "little") for entry in fat).ljust(512 * tables, b"\xff")
    sectors += [raw[at : at + 512] for at in range(0, 512 * tables, 512)]
    difat = b"".join((first_table + n).to_bytes(4, "little") for n in range(tables)).ljust(436, b"\xff")
    header = (
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
        + b"\0" * 16
        + (0x3E).to_bytes(2, "little")
        + (3).to_bytes(2, "little")
        + (0xFFFE).to_bytes(2, "little")
        + (9).to_bytes(2, "little")
        + (6).to_bytes(2, "little")
        + b"\0" * 10
        + tables.to_bytes(4, "little")
        + directory.to_bytes(4, "little")
        + b"\0" * 4
        + (4096).to_bytes(4, "little")
        + (0xFFFFFFFE).to_bytes(4, "little")
        + b"\0" * 4
        + (0xFFFFFFFE).to_bytes(4, "little")
        + b"\0" * 4
    )
    return header + difat + b"".join(sectors)
