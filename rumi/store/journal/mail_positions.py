"""Steps about positions in mailboxes: up to which message a folder has been read."""

from dataclasses import dataclass

from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step


@dataclass(frozen=True, slots=True)
class MailPosition:
    """The last UID that was read of a folder, under the server's UIDVALIDITY."""

    validity: int
    upto: int


@step(reads=True)
def mail_position(transaction: Transaction, account: str, folder: str) -> MailPosition | None:
    """Return the stored position in a folder, or None if it was never read."""
    row = transaction.db.execute(
        "SELECT validity, upto FROM mail_positions WHERE account = ? AND folder = ?",
        (clean(account), clean(folder)),
    ).fetchone()
    return None if row is None else MailPosition(*row)


@step()
def move_mail_position(transaction: Transaction, account: str, folder: str, position: MailPosition) -> None:
    """Store a position in a folder. Under the same validity, a position never moves back."""
    transaction.db.execute(
        "INSERT INTO mail_positions (account, folder, validity, upto, changed) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (account, folder) DO UPDATE SET validity = excluded.validity, upto = excluded.upto,"
        " changed = excluded.changed WHERE mail_positions.validity != excluded.validity"
        " OR mail_positions.upto < excluded.upto",
        (clean(account), clean(folder), position.validity, position.upto, transaction.now()),
    )
