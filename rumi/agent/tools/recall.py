"""The `recall` tool: searches the earlier conversations of the chat's owner."""

from collections.abc import Callable, Collection, Mapping, Sequence
from math import log
from typing import Final

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.errors import UsageError
from rumi.memory.actor import AskMemory
from rumi.memory.block import escaped
from rumi.memory.messages import Fact, MemoryUnavailable
from rumi.memory.recall.actor import AskRecall
from rumi.memory.recall.messages import MOST_QUERY_CHARS
from rumi.memory.recall.presenting import shown
from rumi.memory.recall.query import read_query
from rumi.memory.recall.request import search_of, tokens_of
from rumi.memory.recall.words import stems_of
from rumi.memory.rows import facts_of
from rumi.models.model import ToolSpec, text_tokens
from rumi.platform.texts import recall as recall_texts
from rumi.platform.untrusted_text import untrusted_block
from rumi.platform.zones import local_at
from rumi.texts import Language

SPEC: Final = ToolSpec(
    "recall",
    "Find in earlier conversations what was said, decided, sent.",
    {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "since": {"type": "string"},
            "until": {"type": "string"},
            "who": {"type": "string", "enum": ["user", "assistant"]},
            "tokens": {"type": "integer"},
        },
        "required": ["query"],
    },
)


MOST_FACTS: Final = 5
LEAST_TOKENS: Final = 200
FACTS_SHARE: Final = 0.3
"""Facts that take a larger share of the tokens are left out; the model finds them by their words."""
AROUND_TOKENS: Final = 70
"""Tokens for the frame of an untrusted result."""


class RecallTool(Tool):
    """The `recall` tool, bound to one owner. Each call reads the language, the time and the zone."""

    spec = SPEC
    concurrent = True
    only_reads = True

    def __init__(
        self,
        ask: AskRecall,
        memory: AskMemory,
        owner: str,
        language: Callable[[], Language],
        now: Callable[[], float],
        zone: Callable[[], str] = lambda: "",
    ) -> None:
        self._ask = ask
        self._memory = memory
        self._owner = owner
        self._language = language
        self._now = now
        self._zone = zone

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed. Results stay in the conversation; tainted ones stay tainted."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Search passages and facts. The search changes no data, so cancellation is always safe."""
        facts = await self._facts(str(arguments.get("query"))[:MOST_QUERY_CHARS])
        tokens = max(LEAST_TOKENS, tokens_of(arguments))
        if text_tokens(facts[0]) > tokens * FACTS_SHARE:
            facts = "", False
        left = tokens - AROUND_TOKENS - text_tokens(facts[0])
        zone = self._zone()
        try:
            request = {**arguments, "tokens": left}
            found = await self._ask(search_of(self._owner, request, self._now(), zone))
        except UsageError as error:
            return ToolResult(False, error.text)
        language = self._language()
        text = "\n\n".join(filter(None, (facts[0], shown(language, found, zone))))
        if not text:
            return ToolResult(True, recall_texts.nothing_recalled(language))
        tainted = facts[1] or any(passage.tainted for passage in found)
        return ToolResult(
            True, untrusted_block("earlier conversations", text) if tainted else text, tainted=tainted
        )

    async def _facts(self, query: str) -> tuple[str, bool]:
        """Return the facts relevant to a query as lines of text, and True if any of these facts is tainted.

        If the memory cannot be reached, no facts are returned and no error is raised, because the
        conversations can still be searched.
        """
        try:
            known = await self._memory(facts_of(self._owner))
        except MemoryUnavailable:
            return "", False
        found = facts_for(query, known, self._now(), self._zone())[:MOST_FACTS]
        lines = [f"- {escaped(fact.key)}: {escaped(fact.value)}" for fact in found]
        return "\n".join(lines), any(fact.tainted for fact in found)


LEAST: Final = 0.3
"""Facts with less than this share of the best fact's score are left out."""


def facts_for(text: str, facts: Sequence[Fact], now: float, zone: str = "") -> list[Fact]:
    """Return the facts relevant to a text, the best first; empty if no fact shares a word with the text.

    Days in the text are those of the time `zone`, by default of this machine.
    """
    query = read_query(text, local_at(now, zone).date())
    if not query.words or not facts:
        return []
    sides = [(frozenset(stems_of(fact.key)), frozenset(stems_of(fact.value))) for fact in facts]
    counts: dict[str, int] = {}
    for key, value in sides:
        for stem in key | value:
            counts[stem] = counts.get(stem, 0) + 1

    def weight(stems: frozenset[str]) -> float:
        count = max((counts.get(stem, 0) for stem in stems), default=0)
        return log(1 + (len(facts) + 1) / (count + 0.5))

    scored = [
        (query.score(key, value, lambda stems: weight(frozenset(stems)), 1.0), fact.updated, index)
        for index, ((key, value), fact) in enumerate(zip(sides, facts, strict=True))
    ]
    best = max(score for score, _, _ in scored)
    if not best:
        return []
    return [facts[index] for score, _, index in sorted(scored, reverse=True) if score >= LEAST * best]
