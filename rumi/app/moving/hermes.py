"""Reads the home of Hermes Agent: `~/.hermes`.

Written for version 0.19.0. Sessions are in `state.db` (schema 22); earlier versions also wrote one JSON file
or JSON lines for each session into `sessions/`, which are read if the database does not have the session.
"""

import itertools
import json
from collections.abc import Iterator
from typing import Any, Final

from rumi.agent.skills.front_matter import yaml_values
from rumi.agent.skills.messages import SkillError
from rumi.app.moving.databases import ForeignDatabase, foreign_database
from rumi.app.moving.notes import add_fact, add_notes
from rumi.app.moving.reading import HomeReader, instant, listed, mapping, word
from rumi.app.moving.settings import (
    add_model,
    add_people,
    keep_text,
    keys_in,
    leave_keys,
    leave_servers,
    secret_variables,
    section,
    variables,
)
from rumi.app.moving.skills import add_skills
from rumi.app.moving.talks import MOST_SESSIONS, ForeignMessage, add_session, calls_of, plain, said_of
from rumi.app.moving.times import add_schedule, known_zone
from rumi.texts import Text

MOST_MESSAGES: Final = 50_000
MOST_YAML_BYTES: Final = 500_000
MOST_YAML_VALUES: Final = 20_000

_SESSIONS: Final = ("id", "source", "title", "display_name", "started_at", "parent_session_id")
_MESSAGES: Final = ("id", "role", "content", "tool_call_id", "tool_calls", "timestamp", "active")


def read(source: HomeReader) -> None:
    """Add all that the home holds."""
    moved = source.moved
    settings = _yaml(source, "config.yaml")
    found = variables(source.text(".env", "config"))
    moved.zone = known_zone(word(mapping(settings).get("timezone")))
    _settings(source, settings, found)
    known: set[str] = set()
    with foreign_database(source, "state.db", "sessions") as db:
        if db is not None:
            known = _sessions(source, db)
    _older_sessions(source, known)
    for name, key in (("USER.md", "about the user"), ("MEMORY.md", "memory")):
        text = source.text(f"memories/{name}", "memory")
        if "\n§\n" in text or "#" not in text:
            for entry in text.split("\n§\n"):
                if value := " ".join(entry.split()):
                    add_fact(moved, key, value, f"memories/{name}")
        else:
            add_notes(moved, text, f"memories/{name}", key)
    keep_text(moved, "SOUL.md", source.read("SOUL.md", "memory", 200_000))
    add_skills(source, "skills", bundled=_bundled(source))
    for job in listed(mapping(source.data("cron/jobs.json", "schedules")).get("jobs"))[:5000]:
        _job(source, mapping(job))


def _sessions(source: HomeReader, db: ForeignDatabase) -> set[str]:
    """Add the sessions of the database; return their ids."""
    known: set[str] = set()
    rows = list(db.rows("sessions", _SESSIONS, f"ORDER BY started_at LIMIT {MOST_SESSIONS + 1}"))
    for row in rows:
        source.budget.check()
        id = word(row["id"])
        if not id or id in known:
            continue
        known.add(id)
        source.budget.tell(id)
        title = word(row["title"]) or word(row["display_name"])
        add_session(source.moved, id, title, _said(db, id), instant(row["started_at"]))
    return known


def _said(db: ForeignDatabase, session: str) -> Iterator[ForeignMessage]:
    where = f"WHERE session_id = ? ORDER BY id LIMIT {MOST_MESSAGES}"
    for row in db.rows("messages", _MESSAGES, where, (session,)):
        if row["active"] == 0:  # a rewound message
            continue
        role, content = row["role"], row["content"]
        if role not in ("user", "assistant", "tool"):
            continue
        text = content if isinstance(content, str) else ""
        calls: object = None
        if isinstance(row["tool_calls"], str):
            try:
                calls = json.loads(row["tool_calls"])
            except (ValueError, RecursionError):
                calls = None
        # A text with pictures is stored as JSON after a mark.
        if text.startswith("\x00json:"):
            try:
                text = plain(json.loads(text[6:]))
            except (ValueError, RecursionError):
                text = ""
        yield ForeignMessage(
            role, text, instant(row["timestamp"]), calls_of(calls), word(row["tool_call_id"])
        )


def _older_sessions(source: HomeReader, known: set[str]) -> None:
    for name in source.names("sessions"):
        stem, dot, kind = name.rpartition(".")
        id = stem.removeprefix("session_")
        if (
            not dot
            or kind not in ("json", "jsonl")
            or id in known
            or id == "sessions"
            or name.startswith("request_dump")
        ):
            continue
        path = f"sessions/{name}"
        about: dict[str, Any] = {}
        if kind == "jsonl":
            said = [one for line in source.lines(path, "sessions") if (one := said_of(line))]
        else:
            about = mapping(source.data(path, "sessions"))
            messages = itertools.islice(listed(about.get("messages")), MOST_MESSAGES)
            said = [one for line in messages if (one := said_of(mapping(line)))]
        known.add(id)
        if said:
            add_session(source.moved, id, word(about.get("title")), said, instant(about.get("session_start")))


def _bundled(source: HomeReader) -> frozenset[str]:
    """Return the names of the skills that came with Hermes: lines `NAME:DIGEST` of a manifest."""
    lines = source.text("skills/.bundled_manifest", "skills").splitlines()
    return frozenset(line.partition(":")[0].strip() for line in lines[:5000] if line.strip())


def _job(source: HomeReader, job: dict[str, Any]) -> None:
    prompt = job.get("prompt")
    name, id = word(job.get("name")), word(job.get("id"))
    when = mapping(job.get("schedule"))
    minutes = when.get("minutes")
    times = {
        "cron": {"kind": "cron", "expr": when.get("expr"), "tz": when.get("tz") or source.moved.zone},
        "interval": {"kind": "every", "seconds": minutes * 60 if isinstance(minutes, int) else None},
        "once": {"kind": "at", "at": when.get("run_at")},
    }
    if job.get("no_agent") or (job.get("script") and not prompt):
        source.moved.leave("schedules", name or id, Text("it runs a script of the other program"))
        return
    if job.get("script"):
        source.moved.leave("schedules", f"{name or id}: script", Text("the script that ran before it"))
    add_schedule(
        source.moved,
        id or name,
        name,
        prompt if isinstance(prompt, str) else "",
        times.get(word(when.get("kind")), {}),
        began=instant(job.get("next_run_at")) or instant(job.get("created_at")),
    )


def _settings(source: HomeReader, settings: object, found: dict[str, str]) -> None:
    moved = source.moved
    model = mapping(settings).get("model")
    if isinstance(model, str):
        add_model(moved, "", model)
    else:
        about = mapping(model)
        name = word(about.get("default") or about.get("model") or about.get("name"))
        add_model(moved, word(about.get("provider")), name, word(about.get("base_url")))
    add_people(moved, found.get("TELEGRAM_ALLOWED_USERS", ""), "telegram")
    add_people(moved, listed(section(settings, "telegram").get("allowed_users")), "telegram")
    for folder in ("pairing", "platforms/pairing"):
        for name in source.names(folder):
            if name.endswith("-approved.json"):
                users = source.data(f"{folder}/{name}", "people")
                add_people(moved, list(mapping(users)), name.removesuffix("-approved.json"))
    for name, value in found.items():
        channel = name.removesuffix("_ALLOWED_USERS").lower()
        if name.endswith("_ALLOWED_USERS") and channel not in ("telegram", "gateway"):
            add_people(moved, value, channel)
    leave_servers(moved, mapping(settings).get("mcp_servers"))
    leave_keys(moved, secret_variables(found), ".env")
    leave_keys(moved, keys_in(settings), "config.yaml")


def _yaml(source: HomeReader, path: str) -> object:
    """Return the settings in a YAML file; None if there is none or it is damaged."""
    try:
        return yaml_values(source.text(path, "config", MOST_YAML_BYTES), MOST_YAML_VALUES)
    except (SkillError, ValueError, RecursionError):
        source.moved.leave("config", path, Text("it is not valid YAML"))
        return None
