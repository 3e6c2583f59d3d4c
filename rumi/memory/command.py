"""The chat command `/memory`: what is known, and forgetting it."""

from collections.abc import Sequence
from typing import Final

from rumi import texts
from rumi.memory.actor import Ask
from rumi.memory.types import Fact, Facts, Forget
from rumi.memory.writing import written
from rumi.texts import Language

MAX_LISTED: Final = 100

_FORGET: Final = frozenset({"forget", "olvida", "olvidá", "olvidar", "borra", "borrá"})


async def memory_command(ask: Ask, owner: str, language: Language, rest: str) -> str:
    """Do what stands behind `/memory` and return what to say, in Markdown.

    Raises:
        MemoryUnavailable: the memory cannot be used.
    """
    word, _, key = rest.strip().partition(" ")
    if not word:
        return _listed(language, await ask(Facts(owner)))
    if word.casefold() not in _FORGET or not written(key):
        return texts.memory_usage(language)
    return texts.forgotten(language, _verbatim(written(key)), await ask(Forget(owner, key)))


def _listed(language: Language, facts: Sequence[Fact]) -> str:
    lines = [texts.facts_known(language, len(facts))]
    if not facts:
        return lines[0]
    lines += ["", *(f"- {_verbatim(fact.key)}: {_verbatim(fact.value)}" for fact in facts[:MAX_LISTED])]
    if len(facts) > MAX_LISTED:
        lines += ["", texts.facts_more(language, len(facts) - MAX_LISTED)]
    return "\n".join([*lines, "", texts.how_to_forget(language)])


def _verbatim(text: str) -> str:
    """As code: nothing in a fact is a link or a mark."""
    longest = max((len(run) for run in "".join(c if c == "`" else " " for c in text).split()), default=0)
    fence = "`" * (longest + 1)
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}"
