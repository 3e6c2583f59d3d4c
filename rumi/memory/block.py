"""The block at the start of the prompt: what is known about the user."""

from collections.abc import Sequence
from dataclasses import dataclass

from rumi import texts
from rumi.memory.types import Fact
from rumi.models import text_tokens
from rumi.texts import Language

MAX_TOKENS = 2000


@dataclass(frozen=True, slots=True)
class Block:
    """The finished text, empty where nothing is known; `tainted` if a fact in it is."""

    text: str = ""
    tainted: bool = False


def memory_block(
    language: Language, facts: Sequence[Fact], *, max_facts: int, max_tokens: int = MAX_TOKENS
) -> Block:
    """A line a fact, explicit ones first, then the most recent first, as many as there is room for.

    A fact stays one line of data: it can neither end the block nor begin a line of its own. Where some have
    no room, a last line, which is no fact's, says how many.
    """
    ordered = sorted(facts, key=lambda fact: (fact.source == "auto", -fact.updated))
    if not ordered or max_facts < 1:
        return Block()
    title, end = texts.memory_title(language), "</memory>"
    left = max_tokens - text_tokens(
        "\n".join(("<memory>", title, texts.facts_left_out(language, 10**6), end))
    )
    lines: list[str] = []
    tainted = False
    for fact in ordered:
        line = f"- {_escape(fact.key)}: {_escape(fact.value)}"
        cost = text_tokens(line + "\n")
        if len(lines) == max_facts:
            break
        if cost <= left:  # a long one that has no room takes it from no other
            lines.append(line)
            left -= cost
            tainted = tainted or fact.tainted
    more = len(ordered) - len(lines)
    note = [texts.facts_left_out(language, more)] if more else []
    return Block("\n".join(["<memory>", title, *lines, *note, end]), tainted)


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
