"""The values that the journal stores and returns. They are independent of the database."""

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
"""The way a turn ended; also the `stopped_reason` of the audit log."""

ParkedState: TypeAlias = Literal["waits", "allowed", "refused", "used", "withdrawn"]


@dataclass(frozen=True, slots=True)
class Parked:
    """A parked tool call: its question as people read it, and whether a stored message has `asked` it."""

    number: int
    call: str
    text: str
    state: ParkedState = "waits"
    asked: bool = False


@dataclass(frozen=True, slots=True)
class NotStored:
    """The answer to a message that was not stored: the reason why the journal cannot write now."""

    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Undone:
    """The undo of a turn, requested by a `message`: what was restored, and what was not.

    `schedules` and `facts` were restored; `schedules_kept` and `facts_kept` have changed since, so they stay
    as they are. `parked` are the numbers of questions that were withdrawn, `tasks` those of tasks that the
    turn started and that are stopped. `withdrawn` is the delivery number of the turn's reply if it was not
    sent yet and never will be, otherwise 0. `files` is `restored`, `untouched`, or the reason why the files
    stay. `calls` are tool calls with effects outside of this machine, which cannot be undone. `done`: the
    undo is complete.
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

    `tainted`: when the message was made, untrusted content had been read. `links` are the known URLs in it,
    exactly as the user or a page wrote them.
    """

    turn: str
    message: Message
    tainted: bool = False
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """The text that replaces, in a session's prompts, all messages up to the end of a `turn`.

    `tainted`: untrusted content is among those messages. `links` are the known URLs in them. `gap`: the text
    covers only a part of the messages, because no newer summary was made in time; it may be empty.
    """

    turn: str
    text: str
    tainted: bool = False
    links: tuple[str, ...] = ()
    gap: bool = False


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment of a message: a file or a voice recording to fetch, or words of somebody else.

    `reference` is the front end's key of the file. `name` is chosen by the sender, so it may be anything.
    `size_bytes` is the size as reported to the front end, None if unknown. `source` names the origin of the
    attachment, and is empty if the user made it; strangers choose words of it. `text` has the words; `cut`:
    their end is missing.
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
        """Return True if the content is untrusted: all but a recording of the user's own voice."""
        return self.kind != "voice" or bool(self.source)


@dataclass(frozen=True, slots=True)
class Update:
    """The id of an update that its source, such as `telegram`, may deliver more than once."""

    source: str
    number: int


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a reply. A press sends the text `words`; channels know only the random `id`."""

    id: str
    label: str
    words: str


Buttons: TypeAlias = tuple[Button, ...]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A received message: the same value from its front end to the chat that handles it.

    - `update`: a message whose update was stored before is not stored again; None if the source never repeats
      updates.
    - `chat`: if empty, only the update is stored.
    - `language`: if None, the message is answered in the configured language.
    - `admin`: the sender may see the state of the whole process.
    - `origin`: the source's number of the message; `user`: the source's number of the sender.
    - `answer`: the final reply, stored with the message; then the chat does not get the message.
    - `moved`: the chat id of a group, and the id that the group's new number would have.
    - `unattended`: no front end shows the reply. It counts as delivered, unless it also answers a message
      that somebody sent.
    - `apart`: the turn has a session of its own, separate from the chat's session.
    - `channel`: the name of the channel that received the message; empty if only the chat id shows it.
    - `model`: the model that the attached client chose for the message; empty for that of the process.
    - `project`: the folder of the attached client, whose skills are available in the turn.
    - `task`: the task whose result the message is; 0 for a message that somebody sent.
    - `schedule`: the schedule that created the message. Then a person may be away.
    - `notice`: the text is the reply, and no turn begins.
    - `tainted`: the text may contain untrusted content.
    - `buttons`: buttons below the reply, on channels that have buttons.
    - `button`: the id of the pressed button. The message gets that button's words as its text, or its
      `answer` as the reply if the chat has no such button.
    - `album`: messages with the same album are parts of one message: see `JoinAlbums`.
    - `addressed`: the part of the album is meant for the assistant.

    The journal sets the other fields: the number `id`, which is higher than those of all earlier messages;
    `before`, the number of the chat's open message before this one; the `turn` that the message began; and
    `reply`, the delivery number of its stored answer. They are 0 or empty if there is none.
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
        """Return True if the text is already the reply: the result of a task, or a reminder's text."""
        return bool(self.task) or self.notice

    @property
    def by_hand(self) -> bool:
        """Return True if a person wrote the text: only such a text is a command, a yes or a no."""
        return not (self.task or self.schedule or self.tainted)


def joined(parts: Sequence[Incoming]) -> Incoming:
    """Join the parts of an album to one message, which replaces the last part.

    The message has the text of the first part with a text, and its reply answers that part.
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
    """A chat in a list. `title` is the owner's title for it, or empty.

    `text` is the beginning of the last message, received at `at`, in seconds since 1970.
    """

    chat: str
    title: str
    text: str
    at: float


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry of a chat's history with its ascending number `id`, its session and its time.

    `at` is in seconds since 1970. `undone`: the turn of the entry was undone.
    """

    id: int
    chat: str
    session: int
    at: float
    entry: HistoryEntry
    undone: bool = False


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """Entries found by a search, newest first. `next` is the cursor of the next slice, 0 at the end."""

    entries: tuple[StoredEntry, ...]
    next: int


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A final reply in the outbox, and the messages that it answers.

    `turn` is the turn that the reply ends, `reason` the way it ended; both are empty if it ends no turn.
    `origin` is the source's number of the first message, None if no message came from the source, 0 if the
    number is no longer valid. `preview` is the source's number of the message that showed the growing answer;
    it is negative in files of earlier versions if an edit was in doubt. `parts` is the number of parts
    already sent, `task` the task whose result the reply brings, `schedule` the schedule that created the
    message.
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
    """The stored state of a chat: its current session with its history, and its open messages.

    `due` is the time at which a silent session ends, in seconds since 1970; 0 for a new session. `tainted`:
    the session contains untrusted content, also in entries that are not in `history`. `files_tainted`: the
    chat's files contain untrusted content, from any session. `summary` replaces the messages before
    `history`. `parked` are calls that wait for a person's approval or have an answer.
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
    """An undo that was begun and has to be completed, if there is one."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures for the status. `last_message` is the highest message number, `bytes` the database's size."""

    last_message: int
    open_messages: int
    undelivered: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DueSessions:
    """Sessions to extract facts from now, by chat and number, and the time when the next one is due.

    `next` is in seconds since 1970, infinity for none.
    """

    now: tuple[tuple[str, int], ...]
    next: float


@dataclass(frozen=True, slots=True)
class SessionExcerpt:
    """The part of a session to extract facts from: the user's messages and the answers, oldest first.

    It has no tainted messages. `upto` is the number of the last history entry that it covers, `tries` the
    number of failed attempts. `language` is that of the chat's last message, or empty. `began` is the time of
    the first message, in seconds since 1970.
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
"""The state of a task; all but the first four are final."""


@dataclass(frozen=True, slots=True)
class Spent:
    """The usage of a task: model calls, tokens, read sources, times and money.

    `seconds` is its run time, `sandbox_s` the time of its sandbox. `nano_usd` is the price of its model calls
    in billionths of a USD.
    """

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
    """A stored task: its owner and question, its state and its result.

    `chat` gets the result of a task that is not `attached`; if empty, the result is only stored. `parent` is
    the task that waits for this one, `message` the number of the command that asked for it; 0 if there is
    none. `options` and `report` are JSON objects whose content depends on the `kind`. `model` is the chosen
    model, empty for that of the process. Times are in seconds since 1970, 0 if not reached. A session of a
    `bot` works in iterations: it sleeps until `wake_at` and then reads the messages that people have `said`.
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
    """The schedule that started the task, 0 for a task that somebody asked for."""
    bot: str = ""
    said: tuple[str, ...] = ()
    wake_at: float = 0.0
    user: int | None = None
    """The source's number of the person who asked for the task; None if unknown."""

    @property
    def partition_key(self) -> str:
        """Return the key that decides which worker serves the task: its chat, or its owner without a chat."""
        return self.chat or self.owner


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """A finished iteration of a bot: the way its turn ended, and its summary.

    `tainted`: the iteration read untrusted content. `spent` is the total of the session at the iteration's
    end, `ended` the time of that end in seconds since 1970.
    """

    number: int
    reason: Reason
    summary: str
    tainted: bool = False
    spent: Spent = Spent()
    ended: float = 0.0


ScheduleKind: TypeAlias = Literal["text", "turn", "research", "bot"]
"""The action of a fire: send the text, or start a turn, a research or a bot with it."""

ScheduleState: TypeAlias = Literal["active", "paused", "done"]


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A stored schedule: its times, and the action of a fire.

    `cron` is the recurrence in the local time of `zone`; empty for a schedule that fires once. The next fire
    is for the time `instant` and happens at `next_at`, both in seconds since 1970. `failures` counts
    consecutive fires whose work failed. `missed` counts missed fire times that were not reported yet, since
    `missed_at`. `tainted`: the text may contain untrusted content. `message` is the number of the command
    that asked for the schedule, `fired` the time of the last fire. Numbers are 0 if there is none. `turn` is
    the turn that asks for the schedule; it is not stored in its row.
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
    """The source's number of the person who asked for the schedule; None if unknown."""
    turn: str = ""


@dataclass(frozen=True, slots=True)
class Firing:
    """One firing of a schedule, done in one transaction.

    `instant` is the stored next fire time of the `schedule`; `of` is the time that the firing is for, if it
    is a later one; `then` is the following fire time, 0 for none. The firing stores a `message`, a `task`,
    both, or neither if the time was missed; `missed` fire times are added to the count, the first of them at
    `missed_at`. `failed`: the work could not begin. `number` is the number of the message that asked for a
    firing now; then the schedule keeps its next fire time.
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
    """The rows that a fire has stored: none if the time has fired before, or was missed."""

    message: Incoming | None = None
    task: TaskRecord | None = None


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """Numbers of active and paused schedules, and the time of the next fire: infinity for none."""

    active: int
    paused: int
    next_at: float
