"""The bots of openbot: reads their folders, so that they can be taken over. Blocking.

The folder has `bots/NAME/config.md`, beside it `skills/` and a `memory.json` with `entries` and `history`,
and `skills/` for all bots.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.bots.config import CONFIG, BotError
from rumi.bots.files import BotFiles

MOST_BYTES: Final = 10_000_000
MOST_ENTRIES: Final = 1_000

_TEXTS: Final = ("summary", "response_summary", "response", "result", "text", "content")
"""Where an entry of a history may have what was said."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A bot of another program: its folder, its facts by key, and what its iterations said, oldest first."""

    name: str
    folder: Path
    facts: tuple[tuple[str, str], ...]
    history: tuple[str, ...]


def foreign_bots(folder: Path) -> list[Foreign]:
    """Return the bots in such a folder.

    Raises:
        BotError: It has none, or a memory cannot be read.
    """
    home = folder.expanduser()
    try:
        found = sorted(each for each in (home / "bots").iterdir() if (each / CONFIG).is_file())
    except OSError:
        found = []
    if not found:
        raise BotError(f"{home} has no bots.", "Name a folder with bots/NAME/config.md, such as ~/.openbot.")
    return [_read(each) for each in found]


def take_over_skills(files: BotFiles, folder: Path) -> tuple[list[str], list[str]]:
    """Copy the flat skills for all bots into the home; return those that came, and those that were there."""
    came: list[str] = []
    there: list[str] = []
    for path in sorted((folder.expanduser() / "skills").glob("*.md")):
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            (came if files.add_global(path.name, path.read_bytes()) else there).append(path.stem)
    return came, there


def _read(folder: Path) -> Foreign:
    path = folder / "memory.json"
    memory: object = {}
    if path.exists():
        try:
            with open(path, encoding="utf-8") as file:
                memory = json.loads(file.read(MOST_BYTES))
        except (OSError, ValueError, RecursionError) as error:
            raise BotError(f"{path} cannot be read: {error}.", "Repair it, or move it away.") from error
    kept = memory if isinstance(memory, dict) else {}
    return Foreign(folder.name, folder, _facts(kept.get("entries")), _said(kept.get("history")))


def _facts(entries: object) -> tuple[tuple[str, str], ...]:
    """Return the facts of an object of values, or of a list of objects with `key` and `value`."""
    if isinstance(entries, Mapping):
        pairs = list(entries.items())
    elif isinstance(entries, list):
        pairs = [(each.get("key"), each) for each in entries if isinstance(each, dict)]
    else:
        return ()
    found = []
    for key, value in pairs[:MOST_ENTRIES]:
        given = value.get("value") if isinstance(value, dict) and "value" in value else value
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        if key:
            found.append((str(key), text))
    return tuple(found)


def _said(history: object) -> tuple[str, ...]:
    """Return the summaries of a list of texts, or of objects with one of the known keys."""
    found = []
    for each in history[-MOST_ENTRIES:] if isinstance(history, list) else ():
        values = [each] if isinstance(each, str) else []
        if isinstance(each, dict):
            values = [each[key] for key in _TEXTS if isinstance(each.get(key), str)]
        found += [value.strip() for value in values[:1] if value.strip()]
    return tuple(found)
