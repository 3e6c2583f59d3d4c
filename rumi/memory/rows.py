"""The steps of the memory: they store, delete, share and list facts in `memory.db`, each with one owner."""

from collections.abc import Iterable
from dataclasses import replace

from rumi.memory.changes import recording_changes, take_back
from rumi.memory.messages import MAX_FACTS, Fact, FactRefused, NewFact, PastFact, Source, TakenBack
from rumi.memory.writing import checked, folded
from rumi.store.protocol import Database
from rumi.store.steps import Transaction, step

FORGOTTEN_FOR_S = 30 * 86_400.0
"""Retention of forgotten keys in seconds; every session that began earlier has ended by then."""

MOST_PAST = 1000
"""Maximum number of replaced facts of one owner; the oldest ones are deleted first."""

_FACT = "key, value, source, chat, tainted, created, updated, turn"


def _of_owner(transaction: Transaction, owner: str) -> Iterable[str]:
    return (owner,)


def _of_changed_by(transaction: Transaction, turn: str) -> Iterable[str]:
    rows = transaction.db.execute("SELECT DISTINCT owner FROM changes WHERE turn = ?", (turn,))
    return [str(owner) for (owner,) in rows.fetchall()]


@step(reads=True)
def facts_of(transaction: Transaction, owner: str) -> tuple[Fact, ...]:
    """Return all facts of an owner: explicit ones first, then the most recent first."""
    rows = transaction.db.execute(
        f"SELECT {_FACT} FROM facts WHERE owner = ? ORDER BY source = 'auto', updated DESC, id DESC",
        (owner,),
    )
    return tuple(fact_of(row) for row in rows)


@step(_of_owner)
def remember_fact(
    transaction: Transaction,
    owner: str,
    fact: NewFact,
    source: Source = "explicit",
    chat: str = "",
    tainted: bool = False,
    turn: str = "",
    also: bool = True,
) -> tuple[Fact, ...]:
    """Store a fact, or renew its time if it is stored. The reply lists the key's other facts, oldest first.

    `turn` stores the fact and can be undone; it is empty for none. Without `also`, the new fact replaces
    these other facts, which move to the key's history. Keys are compared without regard to case and blanks. A
    fact has the most recent spelling of its key. An explicit fact stays explicit, and a fact from an
    untainted source stays untainted.
    """
    now, new = transaction.now(), checked(fact.key, fact.value)
    stored = Fact(new.key, new.value, source, chat, tainted, now, now, turn)
    rows = transaction.db.execute(
        f"SELECT id, {_FACT} FROM facts WHERE owner = ? AND folded = ? AND value <> ? ORDER BY created, id",
        (owner, folded(stored.key), stored.value),
    ).fetchall()
    with recording_changes(transaction, turn, owner):
        if not also:
            for row in rows:
                _retire(transaction.db, owner, row[0], now)
        put(transaction.db, owner, stored)
    return tuple(fact_of(row[1:]) for row in rows)


@step(reads=True)
def past_facts(transaction: Transaction, owner: str, key: str) -> tuple[PastFact, ...]:
    """Return the replaced facts of a key, oldest first."""
    rows = transaction.db.execute(
        f"SELECT {_FACT}, ended FROM past WHERE owner = ? AND folded = ? ORDER BY id",
        (owner, folded(key)),
    )
    return tuple(PastFact(fact_of(row[:-1]), float(row[-1])) for row in rows)


@step(_of_owner, erases=True)
def forget_owner(transaction: Transaction, owner: str) -> int:
    """Delete all facts of an owner with their history. The reply is the number of deleted current facts."""
    count = transaction.db.execute("DELETE FROM facts WHERE owner = ?", (owner,)).rowcount
    for table in ("past", "forgotten", "shared", "changes"):
        transaction.db.execute(f"DELETE FROM {table} WHERE owner = ?", (owner,))
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


@step(_of_owner, erases=True)
def forget_key(transaction: Transaction, owner: str, key: str, turn: str = "") -> int:
    """Delete all facts with a key. The reply is the number of deleted facts.

    If the `turn` is undone, the facts are restored.
    """
    db, now, of = transaction.db, transaction.now(), (owner, folded(key))
    with recording_changes(transaction, turn, owner):
        gone = db.execute("DELETE FROM facts WHERE owner = ? AND folded = ?", of).rowcount
    db.execute("DELETE FROM past WHERE owner = ? AND folded = ?", of)
    db.execute("DELETE FROM shared WHERE owner = ? AND folded = ?", of)
    if not turn:  # a person forgets it: no undo brings it back
        db.execute("DELETE FROM changes WHERE owner = ? AND folded = ?", of)
    # Sessions that began before this may still mention the key: see `_put_extracted`.
    db.execute("DELETE FROM forgotten WHERE at < ?", (now - FORGOTTEN_FOR_S,))
    db.execute(
        "INSERT INTO forgotten (owner, folded, at) VALUES (?, ?, ?)"
        " ON CONFLICT (owner, folded) DO UPDATE SET at = excluded.at",
        (*of, now),
    )
    return gone


@step(_of_changed_by, erases=True)
def take_facts_back(transaction: Transaction, turn: str) -> TakenBack:
    """Undo a turn's changes to facts. Facts that were changed again after the turn stay as they are."""
    return take_back(transaction, turn)


@step(reads=True)
def is_extracted(transaction: Transaction, chat: str, session: int, upto: int) -> bool:
    """Return True if facts were already extracted from a session up to the entry `upto`."""
    found = transaction.db.execute(
        "SELECT EXISTS (SELECT 1 FROM learned WHERE chat = ? AND session = ? AND upto = ?)",
        (chat, session, upto),
    )
    return bool(found.fetchone()[0])


@step(_of_owner)
def store_extracted(
    transaction: Transaction,
    owner: str,
    chat: str,
    session: int,
    upto: int,
    facts: tuple[NewFact, ...],
    began: float | None = None,
) -> int:
    """Store facts that were extracted from a session's history up to the entry `upto`.

    The reply is the number of new facts. Idempotent: a second request for the same chat, session and `upto`
    stores nothing and returns 0, even after a crash. `began` is the time at which the session began: a fact
    is not stored if the user has deleted its key since then. If exactly one fact of the owner has the key
    that a new fact names in `replaces`, the new fact replaces it. An explicit fact (one that the user stated)
    is replaced only by a fact with the same key.
    """
    now = transaction.now()
    # The row that makes this idempotent is written in the transaction that stores the facts.
    inserted = transaction.db.execute(
        "INSERT INTO learned (chat, session, upto, at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (chat, session, upto, now),
    )
    if inserted.rowcount == 0:
        return 0
    source = Fact("", "", "auto", chat, created=now, updated=now, turn=f"session {session}")
    return sum(_put_extracted(transaction.db, owner, found, source, began) for found in facts)


def _put_extracted(db: Database, owner: str, found: NewFact, source: Fact, began: float | None) -> bool:
    """Store an extracted fact, with the other fields of `source`; return True if it is new.

    A fact that is refused counts as not new, so that it does not prevent the others from being stored.
    """
    try:
        new = checked(found.key, found.value)
        if began is not None and forgotten_since(db, owner, new.key, began):
            return False
        fact = replace(source, key=new.key, value=new.value)
        # A known fact is only renewed: it replaces nothing.
        if find_fact(db, owner, fact) is None:
            _retire_replaced(db, owner, found.replaces, fact)
        return put(db, owner, fact)
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
    fact_id = find_fact(db, owner, fact)
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


def forgotten_since(db: Database, owner: str, key: str, since: float) -> bool:
    """Return True if the key was forgotten at the time `since` or later."""
    row = db.execute(
        "SELECT EXISTS (SELECT 1 FROM forgotten WHERE owner = ? AND folded = ? AND at >= ?)",
        (owner, folded(key), since),
    ).fetchone()
    return bool(row[0])


def find_fact(db: Database, owner: str, fact: Fact) -> int | None:
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


@step(_of_owner)
def share_key(transaction: Transaction, owner: str, key: str, group: str) -> int:
    """Share the facts that an owner has under one key with a group. The reply is the number of these facts.

    Refused with `FactRefused` if the owner already shares too many keys with that group.
    """
    db, of = transaction.db, (owner, folded(key))
    (facts,) = db.execute("SELECT count(*) FROM facts WHERE owner = ? AND folded = ?", of).fetchone()
    if not facts:
        return 0
    (shared,) = db.execute(
        'SELECT count(*) FROM shared WHERE owner = ? AND "group" = ?', (owner, group)
    ).fetchone()
    if shared >= MOST_SHARED:
        raise FactRefused(
            "{shared} facts are shared with this group already.", "Unshare one first.", shared=shared
        )
    db.execute(
        "INSERT INTO shared VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*of, group, transaction.now()),
    )
    return int(facts)


@step(_of_owner)
def unshare_key(transaction: Transaction, owner: str, key: str, group: str) -> int:
    """Stop sharing an owner's facts under one key. The reply is 1 if they were shared, otherwise 0."""
    gone = transaction.db.execute(
        'DELETE FROM shared WHERE owner = ? AND folded = ? AND "group" = ?',
        (owner, folded(key), group),
    )
    return gone.rowcount


@step(reads=True)
def shared_with(transaction: Transaction, group: str, owner: str = "") -> tuple[tuple[str, Fact], ...]:
    """Return the facts that people have shared with a group, each with its owner.

    With an `owner`, return only the facts of that owner.
    """
    rows = transaction.db.execute(
        "SELECT facts.owner, key, value, source, chat, tainted, created, updated, turn FROM shared"
        " JOIN facts ON facts.owner = shared.owner AND facts.folded = shared.folded"
        " WHERE shared.\"group\" = ?1 AND (shared.owner = ?2 OR ?2 = '')"
        " ORDER BY facts.owner, shared.at, facts.id",
        (group, owner),
    )
    return tuple((str(owner), fact_of(tuple(fact))) for owner, *fact in rows)
