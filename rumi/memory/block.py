"""The block of a prompt that tells what is known about the user, and the one that tells changes of it."""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from rumi import texts
from rumi.memory.types import Fact
from rumi.models import text_tokens
from rumi.texts import Language

MAX_TOKENS = 2000

IS, NEW, GONE = "- ", "+ ", "× "
"""How the lines of facts begin: in the whole block, and in those of changes."""
_BLOCK: Final = re.compile(r"<memory>\n(.*?)\n</memory>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """The finished text, empty where there is nothing to say; `tainted` if the prompt shows such a fact."""

    text: str = ""
    tainted: bool = False


def memory_block(
    language: Language,
    facts: Sequence[Fact],
    *,
    max_facts: int,
    max_tokens: int = MAX_TOKENS,
    told: Set[str] | None = None,
) -> Block:
    """A line a fact, explicit ones first, then the most recent first, as many as there is room for.

    A fact stays one line of data: it can neither end the block nor begin a line of its own. Where some have
    no room, a last line, which is no fact's, says how many. Where the prompt has `told` of facts already
    (see `told_facts`), the block only has what is new among those, and what holds no longer.
    """
    ordered = sorted(facts, key=lambda fact: (fact.source == "auto", -fact.updated))
    lines = [_line(fact) for fact in ordered]
    shown = _with_room(language, lines, max_facts, max_tokens)
    visible = {*shown, *(told or ())}
    tainted = any(fact.tainted for line, fact in zip(lines, ordered, strict=True) if line in visible)
    if told is None:
        more = len(ordered) - len(shown)
        note = [texts.facts_left_out(language, more)] if more else []
        title, listed = texts.memory_title(language), [f"{IS}{line}" for line in shown]
    else:
        title, note = texts.memory_changed(language), []
        listed = [f"{GONE}{line}" for line in sorted(told - set(lines))]
        listed += [f"{NEW}{line}" for line in shown if line not in told]
    if not listed or max_facts < 1:
        return Block("", tainted)
    return Block("\n".join(["<memory>", title, *listed, *note, "</memory>"]), tainted)


def told_facts(notes: Iterable[str]) -> frozenset[str]:
    """The facts that a prompt with these notes shows, without those that a later note says hold no longer."""
    told: set[str] = set()
    for block in (block for note in notes for block in _BLOCK.findall(note)):
        for line in block.splitlines()[1:]:
            if line.startswith((IS, NEW)):
                told.add(line[len(IS) :])
            elif line.startswith(GONE):
                told.discard(line[len(GONE) :])
    return frozenset(told)


def _with_room(language: Language, lines: Sequence[str], max_facts: int, max_tokens: int) -> list[str]:
    around = ("<memory>", texts.memory_title(language), texts.facts_left_out(language, 10**6), "</memory>")
    left = max_tokens - text_tokens("\n".join(around))
    kept: list[str] = []
    for line in lines:
        cost = text_tokens(f"{IS}{line}\n")
        if len(kept) == max_facts:
            break
        if cost <= left:  # a long one that has no room takes it from no other
            kept.append(line)
            left -= cost
    return kept


def _line(fact: Fact) -> str:
    return f"{_escape(fact.key)}: {_escape(fact.value)}"


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
