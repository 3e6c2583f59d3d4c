"""Steps for the choices of chats about spoken answers."""

from rumi.store.journal.scopes import of_chat
from rumi.store.steps import Transaction, step


@step(reads=True)
def spoken_answers(transaction: Transaction, chat: str) -> str:
    """Return which answers of a chat are also spoken, as in `[voice] answer`; empty if nobody has chosen."""
    row = transaction.db.execute("SELECT answers FROM voices WHERE chat = ?", (chat,)).fetchone()
    return str(row[0]) if row else ""


@step(of_chat)
def set_spoken_answers(transaction: Transaction, chat: str, answers: str) -> None:
    """Store which answers of a chat are also spoken."""
    transaction.db.execute(
        "INSERT INTO voices (chat, answers) VALUES (?, ?)"
        " ON CONFLICT (chat) DO UPDATE SET answers = excluded.answers",
        (chat, answers),
    )
