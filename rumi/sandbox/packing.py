"""Packing of a workspace into a manifest and pieces of file content, and unpacking of both.

A piece is at most `PIECE_BYTES` long and begins at a multiple of `PIECE_BYTES` in its file. Its key is the
hash of its content. The manifest lists for each file the keys of its pieces in order; `-N` stands for N
pieces that are holes or zeros. A manifest is validated before any file is created from it. Calls block.
"""

import hashlib
import json
import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from rumi.errors import RumiError
from rumi.platform.openat import FOLDER, openat2, opened
from rumi.sandbox.copying import data_in
from rumi.sandbox.entries import Entry, Key, Kind, Unlistable, Walk, finish_entries, make_entries, version
from rumi.texts import Text

PIECE_BYTES: Final = 1 << 20
TRIES: Final = 3
"""Number of attempts to read a file that changes during the reading."""
MANIFEST_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of an uncompressed manifest."""

Cause: TypeAlias = Literal["bytes", "files", "unreadable", "changing"]


class Unpackable(RumiError):
    """The workspace cannot be packed, for the reason in `cause`. The folder is unchanged."""

    def __init__(self, cause: Cause, limits: "PackLimits") -> None:
        megabytes = limits.max_bytes // 1_000_000
        super().__init__(
            {
                "bytes": Text(
                    "The chat's files were not stored: they are larger than {megabytes} MB.",
                    megabytes=megabytes,
                ),
                "files": Text(
                    "The chat's files were not stored: they are more than {max_files}.",
                    max_files=limits.max_files,
                ),
                "unreadable": Text("The chat's files were not stored: some of them cannot be read."),
                "changing": Text("The chat's files were not stored: some of them changed meanwhile."),
            }[cause],
            Text("Another process that goes on with the chat has the files of an earlier turn."),
        )
        self.cause: Cause = cause


class SpoiltWorkspace(RumiError):
    """The stored workspace is damaged or incomplete."""

    def __init__(self, what: str, /, **fields: Any) -> None:
        super().__init__(
            "The stored files of the chat are damaged: {what}.",
            "Restore them from a backup.",
            what=Text(what, **fields),
        )


@dataclass(frozen=True, slots=True)
class PackLimits:
    """Limits on a workspace that can be packed: total bytes of its files, and number of its entries."""

    max_bytes: int = 1024 * 1024 * 1024
    max_files: int = 100_000


@dataclass(frozen=True, slots=True)
class PieceLocation:
    """Location of a piece in a workspace."""

    path: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Packed:
    """A packed workspace: its entries, the location of each piece, and the total bytes of the pieces.

    `known` maps the versions of files to their piece keys, for the next packing.
    """

    entries: tuple[Entry, ...] = ()
    pieces: Mapping[str, PieceLocation] = field(default_factory=dict)
    size: int = 0
    known: Mapping[Key, str] = field(default_factory=dict)

    def manifest(self) -> bytes:
        """Return the compressed list of entries, without owners: each machine has its own sandbox user."""
        listed = [[e.path, e.kind, e.mode, e.mtime_ns, e.content, e.size] for e in self.entries]
        return zlib.compress(json.dumps({"entries": listed}, separators=(",", ":")).encode())


def pack(workspace: Path, limits: PackLimits, known: Mapping[Key, str]) -> Packed:
    """List a workspace and hash its files. A missing folder is packed as an empty workspace.

    Files whose version is in `known` are not read.

    Raises:
        Unpackable: The workspace is too large, cannot be read, or changes while it is packed.
    """
    packing = _Packing(limits, known)
    try:
        with opened(os.open(workspace, FOLDER)) as top:
            entries = Walk(limits.max_files, packing.take).entries(top)
    except FileNotFoundError:
        return Packed()
    except Unlistable as error:
        raise Unpackable(error.cause, limits) from error
    except OSError as error:
        raise Unpackable("unreadable", limits) from error
    known_contents = {entry.key: entry.content for entry in entries if entry.key}
    return Packed(entries, packing.pieces, packing.size, known_contents)


class _Packing:
    def __init__(self, limits: PackLimits, known: Mapping[Key, str]) -> None:
        self._limits = limits
        self._known = known
        self.pieces: dict[str, PieceLocation] = {}
        self.size = 0

    def take(self, path: str, file: int, status: os.stat_result, key: Key) -> str:
        """Return the piece keys of a file, and record the location of its pieces."""
        content = self._known.get(key)
        if content is None:
            content = self._read(file, status)
        for offset, word in _piece_offsets(content):
            length = min(PIECE_BYTES, status.st_size - offset)
            self.pieces.setdefault(word, PieceLocation(path, offset, length))
            self._count(length)
        return content

    def _count(self, length: int) -> None:
        self.size += length
        if self.size > self._limits.max_bytes:
            raise Unpackable("bytes", self._limits)

    def _read(self, file: int, status: os.stat_result) -> str:
        for _ in range(TRIES):
            # The file may change while it is read: the hashes only count if its version is still the same.
            words = self._hashed(file, status.st_size)
            after = os.fstat(file)
            if words is not None and version(after) == version(status):
                return " ".join(words)
            status = after
        raise Unpackable("changing", self._limits)

    def _hashed(self, file: int, size: int) -> list[str] | None:
        """Return a file's content as the manifest's list of piece keys and `-N`; None if it was truncated."""
        words: list[str] = []
        done = read = 0  # pieces that the words stand for; bytes read
        for number in _with_data(file, size):
            length = min(PIECE_BYTES, size - number * PIECE_BYTES)
            data = os.pread(file, length, number * PIECE_BYTES)
            if len(data) != length:
                return None
            if not data.strip(b"\0"):
                continue
            if (read := read + length) > self._limits.max_bytes:
                raise Unpackable("bytes", self._limits)
            if number > done:
                words.append(f"-{number - done}")
            words.append(key_of(data))
            done = number + 1
        if (total := -(-size // PIECE_BYTES)) > done:
            words.append(f"-{total - done}")
        return words


def _with_data(file: int, size: int) -> Iterator[int]:
    """Yield the numbers of the pieces that contain data; omit those that are only a hole."""
    last = -1
    for start, end in data_in(file, size):
        for number in range(max(last + 1, start // PIECE_BYTES), -(-end // PIECE_BYTES)):
            yield number
            last = number


def key_of(piece: bytes) -> str:
    """Return the key of a piece: the BLAKE2b hash of its content, in hexadecimal digits."""
    return hashlib.blake2b(piece, digest_size=32).hexdigest()


def read_pieces(workspace: Path, wanted: Iterable[tuple[str, PieceLocation]]) -> dict[str, bytes] | None:
    """Read pieces of a workspace; return None if one has changed since it was packed."""
    found: dict[str, bytes] = {}
    try:
        with opened(os.open(workspace, FOLDER)) as top:
            for key, location in wanted:
                with opened(openat2(top, os.fsencode(location.path))) as file:
                    found[key] = os.pread(file, location.length, location.offset)
                if key_of(found[key]) != key:  # a command has written since
                    return None
    except OSError:
        return None
    return found


def entries_of(manifest: bytes, user: tuple[int, int]) -> tuple[Entry, ...]:
    """Decode and validate a manifest; return its entries, owned by the user.

    Raises:
        SpoiltWorkspace: The manifest is damaged, or a path leads outside of the workspace.
    """
    try:
        # Bounded, because a small compressed manifest could otherwise expand to any size in memory.
        unpacking = zlib.decompressobj()
        text = unpacking.decompress(manifest, MANIFEST_BYTES)
        if unpacking.unconsumed_tail:
            raise ValueError("it is too large")
        listed: list[list[Any]] = json.loads(text)["entries"]
        entries = tuple(
            Entry(str(path), kind, int(mode) & 0o1777, *user, int(mtime_ns), str(content), int(size))
            for path, kind, mode, mtime_ns, content, size in listed
        )
        _check(entries)
    except (ValueError, TypeError, KeyError, zlib.error) as error:
        raise SpoiltWorkspace("its list is not readable ({error})", error=error) from error
    return entries


def _check(entries: Iterable[Entry]) -> None:
    """Raise ValueError for entries that `pack` never makes, such as a file listed before its folder."""
    folders, files, seen = {""}, set[str](), set[str]()
    for entry in entries:
        above, _, name = entry.path.rpartition("/")
        # Only entries of the kind `folder` are valid parents: a path through a link could lead outside.
        if above not in folders or name in ("", ".", "..") or "\0" in entry.path or entry.path in seen:
            raise ValueError("a path leads outside")
        if entry.kind not in get_args(Kind) or (entry.kind == "name" and entry.content not in files):
            raise ValueError("an entry has no file")
        seen.add(entry.path)
        if entry.kind == "folder":
            folders.add(entry.path)
        if entry.kind == "file":
            files.add(entry.path)
            if entry.size < 0 or any(offset >= entry.size for offset, _ in _piece_offsets(entry.content)):
                raise ValueError("a file is longer than it is")


def keys_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the keys of all pieces of these entries, without duplicates."""
    files = (entry for entry in entries if entry.kind == "file")
    return tuple(dict.fromkeys(word for entry in files for _, word in _piece_offsets(entry.content)))


def _piece_offsets(content: str) -> Iterator[tuple[int, str]]:
    """Yield the offset and key of each piece of a file."""
    number = 0
    for word in content.split():
        if word.startswith("-"):
            number += int(word[1:])
        else:
            yield number * PIECE_BYTES, word
            number += 1


def make_files(target: Path, entries: Sequence[Entry]) -> dict[str, list[tuple[str, int]]]:
    """Create the entries, with holes for all content; return the paths and offsets of each piece.

    Raises:
        OSError: An entry cannot be created.
    """
    wanted: dict[str, list[tuple[str, int]]] = {}

    def empty(entry: Entry, file: int) -> None:
        os.ftruncate(file, entry.size)
        for offset, key in _piece_offsets(entry.content):
            wanted.setdefault(key, []).append((entry.path, offset))

    make_entries(target, entries, empty)
    return wanted


def write_pieces(
    target: Path, pieces: Mapping[str, bytes], wanted: Mapping[str, Collection[tuple[str, int]]]
) -> None:
    """Write pieces at their offsets in the created files.

    Raises:
        SpoiltWorkspace: A piece's content does not match its key.
        OSError: A file cannot be written.
    """
    for key, content in pieces.items():
        if key_of(content) != key:
            raise SpoiltWorkspace("a piece of a file has changed")
        for path, offset in wanted[key]:
            with opened(os.open(target / path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
                written = 0
                while written < len(content):
                    written += os.pwrite(file, content[written:], offset + written)


def finish_files(target: Path, entries: Sequence[Entry], user: tuple[int, int]) -> None:
    """Set the owner, modes and times of the entries. Raise OSError if that fails."""
    finish_entries(target, entries, user)
