"""Steps for chats to which nothing can be delivered, for example because a user has blocked the bot.

The schedules of such a chat are paused, and its triggers take no events. When a person writes there again,
triggers take events, and the chat is told about its schedules.
"""

from typing import Final

from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean, mine
from rumi.store.steps import Transaction, step

_PAUSED: Final = "SELECT 1 FROM schedules WHERE schedules.chat = unreachable.chat AND reason != ''"


@step(of_chat, owned=True)
def mark_unreachable(transaction: Transaction, chat: str, why: str) -> bool:
    """Record that nothing can be delivered to a chat; `why` is the refusal in the words of the chat's source.

    The chat's undelivered replies are abandoned, and its active schedules are paused. Return True if
    schedules were paused.
    """
    db, now, why = transaction.db, transaction.now(), clean(why)
    db.execute(
        "UPDATE outbox SET delivered = ?, failure = ? WHERE chat = ? AND delivered IS NULL", (now, why, chat)
    )
    # A chat that becomes unreachable again, after a person wrote there, is reported to the admins again.
    db.execute(
        "INSERT INTO unreachable (chat, why, since) VALUES (?1, ?2, ?3) ON CONFLICT (chat) DO UPDATE SET"
        " why = ?2, since = CASE WHEN unreachable.back > 0 THEN ?3 ELSE unreachable.since END,"
        " noted = CASE WHEN unreachable.back > 0 THEN 0 ELSE unreachable.noted END, back = 0",
        (chat, why, now),
    )
    paused = db.execute(
        "UPDATE schedules SET state = 'paused', reason = ? WHERE chat = ? AND state = 'active'", (why, chat)
    )
    return paused.rowcount > 0


def note_return(transaction: Transaction, chat: str) -> None:
    """Record that a person wrote in a chat, so that messages can be delivered there again."""
    found = transaction.db.execute("SELECT 1 FROM unreachable WHERE chat = ?", (chat,)).fetchone()
    if found is None:
        return
    transaction.db.execute(f"DELETE FROM unreachable WHERE chat = ? AND NOT EXISTS ({_PAUSED})", (chat,))
    transaction.db.execute(
        "UPDATE unreachable SET back = ? WHERE chat = ? AND back = 0", (transaction.now(), chat)
    )


@step(of_chat)
def why_unreachable(transaction: Transaction, chat: str) -> str:
    """Return why nothing can be delivered to a chat, in the words of its source; empty if it can."""
    return refusal_of(transaction, chat)


def refusal_of(transaction: Transaction, chat: str) -> str:
    """Return what `why_unreachable` returns, within another step."""
    found = transaction.db.execute(
        "SELECT why FROM unreachable WHERE chat = ? AND back = 0", (chat,)
    ).fetchone()
    return "" if found is None else str(found[0])


def pause_if_unreachable(transaction: Transaction, schedule: int) -> bool:
    """Pause a schedule if nothing can be delivered to its chat; return True if so."""
    paused = transaction.db.execute(
        "UPDATE schedules SET state = 'paused', reason ="
        " (SELECT why FROM unreachable WHERE unreachable.chat = schedules.chat)"
        " WHERE id = ? AND state = 'active'"
        " AND EXISTS (SELECT 1 FROM unreachable WHERE unreachable.chat = schedules.chat AND back = 0)",
        (schedule,),
    )
    return paused.rowcount > 0


@step(reads=True)
def unreachable_chats(transaction: Transaction, noted: bool | None = None) -> tuple[tuple[str, str], ...]:
    """Return the chats whose schedules are paused for this reason, each with the refusal.

    If `noted` is given, return only the chats of which admins were told, or only the others; in these chats,
    no person has written again.
    """
    which = "" if noted is None else f" AND back = 0 AND noted = {int(noted)}"
    found = transaction.db.execute(
        f"SELECT chat, why FROM unreachable WHERE EXISTS ({_PAUSED}){which}"
        f"{mine(transaction, 'unreachable.chat')} ORDER BY chat"
    )
    return tuple((str(chat), str(why)) for chat, why in found.fetchall())
