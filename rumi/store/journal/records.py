"""Values that the journal stores and returns. They do not depend on the type of database."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from rumi.models.model import Message
from rumi.store.journal.shown import Shown, ShownQuestion
from rumi.store.protocol import Trouble
from rumi.texts import Language

STALE_S: Final = 300.0
"""Age of a message from which on a turn is told when the message was written, in seconds."""

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
"""Reason why a turn ended; also the `stopped_reason` in the audit log."""

CutOff: TypeAlias = Literal["max_turns", "timeout", "budget"]
"""Reasons of turns that reached a limit before the work was done; `/continue` goes on with such a turn."""

ParkedState: TypeAlias = Literal["waits", "allowed", "refused", "used", "withdrawn"]


@dataclass(frozen=True, slots=True)
class Parked:
    """A tool call that needs approval.

    `text` is the question shown to people. `asked` is True if a stored message contains the question.
    `schedule` is the number of the schedule whose turn made the call, 0 if there is none, and `at` the time
    of the call in seconds since 1970. `offer` is JSON: what an approval for all runs of the schedule would
    cover; it is empty if the call cannot be approved in this way.
    """

    number: int
    call: str
    text: str
    state: ParkedState = "waits"
    asked: bool = False
    schedule: int = 0
    at: float = 0.0
    offer: str = ""


@dataclass(frozen=True, slots=True)
class NotStored:
    """The reply for a message that was not stored: the reason why the journal cannot write now."""

    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Undone:
    """The undo of a turn, requested by a `message`: what was restored and what was not.

    `schedules` and `facts` were restored. `schedules_kept` and `facts_kept` were not restored, because they
    have changed since the turn; `items` and `items_kept` are texts of items of lists. `approvals` has the
    numbers of schedules whose standing approval has ended. `parked` has the numbers of questions that were
    withdrawn. `tasks` has the numbers of tasks that the turn started and that are stopped. `withdrawn` is the
    delivery number of the turn's reply if the reply was not sent and never will be, otherwise 0. `files` is
    `restored`, `untouched`, or the reason why the files were not restored. `calls` are tool calls with
    effects outside this machine, which cannot be undone. `done` is True if the undo is complete.
    """

    message: int
    turn: str
    text: str = ""
    files: str = "untouched"
    facts: tuple[str, ...] = ()
    facts_kept: tuple[str, ...] = ()
    schedules: tuple[int, ...] = ()
    schedules_kept: tuple[int, ...] = ()
    items: tuple[str, ...] = ()
    items_kept: tuple[str, ...] = ()
    approvals: tuple[int, ...] = ()
    parked: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    withdrawn: int = 0
    calls: tuple[str, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One message in the history of a chat, with the turn that it belongs to.

    `tainted` is True if untrusted content had been read when the message was created. `links` are the known
    URLs in the message, exactly as the user or a page wrote them. `silent` is the schedule of a turn that has
    ended without a message to the user; 0 for other turns. `shown` is what people saw of the message besides
    its text; prompts never contain it, and only transcripts load it.
    """

    turn: str
    message: Message
    tainted: bool = False
    links: tuple[str, ...] = ()
    silent: int = 0
    shown: Shown | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """A text that replaces, in prompts, all messages of a session up to the end of a `turn`.

    The last `kept` messages of that turn stay in prompts; 0 for most summaries. `tainted` is True if the
    replaced messages contain untrusted content. `links` are the known URLs in these messages. `gap` is True
    if the text covers only a part of the messages, because no newer summary was ready in time; then the text
    may be empty.
    """

    turn: str
    text: str
    tainted: bool = False
    links: tuple[str, ...] = ()
    gap: bool = False
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Attachment:
    """An attachment of a message: a file or voice recording to fetch, or a text written by somebody else.

    `reference` is the front end's key for the file. The sender chooses `name`, so it is untrusted.
    `size_bytes` is the size reported to the front end, None if unknown. `source` names the origin of the
    attachment, and is empty if the user made the attachment; strangers may choose words in `source`. `text`
    contains the written text; `cut` is True if the end of the text is missing. Only schedules, and
    people at a terminal, make a `command`, whose `text` the chat runs in its sandbox instead of a turn.

    `answered` is set for the text and the file of a message that the user's message answers: it is the
    source's number of that message, 0 if that message is in another chat. `sent` is the time when that
    message was sent, in seconds since 1970; 0 if unknown.
    """

    kind: Literal["file", "voice", "words", "command"]
    reference: str = ""
    name: str = ""
    media_type: str = ""
    size_bytes: int | None = None
    source: str = ""
    text: str = ""
    cut: bool = False
    answered: int | None = None
    sent: float = 0.0

    @property
    def own_file(self) -> bool:
        """Return True for a file or a recording of the message itself.

        A message with one is neither a command nor a yes or a no.
        """
        return self.kind in ("file", "voice") and self.answered is None

    @property
    def tainted(self) -> bool:
        """Return True if the content is untrusted: anything except a recording of the user's own voice."""
        return self.kind in ("file", "words") or bool(self.source)


@dataclass(frozen=True, slots=True)
class Update:
    """The id of an update, one event reported by a source such as `telegram`.

    A source may deliver the same update more than once.
    """

    source: str
    number: int


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a reply. A press sends the text `words`; channels get only the random `id`."""

    id: str
    label: str
    words: str


Buttons: TypeAlias = tuple[Button, ...]


@dataclass(frozen=True, slots=True)
class Incoming:
    """A received message. Front ends, the journal and chats all use this type.

    - `update`: the id of the update. If it was stored before, the message is not stored again; None if the
      source never repeats updates.
    - `chat`: the chat's id; if empty, only the update is stored.
    - `language`: the language of the answer; None for the configured language.
    - `admin`: the sender may see the state of the whole process.
    - `origin`: the source's number of the message.
    - `user`: the source's number of the sender.
    - `author`: the name that the sender has chosen at the source, if others write in the chat too.
    - `answer`: the final reply, which is stored with the message; then the chat does not receive the message.
    - `moved`: the chat id of a moved group, and the chat id that the group's new number would have.
    - `unattended`: no front end shows the reply. The reply counts as delivered, unless it also answers a
      message that a person sent.
    - `apart`: the turn has its own session, separate from the chat's session.
    - `channel`: the name of the channel that received the message; empty if only the chat id identifies it.
    - `model`: the model that the attached client chose for the message; empty for the process's model.
    - `project`: the folder of the attached client. The turn can use the skills in this folder.
    - `task`: the number of the task whose result this message contains; 0 if there is none.
    - `schedule`: the number of the schedule that created the message. Then the person may be away.
    - `trigger`: the name of the trigger whose event the message brings; empty if there is none. The text is
      the trigger's prompt, the event an attachment of others.
    - `notice`: the text is the reply, and no turn begins.
    - `tainted`: the text may contain untrusted content.
    - `buttons`: buttons below the reply, on channels that support buttons.
    - `button`: the id of the pressed button. The message gets the text of that button. If the chat has no
      such button, `answer` is the reply.
    - `album`: messages with the same album are parts of one message: see `join_albums`.
    - `addressed`: this part of the album is addressed to the assistant.
    - `corrects`: the message replaces the text of the stored message with the same origin, chat and user.
    - `zone`, `place`: the time zone of the sender's device, and the sender's latitude and longitude. They
      propose the owner's time zone and are not stored; empty and None if unknown.
    - `branches`: the number of an earlier message. The turn begins a new session with the history before it.
    - `sent`: the time when the sender sent the message, as its source reports it, in seconds since 1970; 0 if
      the source reports none.

    The journal sets the other fields, which are 0 or empty if they do not apply. `id` is the number of the
    message, higher than the numbers of all earlier messages. `before` is the number of the chat's previous
    open message. `turn` is the turn that the message started. `reply` is the delivery number of the stored
    answer. `received` is the time when the journal stored the message, in seconds since 1970. `part_of` is
    the number of the first message of the turn that this message is a part of. `resumed` is the number of
    times that the message's turn was resumed after the end of a process. `corrected` is the number of the
    message whose text a correction has replaced.
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
    author: str = ""
    moved: tuple[str, str] | None = None
    unattended: bool = False
    apart: bool = False
    channel: str = ""
    model: str = ""
    project: str = ""
    task: int = 0
    schedule: int = 0
    trigger: str = ""
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
    zone: str = ""
    place: tuple[float, float] | None = None
    sent: float = 0.0
    received: float = 0.0
    part_of: int = 0
    resumed: int = 0
    corrects: bool = False
    corrected: int = 0
    branches: int = 0

    @property
    def said_at(self) -> float:
        """Return the time when the message was written, in seconds since 1970; 0 if it is not stored yet.

        A time that is later than the message's arrival comes from a clock that is wrong.
        """
        return min(self.sent, self.received) if self.sent > 0 else self.received

    @property
    def ready(self) -> bool:
        """Return True if no turn is needed: the text is the result of a task or the text of a reminder."""
        return bool(self.task) or self.notice

    @property
    def by_hand(self) -> bool:
        """Return True if a person wrote the text. Only such a text can be a command or a yes-or-no answer."""
        return not (self.task or self.away or self.tainted)

    @property
    def away(self) -> bool:
        """Return True if the person may be away, because a schedule or a trigger created the message."""
        return bool(self.schedule or self.trigger)


CUT_UNITS: Final = 4096
"""The length at which chat clients cut a text, in units of UTF-16. The rest comes as further messages."""

CUT_FROM_UNITS: Final = CUT_UNITS - 400
"""A text of at least this many units may have been cut. Clients cut at a blank in the last 300 units."""


def joined(parts: Sequence[Incoming]) -> Incoming:
    """Join the parts of one message, which came as several, into one with the number of the first part.

    The texts and the attachments keep their order, and each attachment its source. The reply answers the
    first part that has a text. With a refused part (`answer`), the whole message is refused. Corrections of
    parts add nothing. Events of one trigger have the same text, the trigger's prompt, which is needed once.
    """
    parts = [part for part in parts if not part.corrected] or parts
    first = parts[0]
    if len(parts) == 1:
        return first
    speaking = next((part for part in parts if part.text.strip()), first)
    answer = next((part.answer for part in parts if part.answer is not None), None)
    # Each part may answer the same message. Its text and its file are needed once.
    attachments = tuple(dict.fromkeys(attachment for part in parts for attachment in part.attachments))
    texts = [first.text] if first.trigger else [part.text for part in parts if part.text.strip()]
    return replace(
        first,
        update=parts[-1].update,
        text=texts_joined(texts),
        origin=speaking.origin,
        attachments=() if answer is not None else attachments,
        answer=answer,
        album="",
        addressed=any(part.addressed for part in parts),
    )


def texts_joined(texts: Sequence[str]) -> str:
    """Join texts as lines; a text that a client cut within a line continues in that line."""
    whole = "".join(text if text_units(text) == CUT_UNITS else f"{text}\n" for text in texts[:-1])
    return whole + (texts[-1] if texts else "")


def text_units(text: str) -> int:
    """Return the length of a text in units of UTF-16, in which chat services count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@dataclass(frozen=True, slots=True)
class StoredChat:
    """A chat in a list. `title` is the chat's title, or empty; an `automatic` one was made by the program.

    `text` is the beginning of the last message. `at` is the time when that message was received, in seconds
    since 1970, and `last` its number.
    """

    chat: str
    title: str
    text: str
    at: float
    last: int = 0
    automatic: bool = False
    pinned: bool = False
    archived: bool = False


@dataclass(frozen=True, slots=True)
class ChatLine:
    """What a list shows of a chat besides its title.

    `text` is the beginning of what was said last: by the person ("you") or by the "assistant". `unread` is
    the number of replies that nobody has received yet, and `session` the number of the current session, 0 if
    there is none. `waiting` is the number of tool calls that wait for a yes.
    """

    chat: str
    text: str
    by: Literal["you", "assistant", ""]
    unread: int
    session: int
    waiting: int


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A history entry of a chat, with its number `id`, its session and its time. Later ids are higher.

    `at` is in seconds since 1970. `undone` is True if the turn of the entry was undone. `cut` is True if the
    message's text was too long for the reader, so that its end is missing.
    """

    id: int
    chat: str
    session: int
    at: float
    entry: HistoryEntry
    undone: bool = False
    cut: bool = False


@dataclass(frozen=True, slots=True)
class FoundEntries:
    """Entries found by a search, newest first. `next` is the cursor of the next slice, 0 after the last."""

    entries: tuple[StoredEntry, ...]
    next: int


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A final reply in the outbox, and the messages that it answers.

    `turn` is the turn that the reply ends, and `reason` is why the turn ended; both are empty if the reply
    ends no turn. `origin` is the source's number of the first message: None if no message came from the
    source, 0 if the number is no longer valid. `preview` is the source's number of the message that showed
    the growing answer; in files of earlier versions it is negative if the result of an edit was unknown.
    `parts` is the number of parts that were already sent, and `begun` the number of parts that may have been
    sent. `task` is the task whose result the reply contains.
    `schedule` is the schedule that created the message, `trigger` the trigger whose event it brings.
    `language` is the language of the first message. `replaces` is the source's number of the message that the
    reply takes the place of: a button below that message was pressed; None for a reply that becomes a message
    of its own. `created` is the time of the reply, in seconds since 1970. `delivered` is True if it does not
    wait for a reader any more. `joined` are those of the messages that became parts of the first one's turn.
    `note` is a line for people about the files of the chat's folder, and
    `questions` were asked for a command that began no turn.
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
    trigger: str = ""
    buttons: Buttons = ()
    begun: int = 0
    language: Language = "en"
    replaces: int | None = None
    created: float = 0.0
    delivered: bool = False
    note: str = ""
    questions: tuple[ShownQuestion, ...] = ()
    joined: tuple[int, ...] = ()


OutcomeHow: TypeAlias = Literal["said", "nothing_new", "unchanged", "changed", "failed", "parked", "stopped"]
"""How the work of a schedule's last fire ended.

`said`: its reply was sent. `nothing_new`: a turn had nothing to tell, or a command printed nothing.
`unchanged`: a check found no change, so no work began. `changed`: a check found a change, and the work has
begun. `failed`: the work or the check failed. `parked`: the reply asks about calls that need a yes.
`stopped`: a person or the end of the process stopped the work.
"""


@dataclass(frozen=True, slots=True)
class FireOutcome:
    """How the work of a schedule's last fire ended. `why` is one line, and may contain untrusted text."""

    how: OutcomeHow
    why: str = ""


@dataclass(frozen=True, slots=True)
class FinalReply:
    """The final reply to `messages`, and the state that is stored with it.

    The turn worked on the first message, and `reason` is the way the turn ended. If `session` is 0, the
    session in which the turn began is meant. `due` is the new end time of the session, None if it has not
    changed. `noticed` lists the keys of budgets that the reply reports as nearly used up. `asked` lists the
    parked calls that the reply asks about. `buttons` are added to those that the first message already has.
    `parts` are those of the messages that are parts of the first one. With `in_place`, the reply to a press
    of a button takes the place of the message with the button, where the channel can edit messages. A
    `silent` reply counts as delivered: nobody is told of it. `hides` are earlier silent turns, which prompts
    leave out from now on. `outcome` is what the schedule of the first
    message shows about this work; None for what follows from `reason`. `nano` is the price of the turn in
    billionths of a USD, 0 if it is unknown. `note` is a line for people about the files of the chat's folder.
    `questions` were asked for a command that began no turn; clients saw them in the `turn` of that name.
    """

    messages: tuple[int, ...]
    text: str
    reason: Reason | None = None
    session: int = 0
    entries: tuple[HistoryEntry, ...] = ()
    due: float | None = None
    noticed: tuple[str, ...] = ()
    asked: tuple[int, ...] = ()
    buttons: Buttons = ()
    parts: tuple[int, ...] = ()
    in_place: bool = False
    silent: bool = False
    hides: tuple[str, ...] = ()
    outcome: "FireOutcome | None" = None
    nano: int = 0
    note: str = ""
    questions: tuple[ShownQuestion, ...] = ()
    turn: str = ""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of a chat, as lists of sessions show it.

    `at` is the time of its last message, in seconds since 1970, `text` the first message of its user, and
    `messages` the number of messages that began a turn. `current` is True for the session that the chat
    continues.
    """

    chat: str
    number: int
    at: float
    text: str
    messages: int
    current: bool = False
    tainted: bool = False


@dataclass(frozen=True, slots=True)
class ChatRecord:
    """The stored state of a chat: its current session with the history, and its open messages.

    `due` is the time at which the session ends if the chat stays silent, in seconds since 1970; 0 for a new
    session. `tainted` is True if the session contains untrusted content, even in entries that are not in
    `history`. `files_tainted` is True if the chat's files contain untrusted content from any session.
    `summary` replaces the messages before `history`. `parked` are calls that wait for approval or have been
    answered. `nano` is the price of the session's turns in billionths of a USD.
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
    """An undo that was begun and must still be completed, or None."""
    nano: int = 0


@dataclass(frozen=True, slots=True)
class BrokenTurn:
    """What is stored of a turn that the end of a process or a handover interrupted.

    `entries` is the turn's history, in the session `session`. `resumed` counts how often the turn was
    resumed, including this time. `asking` is the call that waited for a person's yes: the number of replies
    so far and the call's id, because a model may use an id again; empty if there was none. `preview` is the
    source's number of the message that showed the growing answer. `at` is the time of the turn's last stored
    step, in seconds since 1970.
    """

    session: int
    entries: tuple[HistoryEntry, ...]
    resumed: int
    asking: str = ""
    preview: int | None = None
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures for the status. `last_message` is the highest message number, `bytes` is the database size."""

    last_message: int
    open_messages: int
    undelivered: int
    bytes: int


@dataclass(frozen=True, slots=True)
class DueSessions:
    """Sessions from which facts can be extracted now, by chat and number.

    `next` is the time when the next session is due, in seconds since 1970; it is infinity if no session will
    be due.
    """

    now: tuple[tuple[str, int], ...]
    next: float


@dataclass(frozen=True, slots=True)
class SessionExcerpt:
    """The part of a session for fact extraction: the user's messages and the answers, oldest first.

    Tainted messages are excluded. `upto` is the number of the last history entry in this part, `tries` is the
    number of failed attempts. `language` is the language of the chat's last message, or empty. `began` is the
    time of the first message, in seconds since 1970.
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
"""The state of a task; all values except the first four are final."""


@dataclass(frozen=True, slots=True)
class Spent:
    """Resources that a task has used: model calls, tokens, sources, time and money.

    `seconds` is the run time of the task, `sandbox_s` is the run time of its sandbox. `nano_usd` is the price
    of the model calls in billionths of a USD.
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
    """A stored task: its owner, question, state and result.

    If the task is not `attached`, `chat` gets its result; if `chat` is empty, the result is only stored.
    `message` is the number of the command that requested this task, 0 if there is none. `options` and
    `report` are JSON objects whose content depends on `kind`. `model` is the chosen model, empty for the
    process's model. Times are in seconds since 1970; a time is 0 if the event has not happened. A session of
    a `bot` works in iterations: it sleeps until `wake_at`, and then reads the messages in `said`, which
    people have sent to it.
    """

    kind: str
    owner: str
    question: str
    chat: str = ""
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
    """The schedule that started the task; 0 for a task that a person requested."""
    bot: str = ""
    said: tuple[str, ...] = ()
    wake_at: float = 0.0
    user: int | None = None
    """The source's number of the person who requested the task; None if unknown."""

    @property
    def partition_key(self) -> str:
        """Return the key that determines which worker serves the task: its chat, or else its owner."""
        return self.chat or self.owner


@dataclass(frozen=True, slots=True)
class IterationRecord:
    """A finished iteration of a bot: the reason why its turn ended, and its summary.

    `tainted` is True if the iteration read untrusted content. `spent` is what the session had used in total
    when the iteration ended. `ended` is the end time of the iteration, in seconds since 1970.
    """

    number: int
    reason: Reason
    summary: str
    tainted: bool = False
    spent: Spent = Spent()
    ended: float = 0.0


ScheduleKind: TypeAlias = Literal["text", "turn", "research", "bot", "run"]
"""The action of a schedule when it fires: send the text, start a turn, a research task or a bot with it, or
run it as a command in the chat's sandbox."""

ScheduleState: TypeAlias = Literal["active", "paused", "done"]


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A stored schedule: its times, and its action when it fires.

    `cron` is the recurrence in the local time of `zone`; empty for a schedule that fires once. The next
    firing is for the time `instant` and happens at `next_at`, both in seconds since 1970. `failures` is the
    number of consecutive firings whose work failed. `missed` is the number of missed fire times since
    `missed_at` that were not reported yet. `tainted` is True if the text may contain untrusted content.
    `message` is the number of the command that created the schedule. `fired` is the time of the last firing.
    Numbers are 0 if they do not apply. `turn` is the turn that creates the schedule, and `asked_at` is the
    time when it was asked for, from which relative times count; both are not stored in the schedule's row.
    `reason` is why the schedule is paused, if nothing can be delivered to its chat. The last three are JSON,
    empty if there is none: what the last check without a model has read, how the work of the last firing
    ended, and the calls that a person has approved for all firings.
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
    """The source's number of the person who requested the schedule; None if unknown."""
    turn: str = ""
    asked_at: float = 0.0
    reason: str = ""
    checked: str = ""
    outcome: str = ""
    approval: str = ""


@dataclass(frozen=True, slots=True)
class Firing:
    """One firing of a schedule, executed in one transaction.

    `instant` is the stored next fire time of `schedule`. If the firing is for a later time, `of` is that
    time. `then` is the fire time after this firing, 0 if there is none. The firing stores a `message`, a
    `task`, both, or neither if the fire time was missed. `missed` is the number of missed fire times to add
    to the schedule's count; the first of them is `missed_at`. `failed` is True if the work could not begin.
    If a command requested an immediate firing, `number` is the number of its message, and the next fire time
    does not change.
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
    """The rows that a firing stored; none if the schedule already fired at this time or missed it."""

    message: Incoming | None = None
    task: TaskRecord | None = None


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """Numbers of active and paused schedules, and the next fire time (infinity if no schedule will fire)."""

    active: int
    paused: int
    next_at: float
