"""What the journal holds and hands out: values, which know nothing of the file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rumi.models.model import Message
from rumi.platform.texts.language import Language
from rumi.store.protocol import Trouble

Reason: TypeAlias = Literal[
    "complete",
    "max_turns",
    "repeated_call",
    "consecutive_errors",
    "timeout",
    "budget",
    "stopped",
    "model_error",
    "crashed",
    "interrupted",
]
"""How a turn ended; also the audit log's `stopped_reason`."""

ParkedState: TypeAlias = Literal["waits", "allowed", "refused", "used", "withdrawn"]


@dataclass(frozen=True, slots=True)
class Parked:
    """A call, the question that people read, and whether a stored message has `asked` it."""

    number: int
    call: str
    text: str
    state: ParkedState = "waits"
    asked: bool = False


@dataclass(frozen=True, slots=True)
class NotStored:
    """The answer to what cannot be stored now, and was not: what keeps the journal from writing."""

    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Undone:
    """A turn that was taken back by a `message`: what is as before, and what is not.

    `schedules` and `facts` are as before; `schedules_kept` and `facts_kept` were changed since by something
    else, and stay. `parked` are questions that count no more, `tasks` were begun and are stopped. `withdrawn`
    is its reply, if that was not sent yet and never will be; otherwise 0. `files` says what became of its
    files: `restored`, `untouched`, or why they stay. `calls` reached beyond this machine, and
    cannot be taken back. `done`: all of that has happened.
    """

    message: int
    turn: str
    text: str = ""
    files: str = "untouched"
    facts: tuple[str, ...] = ()
    facts_kept: tuple[str, ...] = ()
    schedules: tuple[int, ...] = ()
    schedules_kept: tuple[int, ...] = ()
    parked: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    withdrawn: int = 0
    calls: tuple[str, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One message of a chat's history, with the turn that it belongs to.

    `tainted`: it was made when something from outside had been read. `links` are the addresses in it that
    its user or a page gave, word for word.
    """

    turn: str
    message: Message
    tainted: bool = False
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """What stands in a session's prompt for all that was said up to the end of a `turn`.

    `tainted`: something in that came from outside. `links` are the addresses that were given in it. `gap`:
    the text stands for less than that, since none was made in time; it may be empty.
    """

    turn: str
    text: str
    tainted: bool = False
    links: tuple[str, ...] = ()
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """Something that comes with a message: a file or a recording to fetch, or words of somebody else.

    `reference` is how the front end finds a file again; `name` is the sender's, who may have called it
    anything; `size_bytes` is what the front end was told, None where it was not. `source` says where it comes
    from, empty where its user made it; strangers choose words of it. `text` are the words, `cut` if their end
    is missing.
    """

    kind: Literal["file", "voice", "words"]
    reference: str = ""
    name: str = ""
    media_type: str = ""
    size_bytes: int | None = None
    source: str = ""
    text: str = ""
    cut: bool = False

    @property
    def tainted(self) -> bool:
        """Return True if it is not its user's own word: only a recording of their own voice is."""
        return self.kind != "voice" or bool(self.source)


@dataclass(frozen=True, slots=True)
class Update:
    """The name of something that its source, such as `telegram`, may deliver more than once."""

    source: str
    number: int


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a reply. A press says the command `words`; channels know it by a random `id` only."""

    id: str
    label: str
    words: str


Buttons: TypeAlias = tuple[Button, ...]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message that came in: the same value from its front end to the chat that judges it.

    A message with an `update` that was stored before is not stored again; None: its source repeats nothing.
    Without a `chat` only the update is stored. Without a `language` it is answered in the configuration's.
    `admin`: its sender may see how the whole process is. `origin` is what the source calls the message,
    `user` its sender. An `answer` is its final reply, stored with it: then no chat hears of it. `moved` is
    the chat id of a group, and the one that the group's new number would have. `unattended`: no front end
    shows its reply, which counts as delivered, unless a message that somebody sent shares it. `apart`: its
    turn has a history of its own, beside the chat's session. `channel` is the name of the one that it came
    through, empty where only its chat tells. `model` is the one that its window chose for it; empty: the
    process's. `project` is the folder of its window, whose skills count for it. `task` is the one whose
    result the message is, 0 for what somebody sent. `schedule` is the one that put it here: a person may be
    away. `notice`: its text is its reply, no turn begins. `tainted`: its text may hold what came from
    outside. `buttons` stand below its reply, where a channel has some. `button` is the id of the one that was
    pressed: then the message is what that button says, or gets its `answer`, where the chat has no such one.

    Messages of one `album` that come apart are parts of one message: see `JoinAlbums`. `addressed`: the part
    is meant for the assistant.

    The rest is the journal's: its number `id`, which is larger than those of all earlier messages, the number
    of the chat's open message `before` it, the `turn` that it began, and the delivery of its stored answer as
    `reply`; 0 or empty where there is none.
    """

    update: Update | None = None
    chat: str = ""
    text: str = ""
    language: Language | None = None
    admin: bool = False
    origin: int | None = None
    attachments: tuple[Attachment, ...] = ()
    answer: str | None = None
    user: int | None = None
    moved: tuple[str, str] | None = None
    unattended: bool = False
    apart: bool = False
    channel: str = ""
    model: str = ""
    project: str = ""
    task: int = 0
    schedule: int = 0
    notice: bool = False
    tainted: bool = False
    buttons: Buttons = ()
    button: str = ""
    album: str = ""
    addressed: bool = True
    id: int = 0
    before: int = 0
    turn: str = ""
    reply: int = 0

    @property
    def ready(self) -> bool:
        """Return True if its text is its reply: a task's result, or what a schedule says."""
        return bool(self.task) or self.notice

    @property
    def by_hand(self) -> bool:
        """Return True if a person wrote its text: no other text is a command, a yes or a no."""
        return not (self.task or self.schedule or self.tainted)


def joined(parts: Sequence[Incoming]) -> Incoming:
    """Return the one message that the parts of an album are, in the place of the last of them.

    It has the words of the first part that has some, and answers that one.
    """
    last = parts[-1]
    speaking = next((part for part in parts if part.text.strip()), parts[0])
    answer = next((part.answer for part in parts if part.answer is not None), None)
    attachments = tuple(attachment for part in parts for attachment in part.attachments)
    return replace(
        last,
        text=speaking.text,
        origin=speaking.origin,
        attachments=() if answer is not None else attachments,
        answer=answer,
        album="",
        addressed=any(part.addressed for part in parts),
    )


@dataclass(frozen=True, slots=True)
class StoredChat:
    """A chat in a list. `title` is what its owner calls it, empty without one.

    `text` is the beginning of its last message, which came `at` seconds since 1970.
    """

    chat: str
    title: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry of a chat's history with its number, which goes up, its session, and when it was made.

    `undone`: its turn was taken back.
    """

    id: int
    chat: str
    session: int
    at: float
    entry: HistoryEntry
    undone: bool = False


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """Entries in which words were found, the newest first. The search goes on at `next`, 0 at its end."""

    entries: tuple[StoredEntry, ...]
    next: int


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A final reply in the outbox, and the messages that share it.

    `turn` is the one that it ends, for `reason`; both are empty for a reply that ends none. `origin` is what
    the source calls the first of the messages, None where none of them came from there, 0 where its number
    counts no more; `preview` what the source calls the message in which the answer grew (negative in files
    of earlier versions where an edit of it was in doubt); `parts` how much of the reply is there already;
    `task` is the one whose result it brings, `schedule` the one that put the message there.
    """

    delivery: int
    messages: tuple[int, ...]
    text: str
    turn: str = ""
    reason: Reason | None = None
    origin: int | None = None
    preview: int | None = None
    parts: int = 0
    task: int = 0
    schedule: int = 0
    buttons: Buttons = ()


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """What the journal knows of a chat: its session, that session's history, and what is still open.

    `due` is when the session ends if nothing happens, in seconds since 1970; 0 for a new one. `tainted`:
    something in the session came from outside, in whichever entry of it. `files_tainted`: something in the
    chat's files did, in whichever session. A `summary` stands for what was said before the `history`.
    `parked` are calls that wait for a person's yes, or have had an answer.
    """

    session: int
    due: float
    history: tuple[HistoryEntry, ...]
    open: tuple[Incoming, ...]
    tainted: bool = False
    files_tainted: bool = False
    summary: Summary | None = None
    parked: tuple[Parked, ...] = ()
    undo: Undone | None = None
    """What was begun to be taken back, and has to be completed."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Sizes for the status. `last_message` is the highest number of a message, `bytes` the file's size."""

    last_message: int
    open_messages: int
    undelivered: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DueSessions:
    """The sessions to learn from now, by chat and number, and when the next one is due: infinity for none."""

    now: tuple[tuple[str, int], ...]
    next: float


@dataclass(frozen=True, slots=True)
class SessionExcerpt:
    """What a session can be learned from: its user's words, and answers to them, oldest first.

    Nothing of it came from outside. `upto` is the last history entry up to which this is, `tries` how often
    it was tried in vain. `language` is that of the chat's last message, empty where it came without one;
    `began` when the first of it was said, in seconds since 1970.
    """

    upto: int
    messages: tuple[Message, ...]
    language: str = ""
    tries: int = 0
    began: float = 0.0


TaskState: TypeAlias = Literal[
    "queued",
    "running",
    "sleeping",
    "stopping",
    "succeeded",
    "failed",
    "out_of_budget",
    "stopped",
    "interrupted",
]
"""What a task is at; all but the first four are ends."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a task has used: model calls, tokens, sources read, seconds of its own and of its sandbox, and the
    price of its model calls in billionths of a USD."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    sources: int = 0
    seconds: float = 0.0
    sandbox_s: float = 0.0
    nano_usd: int = 0


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as it is stored: who asked for what, what it is at, and what came of it.

    `chat` gets the result of a task that is not `attached`; empty: nobody but who looks for it. `parent` is
    the task that waits for it, `message` the number of the command that asked for it; 0 where there is none.
    `options` and `report` are JSON objects of its `kind`. `model` is the chosen one, empty: the process's.
    Times are in seconds since 1970, 0 for what has not been. A session of a `bot` works in iterations: it
    sleeps until `wake_at`, and hears then what people have `said` to it meanwhile.
    """

    kind: str
    owner: str
    question: str
    chat: str = ""
    parent: int = 0
    message: int = 0
    attached: bool = False
    options: str = "{}"
    language: Language = "en"
    model: str = ""
    id: int = 0
    state: TaskState = "queued"
    answer: str = ""
    report: str = "{}"
    spent: Spent = Spent()
    tainted: bool = False
    created: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    schedule: int = 0
    """The one that began it, 0 for a task that somebody asked for."""
    bot: str = ""
    said: tuple[str, ...] = ()
    wake_at: float = 0.0
    user: int | None = None
    """What its chat's source calls the person who asked for it; None where nobody is known."""

    @property
    def partition_key(self) -> str:
        """Return its chat, or its owner where it has none: what it belongs to among several workers."""
        return self.chat or self.owner


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """An iteration of a bot that has ended: how its turn did, and its summary.

    `tainted`: something in it came from outside. `spent` is what the session had used by its end, `ended`
    that time in seconds since 1970.
    """

    number: int
    reason: Reason
    summary: str
    tainted: bool = False
    spent: Spent = Spent()
    ended: float = 0.0


ScheduleKind: TypeAlias = Literal["text", "turn", "research", "bot"]
"""What a fire does: send the text, begin a turn with it, a research of it, or a bot."""

ScheduleState: TypeAlias = Literal["active", "paused", "done"]


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule as it is stored: when it fires, and what a fire does.

    `cron` is its recurrence in the local time of its `zone`; empty for one that fires once. Its next fire is
    for the `instant`, and happens at `next_at`, in seconds since 1970. `failures` counts fires in a row whose
    work failed, `missed` instants without a fire that nobody was told of, from `missed_at` on. `tainted`: its
    text may hold what came from outside. `message` is the number of the command that asked for it. `fired` is
    when it last fired. Numbers are 0 for what has not been. `turn` is the one that asks for it; it is not
    stored here.
    """

    owner: str
    chat: str
    kind: ScheduleKind
    text: str
    options: str = "{}"
    cron: str = ""
    zone: str = "UTC"
    instant: float = 0.0
    next_at: float = 0.0
    state: ScheduleState = "active"
    failures: int = 0
    missed: int = 0
    missed_at: float = 0.0
    language: Language = "en"
    model: str = ""
    tainted: bool = False
    message: int = 0
    created: float = 0.0
    id: int = 0
    fired: float = 0.0
    user: int | None = None
    """What its chat's source calls the person who asked for it; None where nobody is known."""
    turn: str = ""


@dataclass(frozen=True, slots=True)
class Firing:
    """What a schedule's fire does, all of it in one transaction.

    `instant` is the next one of the `schedule`, `of` the one that the fire is for where that is a later one;
    the next is `then`, 0 for none. It stores a `message`, a `task`, both, or neither where the instant is
    missed; `missed` instants are noted from `missed_at` on. `failed`: its work could not begin. `number` is
    that of the message that asked for a fire now: the schedule keeps its next instant.
    """

    schedule: int
    instant: float
    of: float = 0.0
    then: float = 0.0
    message: Incoming | None = None
    task: TaskRecord | None = None
    missed: int = 0
    missed_at: float = 0.0
    failed: bool = False
    number: int = 0


@dataclass(frozen=True, slots=True)
class Fired:
    """What a fire has stored: nothing where that instant has fired before, or where it is missed."""

    message: Incoming | None = None
    task: TaskRecord | None = None


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """How many schedules there are in each state, and when the next fire happens: infinity for none."""

    active: int
    paused: int
    next_at: float
