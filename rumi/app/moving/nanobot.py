"""Reads the home of nanobot: `~/.nanobot`, with config.json and a workspace.

Written for version 0.3.5. Sessions are JSON lines in `sessions/WORKSPACE/`, whose names are the keys of the
sessions in base64; versions before 0.2 had them in `workspace/sessions/` or `sessions/`. Jobs are in
`workspace/cron/jobs.json` (earlier: `cron/jobs.json`); jobs that the gateway has not picked up yet are in
`action.jsonl` beside it.
"""

import base64
import binascii
from collections.abc import Iterator
from typing import Any, Final

from rumi.app.moving.notes import add_notes, leave_checks
from rumi.app.moving.reading import HomeReader, instant, listed, mapping, word
from rumi.app.moving.settings import (
    add_model,
    add_people,
    keep_text,
    keys_in,
    leave_keys,
    leave_servers,
    section,
)
from rumi.app.moving.skills import add_skills
from rumi.app.moving.talks import ForeignMessage, add_session, said_of
from rumi.app.moving.times import add_schedule, known_zone, when_of
from rumi.texts import Text

WORKSPACE: Final = "workspace"
_CHANNELS: Final = (
    "telegram",
    "discord",
    "slack",
    "whatsapp",
    "email",
    "matrix",
    "signal",
    "feishu",
    "dingtalk",
    "qq",
)


def read(source: HomeReader) -> None:
    """Add all that the home holds."""
    moved = source.moved
    settings = source.data("config.json", "config")
    defaults = section(settings, "agents", "defaults")
    moved.zone = (
        known_zone(word(defaults.get("timezone"))) if defaults.get("timezoneMode") != "device" else ""
    )
    _settings(source, settings, defaults)
    for path in _session_files(source):
        _session(source, path)
    for path, key in (("memory/MEMORY.md", "memory"), ("MEMORY.md", "memory"), ("USER.md", "about the user")):
        add_notes(moved, source.text(f"{WORKSPACE}/{path}", "memory"), path, key)
    leave_checks(moved, source.text(f"{WORKSPACE}/HEARTBEAT.md", "schedules"), "HEARTBEAT.md")
    for name in source.names(f"{WORKSPACE}/memory"):
        if name.endswith(".md") and name != "MEMORY.md" and not name.startswith("HISTORY"):
            add_notes(moved, source.text(f"{WORKSPACE}/memory/{name}", "memory"), f"memory/{name}", name[:-3])
    for name in ("SOUL.md", "AGENTS.md", "IDENTITY.md", "TOOLS.md"):
        keep_text(moved, name, source.read(f"{WORKSPACE}/{name}", "memory", 200_000))
    add_skills(source, f"{WORKSPACE}/skills")
    _jobs(source)
    leave_files(source)


def leave_files(source: HomeReader) -> None:
    """Note that the files of the workspace stay where they are."""
    own = {"memory", "skills", "cron", "sessions", "prompts", "canvas", "media"}
    others = [
        name for name in source.names(WORKSPACE)
        if not name.startswith(".") and name not in own and not name.endswith((".lock", ".tmp"))
        and not (name.isupper() or name.removesuffix(".md").isupper())
    ]  # fmt: skip
    if others:
        source.moved.leave(
            "config", "workspace", Text("files of the workspace stay where they are"), len(others)
        )


def _session_files(source: HomeReader) -> Iterator[str]:
    for folder in ("sessions", f"{WORKSPACE}/sessions"):
        for name in source.names(folder):
            if name.endswith(".jsonl"):
                yield f"{folder}/{name}"
            elif not name.startswith("."):
                yield from (
                    f"{folder}/{name}/{one}"
                    for one in source.names(f"{folder}/{name}")
                    if one.endswith(".jsonl")
                )


def _session(source: HomeReader, path: str) -> None:
    stem = path.rpartition("/")[2].removesuffix(".jsonl")
    about: dict[str, Any] = {}
    said: list[ForeignMessage] = []
    for line in source.lines(path, "sessions"):
        if line.get("_type") == "metadata":
            about = line
        elif "_type" not in line and (one := said_of(line)) is not None:
            said.append(one)
    key = word(about.get("key")) or _decoded(stem) or stem
    source.budget.tell(key)
    title = word(mapping(about.get("metadata")).get("title"))
    add_session(source.moved, key, title, said, instant(about.get("created_at")))


def _decoded(stem: str) -> str:
    try:
        return base64.urlsafe_b64decode(f"{stem}{'=' * (-len(stem) % 4)}").decode()
    except (binascii.Error, ValueError):
        return ""


def _jobs(source: HomeReader) -> None:
    jobs: dict[str, dict[str, Any]] = {}
    for folder in ("cron", f"{WORKSPACE}/cron"):
        for job in listed(mapping(source.data(f"{folder}/jobs.json", "schedules")).get("jobs"))[:5000]:
            jobs[word(mapping(job).get("id")) or f"job {len(jobs)}"] = mapping(job)
        for action in source.lines(f"{folder}/action.jsonl", "schedules"):
            job = mapping(action.get("params"))
            id = word(job.get("id") or job.get("job_id"))
            if action.get("action") in ("del", "delete", "remove"):
                jobs.pop(id, None)
            elif job.get("schedule"):
                jobs[id or f"job {len(jobs)}"] = job
    for id, job in jobs.items():
        payload = mapping(job.get("payload"))
        name = word(job.get("name"))
        if payload.get("kind") == "system_event" or id in ("heartbeat", "dream"):
            source.moved.leave("schedules", name or id, Text("the other program's own work"))
            continue
        message = payload.get("message")
        add_schedule(
            source.moved,
            word(job.get("id")) or word(job.get("job_id")) or name,
            name,
            message if isinstance(message, str) else "",
            when_of(job.get("schedule")),
            began=instant(job.get("createdAtMs") or job.get("created_at_ms")),
        )


def _settings(source: HomeReader, settings: object, defaults: dict[str, Any]) -> None:
    moved = source.moved
    model, provider = word(defaults.get("model")), word(defaults.get("provider"))
    url = word(section(settings, "providers", provider).get("apiBase"))
    add_model(moved, provider, model, url)
    for channel in _CHANNELS:
        add_people(moved, section(settings, "channels", channel).get("allowFrom"), channel)
    approved = mapping(source.data("pairing.json", "people")).get("approved")
    for channel, users in mapping(approved).items():
        add_people(moved, list(users) if isinstance(users, dict | list) else (), word(channel))
    leave_servers(moved, section(settings, "tools").get("mcpServers"))
    leave_keys(moved, keys_in(settings), "config.json")
