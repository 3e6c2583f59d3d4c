"""Facts that matter for a message, where not all of them have room in the prompt."""

from rumi.agent.tools.recall import facts_for
from rumi.memory.block import memory_block, noted_facts
from rumi.memory.messages import Fact

FACTS = [Fact(f"note {number}", f"value {number}", updated=float(number)) for number in range(100)]
DOG = Fact("perro", "se llama Toto", updated=0.0)


def test_a_fact_is_chosen_by_words_of_either_language() -> None:
    assert facts_for("what is my dog called?", [*FACTS, DOG], 1e9)[0] == DOG
    assert facts_for("¿cómo se llama el perro?", [*FACTS, DOG], 1e9)[0] == DOG
    assert facts_for("ok", FACTS, 1e9) == []


def test_above_the_maximum_the_chosen_facts_have_their_place() -> None:
    facts = [*FACTS, DOG]
    block = memory_block("en", facts, max_facts=50, first=[DOG])
    assert "- perro: se llama Toto" in block.text
    assert block.text.count("\n- ") <= 50
    assert "more facts: recall finds them" in block.text


def test_a_later_message_adds_its_own_facts_and_repeats_nothing() -> None:
    facts = [*FACTS, DOG]
    whole = memory_block("en", facts, max_facts=50, first=[])
    told = noted_facts([whole.text])
    later = memory_block("en", facts, max_facts=50, noted=told, first=[DOG])
    assert [line for line in later.text.splitlines() if line.startswith(("+", "×"))] == [
        "+ perro: se llama Toto"
    ]
    again = memory_block("en", facts, max_facts=50, noted=noted_facts([whole.text, later.text]), first=[DOG])
    assert again.text == ""


def test_below_the_maximum_nothing_is_chosen() -> None:
    assert memory_block("en", FACTS[:10], max_facts=50, first=FACTS[9:]) == memory_block(
        "en", FACTS[:10], max_facts=50
    )
