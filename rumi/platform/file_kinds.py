"""Detection of pictures, sounds, and documents that a model can read, by first bytes and names."""

import re
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["picture", "document"]

HEAD_BYTES: Final = 2048
"""Number of bytes at the beginning of a file that suffice to detect its kind."""

_PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_ENDINGS: Final = (
    "doc docx docm dot dotx dotm xls xlsx xlsm xlsb xlt xltx xltm ppt pptx pptm pps ppsx ppsm pot"
    " potx potm odt ott ods ots odp otp odg fodt fods fodp epub rtf msg eml mht mhtml mbox"
)
OFFICE_ENDINGS: Final = frozenset(f".{ending}" for ending in _ENDINGS.split())
"""Endings of documents. A ZIP archive, HTML and XML are only read as documents if something says so."""

_SPACE: Final = b"\xef\xbb\xbf\xff\xfe \t\r\n\0"
_OLE: Final = b"\xd0\xcf\x11\xe0"
_ZIP: Final = b"PK\x03\x04"
BARE_WORKBOOKS: Final = (
    b"\x09\x00\x04\x00",
    b"\x09\x02\x06\x00",
    b"\x09\x04\x06\x00",
    b"\x09\x08\x08\x00",
    b"\x09\x08\x10\x00",
)
"""How workbooks of old Excel versions begin that are not in an OLE file."""

_OFFICE_PART: Final = re.compile(
    rb"mimetype$|\[content_types\]\.xml|_rels/|docprops/|customxml/|word/|xl/|ppt/"
    rb"|meta-inf/container\.xml|oebps/",
    re.IGNORECASE,
)
"""The name of the first part of an archive that is a document, wherever its program puts it."""

# In the middle of a text, only the comment of bytes above 127 or an object behind the mark make it a PDF.
_PDF: Final = re.compile(rb"(?:^|[\r\n])%PDF-\d[^\r\n]{0,20}[\r\n]+(?:%[^\r\n]{0,3}[\x80-\xff]|\d+ \d+ obj)")
_FLAT: Final = (b"mso-application", b"2006/xmlPackage", b"office:document", b"office/word/2003/wordml")
_HEADER: Final = re.compile(rb"[A-Za-z][A-Za-z0-9-]{1,60}:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*")
_OF_MAIL: Final = re.compile(
    rb"^(?:received|return-path|message-id|mime-version|delivered-to|dkim-signature):",
    re.IGNORECASE | re.MULTILINE,
)
_MAIL_ENDINGS: Final = (".eml", ".mht", ".mhtml", ".mbox")


def picture_type(head: bytes) -> str:
    """Return the media type of a PNG, JPEG, GIF or WebP file from its first bytes; empty for other files.

    These formats cannot contain code.
    """
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _PICTURES.items() if head.startswith(mark)), "")


def is_sound(head: bytes) -> bool:
    """Return True for sound files: Ogg, MP3, WAV, FLAC and M4A. Videos are none, although they have sound."""
    if head[4:8] == b"ftyp":
        return head[8:11] in (b"M4A", b"M4B")
    wave = head.startswith(b"RIFF") and head[8:12] == b"WAVE"
    frame = len(head) > 2 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2  # the first frame of an MP3 file
    return wave or frame or head.startswith((b"OggS", b"ID3", b"fLaC"))


def kind_of_file(head: bytes, name: str) -> Kind | None:
    """Detect the kind of a file from its first bytes and its name; return None if no model can read it.

    The bytes decide before the name: documents come with wrong endings, and other files with theirs.
    """
    head = head[:HEAD_BYTES]
    if picture_type(head) or (head.startswith(b"BM") and head[6:10] == b"\0\0\0\0"):
        return "picture"
    return "document" if _is_document(head, PurePosixPath(name).suffix.lower()) else None


def is_viewable(head: bytes, name: str) -> bool:
    """Return True for pictures, documents and sounds: files that are viewed as more than plain text."""
    return kind_of_file(head, name) is not None or is_sound(head)


def has_office_archive(head: bytes) -> bool:
    """Return True if an archive that is a document begins here, maybe behind a line of another program."""
    start = head.find(_ZIP)
    name = head[start + 30 : start + 30 + int.from_bytes(head[start + 26 : start + 28], "little")]
    return start >= 0 and _OFFICE_PART.match(name.replace(b"\\", b"/").lstrip(b"/")) is not None


def _is_document(head: bytes, ending: str) -> bool:
    if head.startswith(_ZIP) and not (ending == ".pdf" and b"%PDF-" in head):
        return ending in OFFICE_ENDINGS or has_office_archive(head)
    if (
        head.startswith((_OLE, b"%PDF-", *BARE_WORKBOOKS))
        or _PDF.search(head)
        or (ending == ".pdf" and b"%PDF-" in head)
    ):
        return True
    start = head.lstrip(_SPACE)
    if start.startswith(b"{\\rtf") or has_office_archive(head):
        return True
    if start.replace(b"\0", b"").startswith(b"<"):
        # A page saved or exported as an office document; other pages stay as they are.
        return ending in OFFICE_ENDINGS or any(mark in head for mark in _FLAT)
    return _is_mail(start, ending)


def _is_mail(start: bytes, ending: str) -> bool:
    if start.startswith(b"From "):
        start = start.partition(b"\n")[2]
    if ending in _MAIL_ENDINGS:  # a line of a gateway or of another program may stand before the headers
        return re.search(rb"^" + _HEADER.pattern, start, re.MULTILINE) is not None
    found = _HEADER.match(start)
    if found is None or _HEADER.match(start, found.end()) is None:
        return False
    return ending in ("", *OFFICE_ENDINGS, ".bin") and _OF_MAIL.search(start) is not None
