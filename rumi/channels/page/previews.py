"""Previews of a chat's files: the beginning of a text, the rows of a table, or what a browser can show."""

import csv
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rumi.platform.file_kinds import HEAD_BYTES, picture_type
from rumi.platform.openat import opened
from rumi.platform.text_decoding import decode
from rumi.sandbox.workspace import WorkspaceError, kind_beneath, listing, open_beneath

MOST_TEXT_BYTES: Final = 200_000
"""Maximum size of the beginning of a text that is shown, in bytes."""

MOST_ROWS: Final = 500
MOST_COLUMNS: Final = 50
MOST_CELL_CHARS: Final = 500

_TABLES: Final = {".csv": ",", ".tsv": "\t"}
_DELIMITERS: Final = ",;\t|"


class ChatPlace:
    """The files of a chat, where names that a message mentions are looked up. Follows no link."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def kind(self, name: str) -> int:
        """Return the kind of an entry; 0 if there is none."""
        found = kind_beneath(self._workspace, name.rstrip("/"))
        return found if stat.S_ISREG(found) or stat.S_ISDIR(found) else 0

    def entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Yield the names in a folder."""
        try:
            found, _ = listing(self._workspace, folder.rstrip("/"))
        except WorkspaceError:
            return
        yield from ((entry.name, not entry.folder) for entry in found)

    def short(self, path: str) -> str:
        """Return the path: the chat's files are its working folder."""
        return path


def preview(workspace: Path, path: str) -> Mapping[str, Any]:
    """Return how a file can be shown: `kind` is picture, pdf, table, json, text or other.

    Text is decoded, and cut at `MOST_TEXT_BYTES`; a table has at most `MOST_ROWS` rows.

    Raises:
        WorkspaceError: There is no such file.
    """
    with opened(open_beneath(workspace, path)) as file:
        size, body = os.fstat(file).st_size, os.pread(file, MOST_TEXT_BYTES, 0)
    about: dict[str, Any] = {"size": size, "kind": "other", "cut": size > len(body)}
    head, ending = body[:HEAD_BYTES], os.path.splitext(path)[1].lower()
    if picture_type(head) or (ending == ".svg" and b"<svg" in head):
        return about | {"kind": "picture"}
    if head.startswith(b"%PDF-"):
        return about | {"kind": "pdf"}
    text = decode(body)
    if "\0" in text:
        return about
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if ending in _TABLES:
        rows, cut = _table(text, _TABLES[ending])
        return about | {"kind": "table", "rows": rows, "cut": about["cut"] or cut}
    if ending == ".json" and not about["cut"] and (pretty := _pretty(text)):
        return about | {"kind": "json", "text": pretty}
    return about | {"kind": "text", "text": text}


def _table(text: str, delimiter: str) -> tuple[list[list[str]], bool]:
    """Return the rows of a table, and whether some were left out."""
    first = text.partition("\n")[0]
    if delimiter == ",":
        delimiter = max(_DELIMITERS, key=first.count)
    rows, cut = list[list[str]](), False
    try:
        for row in islice(csv.reader(io.StringIO(text), delimiter=delimiter), MOST_ROWS + 1):
            cut = cut or len(row) > MOST_COLUMNS
            rows.append([cell[:MOST_CELL_CHARS] for cell in row[:MOST_COLUMNS]])
    except csv.Error:
        cut = True
    return rows[:MOST_ROWS], cut or len(rows) > MOST_ROWS


def _pretty(text: str) -> str:
    """Return a JSON text with its values on lines of their own; empty if it is not JSON or grows too much."""
    try:
        pretty = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return ""
    return pretty if len(pretty) <= 2 * MOST_TEXT_BYTES else ""
