"""Steps that store sessions and schedules of other assistants, each of them completely or not at all."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rumi.models.model import Message
from rumi.store.journal.filing import title_chat
from rumi.store.journal.history import dump_message, open_session
from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.schedules import add_schedule
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step


@dataclass(frozen=True, slots=True)
class TurnFromOutside:
    """A turn that another program has stored, from a person's message to its answer.

    `number` stands for the turn in each import from the same source. `entries` has the messages, the person's
    first, each with its time in seconds since 1970. `reply` is the answer that views show.
    """

    number: int
    text: str
    at: float
    entries: tuple[tuple[Message, float], ...]
    reply: str

    @property
    def ended(self) -> float:
        """The time of the last message, in seconds since 1970."""
        return self.entries[-1][1] if self.entries else self.at


ScheduleMoved: TypeAlias = Literal["new", "here", "full"]
"""A schedule was stored, was stored by an earlier import, or the owner has too many."""


@step(of_chat, reads=True)
def turns_moved_in(transaction: Transaction, chat: str, source: str) -> frozenset[int]:
    """Return the numbers of the turns from a source that a chat has."""
    rows = transaction.db.execute(
        "SELECT number FROM updates JOIN messages ON messages.id = updates.message"
        " WHERE source = ? AND messages.chat = ?",
        (source, chat),
    )
    return frozenset(int(number) for (number,) in rows.fetchall())


@step(of_chat, owned=True)
def move_session_in(
    transaction: Transaction, chat: str, source: str, title: str, turns: tuple[TurnFromOutside, ...]
) -> int:
    """Store the turns of a session that the chat does not have yet; return how many these were.

    All that is stored counts as untrusted content, nothing was learned from it, and no turn of it is open.
    The chat goes on in the session, unless the chat went on before: then what is new is a session that has
    ended. The numbers of the turns are stored as updates of the `source`, so a repeated import adds nothing.
    """
    db, known = transaction.db, turns_moved_in.do(transaction, chat, source)
    new = [turn for turn in turns if turn.number not in known]
    if not new:
        return 0
    session, last = _session(transaction, chat, source), new[-1].ended
    for turn in new:
        (reply,) = db.execute(
            "INSERT INTO outbox (chat, text, created, delivered) VALUES (?, ?, ?, ?) RETURNING id",
            (chat, clean(turn.reply), turn.ended, turn.ended),
        ).fetchone()
        (message,) = db.execute(
            "INSERT INTO messages (chat, text, received, session, reason, reply, tainted)"
            " VALUES (?, ?, ?, ?, 'complete', ?, TRUE) RETURNING id",
            (chat, clean(turn.text), turn.at, session, reply),
        ).fetchone()
        db.execute("UPDATE messages SET turn = ? WHERE id = ?", (f"t{message}", message))
        db.executemany(
            "INSERT INTO history (chat, session, turn, message, tainted, created)"
            " VALUES (?, ?, ?, ?, TRUE, ?)",
            [(chat, session, f"t{message}", dump_message(said), at) for said, at in turn.entries],
        )
        db.execute(
            "INSERT INTO updates (source, number, seen, message) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (source, number) DO UPDATE SET seen = excluded.seen, message = excluded.message",
            (source, turn.number, transaction.now(), message),
        )
    db.execute(
        "UPDATE sessions SET started = CASE WHEN started < ?1 THEN started ELSE ?1 END, tainted = TRUE,"
        " ended = CASE WHEN ended IS NULL THEN NULL ELSE ?2 END,"
        " learned = (SELECT max(id) FROM history WHERE chat = ?3 AND session = ?4)"
        " WHERE chat = ?3 AND number = ?4",
        (new[0].at, last, chat, session),
    )
    if title:
        title_chat.do(transaction, chat, title)
    transaction.touched.add(chat)
    return len(new)


def _session(transaction: Transaction, chat: str, source: str) -> int:
    """Return the session that gets the new turns of a source."""
    db = transaction.db
    found = db.execute(
        "SELECT number FROM sessions WHERE chat = ? AND ended IS NULL ORDER BY number DESC LIMIT 1", (chat,)
    ).fetchone()
    own = db.execute(
        "SELECT EXISTS (SELECT 1 FROM messages WHERE chat = ? AND NOT EXISTS"
        " (SELECT 1 FROM updates WHERE source = ? AND message = messages.id))",
        (chat, source),
    ).fetchone()[0]
    if found is not None and not own:
        return int(found[0])
    session = open_session(transaction, chat)
    if own:
        db.execute("UPDATE sessions SET ended = started WHERE chat = ? AND number = ?", (chat, session))
    return session


def _of_new(transaction: Transaction, new: ScheduleRecord) -> Iterable[str]:
    return (new.chat,)


@step(_of_new, shared=True)
def move_schedule_in(transaction: Transaction, new: ScheduleRecord, most: int) -> ScheduleMoved:
    """Store a schedule, unless one with the same owner and options is stored. The options name its source."""
    found = transaction.db.execute(
        "SELECT 1 FROM schedules WHERE owner = ? AND options = ? LIMIT 1", (new.owner, new.options)
    ).fetchone()
    if found is not None:
        return "here"
    return "full" if add_schedule.do(transaction, new, most) is None else "new"


@step(reads=True)
def schedules_moved_in(transaction: Transaction, owner: str) -> frozenset[str]:
    """Return the options of all schedules of an owner."""
    rows = transaction.db.execute("SELECT options FROM schedules WHERE owner = ?", (owner,))
    return frozenset(str(options) for (options,) in rows.fetchall())
