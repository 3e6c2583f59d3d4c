"""Steps about the members of groups: the people who have written to the bot there."""

from dataclasses import dataclass
from typing import Final

from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

MOST_MEMBERS: Final = 1000
"""Maximum number of members of a chat that are remembered."""


@dataclass(frozen=True, slots=True)
class Member:
    """A person who has written to the bot in a group.

    The person chose the `name`, so it is untrusted. `since` and `seen` are the times of their first and last
    message, in seconds since 1970.
    """

    user: int
    name: str
    since: float
    seen: float


def note_member(transaction: Transaction, chat: str, user: int, name: str) -> None:
    """Note, in the open transaction, that a person has written in a group."""
    known = transaction.db.execute(
        "UPDATE members SET name = ?, seen = ? WHERE chat = ? AND user = ?",
        (clean(name), transaction.now(), chat, user),
    )
    if known.rowcount:
        return
    transaction.db.execute(
        "INSERT INTO members (chat, user, name, since, seen) SELECT ?1, ?2, ?3, ?4, ?4"
        " WHERE (SELECT count(*) FROM members WHERE chat = ?1) < ?5",
        (chat, user, clean(name), transaction.now(), MOST_MEMBERS),
    )


@step(reads=True)
def members_of(transaction: Transaction, group: str) -> tuple[Member, ...]:
    """Return the members of a group, in all its topics; those who wrote last come first."""
    rows = transaction.db.execute(
        "SELECT user, name, since, seen FROM members WHERE chat = ?1 OR substr(chat, 1, length(?2)) = ?2"
        " ORDER BY seen DESC, user",
        (group, f"{group}_"),
    ).fetchall()
    found: dict[int, Member] = {}
    for user, name, since, seen in rows:
        latest = found.get(user)
        if latest is None:
            found[user] = Member(user, str(name), since, seen)
        else:
            found[user] = Member(user, latest.name, min(latest.since, since), latest.seen)
    return tuple(found.values())
