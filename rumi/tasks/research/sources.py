"""The numbered sources of a research task, stored in files that survive a restart.

Only the program writes these files, never the sandbox. So answers are checked against the texts that the
model really read.
"""

import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import trio

from rumi.errors import RumiError, UsageError
from rumi.platform.atomic_write import atomic_write
from rumi.platform.threads import Offload, Threads
from rumi.platform.untrusted_text import harmless, one_line
from rumi.sandbox.workspace import WorkspaceError
from rumi.texts import os_error

logger = logging.getLogger(__name__)

Kind: TypeAlias = Literal["page", "file", "commit"]

MOST_SOURCES: Final = 200
MOST_BYTES: Final = 32 * 1024 * 1024
MOST_NOTES: Final = 50
NOTE_CHARS: Final = 4000

_TITLE_CHARS: Final = 300
_NAME: Final = re.compile(r"([1-9]\d{0,5})\.json")
_NOTES: Final = "notes.json"


class SourcesFull(RumiError):
    """The research has reached its limit on sources or on bytes."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source: `address` is the final URL of a page, the path of a file, or the id of a commit.

    `read_at` is a UTC time in ISO 8601. `sha256` and `bytes` describe the stored text, encoded as UTF-8.
    """

    number: int
    kind: Kind
    address: str
    title: str
    read_at: str
    sha256: str
    bytes: int

    @property
    def file(self) -> str:
        """Return the workspace path of the page. Only a page too long for the prompt is stored there."""
        return f"pages/{self.number}.md"

    def to_json(self) -> dict[str, Any]:
        """Return the source as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SourceText:
    """A source with its text."""

    source: Source
    text: str


class Sources:
    """The sources and notes of one research task, stored in `folder`.

    Only one process at a time may use the folder.
    """

    def __init__(self, folder: Path, offload: Offload, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._offload = offload
        self._clock = clock
        self._lock = trio.Lock()
        self._by_number: dict[int, Source] = {}
        self._by_text: dict[tuple[str, str], Source] = {}
        self._last = 0
        self._bytes = 0
        self._notes: list[str] = []

    @classmethod
    async def open(
        cls, folder: Path, offload: Offload | None = None, clock: Callable[[], float] = time.time
    ) -> "Sources":
        """Open a folder and read the stored sources; create the folder if it is missing.

        Damaged sources are left out, and their numbers are not used again.

        Raises:
            RumiError: The folder cannot be used.
        """
        sources = cls(folder, offload or Threads(), clock)
        await sources._offload(sources._open)
        return sources

    @property
    def all(self) -> tuple[Source, ...]:
        """Return the sources sorted by number."""
        return tuple(self._by_number[number] for number in sorted(self._by_number))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes, oldest first."""
        return tuple(self._notes)

    @property
    def full(self) -> bool:
        """Return True if the limit of sources or bytes is reached."""
        return len(self._by_number) >= MOST_SOURCES or self._bytes >= MOST_BYTES

    async def add(self, kind: Kind, address: str, title: str, text: str) -> Source:
        """Store a text as a source; return the source with its number.

        If a source with this address and text already exists, it is returned. When this returns, the source
        is on the disk. The text is stored as models read it, see `harmless`.

        Raises:
            SourcesFull: There are `MOST_SOURCES` sources, or `MOST_BYTES` of text.
            RumiError: The source cannot be written.
        """

        def cleaned() -> tuple[bytes, str]:
            content = harmless(text).encode("utf-8", "replace")
            return content, sha256(content).hexdigest()

        content, digest = await self._offload(cleaned)  # a megabyte takes a tenth of a second
        address, title = one_line(address), one_line(title, _TITLE_CHARS)
        # Pages are fetched concurrently: without the lock two of them would get the same number.
        async with self._lock:
            known = self._by_text.get((address, digest))
            if known is not None:
                return known
            if self.full or self._bytes + len(content) > MOST_BYTES:
                raise SourcesFull(
                    "This research has read {count} sources and {size} bytes, and may read no more.",
                    "Answer with what was read.",
                    count=len(self._by_number),
                    size=self._bytes,
                )
            now = datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds")
            source = Source(self._last + 1, kind, address, title, now, digest, len(content))
            # Written before it is taken: a number that the model sees must survive a restart.
            await self._write(f"{source.number}.json", {**source.to_json(), "text": content.decode()})
            self._take(source)
            return source

    def get(self, number: int) -> Source | None:
        """Return the source with this number, or None."""
        return self._by_number.get(number)

    async def text(self, number: int) -> str:
        """Return the text of a source.

        Raises:
            UsageError: The source does not exist, or its file is damaged.
        """
        source = self._by_number.get(number)
        found = None if source is None else await self._offload(partial(_read, self._path(number)))
        if found is None or found.source != source:
            raise UsageError(
                "There is no source {number}.", "The list of sources has their numbers.", number=number
            )
        return found.text

    async def texts(self) -> tuple[SourceText, ...]:
        """Return all sources with their texts, sorted by number, without damaged sources."""

        def read_all() -> tuple[SourceText, ...]:
            found = (_read(self._path(source.number)) for source in self.all)
            return tuple(text for text in found if text is not None)

        return await self._offload(read_all)

    async def note(self, text: str) -> bool:
        """Store a note on the disk; return False if the research already has `MOST_NOTES` notes.

        Raises:
            RumiError: The note cannot be written.
        """
        async with self._lock:
            if len(self._notes) >= MOST_NOTES:
                return False
            notes = [*self._notes, harmless(text)[:NOTE_CHARS].encode("utf-8", "replace").decode()]
            await self._write(_NOTES, notes)
            self._notes = notes
            return True

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.json"

    def _take(self, source: Source) -> None:
        self._by_number[source.number] = source
        self._by_text[source.address, source.sha256] = source
        self._last = max(self._last, source.number)
        self._bytes += source.bytes

    async def _write(self, name: str, value: object) -> None:
        content = json.dumps(value, ensure_ascii=False).encode()
        try:
            await self._offload(partial(atomic_write, self._folder / name, content))
        except OSError as error:
            raise WorkspaceError(
                "What was read cannot be stored: {reason}.", "Free disk space.", reason=os_error(error)
            ) from error

    def _open(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            names = sorted(path.name for path in self._folder.iterdir())
        except OSError as error:
            raise WorkspaceError(
                "The folder {folder} cannot be used: {reason}.",
                folder=self._folder,
                reason=os_error(error),
            ) from error
        for name in names:
            match = _NAME.fullmatch(name)
            if match is not None:
                self._last = max(self._last, int(match[1]))
                found = _read(self._folder / name)
                if found is None or found.source.number != int(match[1]):
                    logger.warning("%s is damaged and left out", self._folder / name)
                else:
                    self._take(found.source)
            elif name.startswith("."):  # a temporary file of a killed process
                (self._folder / name).unlink(missing_ok=True)
        try:
            notes = json.loads((self._folder / _NOTES).read_bytes())
        except (OSError, ValueError):
            notes = []
        self._notes = [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def _read(path: Path) -> SourceText | None:
    """Read a source with its text; return None if the file is missing or damaged."""
    try:
        stored = json.loads(path.read_bytes())
        text = stored.pop("text")
        source = Source(**stored)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    # A file that was truncated or edited must not confirm a quotation.
    if not isinstance(text, str) or sha256(text.encode()).hexdigest() != source.sha256:
        return None
    return SourceText(source, text)
