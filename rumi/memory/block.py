"""Formats facts about the user as a block of the prompt, and later changes of facts as another block."""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Final

from rumi.memory.messages import Fact
from rumi.models.model import text_tokens
from rumi.platform.texts import memory as memory_texts
from rumi.texts import Language, gettext

MAX_TOKENS = 2000
CHOSEN = 8
"""Maximum number of facts that are chosen for a message."""

IS, NEW, GONE = "- ", "+ ", "× "
"""Prefixes of the lines of facts: in the complete block, for new facts, and for forgotten facts."""
_BLOCK: Final = re.compile(r"<memory>\n(.*?)\n</memory>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """The text of a block, empty if there are no facts.

    `tainted` is true if the prompt shows a tainted fact, one that may come from untrusted content.
    """

    text: str = ""
    tainted: bool = False


def memory_block(
    language: Language,
    facts: Sequence[Fact],
    *,
    max_facts: int,
    max_tokens: int = MAX_TOKENS,
    noted: Set[str] | None = None,
    first: Sequence[Fact] | None = None,
) -> Block:
    """Return a block with one line for each fact, explicit ones first, then the most recent first.

    If there are more than `max_facts` facts, the block begins with up to `CHOSEN` facts from `first`, the
    facts that matter for the message. The number of all other facts in the block is constant, so that the
    block for a later message adds only the facts chosen for that message.

    A fact is always one line of data: it can neither end the block nor begin another line. If some facts do
    not fit, a last line gives the number of omitted facts. If the prompt already shows the facts `noted` (see
    `noted_facts`), the block has only new facts and facts that are no longer valid.
    """
    ordered = sorted(facts, key=lambda fact: (fact.source == "auto", -fact.updated))
    if first is not None and len(ordered) > max_facts:
        chosen = list(first[: min(CHOSEN, max_facts // 2)])
        others = [fact for fact in ordered if fact not in chosen]
        kept = max_facts - min(CHOSEN, max_facts // 2)
        ordered, max_facts = [*chosen, *others], kept + len(chosen)
    lines = [line_of(fact) for fact in ordered]
    shown = _fit_lines(language, lines, max_facts, max_tokens)
    visible = {*shown, *(noted or ())}
    tainted = any(fact.tainted for line, fact in zip(lines, ordered, strict=True) if line in visible)
    if noted is None:
        more = len(ordered) - len(shown)
        note = [memory_texts.facts_left_out(language, more)] if more else []
        title, listed = memory_texts.memory_title(language), [f"{IS}{line}" for line in shown]
    else:
        title, note = (
            gettext(language, "Changes to what you know about the user (+ holds now, × holds no longer):"),
            [],
        )
        listed = [f"{GONE}{line}" for line in sorted(noted - set(lines))]
        listed += [f"{NEW}{line}" for line in shown if line not in noted]
    if not listed or max_facts < 1:
        return Block("", tainted)
    return Block("\n".join(["<memory>", title, *listed, *note, "</memory>"]), tainted)


def noted_facts(notes: Iterable[str]) -> frozenset[str]:
    """Return the lines of facts that these notes show in a prompt and that no later note revokes."""
    noted: set[str] = set()
    for block in (block for note in notes for block in _BLOCK.findall(note)):
        for line in block.splitlines()[1:]:
            if line.startswith((IS, NEW)):
                noted.add(line[len(IS) :])
            elif line.startswith(GONE):
                noted.discard(line[len(GONE) :])
    return frozenset(noted)


def _fit_lines(language: Language, lines: Sequence[str], max_facts: int, max_tokens: int) -> list[str]:
    around = (
        "<memory>",
        memory_texts.memory_title(language),
        memory_texts.facts_left_out(language, 10**6),
        "</memory>",
    )
    left = max_tokens - text_tokens("\n".join(around))
    kept: list[str] = []
    for line in lines:
        cost = text_tokens(f"{IS}{line}\n")
        if len(kept) == max_facts:
            break
        if cost <= left:  # skip a long fact that does not fit; shorter ones after it may still fit
            kept.append(line)
            left -= cost
    return kept


def line_of(fact: Fact) -> str:
    """Return the fact as one line of a prompt."""
    return f"{escaped(fact.key)}: {escaped(fact.value)}"


def escaped(text: str) -> str:
    """Return the text on one line, without characters that could begin or end a block of a prompt."""
    return " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
