"""Functions that read, add and remove rows of `memory.db` within the open transaction."""

from rumi.memory.changes import recording_changes, take_back
from rumi.memory.messages import (
    MAX_FACTS,
    Fact,
    FactRefused,
    Facts,
    Forget,
    ForgetOwner,
    IsExtracted,
    NewFact,
    PastFact,
    PastFacts,
    Remember,
    Share,
    Shared,
    StoreExtracted,
    TakeFactsBack,
    TakenBack,
    Unshare,
)
from rumi.memory.writing import checked, folded
from rumi.store.protocol import Database
from rumi.store.steps import Steps, Transaction

FORGOTTEN_FOR_S = 30 * 86_400.0
"""Retention of forgotten keys in seconds; every session that began earlier has ended by then."""

MOST_PAST = 1000
"""Maximum number of replaced facts of one owner; the oldest ones are deleted first."""

_FACT = "key, value, source, chat, tainted, created, updated, turn"

steps: Steps[Transaction] = Steps()


@steps.of(Facts)
def facts_of(request: Facts, transaction: Transaction) -> tuple[Fact, ...]:
    """Return all facts of an owner: explicit ones first, then the most recent first."""
    rows = transaction.db.execute(
        f"SELECT {_FACT} FROM facts WHERE owner = ? ORDER BY source = 'auto', updated DESC, id DESC",
        (request.owner,),
    )
    return tuple(fact_of(row) for row in rows)


@steps.of(Remember)
def remember(request: Remember, transaction: Transaction) -> tuple[Fact, ...]:
    """Add or renew a fact. Return the other facts with the same key, oldest first."""
    now, new = transaction.now(), checked(request.fact.key, request.fact.value)
    fact = Fact(new.key, new.value, request.source, request.chat, request.tainted, now, now, request.turn)
    rows = transaction.db.execute(
        f"SELECT id, {_FACT} FROM facts WHERE owner = ? AND folded = ? AND value <> ? ORDER BY created, id",
        (request.owner, folded(fact.key), fact.value),
    ).fetchall()
    with recording_changes(transaction, request.turn, request.owner):
        if not request.also:
            for row in rows:
                _retire(transaction.db, request.owner, row[0], now)
        put(transaction.db, request.owner, fact)
    return tuple(fact_of(row[1:]) for row in rows)


@steps.of(PastFacts)
def past_facts(request: PastFacts, transaction: Transaction) -> tuple[PastFact, ...]:
    """Return a key's replaced facts, oldest first."""
    rows = transaction.db.execute(
        f"SELECT {_FACT}, ended FROM past WHERE owner = ? AND folded = ? ORDER BY id",
        (request.owner, folded(request.key)),
    )
    return tuple(PastFact(fact_of(row[:-1]), float(row[-1])) for row in rows)


@steps.of(ForgetOwner)
def forget_owner(request: ForgetOwner, transaction: Transaction) -> int:
    """Delete an owner's facts with all their records; return the number of deleted current facts."""
    count = transaction.db.execute("DELETE FROM facts WHERE owner = ?", (request.owner,)).rowcount
    for table in ("past", "forgotten", "shared", "changes"):
        transaction.db.execute(f"DELETE FROM {table} WHERE owner = ?", (request.owner,))
    return count


def _retire(db: Database, owner: str, id: int, now: float) -> None:
    """Move a fact from the current facts to the history of its key."""
    db.execute(
        f"INSERT INTO past (owner, folded, {_FACT}, ended)"
        f" SELECT owner, folded, {_FACT}, ? FROM facts WHERE id = ?",
        (now, id),
    )
    db.execute("DELETE FROM facts WHERE id = ?", (id,))
    db.execute(
        "DELETE FROM past WHERE owner = ?1 AND id <="
        " (SELECT id FROM past WHERE owner = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        (owner, MOST_PAST),
    )


@steps.of(Forget)
def forget(request: Forget, transaction: Transaction) -> int:
    """Delete all facts with a key, record the key as forgotten, and return the number of facts."""
    db, now, of = transaction.db, transaction.now(), (request.owner, folded(request.key))
    with recording_changes(transaction, request.turn, request.owner):
        gone = db.execute("DELETE FROM facts WHERE owner = ? AND folded = ?", of).rowcount
    db.execute("DELETE FROM past WHERE owner = ? AND folded = ?", of)
    db.execute("DELETE FROM shared WHERE owner = ? AND folded = ?", of)
    if not request.turn:  # a person forgets it: no undo brings it back
        db.execute("DELETE FROM changes WHERE owner = ? AND folded = ?", of)
    # Sessions that began before this may still mention the key: see `_put_extracted`.
    db.execute("DELETE FROM forgotten WHERE at < ?", (now - FORGOTTEN_FOR_S,))
    db.execute(
        "INSERT INTO forgotten (owner, folded, at) VALUES (?, ?, ?)"
        " ON CONFLICT (owner, folded) DO UPDATE SET at = excluded.at",
        (*of, now),
    )
    return gone


@steps.of(TakeFactsBack)
def take_facts_back(request: TakeFactsBack, transaction: Transaction) -> TakenBack:
    """Restore the facts that a turn has changed. Idempotent: a second call restores nothing."""
    return take_back(transaction, request.turn)


@steps.of(IsExtracted)
def is_extracted(request: IsExtracted, transaction: Transaction) -> bool:
    """Return True if facts were already extracted from the session up to the entry `upto`."""
    found = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM learned WHERE chat = ? AND session = ? AND upto = ?)",
        (request.chat, request.session, request.upto),
    )
    return bool(found.fetchone()[0])


@steps.of(StoreExtracted)
def store_extracted(request: StoreExtracted, transaction: Transaction) -> int:
    """Add extracted facts, once for each session and entry `upto`. Return the number of new facts."""
    now = transaction.now()
    # The row that makes this idempotent is written in the transaction that stores the facts.
    inserted = transaction.db.execute(
        "INSERT INTO learned (chat, session, upto, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (request.chat, request.session, request.upto, now),
    )
    if inserted.rowcount == 0:
        return 0
    return sum(_put_extracted(transaction.db, request, found, now) for found in request.facts)


def _put_extracted(db: Database, request: StoreExtracted, found: NewFact, now: float) -> bool:
    """Store an extracted fact; return True if it is new.

    A fact that is refused counts as not new, so that it does not prevent the others from being stored.
    """
    try:
        new = checked(found.key, found.value)
        if request.began is not None and _forgotten_since(db, request.owner, new.key, request.began):
            return False
        turn = f"session {request.session}"
        fact = Fact(new.key, new.value, "auto", request.chat, created=now, updated=now, turn=turn)
        # A known fact is only renewed: it replaces nothing.
        if _find_fact(db, request.owner, fact) is None:
            _retire_replaced(db, request.owner, found.replaces, fact)
        return put(db, request.owner, fact)
    except FactRefused:
        return False


def _retire_replaced(db: Database, owner: str, key: str, by: Fact) -> None:
    """If exactly one fact has the key that a new fact names in `replaces`, move this fact to the history.

    An explicit fact is only replaced by a fact with the same key.
    """
    rows = db.execute(
        "SELECT id, source FROM facts WHERE owner = ? AND folded = ?", (owner, folded(key))
    ).fetchall()
    # The model names the key, and may be persuaded to name any: it must not replace a fact that the user
    # stated under another key.
    if len(rows) == 1 and (rows[0][1] == "auto" or folded(key) == folded(by.key)):
        _retire(db, owner, rows[0][0], by.created)


def put(db: Database, owner: str, fact: Fact, *, bounded: bool = True) -> bool:
    """Add or renew a fact. Return True if it is new. Without `bounded`, the number of facts is not limited.

    Raises:
        FactRefused: the owner has the maximum number of facts, and all of them are explicit.
    """
    fact_id = _find_fact(db, owner, fact)
    if fact_id is not None:
        _renew(db, fact_id, fact)
        return False
    if bounded:
        _evict_fact(db, owner)
    db.execute(
        f"INSERT INTO facts (owner, folded, {_FACT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            owner, folded(fact.key), fact.key, fact.value, fact.source, fact.chat, fact.tainted,
            fact.created, fact.updated, fact.turn,
        ),
    )  # fmt: skip
    return True


def _forgotten_since(db: Database, owner: str, key: str, since: float) -> bool:
    """Return True if the key was forgotten at the time `since` or later."""
    row = db.execute(
        "SELECT EXISTS (SELECT 1 FROM forgotten WHERE owner = ? AND folded = ? AND at >= ?)",
        (owner, folded(key), since),
    ).fetchone()
    return bool(row[0])


def _find_fact(db: Database, owner: str, fact: Fact) -> int | None:
    """Return the row id of a stored fact that equals this one, or None if there is none.

    If the fact was extracted, the case of its value does not matter.
    """
    rows = db.execute(
        "SELECT id, value FROM facts WHERE owner = ? AND folded = ? ORDER BY id", (owner, folded(fact.key))
    ).fetchall()
    for number, value in rows:
        if value == fact.value:
            return int(number)
    for number, value in rows:
        if fact.source == "auto" and folded(value) == folded(fact.value):
            return int(number)
    return None


def _renew(db: Database, fact_id: int, fact: Fact) -> None:
    # An explicit source and an untainted origin are worth more: a later, weaker source of the same fact must
    # not replace them.
    old = fact_of(db.execute(f"SELECT {_FACT} FROM facts WHERE id = ?", (fact_id,)).fetchone())
    demotes = old.source == "explicit" and fact.source == "auto"
    dirties = fact.tainted and not old.tainted
    db.execute(
        "UPDATE facts SET key = ?, source = ?, chat = ?, turn = ?, tainted = ?, created = ?, updated = ?"
        " WHERE id = ?",
        (
            old.key if demotes else fact.key,
            old.source if demotes else fact.source,
            old.chat if demotes or dirties else fact.chat,
            old.turn if demotes or dirties else fact.turn,
            old.tainted and fact.tainted,
            min(old.created, fact.created),
            max(old.updated, fact.updated),
            fact_id,
        ),
    )


def _evict_fact(db: Database, owner: str) -> None:
    """If the owner has `MAX_FACTS` facts, delete the extracted fact whose last renewal is the oldest.

    Raises:
        FactRefused: all facts of the owner are explicit.
    """
    (count,) = db.execute("SELECT count(*) FROM facts WHERE owner = ?", (owner,)).fetchone()
    if count < MAX_FACTS:
        return
    gone = db.execute(
        "DELETE FROM facts WHERE id = (SELECT id FROM facts WHERE owner = ? AND source = 'auto'"
        " ORDER BY updated, id LIMIT 1)",
        (owner,),
    ).rowcount
    if gone == 0:
        raise FactRefused(
            "The memory is full: {count} facts are known already.",
            "Forget what is no longer needed first.",
            count=count,
        )


def fact_of(row: tuple[object, ...]) -> Fact:
    """Convert a row of the database to a fact."""
    key, value, source, chat, tainted, created, updated, turn = row
    return Fact(
        str(key),
        str(value),
        "auto" if source == "auto" else "explicit",
        str(chat),
        bool(tainted),
        float(created),  # type: ignore[arg-type]
        float(updated),  # type: ignore[arg-type]
        str(turn),
    )


MOST_SHARED = 100
"""Maximum number of keys that one owner may share with one group."""


@steps.of(Share)
def share(request: Share, transaction: Transaction) -> int:
    """Share an owner's facts under one key with a group; return the number of these facts."""
    db, of = transaction.db, (request.owner, folded(request.key))
    (facts,) = db.execute("SELECT count(*) FROM facts WHERE owner = ? AND folded = ?", of).fetchone()
    if not facts:
        return 0
    (shared,) = db.execute(
        'SELECT count(*) FROM shared WHERE owner = ? AND "group" = ?', (request.owner, request.group)
    ).fetchone()
    if shared >= MOST_SHARED:
        raise FactRefused(
            "{shared} facts are shared with this group already.", "Unshare one first.", shared=shared
        )
    db.execute(
        "INSERT INTO shared VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*of, request.group, transaction.now()),
    )
    return int(facts)


@steps.of(Unshare)
def unshare(request: Unshare, transaction: Transaction) -> int:
    """Stop sharing an owner's facts under one key; return 1 if the facts were shared, otherwise 0."""
    gone = transaction.db.execute(
        'DELETE FROM shared WHERE owner = ? AND folded = ? AND "group" = ?',
        (request.owner, folded(request.key), request.group),
    )
    return gone.rowcount


@steps.of(Shared)
def shared_with(request: Shared, transaction: Transaction) -> tuple[tuple[str, Fact], ...]:
    """Return the facts that a group sees, ordered by owner and by the time of sharing."""
    rows = transaction.db.execute(
        "SELECT facts.owner, key, value, source, chat, tainted, created, updated, turn FROM shared"
        " JOIN facts ON facts.owner = shared.owner AND facts.folded = shared.folded"
        " WHERE shared.\"group\" = ?1 AND (shared.owner = ?2 OR ?2 = '')"
        " ORDER BY facts.owner, shared.at, facts.id",
        (request.group, request.owner),
    )
    return tuple((str(owner), fact_of(tuple(fact))) for owner, *fact in rows)
