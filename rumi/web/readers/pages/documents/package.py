"""The parts of a document that is a ZIP archive or one flat XML file, with limits, and their XML."""

import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from io import BytesIO
from posixpath import join, normpath
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from lxml import etree

from rumi.web.readers.pages.documents.lines import Losses, NoDocumentError

MOST_ENTRIES: Final = 10_000
MOST_BYTES: Final = 256_000_000
MOST_XML_BYTES: Final = 64_000_000
"""Maximum number of parts in a file, and maximum unpacked sizes of all parts and of XML parts, in bytes."""

ENTITIES: Final = "its XML declares entities, which no office program writes"
TOO_MUCH: Final = "it unpacks to too much"
LOCKED: Final = "it is encrypted and needs a password"
BROKEN: Final = "it is broken"

_DECLARES: Final = re.compile(rb"<\0?!\0?(?:D\0?O\0?C\0?T\0?Y\0?P\0?E|E\0?N\0?T\0?I\0?T\0?Y)", re.IGNORECASE)
_BEFORE_XML: Final = re.compile(rb"\A(?:\xef\xbb\xbf|[ \t\r\n\0])+(?=<)")
_KNOWN_PARTS: Final = re.compile(
    r"(?<![^/])(?:document|workbook|presentation|styles|sharedstrings|sheet|slide|notesslide|header|footer"
    r"|footnotes|endnotes|comments?|threadedcomment|chart|drawing|data|content|container|book|settings)"
    r"\d{0,5}\.(?:xml|opf)(?:\.rels)?$"
)
_MAIN: Final = re.compile(r"(?:^|/)(?:document|workbook)\d*\.xml$")
_BESIDE_MAIN: Final = re.compile(
    r"(header|footer|footnotes|endnotes|comments|styles|sharedstrings)\d{0,5}\.xml"
)
"""Main parts, and the parts beside them that have these names in the files of all programs."""

_KINDS: Final = {"sharedstrings": "sharedStrings"}
_LOCAL_HEADER: Final = b"PK\x03\x04"
_STEP_BYTES: Final = 1 << 16
_UNREADABLE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
)

Element: TypeAlias = Any


def local(element: Element) -> str:
    """Return an element's name without its namespace; empty for comments and entities.

    Strict and transitional Open XML differ in their namespaces only, and other programs invent more.
    """
    tag = element.tag
    return _last_name(tag) if isinstance(tag, str) else ""


@lru_cache(maxsize=2000)
def _last_name(tag: str) -> str:
    return tag.rpartition("}")[2]


def attribute(element: Element, name: str, default: str = "") -> str:
    """Return an attribute by its name without its namespace."""
    value = element.get(name)
    if value is not None:
        return str(value)
    ending = f"}}{name}"
    return next((str(value) for key, value in element.attrib.items() if key.endswith(ending)), default)


def child(element: Element, *names: str) -> Element | None:
    """Return the element at the end of a path of names without namespaces; None if there is none."""
    for name in names:
        element = next((found for found in element if local(found) == name), None)
        if element is None:
            return None
    return element


def children(element: Element | None, name: str) -> Iterator[Element]:
    """Yield the children with a name."""
    return (found for found in (() if element is None else element) if local(found) == name)


def all_named(element: Element, *names: str) -> Iterator[Element]:
    """Yield the descendants with one of these names, in document order."""
    return element.iter(*(f"{{*}}{name}" for name in names))  # type: ignore[no-any-return]


def words_in(element: Element, *names: str) -> str:
    """Return the text of all descendants with one of these names."""
    return "".join(found.text or "" for found in all_named(element, *names))


def whole_number(text: str, default: int = 0, *, most: int = 10**9) -> int:
    """Return the number at the beginning of a text, such as an attribute that may be broken."""
    found = re.match(r"\s*([+-]?\d{1,18})", text)
    return max(-most, min(most, int(found[1]))) if found else default


def parse_xml(data: bytes) -> tuple[Element, bool]:
    """Parse XML; return the root, and True if the XML is damaged and its end may be missing.

    Raises:
        NoDocumentError: It declares entities, or nothing of it can be read.
    """
    if _DECLARES.search(data):
        raise NoDocumentError(ENTITIES)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        recover=True,
        huge_tree=True,  # the sizes are checked before
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(_BEFORE_XML.sub(b"", data), parser)
    except etree.XMLSyntaxError:
        root = None
    if root is None:
        raise NoDocumentError(BROKEN)
    fatal = etree.ErrorLevels.FATAL
    return root, any(error.level == fatal for error in parser.error_log)


class Package:
    """The parts of a document, by their names without regard to case and kind of slash."""

    def __init__(
        self,
        parts: Mapping[str, bytes | zipfile.ZipInfo],
        archive: zipfile.ZipFile | None = None,
        body: bytes = b"",
    ) -> None:
        self._archive = archive
        self._body = body
        self._damaged = set[str]()
        self._parts = {_plain(name): (name, part) for name, part in parts.items()}
        self._left_bytes, self._left_xml_bytes = MOST_BYTES, MOST_XML_BYTES

    @classmethod
    def of_zip(cls, body: bytes, losses: Losses) -> "Package":
        """Open an archive. If its directory is missing, use the parts that are there.

        Raises:
            NoDocumentError: It is no archive, it is encrypted, or it unpacks to too much.
        """
        try:
            archive = zipfile.ZipFile(BytesIO(body))
            parts = archive.infolist()
        except _UNREADABLE:
            saved = dict(_saved(body))
            if not saved:
                raise NoDocumentError(BROKEN) from None
            losses.note("the end of the file is missing, so parts of the document may be, too")
            return cls(saved)
        if len(parts) > MOST_ENTRIES or sum(part.file_size for part in parts) > MOST_BYTES:
            raise NoDocumentError(TOO_MUCH)
        if parts and all(part.flag_bits & 1 for part in parts if not part.is_dir()):
            raise NoDocumentError(LOCKED)
        return cls({part.filename: part for part in parts}, archive, body)

    @classmethod
    def of_flat_xml(cls, root: Element) -> "Package":
        """Open a package that one XML file contains (Flat OPC)."""
        parts: dict[str, bytes | zipfile.ZipInfo] = {}
        for part in children(root, "part"):
            data = child(part, "xmlData")
            if data is not None and len(data):
                parts[attribute(part, "name")] = etree.tostring(data[0])
        return cls(parts)

    @property
    def names(self) -> list[str]:
        """The names of all parts, in lower case and with slashes."""
        return list(self._parts)

    def __contains__(self, name: str) -> bool:
        return _plain(name) in self._parts

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a part, of a damaged one what is before the damage; None if there are none.

        Raises:
            NoDocumentError: The parts read so far unpack to too much.
        """
        _, part = self._parts.get(_plain(name), ("", b""))
        if isinstance(part, bytes):
            return part or None
        if self._archive is None or part.flag_bits & 1:
            return None
        try:
            # `zipfile` reads no more than the size that the archive declares.
            data = self._archive.read(part)
        except _UNREADABLE:
            _, data, _ = _local_part(self._body, part.header_offset, self._left_bytes)
            self._damaged.add(_plain(name))
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise NoDocumentError(TOO_MUCH)
        return data or None

    def xml(self, name: str, losses: Losses) -> Element | None:
        """Return the root of a part's XML; None, with a remark, if the part is missing or damaged.

        Raises:
            NoDocumentError: The XML declares entities, or the parts read so far unpack to too much.
        """
        data = self.xml_bytes(name, losses)
        if data is None:
            return None
        try:
            root, damaged = parse_xml(data)
        except NoDocumentError as error:
            if str(error) == ENTITIES:
                raise
            losses.note(f"{shown_part(name)} is broken, and was not read")
            return None
        if damaged or _plain(name) in self._damaged:
            losses.note(f"{shown_part(name)} is damaged, and was read in part")
        return root

    def xml_bytes(self, name: str, losses: Losses) -> bytes | None:
        """Return the bytes of a part with XML; None, with a remark, if the part is missing or damaged.

        Raises:
            NoDocumentError: The parts read so far unpack to too much.
        """
        data = self.read(name)
        if data is None:
            state = "broken" if name in self else "missing"
            losses.note(f"{shown_part(name)} is {state}, and was not read")
            return None
        self._left_xml_bytes -= len(data)
        if self._left_xml_bytes < 0:
            raise NoDocumentError(TOO_MUCH)
        if _DECLARES.search(data):
            raise NoDocumentError(ENTITIES)
        return _BEFORE_XML.sub(b"", data)

    def related(self, name: str, losses: Losses) -> dict[str, tuple[str, str]]:
        """Return the relations of a part: the kind and the target by their id.

        The kind is the end of its type, such as `hyperlink`. The target is a part's name, or a URL.
        """
        folder, _, base = _plain(name).rpartition("/")
        relations = join(folder, "_rels", f"{base}.rels")
        root = self.xml(relations, losses) if relations in self else None
        if root is None and _MAIN.search(_plain(name)):
            return self._related_by_name(folder, losses)
        found: dict[str, tuple[str, str]] = {}
        for relation in children(root, "Relationship"):
            target = attribute(relation, "Target")
            if attribute(relation, "TargetMode") != "External":
                target = _plain(normpath(join("/", folder, unquote(target).replace("\\", "/"))))
            found[attribute(relation, "Id")] = attribute(relation, "Type").rpartition("/")[2], target
        return found

    def _related_by_name(self, folder: str, losses: Losses) -> dict[str, tuple[str, str]]:
        """Return the parts beside a main part whose list of relations is missing, by their usual names."""
        found = {}
        for name in self._parts:
            inner = name.removeprefix(f"{folder}/" if folder else "")
            if name != inner and (kind := _BESIDE_MAIN.fullmatch(inner)):
                found[f"?{name}"] = _KINDS.get(kind[1], kind[1]), name
        if found:
            losses.note("its list of parts is missing, so pictures, links and charts may be, too")
        return found

    def of_kind(self, name: str, kind: str, losses: Losses) -> list[str]:
        """Return the names of the parts that are related to a part by a kind of relation."""
        return [
            target for found, target in self.related(name, losses).values() if found.lower() == kind.lower()
        ]


def shown_part(name: str) -> str:
    """Name a part in a remark. Remarks stand outside of untrusted text, so only known names are repeated."""
    found = _KNOWN_PARTS.search(_plain(name))
    return f"the part {found[0]}" if found else "a part of the document"


def _plain(name: str) -> str:
    return name.replace("\\", "/").lstrip("/").lower()


def _saved(body: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the parts of an archive whose directory is missing, from their local headers."""
    at, left = body.find(_LOCAL_HEADER), MOST_BYTES
    for _ in range(MOST_ENTRIES):
        if at < 0:
            return
        name, data, end = _local_part(body, at, left)
        left -= len(data)
        if left <= 0:
            raise NoDocumentError(TOO_MUCH)
        if data:
            yield name, data
        at = body.find(_LOCAL_HEADER, max(end, at + 4))


def _local_part(body: bytes, at: int, most: int) -> tuple[str, bytes, int]:
    """Return the name and the data of the part whose local header is at a place, and where it ends.

    The data of a damaged part ends where the damage is. It is empty if the part is encrypted.
    """

    def number(offset: int, size: int) -> int:
        return int.from_bytes(body[at + offset : at + offset + size], "little")

    flags, method, size = number(6, 2), number(8, 2), number(18, 4)
    start = at + 30 + number(26, 2) + number(28, 2)
    name = body[at + 30 : at + 30 + number(26, 2)].decode("utf-8", "replace")
    if flags & 1 or method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return name, b"", start + size
    if method == zipfile.ZIP_STORED:
        return name, body[start : start + min(size, most)], start + size
    data, end = _inflated(body, start, most)
    return name, data, end


def _inflated(body: bytes, start: int, most: int) -> tuple[bytes, int]:
    """Unpack a deflated part of unknown size; return its data, and where the next part may start."""
    unpacker, data, at = zlib.decompressobj(-15), bytearray(), start
    while not unpacker.eof and at < len(body) and len(data) < most:
        piece = unpacker.unconsumed_tail or body[at : at + _STEP_BYTES]
        at += 0 if unpacker.unconsumed_tail else len(piece)
        try:
            data += unpacker.decompress(piece, most - len(data))
        except zlib.error:
            break
    return bytes(data), at - len(unpacker.unused_data)
