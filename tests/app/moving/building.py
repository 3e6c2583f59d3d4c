"""Homes of other assistants for tests; `homes/README.md` says where they come from."""

import json
import os
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

from rumi.app.moving.homes import read_home
from rumi.app.moving.reading import Budget
from rumi.app.moving.records import PARTS, Kind, Part
from rumi.app.moving.report import ImportReport
from rumi.app.moving.writing import HomeWriter, Into
from rumi.memory.actor import open_memory
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from rumi.store.journal.actor import open_journal

HOMES = Path(__file__).parent / "homes"


def home_of(kind: str, to: Path) -> Path:
    """Return a copy of a program's home, with its databases, which are stored here as SQL."""
    home = to / f".{kind}"
    shutil.copytree(HOMES / kind, home)
    for script in home.rglob("*.sql"):
        database = script.with_suffix(".db" if kind == "hermes" else ".sqlite")
        with closing(sqlite3.connect(database)) as db:
            db.executescript(script.read_text())
        script.unlink()
    if (home / "env").exists():
        (home / "env").rename(home / ".env")
    return home


def node(
    id: str, parent: str | None, role: str = "", text: str = "", at: float | None = None, **more: Any
) -> dict[str, Any]:
    """Return a node of ChatGPT's tree of messages; without a role, one without a message."""
    message = None
    if role:
        content = {"content_type": "text", "parts": [text]}
        message = {"id": id, "author": {"role": role}, "create_time": at, "content": content, **more}
    return {"id": id, "message": message, "parent": parent, "children": []}


def conversation(id: str, title: str, *nodes: dict[str, Any], last: str = "") -> dict[str, Any]:
    """Return a conversation of ChatGPT whose current node is the last one, or `last`."""
    found: dict[str, dict[str, Any]] = {one["id"]: one for one in nodes}
    for one in nodes:
        if one["parent"] in found:
            found[one["parent"]]["children"].append(one["id"])
    current = last or nodes[-1]["id"]
    return {
        "id": id,
        "title": title,
        "create_time": 1_700_000_000.0,
        "current_node": current,
        "mapping": found,
    }


BREAD = conversation(
    "c-1",
    "Bread",
    node("root", None),
    node("u1", "root", "user", "How long does bread rise?", 1_700_000_001.0),
    node("a0", "u1", "assistant", "Two hours.", 1_700_000_002.0),
    node("a1", "u1", "assistant", "About one hour.", 1_700_000_003.0),
    node("u2", "a1", "user", "Remember that I bake on Sundays", 1_700_000_010.0),
    node("m1", "u2", "assistant", "User bakes bread on Sundays.", 1_700_000_011.0, recipient="bio"),
    node("a2", "m1", "assistant", "I will remember that.", 1_700_000_012.0),
)

SUM = conversation(
    "c-2",
    "Sum",
    node("u1", None, "user", "Add one and two", 1_700_001_001.0),
    node("c1", "u1", "assistant", "print(1+2)", 1_700_001_002.0, recipient="python"),
    node("t1", "c1", "tool", "3", 1_700_001_003.0),
    node("a1", "t1", "assistant", "The sum is 3.", 1_700_001_004.0),
)


def export(path: Path, *conversations: dict[str, Any], **files: bytes) -> Path:
    """Write a ZIP file as ChatGPT exports it."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(conversations))
        archive.writestr("user.json", json.dumps({"email": "someone@example.com"}))
        for name, content in files.items():
            archive.writestr(name, content)
    return path


async def move_in(
    root: Path,
    kind: Kind,
    path: Path,
    *,
    dry: bool = False,
    people: bool = False,
    parts: tuple[Part, ...] = PARTS,
) -> ImportReport:
    """Import a foreign home into a Rumi home that no process has locked."""
    home = Home(root).make()
    loaded = load_settings(root, os.environ, {})
    moved = read_home(kind, path, Budget())
    async with open_journal(home.state_db) as journal, open_memory(home.memory_db) as memory:
        writer = HomeWriter(Into(home, loaded, journal, memory, "en"), moved, dry=dry)
        report = await writer.move_in(parts, people=people)
        if not dry:
            await writer.save()
    return report


def stored_in(root: Path) -> dict[str, Any]:
    """Return what a home holds after imports, without numbers and times of the storing."""
    home = Home(root)
    messages = "SELECT chat, text, received, session FROM messages ORDER BY chat, id"
    history = "SELECT chat, message, tainted, created FROM history ORDER BY chat, id"
    schedules = "SELECT options, cron, state FROM schedules ORDER BY options"
    facts = "SELECT key, value, tainted, turn FROM facts ORDER BY key, value"
    skills = (path for path in (root / "skills").rglob("*") if path.is_file())
    config = root / "config.toml"
    with closing(sqlite3.connect(home.state_db)) as state, closing(sqlite3.connect(home.memory_db)) as memory:
        return {
            "messages": state.execute(messages).fetchall(),
            "history": state.execute(history).fetchall(),
            "open": state.execute("SELECT count(*) FROM messages WHERE reply IS NULL").fetchone(),
            "schedules": state.execute(schedules).fetchall(),
            "zones": state.execute("SELECT owner, zone FROM zones").fetchall(),
            "facts": memory.execute(facts).fetchall(),
            "skills": sorted((str(path.relative_to(root)), path.read_bytes()) for path in skills),
            "config": config.read_text() if config.exists() else "",
        }
