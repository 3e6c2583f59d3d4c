"""Detection of pictures and of other files that a model can read, by their first bytes and their names."""

from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["picture", "pdf", "docx", "xlsx", "pptx", "odt"]

HEAD_BYTES: Final = 128
"""Number of bytes at the beginning of a file that suffice to detect its kind."""

_PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_ODT: Final = b"mimetypeapplication/vnd.oasis.opendocument.text"
_OFFICE: Final[dict[str, Kind]] = {
    ".docx": "docx",
    ".docm": "docx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".pptx": "pptx",
    ".odt": "odt",
}


def picture_type(head: bytes) -> str:
    """Return the media type of a PNG, JPEG, GIF or WebP file from its first bytes; empty for other files.

    These formats cannot contain code.
    """
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _PICTURES.items() if head.startswith(mark)), "")


def kind_of_file(head: bytes, name: str) -> Kind | None:
    """Detect the kind of a file from its first bytes and its name; return None if no model can read it."""
    if picture_type(head) or (head.startswith(b"BM") and head[6:10] == b"\0\0\0\0"):
        return "picture"
    if head.startswith(b"%PDF-"):
        return "pdf"
    if not head.startswith(b"PK\x03\x04"):
        return None
    return "odt" if _ODT in head else _OFFICE.get(PurePosixPath(name).suffix.lower())
