"""Conversion of Outlook messages (`msg`) to text (MS-OXMSG), with what is attached.

Each property is a stream, named after its number and its type.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from rumi.platform.extras import is_installed, missing_clause
from rumi.platform.text_decoding import decode
from rumi.web.readers.pages.cleaning import one_line
from rumi.web.readers.pages.documents.lines import Lines, NoDocumentError, Reading
from rumi.web.readers.pages.documents.mail import attachment_lines, html_lines
from rumi.web.readers.pages.documents.rtf import codec_of_page, rtf_lines

_MOST_ATTACHMENTS: Final = 200
_MOST_DEPTH: Final = 10
_MOST_RTF_BYTES: Final = 32_000_000
_STREAM: Final = "__substg1.0_"
_ATTACHED: Final = "__attach_version1.0_"
_PROPERTIES: Final = "__properties_version1.0"
_UNICODE, _BYTES_TEXT, _BINARY, _STORAGE = "001F", "001E", "0102", "000D"
_SUBJECT, _SENDER, _SENDER_ADDRESS, _TO, _CC = "0037", "0C1A", "5D01", "0E04", "0E03"
_BODY, _HTML, _RTF, _DATA, _FILE, _SHORT_FILE, _TYPE = "1000", "1013", "1009", "3701", "3707", "3704", "370E"
_SENT_AT, _CODE_PAGES = 0x0039_0040, (0x3FFD_0003, 0x3FDE_0003)
_RTF_BEGINS: Final = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript "
    b"\\fdecor MS Sans SerifSymbolArialTimes New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par "
    b"\\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
"""What the window of a compressed RTF has at the beginning (MS-OXRTFCP 2.1.2.1)."""


def outlook_lines(storage: Any, reading: Reading) -> Lines:
    """Yield the headers, the text and the attachments of a message in an open OLE file."""
    yield from _Message(storage, [], reading, 0).lines()


class _Message:
    def __init__(self, storage: Any, path: list[str], reading: Reading, depth: int) -> None:
        self._storage = storage
        self._path = path
        self._reading = reading
        self._depth = depth
        self._numbers = self._fixed(path, 24 if path else 32)
        pages = [self._numbers[key] & 0xFFFFFFFF for key in _CODE_PAGES if key in self._numbers]
        self._declared = codec_of_page(pages[0]) if pages else ""
        self._codec = self._declared or codec_of_page(1252)

    def lines(self) -> Lines:
        sender, address = self._text(_SENDER), self._text(_SENDER_ADDRESS)
        sent = self._sent_at()
        headers = {
            "From": f"{sender} <{address}>" if address and address != sender else sender,
            "To": self._text(_TO).rstrip("\0"),
            "Cc": self._text(_CC).rstrip("\0"),
            "Date": sent,
            "Subject": self._text(_SUBJECT),
        }
        for name, value in headers.items():
            if value:
                yield f"{name}: {one_line(value, 5000)}"
        yield ""
        yield from self._body()
        names = sorted({entry[len(self._path)] for entry in self._below() if len(entry) > len(self._path)})
        attached = [name for name in names if name.startswith(_ATTACHED)]
        for name in attached[:_MOST_ATTACHMENTS]:
            yield from self._attachment([*self._path, name])
        if len(attached) > _MOST_ATTACHMENTS:
            self._reading.losses.add("attachment", count=len(attached) - _MOST_ATTACHMENTS)

    def _below(self) -> Iterator[list[str]]:
        entries = self._storage.listdir(streams=True, storages=True)
        return (entry for entry in entries if entry[: len(self._path)] == self._path)

    def _body(self) -> Lines:
        """Yield the text. Some messages have it as RTF or as HTML only."""
        if plain := self._text(_BODY).strip():
            yield from plain.splitlines()
        elif html := self._html():
            yield from html_lines(html, self._reading)
        elif rtf := _unpacked(self._bytes(_RTF + _BINARY)):
            yield from rtf_lines(rtf, self._reading)

    def _html(self) -> str:
        if data := self._bytes(_HTML + _BINARY):
            return decode(data, self._declared, markup="html")
        return self._text(_HTML)

    def _attachment(self, path: list[str]) -> Lines:
        name = self._text(_FILE, path) or self._text(_SHORT_FILE, path)
        inner = [*path, f"{_STREAM}{_DATA}{_STORAGE}"]
        if (data := self._bytes(f"{_DATA}{_BINARY}", path)) is not None:
            yield from attachment_lines(name, data, self._text(_TYPE, path), self._reading)
        elif self._storage.exists(inner) and self._depth < _MOST_DEPTH:
            yield f"[attached message] {one_line(name)}"
            yield from _Message(self._storage, inner, self._reading, self._depth + 1).lines()
        else:
            yield f"[attachment] {one_line(name) or 'without a name'}"
            self._reading.losses.add("attachment")

    def _bytes(self, name: str, path: list[str] | None = None) -> bytes | None:
        stream = [*(self._path if path is None else path), f"{_STREAM}{name}"]
        if self._storage.get_type(stream) != 2:
            return None
        return bytes(self._storage.openstream(stream).read())

    def _text(self, number: str, path: list[str] | None = None) -> str:
        if (data := self._bytes(number + _UNICODE, path)) is not None:
            return data.decode("utf-16-le", "replace").rstrip("\0")
        return (self._bytes(number + _BYTES_TEXT, path) or b"").decode(self._codec, "replace").rstrip("\0")

    def _fixed(self, path: list[str], header_bytes: int) -> dict[int, int]:
        """Return the properties that are numbers or times, by number and type."""
        stream = [*path, _PROPERTIES]
        data = self._storage.openstream(stream).read() if self._storage.get_type(stream) == 2 else b""
        return {
            int.from_bytes(data[at : at + 4], "little"): int.from_bytes(data[at + 8 : at + 16], "little")
            for at in range(header_bytes, len(data) - 15, 16)
        }

    def _sent_at(self) -> str:
        ticks = self._numbers.get(_SENT_AT, 0)
        if not 0 < ticks < 2_650_467_744_000_000_000:
            return ""
        return (datetime(1601, 1, 1) + timedelta(microseconds=ticks // 10)).strftime("%Y-%m-%d %H:%M UTC")


def _unpacked(packed: bytes | None) -> bytes:
    """Unpack compressed RTF (MS-OXRTFCP); empty if there is none."""
    if packed is None or len(packed) < 16:
        return b""
    if packed[8:12] == b"MELA":
        return packed[16:]
    window = bytearray(_RTF_BEGINS.ljust(4096, b" "))
    place, out, at = len(_RTF_BEGINS), bytearray(), 16
    while at < len(packed) and len(out) < _MOST_RTF_BYTES:
        control, at = packed[at], at + 1
        for bit in range(8):
            if control >> bit & 1:
                reference = int.from_bytes(packed[at : at + 2], "big")
                at += 2
                begin, size = reference >> 4, (reference & 15) + 2
                if begin == place or at > len(packed):
                    return bytes(out)
                literals = [(begin + step) & 4095 for step in range(size)]
            elif at < len(packed):
                window[place] = packed[at]
                literals, at = [place], at + 1
                out.append(window[place])
                place = (place + 1) & 4095
                continue
            else:
                return bytes(out)
            for source in literals:
                window[place] = window[source]
                out.append(window[place])
                place = (place + 1) & 4095
    return bytes(out)


def open_storage(body: bytes) -> Any:
    """Open an OLE file.

    Raises:
        NoDocumentError: It is broken, or the extra `office` is not installed.
    """
    from io import BytesIO

    if not is_installed("office"):
        raise NoDocumentError(missing_clause("office"))
    import olefile

    try:
        return olefile.OleFileIO(BytesIO(body))
    except (OSError, ValueError, IndexError) as error:
        raise NoDocumentError("it is broken") from error
