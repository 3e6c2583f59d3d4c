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
    """A chat; `at` is the time of its last message, `number` its number, and `text` what was said last.

    `by` says by whom. An `automatic` title was made by the program. `unread` counts replies that nobody has
    received, and `waiting` calls that wait for a yes. `session` is the number of the current session.
    """

    chat: str
    title: str
    automatic: bool
    pinned: bool
    archived: bool
    at: Time
    number: int
    text: str
    by: Literal["you", "assistant", ""]
    unread: int
    session: int
    waiting: int
    state: Literal["works", "asks", "idle"]


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
    spent: "SpentForm"
    created: Time


class SessionOfBotForm(TaskForm):
    """A session of a bot, with its iterations."""

    iterations: list["IterationForm"]


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
    """A server of tools. It has a field `login` if it has or needs one, and further fields while it runs."""

    name: str
    command: str
    url: str
    marks: list[str]


@with_config(EXACT)
class NewLinkForm(TypedDict):
    """A link that logs a browser in, and a code to type; either works once, for `minutes`."""

    link: str
    code: str
    minutes: int


@with_config(EXACT)
class LoginForm(TypedDict):
    """A browser that is logged in to the page; `name` is empty if it is unknown."""

    id: str
    name: str
    language: str
    created: Time
    seen: Time


@with_config(EXACT)
class ErrorForm(TypedDict):
    """An error: what happened, and what to do."""

    code: str
    message: str
    advice: str


@with_config(EXACT)
class SpentForm(TypedDict):
    """What a task has used; times are in seconds."""

    calls: int
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    sources: int
    seconds: float
    sandbox_s: float
    usd: float


class ReportForm(TypedDict):
    """A task and its report; a kind of task has further fields. Times are null as long as they are ahead."""

    id: int
    kind: str
    state: str
    question: str
    answer: str
    usage: SpentForm
    created: Time
    started: Time | None
    ended: Time | None
    error: NotRequired[ErrorForm]


@with_config(EXACT)
class FailureForm(TypedDict):
    """Printed in place of the report of a task that could not begin."""

    error: ErrorForm


@with_config(EXACT)
class IterationForm(TypedDict):
    """An iteration of a bot."""

    number: int
    reason: str
    summary: str
    tainted: bool
    spent: SpentForm
    ended: Time


@with_config(EXACT)
class BotFactForm(TypedDict):
    """A fact of a bot."""

    key: str
    value: str
    source: str
    chat: str
    tainted: bool
    created: Time
    updated: Time
    turn: str


@with_config(EXACT)
class BotSkillForm(TypedDict):
    """A skill of a bot."""

    name: str
    description: str
    text: NotRequired[str]
    path: NotRequired[str]


@with_config(EXACT)
class ImportedBotForm(TypedDict):
    """A bot of openbot: `taken` says if it was taken over."""

    name: str
    taken: bool
    facts: NotRequired[int]
    iterations: NotRequired[int]
    problems: list[str]


@with_config(EXACT)
class ImportedForm(TypedDict):
    """The bots and skills of openbot that were taken over, and the skills that were there already."""

    bots: list[ImportedBotForm]
    skills: list[str]
    skills_there: list[str]
    problems: list[str]


@with_config(EXACT)
class ChangedFileForm(TypedDict):
    """A changed file: A new, D deleted, M changed, R moved, m only its mode."""

    letter: Literal["A", "D", "M", "R", "m"]
    path: str
    conflict: NotRequired[bool]
    added: NotRequired[int]
    removed: NotRequired[int]


@with_config(EXACT)
class DiffForm(TypedDict):
    """The changes to a folder, and the lines of a unified diff.

    `left_out` has pairs of a path and a reason.
    """

    folder: NotRequired[str]
    files: list[ChangedFileForm]
    left_out: list[list[str]]
    lines: list[str]


@with_config(EXACT)
class SessionForm(TypedDict):
    """A session of a chat; `at` is the time of its last message, and `text` its first words."""

    chat: str
    number: int
    at: Time
    text: str
    messages: int
    current: bool
    tainted: bool


@with_config(EXACT)
class ListItemForm(TypedDict):
    """An item of a list of a chat."""

    text: str
    ticked: bool


class ListForm(TypedDict):
    """A list of a chat."""

    list: str
    items: list[ListItemForm]


@with_config(EXACT)
class PathForm(TypedDict):
    """The path of config.toml, and whether the file exists."""

    path: str
    exists: bool


@with_config(EXACT)
class PartForm(TypedDict):
    """A part of a backup."""

    name: str
    bytes: int


@with_config(EXACT)
class BackupForm(TypedDict):
    """A backup; `left_out` counts entries of workspace/ that are not in it."""

    path: str
    entries: list[PartForm]
    left_out: int


@with_config(EXACT)
class RestoredForm(TypedDict):
    """What was restored, the names that were replaced, and the folder that has the former ones, or null."""

    root: str
    entries: list[PartForm]
    left_out: int
    replaced: list[str]
    former: str | None


@with_config(EXACT)
class MovedPartForm(TypedDict):
    """How many things of a part are new, how many are here already, the turns of sessions, and examples."""

    new: int
    here: int
    turns: int
    examples: list[str]


@with_config(EXACT)
class LeftOutForm(TypedDict):
    """Something that is not taken over: its part, its name or an empty text, the reason, and how many."""

    part: Literal["sessions", "memory", "skills", "schedules", "people", "config"]
    what: str
    why: str
    count: int


@with_config(EXACT)
class MovedForm(TypedDict):
    """What was taken over from another assistant at `at`, in seconds since 1970, or would be (`dry_run`).

    `parts` has `bots` too if they come from openbot. `chats` are the chats that got something, `people` those
    who got rights or may get them, `kept` the files that are kept unused, and `report` the stored report.
    """

    program: str
    path: str
    dry_run: bool
    at: float
    parts: dict[str, MovedPartForm]
    chats: list[str]
    people: list[str]
    kept: list[str]
    left_out: list[LeftOutForm]
    report: str | None


@with_config(EXACT)
class CopiedTableForm(TypedDict):
    """A table of the copy: its rows, and a digest of them."""

    table: str
    rows: int
    digest: str


@with_config(EXACT)
class CopiedForm(TypedDict):
    """A copy of the store; `why` says what keeps it from being complete."""

    complete: bool
    why: str
    written: int
    tables: list[CopiedTableForm]


@with_config(EXACT)
class DifferenceForm(TypedDict):
    """The first request that differs from the recorded one, and the lines of a diff."""

    request: int
    where: str
    diff: list[str]


@with_config(EXACT)
class ReplayedForm(TypedDict):
    """The requests and tool calls that are the same, and the first difference, or null."""

    requests: int
    calls: int
    difference: DifferenceForm | None


@with_config(EXACT)
class ForkCallForm(TypedDict):
    """A tool call of a fork: `recorded` is true if the recorded turn has made it too."""

    call: str
    recorded: bool


@with_config(EXACT)
class ForkedForm(TypedDict):
    """What another model answers from a call of a recorded turn on."""

    answer: str
    calls: list[ForkCallForm]


@with_config(EXACT)
class NamedForm(TypedDict):
    """A property of the sandbox, in words; names may come several times."""

    name: str
    value: str


@with_config(EXACT)
class FetchedForm(TypedDict):
    """What the assistant would get from a URL."""

    url: str
    text: str


@with_config(EXACT)
class RememberedForm(TypedDict):
    """A stored fact, and the key's other values: replaced ones, or with --also those that still count."""

    key: str
    value: str
    others: list[str]


@with_config(EXACT)
class ForgottenForm(TypedDict):
    """How many values of a key were forgotten."""

    key: str
    forgotten: int


@with_config(EXACT)
class LearnedForm(TypedDict):
    """The number of new facts; null if that takes longer."""

    learned: int | None


@with_config(EXACT)
class DeletedForm(TypedDict):
    """What was deleted: a number for each kind of thing."""

    deleted: dict[str, int]


@with_config(EXACT)
class ToolForm(TypedDict):
    """A tool of a server, whether it is accepted, and what has changed since then, or why it is unusable."""

    name: str
    accepted: bool
    asks: NotRequired[str]
    changes: NotRequired[list[dict[str, Any]]]
    unusable: NotRequired[str]


@with_config(EXACT)
class TakenForm(TypedDict):
    """An event that a trigger has taken; `reply` is empty without --wait."""

    trigger: str
    chat: str
    delivery: str
    status: Literal["accepted", "repeated"]
    message: int
    reply: str


@with_config(EXACT)
class AnsweredForm(TypedDict):
    """The answer of a listener to a test request."""

    url: str
    status: int
    answer: str


class NodeForm(TypedDict):
    """An actor of the tree; docs/status.md describes its fields."""

    id: str
    kind: str
    state: str
    restarts: int
    doing: str
    age_s: float | None
    figures: dict[str, Any]
    children: list[dict[str, Any]]


class StatusForm(TypedDict):
    """The state of the process that runs; docs/status.md describes its fields."""

    version: int
    program: str
    commit: str
    pid: int
    uptime_s: float
    time: Time
    home: str
    model: str
    tree: NodeForm


@with_config(EXACT)
class PluginForm(TypedDict):
    """A plugin: what it adds, and what is wrong with it. `version` is null if it is not installed."""

    name: str
    version: str | None
    enabled: bool
    adds: list[str]
    problems: list[str]


DOCUMENTS: Final[dict[str, Any]] = {
    "bot diff": DiffForm,
    "bot history": list[SessionOfBotForm],
    "bot import": ImportedForm,
    "bot list": list[BotForm],
    "bot memory show": list[BotFactForm],
    "bot run": ReportForm | FailureForm,
    "bot show": BotForm,
    "bot skills list": list[BotSkillForm],
    "bot skills search": list[BotSkillForm],
    "chats diff": DiffForm,
    "chats list": list[ChatRowForm],
    "chats search": list[FoundEntryForm],
    "chats sessions": list[SessionForm],
    "chats show": list[EntryForm],
    "config get": SettingForm | list[SettingForm],
    "config path": PathForm,
    "config people list": list[PersonForm],
    "config show": list[SettingForm],
    "data backup": BackupForm,
    "data copy": CopiedForm,
    "data restore": RestoredForm,
    "import": MovedForm,
    "data show": StoreStateForm,
    "debug fetch": FetchedForm,
    "debug replay": ReplayedForm | ForkedForm,
    "debug sandbox status": list[NamedForm],
    "doctor": list[CheckForm],
    "mcp list": list[ServerForm],
    "mcp test": list[ToolForm],
    "memory extract": LearnedForm,
    "memory forget": ForgottenForm,
    "memory forget-everything": DeletedForm,
    "memory history": list[FormerFactForm],
    "memory list": list[FactForm],
    "memory set": RememberedForm,
    "plugins list": list[PluginForm],
    "models list": list[ModelRowForm],
    "models test": list[ModelTestForm],
    "models usage": Usage,
    "schedule add": ScheduleForm,
    "schedule approve": ScheduleForm,
    "schedule edit": ScheduleForm,
    "schedule list": list[ScheduleForm],
    "schedule show": ScheduleForm,
    "schedule trigger fire": TakenForm,
    "schedule trigger list": list[TriggerForm],
    "schedule trigger test": AnsweredForm,
    "skills info": SkillForm,
    "skills list": list[SkillForm],
    "status": StatusForm,
    "tasks list": list[TaskForm],
    "tasks research repo": ReportForm | FailureForm,
    "tasks research web": ReportForm | FailureForm,
    "tasks show": ReportForm,
    "tasks stop": ReportForm,
    "web link": NewLinkForm,
    "web sessions": list[LoginForm],
}
"""The commands that print one document with --json: an object for one thing, and an array for a list."""

LINES: Final[dict[str, Any]] = {
    "chat": EventForm,
    "chats export": EntryForm | ListForm,
    "debug fetch --check": JudgedForm,
    "debug logs": AuditLineForm,
    "debug logs --summary": DaySummaryForm,
}
"""The commands that print a line of JSON for each thing, because more may come."""
