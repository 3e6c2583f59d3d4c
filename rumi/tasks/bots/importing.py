"""Import of bots from openbot: this module reads openbot's folders. Blocking.

An openbot folder contains `bots/NAME/` for each bot, with `config.md`, `skills/` and a `memory.json`, which
has the keys `entries` and `history`. The skills in the openbot folder's `skills/` are for all bots.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.platform.openat import shown
from rumi.tasks.bots.config import CONFIG, BotError
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.bots.foreign import ForeignFolder, foreign_folder, why_not

MOST_BYTES: Final = 10_000_000
MOST_ENTRIES: Final = 1_000
MOST_BOTS: Final = 100

_TEXTS: Final = ("summary", "response_summary", "response", "result", "text", "content")
"""Keys under which a history entry may store the text of an iteration."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A bot from another program: its configuration and skills as bytes, and its facts as (key, value).

    `history` contains the summaries of the bot's iterations, oldest first. `fault` is the reason why the bot
    cannot be imported. `problems` describe the parts that were left out.
    """

    name: str
    config: bytes = b""
    skills: tuple[tuple[str, bytes], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    history: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    fault: str = ""


def foreign_bots(folder: Path) -> list[Foreign]:
    """Return the bots in an openbot folder.

    Raises:
        BotError: The folder has no bots, or a bot's memory cannot be read.
    """
    home = folder.expanduser()
    found: list[Foreign] = []
    try:
        with foreign_folder(home) as top:
            for name in top.names("bots"):
                if not name.startswith(".") and (bot := _read(top, name, home)) is not None:
                    found.append(bot)
                if len(found) >= MOST_BOTS:
                    break
    except OSError:
        found = []
    if not found:
        raise BotError(
            "{home} has no bots.", "Name a folder with bots/NAME/config.md, such as ~/.openbot.", home=home
        )
    return found


def take_over_skills(files: BotFiles, folder: Path) -> tuple[list[str], list[str], list[str]]:
    """Copy the skills `NAME.md` that openbot has for all bots into the home.

    Return the names of the copied skills, the names of the skills that already existed, and the problems.
    """
    came: list[str] = []
    there: list[str] = []
    with foreign_folder(folder.expanduser()) as top:
        found, problems = top.skills("skills")
    for path, content in found:
        if "/" not in path:
            (came if files.add_global(path, content) else there).append(path.removesuffix(".md"))
    return came, there, problems


def _read(top: ForeignFolder, name: str, home: Path) -> Foreign | None:
    """Read a bot; return None if its folder has no `config.md`."""
    folder = f"bots/{name}"
    try:
        config = top.read(f"{folder}/{CONFIG}", MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return Foreign(shown(name), fault=f"{CONFIG} cannot be read: {why_not(error)}.")
    memory: object = {}
    try:
        memory = json.loads(top.read(f"{folder}/memory.json", MOST_BYTES))
    except FileNotFoundError:
        pass
    except (OSError, ValueError, RecursionError) as error:
        path = home / folder / "memory.json"
        why = why_not(error) if isinstance(error, OSError) else error
        raise BotError(
            "{path} cannot be read: {why}.", "Repair it, or move it away.", path=path, why=why
        ) from error
    stored = memory if isinstance(memory, dict) else {}
    skills, problems = top.skills(f"{folder}/skills")
    facts, said = _facts(stored.get("entries")), _said(stored.get("history"))
    return Foreign(name, config, tuple(skills), facts, said, tuple(problems))


def _facts(entries: object) -> tuple[tuple[str, str], ...]:
    """Parse facts from a JSON object.

    The object maps keys to values. A list of objects with `key` and `value` is accepted too.
    """
    if isinstance(entries, Mapping):
        pairs = list(entries.items())
    elif isinstance(entries, list):
        pairs = [(entry.get("key"), entry) for entry in entries if isinstance(entry, dict)]
    else:
        return ()
    found = []
    for key, value in pairs[:MOST_ENTRIES]:
        content = value.get("value") if isinstance(value, dict) and "value" in value else value
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        if key:
            found.append((str(key), text))
    return tuple(found)


def _said(history: object) -> tuple[str, ...]:
    """Parse summaries from a list of texts, or of objects that have a text under one of the keys `_TEXTS`."""
    found = []
    for entry in history[-MOST_ENTRIES:] if isinstance(history, list) else ():
        values = [entry] if isinstance(entry, str) else []
        if isinstance(entry, dict):
            values = [entry[key] for key in _TEXTS if isinstance(entry.get(key), str)]
        found += [value.strip() for value in values[:1] if value.strip()]
    return tuple(found)
