"""What a snapshot holds: each entry of a workspace, and where its content is kept."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from rumi.platform.atomic_write import atomic_write
from rumi.sandbox.entries import Entry

Cause: TypeAlias = Literal["", "bytes", "files", "unreadable", "disk", "lost"]
"""Why files cannot be restored; empty: they can."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A workspace before a turn. Without an `owner` it did not exist. `tainted`: something in it came from
    outside. `cloned`: its objects share blocks with the files.
    """

    turn: str
    cause: Cause = ""
    tainted: bool = False
    cloned: bool = False
    owner: tuple[int, int] | None = None
    entries: tuple[Entry, ...] = field(default=())

    @property
    def objects(self) -> frozenset[str]:
        """Return the names of the objects that it needs."""
        return frozenset(entry.content for entry in self.entries if entry.kind == "file")

    def write(self, path: Path) -> None:
        """Write it to a file, completely or not at all. Raises OSError."""
        # Undecodable bytes of names are half surrogates, which JSON writes as escapes.
        atomic_write(path, json.dumps(asdict(self), separators=(",", ":")).encode())


def read_manifest(path: Path) -> Manifest | None:
    """Return the manifest in a file; None where it is missing or damaged."""
    try:
        fields: Mapping[str, object] = json.loads(path.read_bytes())
        return _manifest(dict(fields))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _manifest(fields: dict[str, object]) -> Manifest:
    owner, entries = fields.pop("owner"), fields.pop("entries")
    assert isinstance(entries, list)
    read = (Entry(**{**entry, "key": tuple(entry["key"])}) for entry in entries)
    pair = (int(owner[0]), int(owner[1])) if isinstance(owner, list) else None
    return Manifest(**fields, owner=pair, entries=tuple(read))  # type: ignore[arg-type]
