"""Facts that a person has shared with a group: the group sees them as they are now, until they are unshared.

A fact stays its owner's. What is shared is its key, so a changed fact is shared as it is then, and a
forgotten one is shared no more.
"""

from rumi.memory.messages import Fact, FactRefused, Share, Shared, Unshare
from rumi.memory.rows import fact_of, steps
from rumi.memory.writing import folded
from rumi.store.steps import Transaction

MOST_SHARED = 100
"""So many keys one owner may share with one group."""


@steps.of(Share)
def share(request: Share, transaction: Transaction) -> int:
    """Note that a group sees the facts with a key."""
    db, of = transaction.db, (request.owner, folded(request.key))
    (facts,) = db.execute("SELECT count(*) FROM facts WHERE owner = ? AND folded = ?", of).fetchone()
    if not facts:
        return 0
    (shared,) = db.execute(
        'SELECT count(*) FROM shared WHERE owner = ? AND "group" = ?', (request.owner, request.group)
    ).fetchone()
    if shared >= MOST_SHARED:
        raise FactRefused(f"{shared} facts are shared with this group already.", "Unshare one first.")
    db.execute(
        "INSERT INTO shared VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*of, request.group, transaction.now()),
    )
    return int(facts)


@steps.of(Unshare)
def unshare(request: Unshare, transaction: Transaction) -> int:
    """Note that a group sees them no more."""
    gone = transaction.db.execute(
        'DELETE FROM shared WHERE owner = ? AND folded = ? AND "group" = ?',
        (request.owner, folded(request.key), request.group),
    )
    return gone.rowcount


@steps.of(Shared)
def shared_with(request: Shared, transaction: Transaction) -> tuple[tuple[str, Fact], ...]:
    """Return what a group sees, in the order of its owners and of their sharing."""
    rows = transaction.db.execute(
        "SELECT facts.owner, key, value, source, chat, tainted, created, updated, turn FROM shared"
        " JOIN facts ON facts.owner = shared.owner AND facts.folded = shared.folded"
        " WHERE shared.\"group\" = ?1 AND (shared.owner = ?2 OR ?2 = '')"
        " ORDER BY facts.owner, shared.at, facts.id",
        (request.group, request.owner),
    )
    return tuple((str(owner), fact_of(tuple(fact))) for owner, *fact in rows)
