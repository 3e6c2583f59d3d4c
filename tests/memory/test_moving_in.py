"""Facts from the memory of another assistant."""

from pathlib import Path

from rumi.memory.messages import MAX_FACTS, NewFact
from rumi.memory.moving_in import FREE, FactFromOutside, move_facts_in
from rumi.memory.rows import facts_of, forget_key, remember_fact
from rumi.memory.store import MemoryStore


def fact(key: str, value: str) -> FactFromOutside:
    return FactFromOutside(key, value, "import x: MEMORY.md")


def test_facts_keep_their_source_and_count_as_from_outside(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.db")
    store.do(remember_fact("local", NewFact("city", "Madrid")))
    new = (
        fact("dog", "Toby"),
        fact("City", "Madrid"),
        fact("wifi", "password: Zq8!kd02mfP"),
        fact("note", ""),
    )
    assert store.do(move_facts_in("local", new, True)) == ("new", "here", "secret", "refused")
    assert len(store.do(facts_of("local"))) == 1, "a preview stores nothing"
    assert store.do(move_facts_in("local", new)) == ("new", "here", "secret", "refused")
    assert store.do(move_facts_in("local", new)) == ("here", "here", "secret", "refused")
    stated, taken = store.do(facts_of("local"))
    assert (stated.source, stated.tainted, stated.turn) == ("explicit", False, "")
    assert (taken.value, taken.source, taken.tainted, taken.turn) == (
        "Toby",
        "auto",
        True,
        "import x: MEMORY.md",
    )
    store.do(remember_fact("local", NewFact("dog", "Toby")))
    assert not any(one.tainted for one in store.do(facts_of("local"))), "a person can vouch for a fact"


def test_facts_displace_none_and_what_was_forgotten_stays_forgotten(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.db")
    store.do(remember_fact("local", NewFact("job", "baker")))
    store.do(forget_key("local", "job"))
    many = tuple(fact("n", str(number)) for number in range(MAX_FACTS))
    outcomes = store.do(move_facts_in("local", (fact("job", "baker"), *many)))
    assert outcomes[0] == "forgotten"
    assert (outcomes.count("new"), outcomes.count("full")) == (MAX_FACTS - FREE, FREE)
