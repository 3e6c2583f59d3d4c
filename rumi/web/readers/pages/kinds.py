"""Detection of a body's kind by its media type, or by its first bytes if the type is missing or wrong."""

import re
from typing import Literal, TypeAlias

from rumi.platform.file_kinds import kind_of_file, picture_type

Kind: TypeAlias = Literal["html", "xml", "text", "document", "binary"]

_HTML = {"text/html", "application/xhtml+xml"}
_XML = {"application/xml", "text/xml", "application/rss+xml", "application/atom+xml", "application/rdf+xml"}
_TEXT = {
    "application/ecmascript",
    "application/graphql",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/ndjson",
    "application/sql",
    "application/toml",
    "application/typescript",
    "application/x-httpd-php",
    "application/x-javascript",
    "application/x-ndjson",
    "application/x-sh",
    "application/x-subrip",
    "application/x-tex",
    "application/x-yaml",
    "application/yaml",
}
_DOCUMENTS = {
    "application/pdf",
    "application/x-pdf",
    "application/rtf",
    "text/rtf",
    "application/msword",
    "application/vnd.ms-excel",
    "application/vnd.ms-outlook",
    "application/vnd.ms-powerpoint",
    "application/epub+zip",
    "application/mbox",
    "message/rfc822",
    "multipart/related",
    "application/x-mimearchive",
}
_DOCUMENT_FAMILIES = (
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.opendocument.",
    "application/vnd.ms-word.",
    "application/vnd.ms-excel.",
    "application/vnd.ms-powerpoint.",
)
_PDF = {"application/pdf", "application/x-pdf"}
_MAIL = {"message/rfc822", "multipart/related", "application/x-mimearchive", "application/mbox"}
_ZIPPED = {"application/zip", "application/x-zip-compressed", "application/x-zip"}
# Media types that servers send for files of unknown type.
_VAGUE = {
    "",
    "application/octet-stream",
    "application/x-download",
    "application/download",
    "binary/octet-stream",
}
_VAGUE |= {"application/unknown", "unknown/unknown", "application/force-download", "*/*"}
_VAGUE |= _ZIPPED  # what servers without a table of office formats say of them
_HTML_BEGINS = re.compile(
    rb"<(?:!doctype\s+html|html|head|body|title|meta|link|script|style|div|table|h1|p|a|br|b|iframe)[\s>/]",
    re.IGNORECASE,
)
_XHTML_BEGINS = re.compile(rb"<(?:!doctype\s+html|html)[\s>]", re.IGNORECASE)
_XML_BEGINS = re.compile(rb"<\?xml[\s?]", re.IGNORECASE)
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
# Bytes that do not occur in text in any common encoding: control characters except white space, ESC (used in
# ISO-2022) and SUB.
_NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0e-\x19\x1c-\x1f]")
SNIFFED_BYTES = 2048


def readable(media_type: str) -> bool | None:
    """Return True if a body of this media type can become text; None if this depends on the body's bytes."""
    if media_type in _VAGUE:
        return None
    return _declared(media_type) is not None


def kind_of(media_type: str, beginning: bytes) -> Kind:
    """Return the kind of a body from its `media_type` (lower case, no parameters) and its first bytes."""
    head = beginning[:SNIFFED_BYTES]
    declared = _declared(media_type)
    if _is_document(declared, media_type, head):
        return "document"
    if declared == "html":
        return "html" if _looks_like_text(head) else "binary"
    if declared is None and media_type not in _VAGUE:
        return "binary"
    if declared == "document":  # its bytes say something else
        media_type = ""
    if not _looks_like_text(head) or (media_type in _ZIPPED and head):
        return "binary"
    bare = head[3:] if head.startswith(b"\xef\xbb\xbf") else head
    bare = _without_comments(bare)
    is_xml = _XML_BEGINS.match(bare) is not None
    if is_xml:
        bare = _without_comments(bare.partition(b"?>")[2])
    # Servers send HTML as text/plain, as XML, or without a type; other types are believed.
    if media_type in _VAGUE | {"text/plain"}:
        if _HTML_BEGINS.match(bare):
            return "html"
        return "xml" if is_xml else "text"
    if declared == "xml" and _XHTML_BEGINS.match(bare):
        return "html"
    return declared if declared not in (None, "document") else "text"


def _declared(media_type: str) -> Kind | None:
    if media_type in _HTML:
        return "html"
    if media_type in _DOCUMENTS or media_type.startswith(_DOCUMENT_FAMILIES):
        return "document"
    if media_type in _XML or (media_type.endswith("+xml") and not media_type.startswith("image/")):
        return "xml"
    if (
        media_type in _TEXT
        or media_type.startswith(("text/", "message/"))
        or media_type.endswith(("+json", "+yaml"))
    ):
        return "text"
    return None


def _is_document(declared: Kind | None, media_type: str, head: bytes) -> bool:
    """Return True if the bytes are a document's, or may be those of the kind of document that is declared."""
    if declared == "document":
        name = "a.eml" if media_type in _MAIL else "a.doc" if media_type not in _PDF else "a.pdf"
        return kind_of_file(head, name) == "document"
    plain = head.lstrip()
    # Of texts, only those whose type says nothing: a page may be about the bytes of a document.
    if media_type in _VAGUE or not _looks_like_text(head):
        names = ("", "a.pdf") if media_type in _VAGUE else ("",)
        return any(kind_of_file(head, name) == "document" for name in names)
    return plain.startswith(b"{\\rtf") or head.startswith(b"%PDF-")


def _without_comments(head: bytes) -> bytes:
    head = head.lstrip()
    while head.startswith(b"<!--"):
        head = head.partition(b"-->")[2].lstrip()
    return head


def _looks_like_text(head: bytes) -> bool:
    if head.startswith(_BOMS):
        return True
    found = len(_NO_TEXT.findall(head))
    if found and head.count(0) * 5 > len(head) * 2 and not head.count(b"\0\0\0"):
        return True  # UTF-16 without a byte order mark
    if found and looks_like(head):
        return False
    return found <= 3 or found * 50 <= len(head)  # a few stray NULs do not make a page binary


_PICTURES = {
    "image/png": "a PNG image",
    "image/jpeg": "a JPEG image",
    "image/gif": "a GIF image",
    "image/webp": "a WebP image",
}
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "a ZIP archive, or an office document"),
    (b"\x1f\x8b", "gzip data"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\0", "xz data"),
    (b"(\xb5/\xfd", "zstandard data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a Linux program"),
    (b"MZ", "a Windows program"),
    (b"\xd0\xcf\x11\xe0", "an old Office document"),
    (b"ID3", "MP3 audio"),
    (b"OggS", "Ogg audio or video"),
    (b"fLaC", "FLAC audio"),
    (b"\x1aE\xdf\xa3", "Matroska or WebM video"),
    (b"wOFF", "a font"),
    (b"wOF2", "a font"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\0asm", "WebAssembly"),
    (b"%!PS", "PostScript"),
    (b"%PDF-", "a PDF document"),
)


def looks_like(head: bytes) -> str:
    """Name the format of a body for people, from the body's first bytes; empty if the format is unknown."""
    if picture := picture_type(head):
        return _PICTURES[picture]
    if head[4:8] == b"ftyp":
        return "an AVIF or HEIC image" if head[8:12] in (b"avif", b"heic", b"mif1") else "MP4 video or audio"
    if head[:4] == b"RIFF":
        return "WAV audio" if head[8:12] == b"WAVE" else "RIFF media"
    return next((words for begins, words in _SIGNATURES if head.startswith(begins)), "")
