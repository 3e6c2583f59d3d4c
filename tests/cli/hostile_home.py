"""A home in which every text that a command could print has what a terminal would obey."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import trio

from rumi.app.app import open_app
from rumi.memory.messages import Fact
from rumi.memory.rows import remember_fact
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home
from rumi.platform.threads import Threads
from rumi.sandbox.project.tree import ProjectLimits
from rumi.store.journal.records import IterationRecord, TaskRecord
from rumi.store.journal.tasks import add_task, end_iteration, end_task
from rumi.tasks.bots.files import BotFiles
from rumi.tasks.research.sources import Sources
from tests.chats.house import reply_to
from tests.conftest import ROOT
from tests.fakes.containers import FakeEngine

EVIL = (
    "evil \x1b[31mred\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x1b\\ \x9b31m \x9d0;c1\x9c \x08\x7f\x05"
    " \u202egnp.exe\u202c \u2066isolate\u2069 \u200f\u061c\ufeff end"
)
"""Colours, a cleared screen, titles, the clipboard, C1, backspace, DEL, and what turns the direction."""

CONFIG = f"""
[model]
default = "offline"

[people.ann]
telegram = [11]
role = "admin"

[mcp.own]
command = "python3"
sandbox = false
args = ["{ROOT}/tests/cli/hostile_server.py", {json.dumps(EVIL)}]

[mcp.gone]
command = {json.dumps("none " + EVIL.replace(chr(0x1B) + chr(92), ""))}
sandbox = false

[triggers.evil]
prompt = {json.dumps(EVIL)}
secret = "!echo secret-secret-secret"
"""

WRONG = f'[model]\ndefault = "offline"\n[mcp.gone]\nurl = {json.dumps("http://127.0.0.1:9/" + EVIL)}\n'
"""Settings that are refused, with their values."""


def plant(home: Path) -> None:
    """Make the home, with rows and files of each kind."""
    made = Home(home).make()
    trio.run(_rows, made)
    _spoil(made)
    (home / "config.toml").write_text(CONFIG)
    _files(home)


async def _rows(home: Home) -> None:
    loaded = load_settings(home.root, {}, {"model.default": "offline"})
    async with open_app(home, loaded, FakeEngine()) as app:
        for text in ("remember city = Xanadu", "/remind in 20 minutes water it", "what is Xanadu"):
            with app.services.hub.listening("cli") as events:
                await reply_to(events, await app.inbox.accept("cli", text, "en"))
        memory, ask = app.services.context.memory, app.services.journal.ask
        assert memory is not None
        await memory(remember_fact("bot.tidy", Fact("colour", "blue")))
        report = json.dumps(
            {"sources": [{"number": 1, "address": EVIL, "title": EVIL}], "unverified": [EVIL]}
        )
        for kind, bot in (("web", ""), ("bot", "tidy")):
            task = await ask(add_task(TaskRecord(kind, "local", "why?", attached=True, bot=bot)))
            if bot:
                await ask(end_iteration(task.id, IterationRecord(1, "complete", "done"), 0.0))
            await ask(end_task(task.id, "succeeded" if bot else "failed", "so", report))
    sources = await Sources.open(home.tasks / "1", Threads())
    await sources.add("page", "https://example.org/", "A page", "words")


def _spoil(home: Home) -> None:
    """Write the words into the databases as they are: what is stored may be older than what cleans it."""
    texts = {
        "state.db": {
            "messages": ("text",),
            "tasks": ("question", "answer", "model"),
            "iterations": ("summary",),
            "schedules": ("text", "zone"),
            "usage": ("model", "tool"),
        },
        "memory.db": {"facts": ("key", "value")},
    }
    for file, tables in texts.items():
        with closing(sqlite3.connect(home.root / file)) as db, db:
            if file == "state.db":  # the calls of the demo are not counted, so there is no row yet
                db.execute(
                    "INSERT INTO usage (day, owner, chat, task, bot, model, tool, calls, tool_calls, prompt, "
                    "completion, cached, nano, unpriced, estimated, created) "
                    "VALUES (date('now'), 'local', 'cli', 0, '', 'm', 'bash', 1, 1, 9, 9, 0, 0, 18, 0, 0)"
                )
            for table, columns in tables.items():
                for column in columns:
                    db.execute(f"UPDATE {table} SET {column} = {column} || ?", (EVIL,))
            if file == "state.db":
                db.execute("INSERT OR REPLACE INTO titles (chat, title) VALUES ('cli', ?)", (EVIL,))
                for id, message in db.execute("SELECT id, message FROM history").fetchall():
                    said = json.loads(message)
                    said["content"] += EVIL
                    said["tool_calls"] = [{"id": "c1", "name": EVIL, "arguments": EVIL}]
                    db.execute("UPDATE history SET message = ? WHERE id = ?", (json.dumps(said), id))


def _files(home: Path) -> None:
    quoted = json.dumps(EVIL)
    for path in (home / "skills" / "evil", home / "bots" / "tidy" / "skills" / "evil"):
        path.mkdir(parents=True, exist_ok=True)
        (path / "SKILL.md").write_text(
            f"---\nname: evil\ndescription: {quoted}\nversion: {quoted}\n---\n{EVIL}"
        )
        (path / EVIL).write_text(EVIL)
    broken = home / "skills" / "broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text(f"---\nname: {quoted}\ndescription: x\n---\n")
    bot = home / "bots" / "tidy"
    (bot / "config.md").write_text(f"+++\ndescription = {quoted}\nmax_iterations = 1\n+++\n{EVIL}\n")
    (home / "bots" / "wrong").mkdir()
    (home / "bots" / "wrong" / "config.md").write_text(f"+++\n{quoted} = 1\n+++\n")
    _project(home)
    recordings = home / "recordings" / "cli"
    recordings.mkdir(parents=True, exist_ok=True)
    lines = (ROOT / "tests" / "recordings" / "three-calls.jsonl").read_text().splitlines()
    head, *others = map(json.loads, lines)
    head["instructions"] += EVIL
    text = json.dumps([head, *others]).replace("with [hidden]", quoted[1:-1])
    spoilt = [json.dumps(item) for item in json.loads(text)]
    (recordings / "t1.jsonl").write_text("\n".join(spoilt) + "\n")
    entry = {"time": "2026-11-20T10:00:00.000Z", "chat_id": EVIL, "turn": EVIL, "ok": False, "command": EVIL}
    kinds = ("command", "tool", "refused", "turn_started", "turn_finished", "confirm", "confirmed", "waiting",
             "crashed", "storage", "model_call", "replied", EVIL)  # fmt: skip
    more = {"tool": EVIL, "stopped_reason": EVIL, "text": EVIL, "verdict": EVIL, "why": EVIL, "actor": EVIL,
            "error": EVIL, "trouble": EVIL, "model": EVIL}  # fmt: skip
    with (home / "logs" / "audit.jsonl").open("a") as log:
        for kind in kinds:
            log.write(json.dumps({**entry, "event": kind, **more}) + "\n")
    _another_assistant(home.parent / "hermes")
    foreign = home.parent / "foreign" / "bots" / "other"
    foreign.mkdir(parents=True)
    (foreign / "config.md").write_text(f"+++\nmodel = {quoted}\n{quoted} = 2\n+++\n{EVIL}\n")


def _another_assistant(home: Path) -> None:
    """Make a home of Hermes, to be imported."""
    quoted, skill = json.dumps(EVIL), home / "skills" / "foreign" / EVIL.replace("/", "")
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: foreign\ndescription: {quoted}\n---\n{EVIL}")
    (home / "config.yaml").write_text(
        json.dumps({"model": EVIL, "timezone": EVIL, "mcp_servers": {EVIL: {"command": EVIL}}})
    )
    (home / ".env").write_text(f"TELEGRAM_ALLOWED_USERS={EVIL}\n{EVIL}_TOKEN=1\n", errors="replace")
    (home / "memories").mkdir()
    (home / "memories" / "USER.md").write_text(f"{EVIL}\n§\nkey: {EVIL}")
    times = [{"kind": kind, "expr": EVIL, "minutes": 60} for kind in ("cron", "interval", EVIL)]
    jobs = [{"id": EVIL, "name": f"{EVIL}{n}", "prompt": EVIL, "schedule": at} for n, at in enumerate(times)]
    (home / "cron").mkdir()
    (home / "cron" / "jobs.json").write_text(json.dumps({"jobs": jobs}))
    said = {"session_start": EVIL, "title": EVIL, "messages": [
        {"role": "user", "content": EVIL},
        {"role": "assistant", "tool_calls": [{"id": EVIL, "function": {"name": EVIL, "arguments": EVIL}}]},
    ]}  # fmt: skip
    (home / "sessions").mkdir()
    (home / "sessions" / "evil.json").write_text(json.dumps(said))


def _project(home: Path) -> None:
    """Give the bot a folder, in which it has changed a file."""
    folder = home.parent / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    project = BotFiles(home).project("tidy")
    link = project.take(folder, ProjectLimits(10**7, 1000), plain=True, discard=False)
    shutil.copytree(project.base(link), home / "workspace" / "bot.tidy" / "project", dirs_exist_ok=True)
    project.made(link)
    changed = home / "workspace" / "bot.tidy" / "project"
    (changed / "a.txt").write_text(f"one\n{EVIL}\n")
    (changed / EVIL.replace("/", "")).write_text("new\n")
