"""The chat command `/memory`: lists and deletes facts, and shows the history of a key."""

from collections.abc import Sequence
from typing import Final

from rumi.memory.actor import AskMemory
from rumi.memory.messages import Fact, PastFact
from rumi.memory.rows import facts_of, forget_key, past_facts
from rumi.memory.writing import folded, written
from rumi.platform.texts import memory as memory_texts
from rumi.platform.zones import local_at
from rumi.texts import Language, gettext

MAX_LISTED: Final = 100

_FORGET: Final = frozenset({"forget", "olvida", "olvidá", "olvidar", "borra", "borrá"})


_HISTORY: Final = frozenset({"history", "historia"})


async def memory_command(ask: AskMemory, owner: str, language: Language, rest: str, zone: str = "") -> str:
    """Run a `/memory` command with the arguments `rest` and return the reply in Markdown.

    Dates are those of the time `zone`, by default of this machine.

    Raises:
        MemoryUnavailable: the memory cannot be used.
    """
    word, _, key = rest.strip().partition(" ")
    if not word:
        return _listed(language, await ask(facts_of(owner)), zone)
    if word.casefold() in _HISTORY and written(key):
        past, facts = await ask(past_facts(owner, key)), await ask(facts_of(owner))
        return _history(language, written(key), past, facts, zone)
    if word.casefold() not in _FORGET or not written(key):
        return gettext(
            language,
            "`/memory` shows what I know about you; `/memory forget KEY` forgets a key; `/memory "
            "history KEY` shows what it was before.",
        )
    return memory_texts.forgotten(language, _verbatim(written(key)), await ask(forget_key(owner, key)))


def _listed(language: Language, facts: Sequence[Fact], zone: str) -> str:
    lines = [memory_texts.facts_known(language, len(facts))]
    if not facts:
        return lines[0]
    lines += [
        "",
        *(
            f"- {_verbatim(fact.key)}: {_verbatim(fact.value)}, {_day(fact.updated, zone)}"
            for fact in facts[:MAX_LISTED]
        ),
    ]
    if len(facts) > MAX_LISTED:
        lines += ["", gettext(language, "… and {count} more.", count=len(facts) - MAX_LISTED)]
    return "\n".join(
        [
            *lines,
            "",
            gettext(
                language,
                "`/memory forget KEY` forgets a key; `/memory history KEY` shows what it was before.",
            ),
        ]
    )


def _history(language: Language, key: str, past: Sequence[PastFact], facts: Sequence[Fact], zone: str) -> str:
    """Return the values that a key has had, oldest first, each with its dates, chat and turn."""
    now = [fact for fact in facts if folded(fact.key) == folded(key)]
    if not past and not now:
        return memory_texts.forgotten(language, _verbatim(key), 0)
    lines = [
        f"- {_day(past_fact.fact.created, zone)} – {_day(past_fact.ended, zone)}: {_sourced(past_fact.fact)}"
        for past_fact in past
    ]
    lines += [f"- {_day(fact.created, zone)} –: {_sourced(fact)}" for fact in now]
    return "\n".join([f"{_verbatim(key)}:", "", *lines[-MAX_LISTED:]])


def _sourced(fact: Fact) -> str:
    where = " ".join(filter(None, (fact.chat, fact.turn)))
    return f"{_verbatim(fact.value)}{f' ({where})' if where else ''}"


def _day(at: float, zone: str) -> str:
    return f"{local_at(at, zone):%Y-%m-%d}"


def _verbatim(text: str) -> str:
    """Return the text as Markdown code, so that nothing in a fact becomes a link or markup."""
    longest = max((len(run) for run in "".join(c if c == "`" else " " for c in text).split()), default=0)
    fence = "`" * (longest + 1)
    padding = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{padding}{text}{padding}{fence}"
