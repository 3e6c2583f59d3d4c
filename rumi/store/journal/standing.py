"""Steps for standing approvals, which are stored with their schedule."""

from collections.abc import Iterable

from rumi.store.journal.records import ScheduleRecord
from rumi.store.journal.scopes import of_schedule
from rumi.store.journal.transaction import clean
from rumi.store.journal.undo import note_schedule, schedule_row
from rumi.store.steps import Transaction, step


def _of_seen(transaction: Transaction, seen: ScheduleRecord) -> Iterable[str]:
    return of_schedule(transaction, seen.id)


@step(_of_seen)
def set_approval(transaction: Transaction, seen: ScheduleRecord, approval: str, turn: str = "") -> bool:
    """Set the approval of a schedule, unless the schedule or its approval differs from what was `seen`.

    So a count never brings back an approval that was ended meanwhile, and no use is counted on an old count.
    If the chat undoes the turn `turn`, the approval is removed. Return False if nothing was set.
    """
    before = schedule_row(transaction, seen.id) if turn else None
    done = transaction.db.execute(
        "UPDATE schedules SET approval = ? WHERE id = ? AND approval = ? AND kind = ? AND text = ?"
        " AND options = ? AND owner = ? AND chat = ? AND coalesce(user, 0) = ?",
        (
            *(
                clean(approval),
                seen.id,
                clean(seen.approval),
                seen.kind,
                clean(seen.text),
                clean(seen.options),
            ),
            *(seen.owner, seen.chat, seen.user or 0),
        ),
    )
    if done.rowcount and before is not None:
        note_schedule(transaction, turn, seen.chat, seen.id, before)
    return bool(done.rowcount)


@step(_of_seen)
def edit_schedule(transaction: Transaction, seen: ScheduleRecord, text: str, approval: str) -> bool:
    """Replace the text of a schedule by words of a person, and its approval, in one transaction.

    Return False if the schedule differs from what was `seen`; then nothing has changed.
    """
    done = transaction.db.execute(
        "UPDATE schedules SET text = ?, approval = ?, tainted = ?, failures = 0 WHERE id = ?"
        " AND text = ? AND approval = ? AND state != 'done'",
        (clean(text), clean(approval), False, seen.id, clean(seen.text), clean(seen.approval)),
    )
    return bool(done.rowcount)


@step(reads=True)
def language_of_chat(transaction: Transaction, chat: str) -> str:
    """Return the language of the chat's last message that names one; empty if there is none."""
    row = transaction.db.execute(
        "SELECT language FROM messages WHERE chat = ? AND language != '' ORDER BY id DESC LIMIT 1", (chat,)
    ).fetchone()
    return str(row[0]) if row else ""
