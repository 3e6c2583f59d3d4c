"""Steps that read all that a chat has shown, by the numbers of its messages.

A view subscribes to the chat first and reads then; `rumi.chats.joining` tells which events of a turn that
still runs the answer has already.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from rumi.store.backend import as_values
from rumi.store.journal.history import MOST_ENTRY, load_links, load_message
from rumi.store.journal.inbox import load_attachments
from rumi.store.journal.parked import buttons_in
from rumi.store.journal.records import (
    Attachment,
    Buttons,
    HistoryEntry,
    StoredEntry,
    StoredReply,
)
from rumi.store.journal.scopes import of_chat
from rumi.store.journal.shown_json import load_questions, load_shown
from rumi.store.steps import Transaction, step

MOST_ROWS: Final = 500
"""Maximum number of entries of one turn in an answer: its last ones."""

RESULT_CHARS: Final = 8_000
"""Maximum number of characters of one result of a tool, or of one text handed on by a user."""

_ROWS: Final = 100
"""Number of rows that are read at once."""

TURN_CHARS: Final = 400_000
"""Maximum number of characters of one turn's entries: those of its last ones that fit, and always one."""

PAGE_CHARS: Final = 4_000_000
"""Number of characters after which an answer ends, even if it could have more messages."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message of a chat with all that it led to: the turn that it began, and its final reply.

    `message` is its number, `at` the time when it came in seconds since 1970, and `text` what its sender
    wrote. `schedule`, `trigger` and `task` say what has put the message here, `notice` that its text is its
    reply, and `pressed` that a button was pressed. `turn` is the turn that it began, empty for others, and
    `reason` how that turn ended. A message that belongs to the turn of another one names that one in
    `part_of`. `retried` is the message that ran its turn again. `undone` is True if the turn was undone.
    `model` is the model that was chosen for it. `branches` is the earlier message from before which its turn
    continues; 0 for most.

    `entries` are those of the turn, oldest first, without the program's own notes. `cut` is True if the first
    ones are missing, because the turn is too long. `reply` is the final reply. Several messages may share
    one: then only the message that began the turn has it, or else the first of them.
    """

    message: int
    chat: str
    session: int
    at: float
    text: str
    attachments: tuple[Attachment, ...] = ()
    schedule: int = 0
    trigger: str = ""
    task: int = 0
    notice: bool = False
    pressed: bool = False
    turn: str = ""
    reason: str = ""
    part_of: int = 0
    retried: int = 0
    undone: bool = False
    model: str = ""
    channel: str = ""
    left: bool = False
    """A branch continues from before this message, so that this is an earlier version."""
    entries: tuple[StoredEntry, ...] = ()
    cut: bool = False
    reply: StoredReply | None = None
    branches: int = 0
    answered: bool = False
    """It has its final reply, which another message may show. Without one and without a turn, it waits."""


_COLUMNS: Final = (
    "id, chat, coalesce(session, 0), received, text, enclosures, coalesce(schedule, 0), event_of,"
    " coalesce(task, 0), notice, pressed, coalesce(turn, ''), coalesce(reason, ''), coalesce(part_of, 0),"
    " coalesce(retried, 0), model, channel, coalesce(reply, 0), buttons, coalesce(corrects, 0),"
    " branches, EXISTS (SELECT 1 FROM messages AS later JOIN messages AS first ON first.id = later.branches"
    " WHERE later.chat = messages.chat AND later.branches BETWEEN 1 AND messages.id"
    " AND later.id > messages.id AND first.session = messages.session AND later.turn IS NOT NULL)"
)

_SHOWN: Final = (
    # A schedule's turn is shown with its reply, because it may end silently. A command of a schedule that
    # ended silently, and turns whose session was forgotten, have no entries.
    " AND (reply IS NOT NULL OR schedule IS NULL)"
    # Of a message that was dropped while it waited, nothing is left.
    " AND NOT EXISTS (SELECT 1 FROM outbox WHERE outbox.id = messages.reply AND outbox.silent != 0)"
    " AND (reply IS NULL OR session IS NULL OR turn IS NULL AND task IS NULL AND schedule IS NULL"
    " OR EXISTS (SELECT 1 FROM history WHERE history.chat = messages.chat"
    # Results and notices have entries, although they began no turn.
    " AND history.turn = coalesce(messages.turn, 't' || messages.id) AND silent = 0"
    " AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.chat = history.chat"
    " AND number = history.session AND forget)))"
    # The new text of a message that was corrected in time stands in that message.
    " AND NOT (corrects != 0 AND EXISTS (SELECT 1 FROM messages AS corrected WHERE corrected.id ="
    " messages.corrects AND corrected.chat = messages.chat"
    " AND coalesce(corrected.reply, 0) = coalesce(messages.reply, 0)))"
)
"""SQL condition for the messages that people saw."""


@step(of_chat, reads=True)
def read_transcript(
    transaction: Transaction, chat: str, before: int = MOST_ENTRY, limit: int = 60
) -> tuple[StoredMessage, ...]:
    """Return at most `limit` of the chat's latest messages with numbers below `before`, oldest first.

    Sessions that were forgotten and turns that ended silently are left out. The answer may have fewer
    messages although there are earlier ones; if there are none, it is empty.
    """
    return _read(transaction, chat, "id < ?", (before,), limit)


@step(of_chat, reads=True)
def read_messages(transaction: Transaction, chat: str, numbers: tuple[int, ...]) -> tuple[StoredMessage, ...]:
    """Return the chat's messages with these numbers that people may see, oldest first."""
    if not numbers:
        return ()
    return _read(transaction, chat, f"id IN ({as_values(numbers)})", (), len(numbers))


def _read(
    transaction: Transaction, chat: str, which: str, values: tuple[object, ...], limit: int
) -> tuple[StoredMessage, ...]:
    session, forgotten = transaction.db.execute(
        "SELECT number, forgotten FROM sessions WHERE chat = ? AND forgotten > 0"
        " ORDER BY number DESC LIMIT 1",
        (chat,),
    ).fetchone() or (0, 0)
    rows = transaction.db.execute(
        f"SELECT {_COLUMNS} FROM messages WHERE chat = ? AND {which}{_SHOWN}"
        " AND (id > ? OR coalesce(session, 0) >= ?) ORDER BY id DESC LIMIT ?",
        (chat, *values, forgotten, session, limit),
    ).fetchall()
    replies = _replies(transaction, chat, [row[17] for row in rows if row[17]])
    found: list[StoredMessage] = []
    chars = 0
    for row in rows:
        reply = replies.get(row[17])
        stored, read = _with_turn(transaction, _message(row), reply, buttons_in(row[18]))
        chars += read
        found.append(stored)
        if chars > PAGE_CHARS:
            break
    return tuple(reversed(found))


def _message(row: tuple[Any, ...]) -> StoredMessage:
    number, chat, session, at, text, attachments, schedule, trigger, task, notice, pressed, *more = row
    turn, reason, part_of, retried, model, channel, reply, _, _, branches, left = more
    turn = turn or (f"t{number}" if reason else "")  # one that never began, because the process ended
    return StoredMessage(
        *(number, chat, session, at, text, load_attachments(attachments), schedule, trigger, task),
        *(bool(notice), bool(pressed), turn, reason, part_of, retried),
        model=model,
        channel=channel,
        branches=branches,
        left=bool(left),
        answered=bool(reply),
    )


def _with_turn(
    transaction: Transaction, message: StoredMessage, reply: StoredReply | None, buttons: Buttons
) -> tuple[StoredMessage, int]:
    """Return the message with the entries of its turn and its reply, and how many characters were read."""
    chars = len(message.text)
    if reply is not None and message.message == _carrier(reply):
        chars += len(reply.text)
        message = replace(message, reply=replace(reply, buttons=buttons))
    if message.turn:
        entries, cut, read = _entries(transaction, message)
        undone = any(one.undone for one in entries)
        message = replace(message, entries=entries, cut=cut, undone=undone)
        chars += read
    return message, chars


def _carrier(reply: StoredReply) -> int:
    """Return the message that has a reply: the one that began the turn, or else the first."""
    number = reply.turn[1:]
    began = int(number) if number.isdecimal() and len(number) < 19 else 0
    return began if began in reply.messages else reply.messages[0]


def _replies(transaction: Transaction, chat: str, deliveries: Iterable[int]) -> dict[int, StoredReply]:
    """Return the replies with these numbers, with the messages that share them."""
    if not (numbers := sorted(set(deliveries))):
        return {}
    rows = transaction.db.execute(
        "SELECT outbox.id, outbox.text, messages.id, turn, reason, coalesce(task, 0), coalesce(schedule, 0),"
        " event_of, created, delivered, note, questions, part_of FROM outbox"
        f" JOIN messages ON reply = outbox.id WHERE outbox.id IN ({as_values(numbers)}) AND outbox.chat = ?"
        " ORDER BY outbox.id, messages.id",
        (chat,),
    )
    replies: dict[int, StoredReply] = {}
    for delivery, text, number, turn, reason, task, schedule, trigger, created, delivered, *told in rows:
        note, questions, part_of = told
        reply = replies.get(delivery) or StoredReply(
            *(delivery, (), text),
            task=task,
            schedule=schedule,
            trigger=trigger,
            created=created,
            delivered=delivered is not None,
            note=note,
            questions=load_questions(questions),
        )
        reply = replace(reply, messages=(*reply.messages, number))
        if part_of is not None:
            reply = replace(reply, joined=(*reply.joined, number))
        if not reply.turn and (turn or reason):
            reply = replace(reply, turn=turn or f"t{number}", reason=reason)
        replies[delivery] = reply
    return replies


def _entries(transaction: Transaction, message: StoredMessage) -> tuple[tuple[StoredEntry, ...], bool, int]:
    """Return the last entries of a message's turn, whether earlier ones are missing, and their characters."""
    found: list[StoredEntry] = []
    chars, below = 0, MOST_ENTRY
    while rows := transaction.db.execute(
        "SELECT id, session, created, message, tainted, links, undone, shown FROM history"
        " WHERE chat = ? AND turn = ? AND id < ? ORDER BY id DESC LIMIT ?",
        (message.chat, message.turn, below, _ROWS),
    ).fetchall():
        for id, session, at, text, tainted, links, undone, shown in rows:
            below, stored = id, load_message(text)
            if stored.role == "system":  # the program's notes to the model
                continue
            # Before the content is cut, because it contains the beginning of what people saw.
            seen = load_shown(shown, stored.content)
            too_long = stored.role != "assistant" and len(stored.content) > RESULT_CHARS
            if too_long:
                stored = replace(stored, content=stored.content[:RESULT_CHARS])
            chars += len(stored.content) + len(shown) + sum(len(one.arguments) for one in stored.tool_calls)
            if found and (chars > TURN_CHARS or len(found) >= MOST_ROWS):
                return tuple(reversed(found)), True, chars
            entry = HistoryEntry(message.turn, stored, bool(tainted), load_links(links), shown=seen)
            found.append(StoredEntry(id, message.chat, session, at, entry, bool(undone), too_long))
        if len(rows) < _ROWS:
            break
    return tuple(reversed(found)), False, chars
