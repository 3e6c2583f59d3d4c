"""The step that stores facts from the memory of another assistant."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rumi.memory.messages import MAX_FACTS, Fact, FactRefused, NewFact
from rumi.memory.rows import FORGOTTEN_FOR_S, find_fact, forgotten_since, put
from rumi.memory.secrets import looks_secret, mentions_secret
from rumi.memory.writing import checked, written
from rumi.store.steps import Transaction, step

FREE: Final = 200
"""Number of facts of an owner for which an import leaves room."""

FactMoved: TypeAlias = Literal["new", "here", "secret", "forgotten", "full", "refused"]
"""What became of a fact: stored; known; it looks like a secret; its key was forgotten a short while ago; no
room; it is too long or empty."""


@dataclass(frozen=True, slots=True)
class FactFromOutside:
    """A fact that another program has stored. `origin` names the program and the file."""

    key: str
    value: str
    origin: str


def _of_owner(transaction: Transaction, owner: str) -> Iterable[str]:
    return (owner,)


@step(_of_owner)
def move_facts_in(
    transaction: Transaction, owner: str, facts: tuple[FactFromOutside, ...], dry: bool = False
) -> tuple[FactMoved, ...]:
    """Store facts, which count as untrusted content, and displace none; return what became of each.

    With `dry`, nothing is stored.
    """
    db, now = transaction.db, transaction.now()
    (count,) = db.execute("SELECT count(*) FROM facts WHERE owner = ?", (owner,)).fetchone()
    outcomes: list[FactMoved] = []
    for one in facts:
        try:
            new = checked(one.key, one.value)
        except FactRefused:
            secret = looks_secret(NewFact(written(one.key), written(one.value)))
            outcomes.append("secret" if secret else "refused")
            continue
        fact = Fact(new.key, new.value, "auto", "", True, now, now, one.origin)
        if mentions_secret(new):
            outcomes.append("secret")
        elif find_fact(db, owner, fact) is not None:
            outcomes.append("here")
        elif forgotten_since(db, owner, new.key, now - FORGOTTEN_FOR_S):
            outcomes.append("forgotten")
        elif count >= MAX_FACTS - FREE:
            outcomes.append("full")
        else:
            outcomes.append("new")
            count += 1
            if not dry:
                put(db, owner, fact)
    return tuple(outcomes)
