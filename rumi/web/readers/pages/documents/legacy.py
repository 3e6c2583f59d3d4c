"""Conversion of files of Office before 2007 (OLE files), and of binary workbooks (`xlsb`), to text."""

import io
from typing import Any, Final

from rumi.platform.extras import is_installed, missing_clause
from rumi.web.readers.pages.documents.lines import (
    MOST_COLUMNS,
    Lines,
    NoDocumentError,
    Reading,
    column_name,
    row,
    trimmed,
)
from rumi.web.readers.pages.documents.number_formats import plain, shown
from rumi.web.readers.pages.documents.outlook import open_storage, outlook_lines
from rumi.web.readers.pages.documents.package import LOCKED

_REFUSED: Final = {
    "WordDocument": "Rumi does not read Word files of before 2007 (doc); save it as docx or PDF",
    "PowerPoint Document": "Rumi does not read PowerPoint files of before 2007 (ppt); save it as pptx or PDF",
    "EncryptedPackage": LOCKED,
    "EncryptedSummary": LOCKED,
}
_UNKNOWN: Final = "it is an OLE file of no known kind"
_MOST_COMMENTS: Final = 2000
_ROWS_BETWEEN_CHECKS: Final = 500
_RECORDS_BETWEEN_CHECKS: Final = 5000
_MOST_RECORDS: Final = 5_000_000
_PICTURE: Final = 8
_NOTE: Final = 25
"""The kinds of objects on a sheet ([MS-XLS], 2.5.143)."""


def ole_kind(body: bytes) -> str:
    """Return `xls` or `msg`.

    Raises:
        NoDocumentError: It is of another kind; the error says what to do.
    """
    with open_storage(body) as storage:
        names = {entry[0] for entry in storage.listdir(streams=True, storages=False)}
    for name, why in _REFUSED.items():
        if name in names:
            raise NoDocumentError(why)
    if names & {"Workbook", "Book"}:
        return "xls"
    if "__properties_version1.0" in names:
        return "msg"
    raise NoDocumentError(_UNKNOWN)


def msg_lines(body: bytes, reading: Reading) -> Lines:
    """Yield the text of an Outlook message."""
    with open_storage(body) as storage:
        yield from outlook_lines(storage, reading)


def xls_lines(body: bytes, reading: Reading) -> Lines:
    """Yield the non-empty rows of each sheet as the sheet shows them, and its comments."""
    import xlrd

    try:
        book = xlrd.open_workbook(
            file_contents=body, formatting_info=True, logfile=io.StringIO(), on_demand=True
        )
    except (xlrd.XLRDError, AssertionError, LookupError, ValueError) as error:
        if "encrypted" in str(error).lower():
            raise NoDocumentError(LOCKED) from None
        raise
    for number, name in enumerate(book.sheet_names()):
        try:
            sheet = book.sheet_by_index(number)
        except Exception as error:  # noqa: BLE001 - xlrd raises what it likes; the other sheets are read
            reading.losses.note(f"sheet {number + 1} is broken, and was not read ({type(error).__name__})")
            continue
        yield f"## Sheet {name}{' (hidden)' if sheet.visibility else ''}"
        hidden = [
            place for place, column in sheet.colinfo_map.items() if column.hidden and place < MOST_COLUMNS
        ]
        if hidden:
            yield f"(hidden columns: {', '.join(map(column_name, sorted(hidden)[:50]))})"
        for line in range(sheet.nrows):
            cells = trimmed(
                [_xls_cell(book, sheet, line, at) for at in range(min(sheet.ncols, MOST_COLUMNS))]
            )
            if cells:
                info = sheet.rowinfo_map.get(line)
                yield row(cells) + (" (hidden row)" if info is not None and info.hidden else "")
            if line % _ROWS_BETWEEN_CHECKS == 0:
                yield None
        if sheet.ncols > MOST_COLUMNS:
            reading.losses.note(f"columns right of {column_name(MOST_COLUMNS - 1)} were not read")
        for (line, column), note in list(sheet.cell_note_map.items())[:_MOST_COMMENTS]:
            by = f" ({note.author})" if note.author.strip() else ""
            yield f"Comment on {column_name(column)}{line + 1}{by}: {' '.join(note.text.split())}"
        yield from _drawn(book, number, reading)
        book.unload_sheet(number)


def _drawn(book: Any, number: int, reading: Reading) -> Lines:
    """Yield the texts that lie on a sheet, which xlrd does not read; count the charts and the pictures.

    See the records in [MS-XLS], 2.4: `BOF`, `EOF`, `Obj`, `TxO`, `Continue`.
    """
    if book.biff_version < 80:
        return
    stream, at = book.mem, book._sh_abs_posn[number]
    depth, kind, left, text = 0, 0, 0, ""
    for count in range(_MOST_RECORDS):
        code, size = (int.from_bytes(stream[at + place : at + place + 2], "little") for place in (0, 2))
        data, at = stream[at + 4 : at + 4 + size], at + 4 + size
        match code:
            case 0x0809:
                depth += 1
                if depth > 1 and data[2:4] == b"\x20\0":
                    reading.losses.add("chart")
            case 0x000A:
                depth -= 1
            case 0x005D:
                kind = int.from_bytes(data[4:6], "little")
                if kind == _PICTURE:
                    reading.losses.add("picture")
            case 0x01B6:
                left, text = int.from_bytes(data[10:12], "little"), ""
            case 0x003C if left and len(data) > 1:
                piece = bytes(data[1:]).decode("utf-16-le" if data[0] & 1 else "latin-1", "replace")[:left]
                text, left = text + piece, left - len(piece)
                if not left and kind != _NOTE and (words := " ".join(text.split())):
                    yield f"[text box] {words}"
        if depth <= 0 or at >= len(stream):
            return
        if count % _RECORDS_BETWEEN_CHECKS == 0:
            yield None
    reading.losses.note("a sheet has too many records: texts on it may be missing")


def _xls_cell(book: Any, sheet: Any, line: int, column: int) -> str:
    import xlrd

    if column >= sheet.row_len(line):
        return ""
    kind, value = sheet.cell_type(line, column), sheet.cell_value(line, column)
    match kind:
        case xlrd.XL_CELL_NUMBER | xlrd.XL_CELL_DATE:
            style = sheet.cell_xf_index(line, column)
            format_ = (
                book.format_map.get(book.xf_list[style].format_key) if style < len(book.xf_list) else None
            )
            code = "" if format_ is None else str(format_.format_str)
            return shown(value, code, since_1904=bool(book.datemode)) if code else plain(value)
        case xlrd.XL_CELL_BOOLEAN:
            return "TRUE" if value else "FALSE"
        case xlrd.XL_CELL_ERROR:
            return str(xlrd.error_text_from_code.get(value, "#ERROR"))
        case _:
            return str(value)


def xlsb_lines(body: bytes, reading: Reading) -> Lines:
    """Yield the non-empty rows of each sheet. The numbers have no formats."""
    if not is_installed("office"):
        raise NoDocumentError(missing_clause("office"))
    import python_calamine

    try:
        book = python_calamine.load_workbook(io.BytesIO(body))
    except python_calamine.CalamineError:
        raise NoDocumentError("it is broken") from None
    reading.losses.note("numbers are shown without their formats (0.25 may be 25 %)")
    for place, sheet in enumerate(book.sheets_metadata, 1):
        hidden = sheet.visible != python_calamine.SheetVisibleEnum.Visible
        yield f"## Sheet {sheet.name}{' (hidden)' if hidden else ''}"
        try:
            lines = book.get_sheet_by_name(sheet.name).iter_rows()
        except python_calamine.CalamineError:
            reading.losses.note(f"sheet {place} is broken, and was not read")
            continue
        for number, cells in enumerate(lines):
            texts = trimmed(["" if cell is None else _calamine_cell(cell) for cell in cells[:MOST_COLUMNS]])
            if texts:
                yield row(texts)
            elif number % _ROWS_BETWEEN_CHECKS == 0:
                yield None


def _calamine_cell(value: object) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return plain(value) if isinstance(value, float) else str(value)
