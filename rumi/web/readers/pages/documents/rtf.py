"""Conversion of Rich Text Format to text (RTF specification 1.9.1)."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from rumi.web.readers.pages.documents.lines import Lines, NoDocumentError, Reading, names, row

_MOST_GROUPS: Final = 2000
_MOST_NOTE_CHARS: Final = 1_000_000
_TOKEN: Final = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_CHARACTERS: Final = {
    "tab": "\t", "line": "\n", "emdash": "—", "endash": "–", "emspace": " ", "enspace": " ", "qmspace": " ",
    "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”", "~": "\u00a0", "_": "-",
    "{": "{", "}": "}", "\\": "\\",
}  # fmt: skip
_NO_TEXT: Final = names(
    "fonttbl colortbl stylesheet info listtable listoverridetable revtbl rsidtbl generator themedata"
    " xmlnstbl colorschememapping latentstyles datastore fldinst bkmkstart bkmkend pntext pntxta"
    " pntxtb pict objdata picprop sp sn sv nonshppict xe tc template filetbl fontemb atnid atnref"
    " atndate atrfstart atrfend atnparent atntime atnicn blipuid htmltag mhtmltag wgrffmtfilter pgptbl"
    " factoidname ftnsep ftnsepc ftncn aftnsep aftnsepc aftncn objclass objname userprops keycode"
    " listtext shprslt"
)
"""Groups whose content is no text, or the same text once more."""

_NOTES: Final = {
    "footnote": "footnote", "annotation": "comment", "header": "header", "headerl": "header",
    "headerr": "header", "headerf": "header (first page)", "footer": "footer", "footerl": "footer",
    "footerr": "footer", "footerf": "footer (first page)", "shptxt": "text box",
}  # fmt: skip
_CODE_PAGES: Final = {
    77: "mac-roman", 128: "cp932", 129: "cp949", 130: "johab", 134: "gb18030", 136: "big5hkscs",
    161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257",
    204: "cp1251", 222: "cp874", 238: "cp1250", 255: "cp437",
}  # fmt: skip
"""Codecs by the number of a font's character set. Charset 0 is the document's own code page."""


CODE_PAGES: Final = (437, 850, 852, 855, 857, 858, 862, 866, 874, 1361, 10000, *range(1250, 1259))
"""Code pages that documents have, besides those that pages have too."""


def codec_of_page(number: int) -> str:
    """Return Python's codec for a Windows code page; cp1252 for one that it does not have."""
    name = {65001: "utf-8", 10000: "mac-roman", 936: "gb18030", 950: "big5hkscs", 1361: "johab"}.get(
        number, f"cp{number}"
    )
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


@dataclass(slots=True)
class _Group:
    """The state that ends with a group."""

    skip: bool = False
    codec: str | None = None
    unicode_bytes: int = 1
    hidden: bool = False
    deleted: bool = False
    note: str = ""
    in_fonts: bool = False


class _Text:
    """Pieces of text, and bytes in some code page that are not decoded yet."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self._bytes = bytearray()
        self._codec = ""

    def add(self, text: str) -> None:
        self._flush()
        self.pieces.append(text)

    def add_bytes(self, data: bytes, codec: str) -> None:
        if codec != self._codec:
            self._flush()
            self._codec = codec
        self._bytes += data

    def _flush(self) -> None:
        if self._bytes:
            self.pieces.append(self._bytes.decode(self._codec or "cp1252", "replace"))
            self._bytes.clear()

    def taken(self) -> str:
        """Return the collected text and clear it; join surrogate pairs, which `\\u` writes as two codes."""
        self._flush()
        text = "".join(self.pieces)
        self.pieces.clear()
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def rtf_lines(body: bytes, reading: Reading) -> Lines:
    """Yield the paragraphs and tables of a document; notes, headers and text boxes stand where they are set.

    Raises:
        NoDocumentError: Its groups are nested too deeply.
    """
    yield from _Reader(body, reading).lines()


class _Reader:
    def __init__(self, body: bytes, reading: Reading) -> None:
        self._body = body
        self._losses = reading.losses
        self._page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = self._default_font = 0
        self._open_notes = 0
        self._in_table = False
        self._text = _Text()
        self._cells: list[str] = []
        self._group = _Group()
        self._groups: list[_Group] = []
        self._ignored = 0  # characters to leave out after a `\\u`, which repeat it for old programs
        self._starred = False

    def lines(self) -> Lines:
        at, count = 0, 0
        while found := _TOKEN.search(self._body, at):
            at = found.end()
            word, number, code, sign, brace, plain = found.groups()
            count += 1
            if brace == b"{":
                self._open()
            elif brace == b"}":
                yield from self._close()
                if not self._groups:
                    break
            elif word:
                name, value = word.decode("ascii"), None if number is None else int(number)
                if name == "bin":
                    at += max(0, value or 0)
                else:
                    yield from self._word(name, value)
            elif code:
                self._bytes(bytes.fromhex(code.decode("ascii")))
            elif sign:
                self._sign(sign)
            elif plain:
                self._bytes(plain)
            if count % 20_000 == 0:
                yield None
        if self._groups:
            self._losses.note("the end of the file is missing")
        yield from self._paragraph(is_row=bool(self._cells), at_end=True)

    def _open(self) -> None:
        if len(self._groups) >= _MOST_GROUPS:
            raise NoDocumentError("it is nested too deeply")
        self._groups.append(self._group)
        self._group = replace(self._group, note="")
        self._starred = False

    def _close(self) -> Iterator[str]:
        self._ignored, self._starred = 0, False
        note = self._group.note
        if note:
            self._open_notes -= 1
            yield from self._note(note)
        if self._groups:
            self._group = self._groups.pop()

    def _note(self, note: str) -> Iterator[str]:
        """End a note: its text was collected behind a mark in the text around it."""
        text = self._text.taken()
        before, _, inner = text.rpartition("\0")
        self._text.add(before)
        inner = " ".join(inner[:_MOST_NOTE_CHARS].split())
        if not inner:
            return
        if note in ("footnote", "comment"):
            self._text.add(f" [{note}: {inner}] ")
        else:
            yield f"[{note}] {inner}" if note == "text box" else f"{note.capitalize()}: {inner}"

    def _word(self, name: str, value: int | None) -> Iterator[str]:
        group, starred = self._group, self._starred
        self._starred = False
        self._ignored = 0
        if name in _NO_TEXT or (starred and name not in (*_NOTES, "shpinst", "shppict", "atnauthor")):
            if name == "pict" and not group.skip:
                self._losses.add("picture")
            elif name == "objdata" and not group.skip:
                self._losses.add("embedded object")
            group.skip, group.in_fonts = True, name == "fonttbl"
        elif name == "atnauthor":
            group.skip = True
        elif name in _NOTES and not group.skip:
            self._text.add("\0")
            group.note = _NOTES[name]
            self._open_notes += 1
        else:
            yield from self._control(name, value)

    def _control(self, name: str, value: int | None) -> Iterator[str]:
        group = self._group
        on = value is None or value != 0
        match name:
            case "ansicpg":
                self._page = codec_of_page(value or 1252)
            case "mac":
                self._page = "mac-roman"
            case "pc" | "pca":
                self._page = "cp437" if name == "pc" else "cp850"
            case "f":
                self._font = value or 0
                group.codec = self._fonts.get(self._font, "")
            case "fcharset" if group.in_fonts:
                self._fonts[self._font] = _CODE_PAGES.get(value or 0, "")
            case "cpg" if group.in_fonts:
                self._fonts[self._font] = codec_of_page(value or 1252)
            case "deff":
                self._default_font = value or 0
            case "plain":
                group.codec, group.hidden, group.deleted = None, False, False
            case "intbl" | "pard":
                self._in_table = name == "intbl"
            case "uc":
                group.unicode_bytes = max(0, min(100, value or 0))
            case "u" if value is not None:
                self._write(chr(value % 0x10000))
                self._ignored = group.unicode_bytes
            case "v" | "htmlrtf":
                group.hidden = on
                if on and name == "v" and not group.skip:
                    self._losses.add("hidden passage")
            case "deleted":
                group.deleted = on
                if on:
                    self._losses.add("tracked deletion")
            case "nestcell" | "nestrow":
                self._write(" · " if name == "nestcell" else " / ")
            case "par" | "sect" | "page" | "row" if not (group.skip or self._open_notes):
                yield from self._paragraph(is_row=name == "row")
            case "cell" if not (group.skip or self._open_notes):
                self._cells.append(self._text.taken())
            case "par" | "cell" | "row":
                self._write("\n")
            case _ if name in _CHARACTERS:
                self._write(_CHARACTERS[name])

    def _sign(self, sign: bytes) -> None:
        text = sign.decode("latin-1")
        if text == "*":
            self._starred = True
        elif text in "\r\n":
            self._write("\n")
        elif text in _CHARACTERS:
            self._write(_CHARACTERS[text])

    def _write(self, text: str) -> None:
        group = self._group
        if not (group.skip or group.deleted or group.hidden):
            self._text.add(text)

    def _bytes(self, data: bytes) -> None:
        if self._ignored:
            data, self._ignored = data[self._ignored :], max(0, self._ignored - len(data))
        group = self._group
        if data and not (group.skip or group.deleted or group.hidden):
            codec = self._fonts.get(self._default_font, "") if group.codec is None else group.codec
            self._text.add_bytes(data, codec or self._page)

    def _paragraph(self, *, is_row: bool = False, at_end: bool = False) -> Iterator[str]:
        text = self._text.taken().replace("\0", "")
        if is_row and self._cells:
            cells = [*self._cells, *([text] if text.strip() else [])]
            self._cells = []
            yield row(cells)
        elif self._in_table and not at_end:
            self._text.add(f"{text}\n")
        elif text.strip():
            yield text
