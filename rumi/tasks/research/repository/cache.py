"""A cache of fetched repositories: pack files with their indexes, and the state of the references.

Each entry is a folder with a `state.json`, which lists the entry's files. `state.json` is replaced in one
step, after the files are complete. So files that a killed process left behind are not listed, and are removed
later. Tasks get copies of the files.
"""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from rumi.platform.atomic_write import atomic_write, folder_lock
from rumi.platform.openat import READ, is_ordinary, opened
from rumi.tasks.research.repository.refs import is_oid

MOST_BYTES: Final = 1_000_000_000

_STATE: Final = "state.json"
_PACK_FILE: Final = re.compile(r"pack-(?:[0-9a-f]{40}|[0-9a-f]{64})\.(?:pack|idx|rev)")
_CHUNK: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CloneState:
    """The state of a clone: object format, references by name, and boundary commits.

    The parents of a boundary commit are not in the clone.

    `depth` is the number of commits below each reference; None means the whole history. `filtered` means that
    large files were left out.
    """

    format: str
    refs: Mapping[str, str]
    shallow: Collection[str]
    depth: int | None
    filtered: bool


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A cache entry, open for reading. Its files stay readable even if the entry is removed meanwhile."""

    known: CloneState
    files: Mapping[str, BinaryIO]


class RepositoryCache:
    """A cache of repositories in `folder`, shared by all tasks. It evicts the least recently used entries.

    Every method blocks, and may be called from any thread and any process.
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self.folder = folder
        self._most_bytes = most_bytes

    @contextmanager
    def stored(self, key: str) -> Iterator[CacheEntry | None]:
        """Open an entry for a block, and mark it as used now. Yield None if there is no complete entry."""
        entry = self._entry(key)
        with contextlib.ExitStack() as stack:
            try:
                state = entry / _STATE
                known, sizes = _read(state.read_bytes())
                files = dict[str, BinaryIO]()
                for name, size in sizes.items():
                    file = stack.enter_context(open(os.open(entry / name, READ), "rb"))
                    if not is_ordinary(file.fileno()) or os.fstat(file.fileno()).st_size != size:
                        raise ValueError(name)
                    files[name] = file
                os.utime(state)
                found = CacheEntry(known, files)
            except (OSError, ValueError, KeyError, TypeError):
                found = None
            yield found

    def store(self, key: str, known: CloneState, files: Mapping[str, int]) -> None:
        """Replace an entry's content with `files`, which are open for reading; then evict old entries.

        Files that the entry already has are not copied again. A failure leaves the entry unchanged.

        Raises:
            OSError: The disk cannot be written.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with folder_lock(self.folder):
            entry = self._entry(key)
            entry.mkdir(mode=0o700, exist_ok=True)
            sizes = {name: os.fstat(file).st_size for name, file in files.items()}
            if sum(sizes.values()) > self._most_bytes:
                return
            for name, file in files.items():
                if not _PACK_FILE.fullmatch(name):
                    raise OSError(f"{name!r} is not a file of a pack")
                if not _has(entry / name, sizes[name]):
                    _copy(file, entry / name)
            # Commit point: all files are on the disk. Only then are the old files removed, so a reader never
            # finds a state that names a missing file.
            atomic_write(entry / _STATE, _written(known, sizes))
            for path in entry.iterdir():
                if path.name not in sizes and path.name != _STATE:
                    path.unlink()
            self._evict(entry)

    def _entry(self, key: str) -> Path:
        return self.folder / hashlib.sha256(key.encode()).hexdigest()[:40]

    def _evict(self, in_use: Path) -> None:
        """Remove incomplete entries, and the least recently used ones until the cache fits its limit."""
        entries = list[tuple[float, int, Path]]()
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                with contextlib.suppress(OSError):
                    for draft in path.glob(".*"):  # left by a process that was killed
                        draft.unlink()
                    size = sum(file.stat().st_size for file in path.iterdir())
                    state = path / _STATE
                    entries.append((state.stat().st_mtime if state.exists() else 0, size, path))
        total = sum(size for _, size, _ in entries)
        for used, size, path in sorted(entries):
            if path != in_use and (used == 0 or total > self._most_bytes):
                (path / _STATE).unlink(
                    missing_ok=True
                )  # first: without its state, a leftover is not an entry
                shutil.rmtree(path, ignore_errors=True)
                total -= size


def _read(data: bytes) -> tuple[CloneState, dict[str, int]]:
    state = json.loads(data)
    sizes = {str(name): int(size) for name, size in state["files"].items()}
    refs = {str(name): str(oid) for name, oid in state["refs"].items()}
    shallow = frozenset(map(str, state["shallow"]))
    whole = all(map(_PACK_FILE.fullmatch, sizes)) and all(map(is_oid, (*refs.values(), *shallow)))
    if not whole or not sizes or state["format"] not in ("sha1", "sha256"):
        raise ValueError(_STATE)
    depth = None if state["depth"] is None else int(state["depth"])
    return CloneState(state["format"], refs, shallow, depth, bool(state["filtered"])), sizes


def _written(known: CloneState, sizes: Mapping[str, int]) -> bytes:
    state = {
        "format": known.format,
        "refs": dict(known.refs),
        "shallow": sorted(known.shallow),
        "depth": known.depth,
        "filtered": known.filtered,
        "files": dict(sizes),
    }
    return json.dumps(state).encode()


def _has(path: Path, size: int) -> bool:
    try:
        return path.lstat().st_size == size
    except FileNotFoundError:
        return False


def _copy(file: int, path: Path) -> None:
    """Copy an open file to a temporary name, and rename it to `path` when it is complete."""
    part = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with opened(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)) as copy:
            at = 0
            while data := os.pread(file, _CHUNK, at):
                at += len(data)
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(copy, rest) :]
            os.fsync(copy)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
