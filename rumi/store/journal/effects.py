"""Steps about effects: what tools do at other services, such as sending a mail, and must not do twice.

An effect is stored before anything is done. It is marked once more right before the step that cannot be taken
back, and once after the service's answer. So a later process knows how an interrupted effect ended, except
for one that was marked and has no answer. See docs/decisions/0142-effects-are-reserved.md.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from rumi.store.journal.scopes import of_chat
from rumi.store.journal.transaction import clean
from rumi.store.steps import Transaction, step

EffectState: TypeAlias = Literal["reserved", "handed_over", "done", "failed"]
"""`reserved`: nothing was done yet. `handed_over`: it may have been done. `failed`: it was not done."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A stored effect.

    `turn` is the turn, or what else asks for it. `key` is a digest of what is done: in one turn, the same
    thing is done once. `what` says for people what is done, and `note` what the service said. `created` is
    the time at which it was reserved, in seconds since 1970.
    """

    turn: str
    key: str
    kind: str
    what: str
    state: EffectState
    note: str = ""
    created: float = 0.0


@step(of_chat, owned=True)
def reserve_effect(
    transaction: Transaction, chat: str, turn: str, key: str, kind: str, what: str
) -> Effect | None:
    """Store an effect before it is done. Return None if it may be done, otherwise the earlier effect.

    An effect that was only reserved, or has failed, may be done again.
    """
    now = transaction.now()
    earlier = _effect(transaction, turn, key)
    if earlier is not None and earlier.state in ("handed_over", "done"):
        return earlier
    transaction.db.execute(
        "INSERT INTO effects (chat, turn, key, kind, what, state, created, changed)"
        " VALUES (?, ?, ?, ?, ?, 'reserved', ?, ?) ON CONFLICT (turn, key) DO UPDATE SET"
        " state = 'reserved', note = '', changed = excluded.changed",
        (chat, turn, key, kind, clean(what), now, now),
    )
    return None


@step(of_chat, owned=True)
def mark_effect(
    transaction: Transaction, chat: str, turn: str, key: str, state: EffectState, note: str = ""
) -> None:
    """Store how far an effect has come, and what the service said about it."""
    transaction.db.execute(
        "UPDATE effects SET state = ?, note = ?, changed = ? WHERE chat = ? AND turn = ? AND key = ?",
        (state, clean(note), transaction.now(), chat, turn, key),
    )


@step(reads=True)
def read_effect(transaction: Transaction, turn: str, key: str) -> Effect | None:
    """Return a stored effect, or None if nothing was reserved."""
    return _effect(transaction, turn, key)


@step(reads=True)
def effects_since(transaction: Transaction, kind: str, since: float) -> int:
    """Return how many effects of a kind were reserved since a time and may have been done."""
    row = transaction.db.execute(
        "SELECT COUNT(*) FROM effects WHERE kind = ? AND created >= ? AND state IN ('handed_over', 'done')",
        (kind, since),
    ).fetchone()
    return int(row[0])


def _effect(transaction: Transaction, turn: str, key: str) -> Effect | None:
    row = transaction.db.execute(
        "SELECT turn, key, kind, what, state, note, created FROM effects WHERE turn = ? AND key = ?",
        (turn, key),
    ).fetchone()
    return None if row is None else Effect(*row)
