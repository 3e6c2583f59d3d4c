"""A snapshot's manifest lists a workspace's files and folders, and the objects that hold their content."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from rumi.platform.atomic_write import atomic_write
from rumi.sandbox.entries import Entry

Cause: TypeAlias = Literal["", "bytes", "files", "unreadable", "disk", "lost", "applied"]
"""The reason why files cannot be restored; empty if they can."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state of a workspace before a turn. If `owner` is None, the workspace did not exist.

    `tainted` is true if the workspace may contain untrusted content, `cloned` if the objects share disk
    blocks with the workspace's files.
    """

    turn: str
    cause: Cause = ""
    tainted: bool = False
    cloned: bool = False
    owner: tuple[int, int] | None = None
    entries: tuple[Entry, ...] = field(default=())

    @property
    def objects(self) -> frozenset[str]:
        """The names of the objects that the manifest refers to."""
        return frozenset(entry.content for entry in self.entries if entry.kind == "file")

    def write(self, path: Path) -> None:
        """Write the manifest to a file atomically.

        Raises:
            OSError: the file cannot be written.
        """
        # Undecodable bytes of names are lone surrogates, which JSON writes as escapes.
        atomic_write(path, json.dumps(asdict(self), separators=(",", ":")).encode())


def read_manifest(path: Path) -> Manifest | None:
    """Read a manifest from a file; return None if the file is missing or damaged."""
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
