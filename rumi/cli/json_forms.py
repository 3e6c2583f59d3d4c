"""The forms of what commands print with --json. `make docs` writes their schemas; tests check real output.

No command imports this module: it describes the output, and does not make it.
"""

from typing import Any, Final, Literal, NotRequired, TypeAlias

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

Time: TypeAlias = str
"""A time in the format of RFC 3339, in UTC."""

EXACT: Final = ConfigDict(extra="forbid")


@with_config(EXACT)
class ChatRowForm(TypedDict):
    """A chat; `at` is the time of its last message, and `text` its beginning."""

    chat: str
    title: str
    text: str
    at: Time


@with_config(EXACT)
class ToolCallForm(TypedDict):
    """A call that the model has made. `arguments` is JSON, as the model has written it."""

    id: str
    name: str
    arguments: str


@with_config(EXACT)
class EntryForm(TypedDict):
    """An entry of a chat's history."""

    id: int | None
    chat: str
    session: int | None
    time: Time
    turn: str
    role: Literal["user", "assistant", "tool", "system", "session"]
    text: str
    tool_calls: list[ToolCallForm]
    tool_call_id: str | None
    tainted: bool
    undone: bool


@with_config(EXACT)
class FoundEntryForm(EntryForm):
    """An entry that a search has found. `score` is null if it has all the words."""

    score: float | None


@with_config(EXACT)
class FactForm(TypedDict):
    """A fact about an owner."""

    owner: str
    key: str
    value: str
    source: str
    chat: str
    turn: str
    tainted: bool
    created: Time
    updated: Time


@with_config(EXACT)
class FormerFactForm(FactForm):
    """A value of a fact, and when it ended; null if it counts."""

    ended: Time | None


@with_config(EXACT)
class SettingForm(TypedDict):
    """A key of the configuration or a secret. A secret has no value here; `set` says if it has one."""

    key: str
    value: Any
    origin: str | None
    secret: bool
    set: bool


@with_config(EXACT)
class ModelRowForm(TypedDict):
    """A model; the prices are of prompts, replies and cached prompts, null if they are unknown."""

    model: str
    used_as: list[str]
    key: str
    context: int | None
    usd_per_million: list[float | None] | None
    pictures: bool | None


@with_config(EXACT)
class ModelTestForm(TypedDict):
    """The result of a test call."""

    model: str
    ok: bool
    seconds: NotRequired[float]
    error: NotRequired[str]


@with_config(EXACT)
class UsedForm(TypedDict):
    """What model calls have used. A row also has the name that it sums up by."""

    chat: NotRequired[str]
    owner: NotRequired[str]
    person: NotRequired[str]
    model: NotRequired[str]
    tool: NotRequired[str]
    day: NotRequired[str]
    calls: int
    tool_calls: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    usd: float
    unpriced_tokens: int
    estimated_calls: int


Usage = TypedDict(
    "Usage",
    {
        "from": str,
        "to": str,
        "by": str,
        "total": UsedForm,
        "rows": list[UsedForm],
        "budgets": list[dict[str, Any]],
        "prices_of": str,
    },
)
"""The usage from one day to another, and the budgets."""


@with_config(EXACT)
class PersonForm(TypedDict):
    """A person, their rights, and what they used today."""

    name: str
    ids: list[int]
    role: str
    tools: list[str] | None
    schedules: int | None
    bots: int | bool | None
    tokens: int
    usd: float


@with_config(EXACT)
class CheckForm(TypedDict):
    """A check of the doctor: what it found and how to fix it, in words."""

    name: str
    verdict: Literal["ok", "warning", "failed", "skipped"]
    found: str
    fix: str


@with_config(EXACT)
class SkillForm(TypedDict):
    """A skill; `off_because` is null if it is on."""

    name: str
    description: str
    version: str
    source: str
    code: bool
    on: bool
    off_because: str | None


@with_config(EXACT)
class StoreStateForm(TypedDict):
    """The store in use."""

    kind: Literal["sqlite", "postgresql"]
    place: str
    bytes: int
    schemas: dict[str, int]
    workers: list[dict[str, Any]]


@with_config(EXACT)
class DaySummaryForm(TypedDict):
    """A line of `debug logs --summary`: a chat's day. Durations are in seconds."""

    day: str
    chat: str
    turns: int
    tools: int
    failures: int
    tokens: int
    cached_tokens: int
    turns_s: float
    tools_s: float
    longest_s: float


class AuditLineForm(TypedDict):
    """A line of the audit log; each event has further fields. Its chat is called `chat_id`."""

    time: Time
    event: str
    chat_id: str
    turn: str | None
    container_id: str | None
    argv: list[str] | None
    command: str | None
    exit_code: int | None
    duration_ms: int | None
    truncated: bool | None
    stopped_reason: str | None


class EventForm(TypedDict):
    """A line of `chat --json`; each event has further fields."""

    event: str
    chat: str
    turn: str
    time: Time


@with_config(EXACT)
class JudgedForm(TypedDict):
    """A line of `debug fetch --check`."""

    url: str
    allowed: bool
    reason: str
    host: str | None
    addresses: list[str]


class ScheduleForm(TypedDict):
    """A schedule; it has further fields for what it does."""

    id: int
    owner: str
    chat: str
    kind: str
    text: str
    cron: str
    zone: str
    state: str
    next_at: Time | None
    created: Time


class TaskForm(TypedDict):
    """A task; it has further fields of its kind."""

    id: int
    kind: str
    state: str
    question: str
    created: Time


class BotForm(TypedDict):
    """A bot and its session; `bot show` has its configuration too."""

    name: str
    description: str
    problem: str
    state: str | None
    session: int | None
    goal: str | None


class TriggerForm(TypedDict):
    """A trigger, and the events that it has taken; it has further fields."""

    name: str
    chat: str
    path: str
    url: str
    most_per_hour: int
    problem: str


class ServerForm(TypedDict):
    """A server of tools; it has further fields while it runs."""

    name: str
    command: str
    url: str
    marks: list[str]


DOCUMENTS: Final[dict[str, Any]] = {
    "bot list": list[BotForm],
    "bot show": BotForm,
    "chats list": list[ChatRowForm],
    "chats search": list[FoundEntryForm],
    "chats show": list[EntryForm],
    "config get": SettingForm,
    "config people list": list[PersonForm],
    "config show": list[SettingForm],
    "data show": StoreStateForm,
    "doctor": list[CheckForm],
    "mcp list": list[ServerForm],
    "memory history": list[FormerFactForm],
    "memory list": list[FactForm],
    "models list": list[ModelRowForm],
    "models test": list[ModelTestForm],
    "models usage": Usage,
    "schedule add": ScheduleForm,
    "schedule list": list[ScheduleForm],
    "schedule show": ScheduleForm,
    "schedule trigger list": list[TriggerForm],
    "skills info": SkillForm,
    "skills list": list[SkillForm],
    "tasks list": list[TaskForm],
}
"""The commands that print one document with --json: an object for one thing, and an array for a list."""

LINES: Final[dict[str, Any]] = {
    "chat": EventForm,
    "debug fetch --check": JudgedForm,
    "debug logs": AuditLineForm,
    "debug logs --summary": DaySummaryForm,
}
"""The commands that print a line of JSON for each thing, because more may come."""
