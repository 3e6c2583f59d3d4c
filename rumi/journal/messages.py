"""What the journal is asked. Every request is one step of a transaction; several may share one commit."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from actors import Request
from rumi.agent import Parked, Reason
from rumi.journal.accounts import AccountMessage, Spending, Standing
from rumi.journal.membership import LeaseMessage
from rumi.journal.records import (
    Buttons,
    ChatRecord,
    DueSessions,
    Figures,
    Fired,
    Firing,
    FoundEntries,
    HistoryEntry,
    Incoming,
    IterationRecord,
    Lesson,
    ScheduleFigures,
    ScheduleRecord,
    ScheduleState,
    Spent,
    StoredChat,
    StoredEntry,
    StoredReply,
    Summary,
    TaskRecord,
    TaskState,
)
from rumi.journal.undo import FindLastTurn, FindUndo, UndoMessage
from rumi.journal.workspaces import GetPieces, MissingPieces, WorkspaceMessage
from rumi.store.protocol import Trouble

SEEN_S = 48 * 3600.0
"""How long an update's number is remembered: its source keeps updates for half that time, and may begin to
number afresh after a quiet week, so neither "greater than the last" nor "ever seen" would do."""

SEEN_LEAST = 1000
"""So many of the newest are remembered however old they seem: a clock may jump ahead by days."""

SLICE = 250
"""Rows that one transaction deletes of what is forgotten: others wait for no more than that."""

MOST_ENTRY = 2**63 - 1
"""No entry of the history has a higher number."""

SEARCHED = 1_000
"""Rows of the history that one search looks at."""

MOST_MOVED = 100_000
"""How many moved groups are remembered: more than one bot meets, and few enough that strangers cannot fill
the disk."""


@dataclass(frozen=True, slots=True)
class NotStored:
    """The answer to what cannot be stored now, and was not: what keeps the journal from writing."""

    trouble: Trouble


@dataclass(frozen=True, slots=True)
class Accept(Request[tuple[Incoming | None, ...] | NotStored]):
    """Store messages before anything is done about them: the whole batch, or nothing of it.

    For each, in order: the message as it is stored, or None if its update was seen within `SEEN_S` or is one
    of the last `SEEN_LEAST` of its source, and then it is not stored again. Of a part of an album, which is
    no message yet, only its update.
    """

    batch: tuple[Incoming, ...]


@dataclass(frozen=True, slots=True)
class JoinAlbums(Request[tuple[tuple[Incoming, ...], float | None]]):
    """Make one message of each album of which no part has come for `quiet_s`.

    An album without a part that is meant for the assistant is deleted. Return the messages as they are
    stored, and in how many seconds the next album will be quiet; None if no parts are left.
    """

    quiet_s: float


@dataclass(frozen=True, slots=True)
class Moved(Request[bool]):
    """Messages from the chat id `new` belong to the chat `old` from now on; the reply is whether they do.

    They do not if `new`, or a topic below it, has messages of its own.
    """

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class MovedGroups(Request[tuple[tuple[str, str], ...]]):
    """Return the groups that moved: the id of the chat, and the one that leads to it. Oldest first."""


@dataclass(frozen=True, slots=True)
class Begin(Request[None]):
    """A message became a turn of a session, which begins with `entries`. `retries` is run again by it."""

    chat: str
    message: int
    turn: str
    session: int
    entries: tuple[HistoryEntry, ...] = ()
    retries: int | None = None


@dataclass(frozen=True, slots=True)
class Append(Request[None]):
    """Append to a session's history, as it happens."""

    chat: str
    session: int
    entries: tuple[HistoryEntry, ...]


@dataclass(frozen=True, slots=True)
class Settle(Request[int]):
    """Store the final reply to messages, and the state that goes with it, in one transaction.

    The first of them is the one that was worked on, and `reason` how that ended. Replies with the
    delivery's number. A message that has its reply already keeps it. `due` moves the session's end; it is
    None where the session has not changed. Without a `session` it is that in which the turn began. `noticed`
    are budgets of which the reply says that they are nearly used up. The reply asks for the parked calls
    `asked`, and has `buttons` besides those that its message came with.
    """

    chat: str
    messages: tuple[int, ...]
    text: str
    reason: Reason | None = None
    session: int = 0
    entries: tuple[HistoryEntry, ...] = ()
    due: float | None = None
    noticed: tuple[str, ...] = ()
    asked: tuple[int, ...] = ()
    buttons: Buttons = ()


@dataclass(frozen=True, slots=True)
class Delivered(Request[None]):
    """Note that a person has the reply. `by_reader`: they say so themselves, at any worker."""

    delivery: int
    by_reader: bool = False


@dataclass(frozen=True, slots=True)
class PartSent(Request[None]):
    """Note that a person has the first `parts` parts of the reply."""

    delivery: int
    parts: int


@dataclass(frozen=True, slots=True)
class Undeliverable(Request[None]):
    """Note that the chat's waiting replies, or only the one `delivery`, can reach nobody, and `why`."""

    chat: str
    why: str
    delivery: int | None = None


@dataclass(frozen=True, slots=True)
class Previewed(Request[None]):
    """The answer to a message grows in what its source calls `preview`; None: it is not there any more.

    Only the sender that noted it knows which of its edits are still under way; another sender deletes it.
    """

    message: int
    preview: int | None


@dataclass(frozen=True, slots=True)
class Undelivered(Request[tuple[StoredReply, ...]]):
    """Return the chat's replies that no one has yet, oldest first, and all `to` these messages."""

    chat: str
    to: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Waiting(Request[tuple[str, ...]]):
    """Return the chats with replies that no one has yet; only those of some `partitions`, if named."""

    partitions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Load(Request[ChatRecord]):
    """Return all that is known of a chat. `limit` is how many of the latest history entries are wanted.

    With `max_tokens` no more of them than take about so many in a prompt, but the latest in any case.
    """

    chat: str
    limit: int
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class NewSession(Request[int]):
    """End the chat's session and begin another. The reply is its number.

    `forget` deletes all history as well, in slices (`Sweep`): from now on, or, with `learn`, where there is
    something to learn from, as soon as that is done. The parked calls are forgotten at once.
    """

    chat: str
    forget: bool = False
    learn: bool = False


@dataclass(frozen=True, slots=True)
class SessionApart(Request[int]):
    """Begin a session for one turn, beside the one that goes on. The reply is its number.

    It is learned from when the turn's `Settle` says, or a day later where that never comes.
    """

    chat: str


@dataclass(frozen=True, slots=True)
class Summarize(Request[Summary | None]):
    """Let a summary stand for what a session began with; returns what stands in its prompts now.

    With `leave_out` only its turn counts: prompts leave out what was said up to its end, and no text stands
    for that yet. None if the session has ended, or if the text before stands for more: nothing is changed.
    """

    chat: str
    session: int
    summary: Summary
    leave_out: bool = False


@dataclass(frozen=True, slots=True)
class LeftOut(Request[tuple[HistoryEntry, ...]]):
    """Return what prompts leave out of a session and no summary covers: the latest, in about `max_tokens`."""

    chat: str
    session: int
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Shorten(Request[None]):
    """From now on prompts show the session's tool results shortened, but those of its latest entries.

    `latest` is how many entries those are. The history itself stays as it is.
    """

    chat: str
    session: int
    latest: int


@dataclass(frozen=True, slots=True)
class ToLearn(Request[DueSessions]):
    """Where there is something to learn from: sessions that have ended, are overdue, or were asked for.

    Only those of one chat, if one is named. With `going_on`, also those that are not due yet.
    """

    chat: str | None = None
    going_on: bool = False


@dataclass(frozen=True, slots=True)
class Study(Request[Lesson]):
    """Return what was said in a session and was not learned from yet."""

    chat: str
    session: int


@dataclass(frozen=True, slots=True)
class LearnedFrom(Request[None]):
    """Note up to which entry a session was learned from; what is to be forgotten is deleted then.

    The `episode` is a line on what the session was about, which `began` then; empty: none is known.
    """

    chat: str
    session: int
    upto: int
    episode: str = ""
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class PutOff(Request[None]):
    """Note that learning from a session failed; it is not due again before `until`, in seconds since 1970."""

    chat: str
    session: int
    until: float


@dataclass(frozen=True, slots=True)
class AskToLearn(Request[None]):
    """Learn from the session of the chat, or of all chats, now, although it goes on.

    With `retry`, also sessions whose failed attempts were postponed or abandoned.
    """

    chat: str | None = None
    retry: bool = False


@dataclass(frozen=True, slots=True)
class LearnNothing(Request[None]):
    """Delete what is to be forgotten without learning from it.

    With `ever`, there is nothing to learn from anything that was said so far.
    """

    ever: bool = False


@dataclass(frozen=True, slots=True)
class MarkFiles(Request[None]):
    """Note that something in the chat's files came from outside, or nothing any more."""

    chat: str
    tainted: bool


@dataclass(frozen=True, slots=True)
class Retriable(Request[Incoming | None]):
    """Return the last message of this session that became a turn, did not complete, and was not run again."""

    chat: str


@dataclass(frozen=True, slots=True)
class OpenChats(Request[tuple[str, ...]]):
    """Return the chats with messages that lack a final reply; only those of some `partitions`, if named."""

    partitions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class NewestOpen(Request[dict[str, int]]):
    """Return the same chats, each with the number of its newest such message. Only of `chats`, if named."""

    chats: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class OpenMessages(Request[tuple[Incoming, ...]]):
    """Return the chat's messages that lack a final reply, of those numbered above `after`, in their order."""

    chat: str
    after: int


@dataclass(frozen=True, slots=True)
class Knows(Request[bool]):
    """Ask if anything was ever said in the chat."""

    chat: str


@dataclass(frozen=True, slots=True)
class Count(Request[Figures]):
    """Return sizes for the status."""


@dataclass(frozen=True, slots=True)
class Sweep(Request[bool]):
    """Delete a slice of what is to be forgotten. The reply is True if there may be more."""


@dataclass(frozen=True, slots=True)
class DeleteChat(Request[bool]):
    """Delete a slice of all that is stored of a chat that has ended. The reply is True if there may be more.

    Facts are not the chat's, but their owner's; they stay.
    """

    chat: str


@dataclass(frozen=True, slots=True)
class ForgetChat(Request[bool]):
    """Delete a slice of what was said in a chat before that message. The reply is True if there may be more.

    The chat goes on. Nothing is learned from what is deleted; replies that nobody has yet stay.
    """

    chat: str
    before: int


@dataclass(frozen=True, slots=True)
class ExpiryCursor:
    """How far an expiry has come: the number of a table, and the last row that was looked at."""

    table: int = 0
    row: int = 0


@dataclass(frozen=True, slots=True)
class Expire(Request[ExpiryCursor | None]):
    """Look at a slice of what is older than `before`, in seconds since 1970, and delete what is over.

    What is open, undelivered, of a session that goes on, or still to be learned from stays. Replies with
    where to go on, None at the end.
    """

    before: float
    place: ExpiryCursor


@dataclass(frozen=True, slots=True)
class ListChats(Request[tuple[StoredChat, ...]]):
    """Return the chats with messages, the latest first; none whose id begins with one of `without`."""

    without: tuple[str, ...] = ()
    limit: int = 200


@dataclass(frozen=True, slots=True)
class NameChat(Request[None]):
    """Give a chat a title; an empty one removes it."""

    chat: str
    title: str


@dataclass(frozen=True, slots=True)
class ReadHistory(Request[tuple[StoredEntry, ...]]):
    """Return a chat's latest entries before the entry of that number, oldest first.

    They are of all its sessions, or only of the one that is `going_on`.
    """

    chat: str
    before: int = MOST_ENTRY
    limit: int = 200
    going_on: bool = False


@dataclass(frozen=True, slots=True)
class SearchHistory(Request[FoundEntries]):
    """Search a slice of the history before the entry of that number, for entries with all of the words.

    Searched is what users and the assistant said, of the `chat`, or of all chats whose id does not begin with
    one of `without`. Case and accents do not matter. A caller goes on with `FoundEntries.next`: a slice is
    short, because others wait for it.
    """

    words: str
    chat: str = ""
    without: tuple[str, ...] = ()
    before: int = MOST_ENTRY


@dataclass(frozen=True, slots=True)
class AddTask(Request[TaskRecord]):
    """Store a task that is to run. Returns it with its number; the same one for the same `message`."""

    task: TaskRecord


@dataclass(frozen=True, slots=True)
class LoadTask(Request[tuple[TaskRecord, tuple[HistoryEntry, ...]] | None]):
    """Return a task and its history; None for one that is not there."""

    id: int


@dataclass(frozen=True, slots=True)
class BeginTask(Request[None]):
    """Note that a task runs."""

    id: int


@dataclass(frozen=True, slots=True)
class MarkStopping(Request[bool]):
    """Note that a task is to stop, whatever becomes of its process. Returns False if it has ended."""

    id: int


@dataclass(frozen=True, slots=True)
class KeepTask(Request[None]):
    """Append to a task's history, and note what it has spent so far, in one transaction.

    The first `heard` of what people have said to it are among the entries.
    """

    id: int
    entries: tuple[HistoryEntry, ...]
    spent: Spent
    heard: int = 0


@dataclass(frozen=True, slots=True)
class EndTask(Request[Incoming | None]):
    """Note how a task ended, and store the message to its chat that brings the result, in one transaction.

    Returns that message as it is stored; None where the task has ended before, or where it brings none.
    """

    id: int
    state: TaskState
    answer: str
    report: str = "{}"
    spent: Spent | None = None
    tainted: bool = False
    message: str = ""
    """The text of the result for its chat; empty: the chat gets none."""
    iteration: IterationRecord | None = None
    """A bot's last one."""


@dataclass(frozen=True, slots=True)
class EndIteration(Request[Incoming | None]):
    """Store an iteration of a bot, begin the next one's history, and note until when the bot sleeps.

    With a `message`, a text for its chat, that is stored too, and returned; it asks for the parked calls
    `asked`. All in one transaction; of the same iteration it is done once.
    """

    id: int
    iteration: IterationRecord
    wake_at: float
    message: str = ""
    buttons: Buttons = ()
    asked: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadParked(Request[tuple[Parked, ...]]):
    """Return the calls of a chat, or of a task by its key, that needed a person's yes, oldest first."""

    chat: str


@dataclass(frozen=True, slots=True)
class KeepParked(Request[None]):
    """Store parked calls that are new or have changed. New ones are of the `turn`."""

    chat: str
    parked: tuple[Parked, ...]
    turn: str = ""


@dataclass(frozen=True, slots=True)
class Iterations(Request[tuple[IterationRecord, ...]]):
    """Return the last iterations of a task, or of all sessions of a `bot`, oldest first."""

    id: int
    limit: int = 1000
    bot: str = ""


@dataclass(frozen=True, slots=True)
class SayToTask(Request[bool]):
    """Store what a person says to a bot's session, which hears it in its next iteration, and end its sleep.

    An empty text only ends the sleep. Returns False if the session has ended, or has too much to hear.
    """

    id: int
    text: str


@dataclass(frozen=True, slots=True)
class ReopenTask(Request[TaskRecord | None]):
    """Have a bot's session go on that has ended before its goal, with these options and model; return it.

    None, and nothing is changed, if the task is not such a session, or another one of its bot has not ended.
    """

    id: int
    options: str
    model: str = ""
    attached: bool = False


@dataclass(frozen=True, slots=True)
class OpenTasks(Request[tuple[TaskRecord, ...]]):
    """Return the tasks that have not ended, oldest first; of a `chat`, of some `partitions`, or all."""

    chat: str = ""
    partitions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class InterruptTasks(Request[None]):
    """Note that the attached tasks were interrupted: who waited for them has gone with an earlier process.

    Only those of some `partitions`, if named.
    """

    partitions: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class ListTasks(Request[tuple[TaskRecord, ...]]):
    """Return the latest tasks, the newest first; of an `owner`, or all. Those before the number `before`.

    With a `bot` only its sessions.
    """

    owner: str = ""
    limit: int = 50
    before: int = MOST_ENTRY
    bot: str = ""


@dataclass(frozen=True, slots=True)
class DeleteTask(Request[bool]):
    """Delete a task that has ended, with its history. Returns False if it has not, or is not there."""

    id: int


@dataclass(frozen=True, slots=True)
class OldTasks(Request[tuple[int, ...]]):
    """Return the numbers of some tasks that ended before then, in seconds since 1970."""

    before: float


FAILURES: Final = 3
"""A schedule whose work failed so often in a row is paused."""


@dataclass(frozen=True, slots=True)
class AddSchedule(Request[ScheduleRecord | None]):
    """Store a schedule. Returns it with its number; the same one for the same `message`.

    None: its owner has `most` that are not done, or the person who is called one of the `users` has
    `most_of_users`.
    """

    schedule: ScheduleRecord
    most: int
    most_of_users: int | None = None
    users: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadSchedule(Request[ScheduleRecord | None]):
    """Return a schedule; None for one that is not there."""

    id: int


@dataclass(frozen=True, slots=True)
class ListSchedules(Request[tuple[ScheduleRecord, ...]]):
    """Return the schedules of an `owner`, or of all: those that are not done, and the latest that are."""

    owner: str = ""
    limit: int = 1000


@dataclass(frozen=True, slots=True)
class SetSchedule(Request[bool]):
    """Pause a schedule, or have it go on at `instant`. Returns False if it is done, or not there."""

    id: int
    state: ScheduleState
    instant: float = 0.0


@dataclass(frozen=True, slots=True)
class PauseSchedules(Request[int]):
    """Pause all active schedules. Returns how many there were."""


@dataclass(frozen=True, slots=True)
class MoveSchedules(Request[None]):
    """Set when the next fires happen: each is a number, the instant that it had, the next, and its time."""

    moves: tuple[tuple[int, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class DeleteSchedule(Request[bool]):
    """Delete a schedule. Returns False if it is not there. A `turn` of a `chat` may take that back."""

    id: int
    turn: str = ""
    chat: str = ""


@dataclass(frozen=True, slots=True)
class DueSchedules(Request[tuple[ScheduleRecord, ...]]):
    """Return a slice of the active schedules that fire until `upto`, the first ones first."""

    upto: float


@dataclass(frozen=True, slots=True)
class AheadSchedules(Request[tuple[ScheduleRecord, ...]]):
    """Return a slice of the active recurring ones that were set later than `now`: the clock has gone back."""

    now: float


@dataclass(frozen=True, slots=True)
class CountSchedules(Request[ScheduleFigures]):
    """Return how many schedules there are, and when the next one fires."""


@dataclass(frozen=True, slots=True)
class Fire(Request[tuple[Fired, ...]]):
    """Do fires: advance each schedule, and store what its fire stores, in one transaction.

    A fire whose instant is not the next one of its schedule does nothing: it was done before.
    """

    firings: tuple[Firing, ...]


@dataclass(frozen=True, slots=True)
class FailedSchedules(Request[tuple[ScheduleRecord, ...]]):
    """Return the active schedules whose work failed `FAILURES` times in a row."""


@dataclass(frozen=True, slots=True)
class PauseFailed(Request[Incoming | None]):
    """Pause a schedule that fails, and store the `message` that says so. None if it is paused."""

    id: int
    message: Incoming


@dataclass(frozen=True, slots=True)
class MissedSchedules(Request[tuple[ScheduleRecord, ...]]):
    """Return the schedules with missed instants that nobody was told of, of a `chat` or of all."""

    chat: str = ""


@dataclass(frozen=True, slots=True)
class TellMissed(Request[Incoming | None]):
    """Store the `message` that tells what a chat's schedules have missed.

    It has `told` the number of each and how many instants of it. None, and nothing is stored, where that is
    not how many it has missed by now.
    """

    chat: str
    message: Incoming
    told: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ZoneOf(Request[str]):
    """Return the time zone of an owner, empty where none was set."""

    owner: str


@dataclass(frozen=True, slots=True)
class SetZone(Request[None]):
    """Set the time zone of an owner."""

    owner: str
    zone: str


JournalMessage: TypeAlias = (
    Accept
    | JoinAlbums
    | Begin
    | Append
    | Settle
    | Delivered
    | PartSent
    | Undeliverable
    | Previewed
    | Waiting
    | Undelivered
    | Load
    | NewSession
    | SessionApart
    | Summarize
    | LeftOut
    | Shorten
    | ToLearn
    | Study
    | LearnedFrom
    | PutOff
    | AskToLearn
    | LearnNothing
    | MarkFiles
    | Retriable
    | OpenChats
    | NewestOpen
    | OpenMessages
    | Knows
    | Count
    | Moved
    | MovedGroups
    | Sweep
    | DeleteChat
    | ForgetChat
    | Expire
    | ListChats
    | NameChat
    | ReadHistory
    | SearchHistory
    | AddTask
    | LoadTask
    | BeginTask
    | MarkStopping
    | KeepTask
    | EndTask
    | EndIteration
    | Iterations
    | LoadParked
    | KeepParked
    | SayToTask
    | ReopenTask
    | OpenTasks
    | InterruptTasks
    | ListTasks
    | DeleteTask
    | OldTasks
    | AccountMessage
    | AddSchedule
    | LoadSchedule
    | ListSchedules
    | SetSchedule
    | PauseSchedules
    | MoveSchedules
    | DeleteSchedule
    | DueSchedules
    | AheadSchedules
    | CountSchedules
    | Fire
    | FailedSchedules
    | PauseFailed
    | MissedSchedules
    | TellMissed
    | ZoneOf
    | SetZone
    | UndoMessage
    | LeaseMessage
    | WorkspaceMessage
)

READS: Final = (
    *(Load, Undelivered, Waiting, ToLearn, Study, Retriable, OpenChats, OpenMessages, Count, MovedGroups),
    *(ListChats, ReadHistory, SearchHistory, LoadTask, OpenTasks, ListTasks, OldTasks, Spending, Standing),
    *(Iterations, LoadSchedule, ListSchedules, DueSchedules, AheadSchedules, CountSchedules, FailedSchedules),
    *(MissedSchedules, ZoneOf, NewestOpen, FindLastTurn, FindUndo, MissingPieces, GetPieces),
)
"""What can be answered while nothing can be written, as long as it finds all that it needs."""
