"""Reads the home of OpenClaw: `~/.openclaw` (earlier `~/.clawdbot` and `~/.moltbot`).

Written for the documented formats of 2026. Sessions are JSON lines in `agents/ID/sessions/`, or since
2026.8 rows in `agents/ID/agent/openclaw-agent.sqlite`; jobs are in `cron/jobs.json`, or rows in
`state/openclaw.sqlite`.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from rumi.app.moving.databases import foreign_database
from rumi.app.moving.nanobot import leave_files
from rumi.app.moving.notes import add_notes, leave_checks
from rumi.app.moving.reading import MOST_LINE_BYTES, HomeReader, instant, listed, mapping, word
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
from rumi.app.moving.talks import MOST_CALLS, MOST_SESSIONS, ForeignMessage, add_session, plain
from rumi.app.moving.times import add_schedule, known_zone, when_of
from rumi.texts import Text

CONFIGS: Final = ("openclaw.json", "clawdbot.json", "moltbot.json")
MOST_EVENTS: Final = 200_000
MOST_DAILY: Final = 400
_JOBS: Final = (
    "job_id", "name", "display_name", "enabled", "created_at_ms", "schedule_kind", "schedule_expr",
    "schedule_tz", "every_ms", "at", "payload_kind", "payload_message", "trigger_script",
)  # fmt: skip


def read(source: HomeReader) -> None:
    """Add all that the home holds."""
    moved = source.moved
    settings: object = None
    for name in CONFIGS:
        settings = settings or source.data(name, "config")
    defaults = section(settings, "agents", "defaults")
    moved.zone = known_zone(word(defaults.get("userTimezone")))
    _settings(source, settings, defaults)
    for agent in source.names("agents"):
        _sessions(source, agent)
    workspaces = [name for name in source.names() if name == "workspace" or name.startswith("workspace-")]
    for workspace in workspaces:
        _workspace(source, workspace)
    outside = word(defaults.get("workspace"))
    if outside and not workspaces:
        moved.leave("memory", "workspace", Text("the workspace is elsewhere, at {path}", path=outside[:200]))
    add_skills(source, "skills")
    _jobs(source)
    leave_files(source)
    if "credentials" in source.names():
        moved.leave("config", "credentials", Text("logins of channels are not copied"))


def _workspace(source: HomeReader, folder: str) -> None:
    moved = source.moved
    for name, key in (("MEMORY.md", "memory"), ("memory.md", "memory"), ("USER.md", "about the user")):
        add_notes(moved, source.text(f"{folder}/{name}", "memory"), name, key)
    daily = [name for name in source.names(f"{folder}/memory") if name.endswith(".md")]
    for name in sorted(daily, reverse=True)[:MOST_DAILY]:
        add_notes(moved, source.text(f"{folder}/memory/{name}", "memory"), f"memory/{name}", name[:-3])
    if len(daily) > MOST_DAILY:
        moved.leave(
            "memory", "memory", Text("daily notes beyond {most}", most=MOST_DAILY), len(daily) - MOST_DAILY
        )
    for name in ("SOUL.md", "AGENTS.md", "IDENTITY.md", "TOOLS.md"):
        keep_text(
            moved,
            name if folder == "workspace" else f"{folder}-{name}",
            source.read(f"{folder}/{name}", "memory", 200_000),
        )
    leave_checks(moved, source.text(f"{folder}/HEARTBEAT.md", "schedules"), "HEARTBEAT.md")
    add_skills(source, f"{folder}/skills")


def _sessions(source: HomeReader, agent: str) -> None:
    folder = f"agents/{agent}/sessions"
    index = mapping(source.data(f"{folder}/sessions.json", "sessions"))
    titles: dict[str, str] = {}
    for key, entry in index.items():
        about = mapping(entry)
        titles[word(about.get("sessionId"))] = word(
            about.get("displayName") or about.get("subject") or about.get("label") or key
        )
    known: set[str] = set()
    with foreign_database(source, f"agents/{agent}/agent/openclaw-agent.sqlite", "sessions") as db:
        if db is not None:
            ids = dict.fromkeys(
                word(row["session_id"])
                for row in db.rows(
                    "transcript_events", ("session_id",), f"GROUP BY session_id LIMIT {MOST_SESSIONS}"
                )
            )
            keys = db.rows("session_windows", ("session_id", "session_key"), f"LIMIT {MOST_SESSIONS}")
            titles |= {word(row["session_id"]): word(row["session_key"]) for row in keys}
            for id in ids:
                known.add(id)
                source.budget.tell(id)
                where = f"WHERE session_id = ? ORDER BY seq LIMIT {MOST_EVENTS}"
                rows = db.rows("transcript_events", ("event_json", "event_zstd"), where, (id,))
                _session(source, id, titles.get(id, ""), _events(source, id, rows))
    for name in source.names(folder):
        id = name.removesuffix(".jsonl").partition("-topic-")[0]
        if name.endswith(".jsonl") and id not in known:
            source.budget.tell(name)
            _session(
                source,
                name.removesuffix(".jsonl"),
                titles.get(id, ""),
                source.lines(f"{folder}/{name}", "sessions"),
            )


def _events(source: HomeReader, id: str, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        text = row["event_json"]
        if not isinstance(text, str) or not text or len(text) > MOST_LINE_BYTES:
            source.moved.leave("sessions", id, Text("messages that are too long or compressed"))
            continue
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            source.moved.leave("sessions", id, Text("lines that are not valid JSON"))
            continue
        if isinstance(event, dict):
            yield event


def _session(source: HomeReader, id: str, title: str, events: Iterable[dict[str, Any]]) -> None:
    began, said = 0.0, list[ForeignMessage]()
    for event in events:
        kind = event.get("type")
        at = instant(event.get("timestamp"))
        if kind == "session":
            began, id = at, word(event.get("id")) or id
        elif kind == "message" and (one := _said(mapping(event.get("message")), at)) is not None:
            said.append(one)
    # A title such as agent:main:main says nothing; the first words of the person do.
    add_session(source.moved, id, "" if title.startswith("agent:") else title, said, began)


def _said(message: dict[str, Any], at: float) -> ForeignMessage | None:
    role, content = message.get("role"), message.get("content")
    at = at or instant(message.get("timestamp"))
    if role == "toolResult" or role == "tool":
        return ForeignMessage(
            "tool", plain(content), at, answers=word(message.get("toolCallId") or message.get("tool_call_id"))
        )
    if role == "user":
        return ForeignMessage("user", plain(content), at)
    if role != "assistant":
        return None
    calls: list[tuple[str, str, str]] = []
    for part in listed(content)[:1000]:
        if mapping(part).get("type") in ("toolCall", "tool_use") and len(calls) < MOST_CALLS:
            arguments = part.get("arguments", part.get("input"))
            try:
                text = (
                    arguments
                    if isinstance(arguments, str)
                    else json.dumps(arguments or {}, ensure_ascii=False)
                )
            except (ValueError, RecursionError):
                text = "{}"
            calls.append((word(part.get("id")), word(part.get("name")), text))
    return ForeignMessage("assistant", plain(content), at, tuple(calls))


def _jobs(source: HomeReader) -> None:
    for job in listed(mapping(source.data("cron/jobs.json", "schedules")).get("jobs"))[:5000]:
        about, payload = mapping(job), mapping(mapping(job).get("payload"))
        _job(
            source,
            about,
            when_of(about.get("schedule")),
            payload.get("kind"),
            payload.get("message") or payload.get("text"),
        )
    with foreign_database(source, "state/openclaw.sqlite", "schedules") as db:
        for row in db.rows("cron_jobs", _JOBS, "LIMIT 5000") if db is not None else ():
            times = {
                "kind": row["schedule_kind"], "expr": row["schedule_expr"], "tz": row["schedule_tz"],
                "everyMs": row["every_ms"], "at": row["at"],
            }  # fmt: skip
            about = {
                "id": row["job_id"],
                "name": row["display_name"] or row["name"],
                "createdAtMs": row["created_at_ms"],
            }
            _job(source, about, when_of(times), row["payload_kind"], row["payload_message"])


def _job(source: HomeReader, job: dict[str, Any], when: dict[str, Any], kind: object, text: object) -> None:
    id, name = word(job.get("id") or job.get("jobId")), word(job.get("name"))
    if id and any(one.id == id for one in source.moved.schedules):
        return
    if kind not in ("agentTurn", "systemEvent"):
        source.moved.leave("schedules", name or id, Text("it runs a script of the other program"))
        return
    add_schedule(
        source.moved,
        id or name,
        name,
        text if isinstance(text, str) else "",
        when,
        action="text" if kind == "systemEvent" else "turn",
        began=instant(job.get("createdAtMs")),
    )


def _settings(source: HomeReader, settings: object, defaults: dict[str, Any]) -> None:
    moved = source.moved
    model = defaults.get("model", section(settings, "agent").get("model"))
    add_model(moved, "", word(model) or word(mapping(model).get("primary")))
    for channel, about in list((section(settings, "channels") or mapping(settings)).items())[:50]:
        if channel in ("telegram", "whatsapp", "discord", "slack", "signal", "imessage", "msteams", "matrix"):
            add_people(moved, mapping(about).get("allowFrom"), channel)
    for name in source.names("credentials"):
        if name.endswith("-allowFrom.json"):
            stored = source.data(f"credentials/{name}", "people")
            add_people(moved, mapping(stored).get("allowFrom", stored), name.split("-")[0])
    leave_servers(moved, section(settings, "mcp").get("servers") or section(settings, "mcpServers"))
    leave_keys(moved, keys_in(settings), "openclaw.json")
    leave_keys(moved, secret_variables(variables(source.text(".env", "config"))), ".env")
