"""The `find_tools` tool: a search for MCP tools, used if all schemas would take too much of a prompt."""

import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import trio

from rumi.agent.mcp.tool import BETWEEN
from rumi.agent.tool import Question, Tool, ToolResult
from rumi.models.fitting import request_tokens
from rumi.models.model import Message, ModelRequest, ToolSpec
from rumi.texts import Text

SHARE: Final = 0.1
"""The share of a model's context for the schemas of MCP tools; the others are behind `find_tools`."""

FOUND: Final = 6
MOST_BROUGHT: Final = 18
"""Maximum number of found tools that a turn offers; the tools found first are removed first."""

MOST_NAMES_CHARS: Final = 1500
"""Maximum length of the names in the description of `find_tools`; each prompt contains them."""

MOST_LISTED_CHARS: Final = 20_000
_NAMED_ARGUMENTS: Final = 12
_WORD: Final = re.compile(r"[^\W_]+")
_DESCRIBED_CHARS: Final = 160


class FindTools(Tool):
    """The `find_tools` tool: searches for tools by words, and adds the tools found to the turn.

    Tools that were called earlier in the session are available without a search.
    """

    concurrent = False
    only_reads = True

    def __init__(self, tools: Sequence[Tool], called: Collection[str]) -> None:
        self._tools = {tool.spec.name: tool for tool in tools}
        self._index = _ToolIndex({name: _words(tool.spec) for name, tool in self._tools.items()})
        known = [name for name in dict.fromkeys(called) if name in self._tools][-MOST_BROUGHT:]
        self._brought = {name: self._tools[name] for name in known}
        servers = Counter(name.partition(BETWEEN)[0] for name in self._tools)
        listed = ", ".join(f"{name} ({count})" for name, count in servers.items())
        self.spec = ToolSpec(
            "find_tools",
            f"Find tools by what they should do; they can be called from your next reply on. There are "
            f"{len(self._tools)} from: {listed}. Their names: {self._names(MOST_NAMES_CHARS)}.",
            {
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "description": "A few words, in English, or names. Empty: the names of all tools",
                    }
                },
                "required": ["query"],
            },
        )

    def _names(self, most_chars: int) -> str:
        """Return the names of the tools, as many as fit into `most_chars`."""
        shown: list[str] = []
        length = 0
        for name in self._tools:
            length += len(name) + 2
            if length > most_chars:
                return f"{', '.join(shown)} and {len(self._tools) - len(shown)} more"
            shown.append(name)
        return ", ".join(shown)

    @property
    def brought(self) -> tuple[Tool, ...]:
        """The tools that were found so far."""
        return tuple(self._brought.values())

    def named(self, name: str) -> Tool | None:
        """Return the tool with this name and make it available; return None for an unknown name."""
        if name in self._tools:
            self._bring([name])
        return self._tools.get(name)

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because a search has no effect outside of the turn."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Search; return the tools that match best, and make them available until the end of the turn."""
        await trio.lowlevel.checkpoint()
        query = arguments.get("query")
        if not isinstance(query, str):
            return ToolResult(False, Text("find_tools needs `query`, a string"))
        if not query.strip():
            return ToolResult(True, f"All tools: {self._names(MOST_LISTED_CHARS)}")
        said = re.findall(r"[\w.-]+", query)
        exact = [name for name in self._tools if name in said or name.partition(BETWEEN)[2] in said]
        names = list(dict.fromkeys([*exact, *self._index.best(query, FOUND)]))[:MOST_BROUGHT]
        names = names[: max(FOUND, len(exact))]
        if not names:
            return ToolResult(True, "no tool fits these words; try others, or an empty query for all names")
        self._bring(names)
        lines = [
            f"- {name}({_arguments(self._tools[name].spec)}): {_described(self._tools[name].spec)}"
            for name in names
        ]
        return ToolResult(True, "\n".join(["You can call these now:", *lines]))

    def _bring(self, names: Sequence[str]) -> None:
        # Found again counts as new: the tool moves to the end, so that it is removed last.
        for name in names:
            self._brought.pop(name, None)
            self._brought[name] = self._tools[name]
        while len(self._brought) > MOST_BROUGHT:
            del self._brought[next(iter(self._brought))]


class _ToolIndex:
    """An index that ranks short texts by the words they share with a query; rare words weigh more (BM25)."""

    def __init__(self, texts: Mapping[str, Counter[str]]) -> None:
        self._texts = texts
        self._mean = sum(map(Counter.total, texts.values())) / max(1, len(texts)) or 1
        self._spread = Counter(word for text in texts.values() for word in text)

    def best(self, query: str, most: int) -> list[str]:
        """Return the names of the best matching texts, at most `most`, the best one first."""
        scores = {name: self._score(text, _stems(query)) for name, text in self._texts.items()}
        ranked = sorted((name for name, score in scores.items() if score > 0), key=lambda n: -scores[n])
        return ranked[:most]

    def _score(self, text: Counter[str], query: Counter[str]) -> float:
        length = 0.25 + 0.75 * text.total() / self._mean
        return sum(
            math.log(1 + len(self._texts) / self._spread[word])
            * text[word]
            * 2.2
            / (text[word] + 1.2 * length)
            for word in query
            if word in text
        )


def divided(
    servers: Sequence[Sequence[Tool]], context_tokens: int
) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """Return the tools that the prompt shows, and those behind `find_tools`, each in the servers' order.

    Together, the tools shown take at most `SHARE` of the model's context. The servers with the smallest
    schemas are shown first, so that a large server does not hide the small ones beside it.
    """
    left = context_tokens * SHARE
    sizes = [request_tokens(ModelRequest((), tuple(tool.spec for tool in tools))) for tools in servers]
    shown: set[int] = set()
    for number in sorted(range(len(servers)), key=lambda number: sizes[number]):
        if sizes[number] > left:
            break
        left -= sizes[number]
        shown.add(number)
    in_view = [tool for number, tools in enumerate(servers) for tool in tools if number in shown]
    behind = [tool for number, tools in enumerate(servers) for tool in tools if number not in shown]
    return tuple(in_view), tuple(behind)


def called_in(messages: Collection[Message]) -> tuple[str, ...]:
    """Return the names of the tools called in these messages, in order."""
    return tuple(call.name for message in messages for call in message.tool_calls)


def _words(spec: ToolSpec) -> Counter[str]:
    known = spec.parameters.get("properties")
    names = " ".join(map(str, known)) if isinstance(known, Mapping) else ""
    # The name counts twice, because it is the most precise description.
    return _stems(f"{spec.name} {spec.name} {spec.description} {names}")


def _stems(text: str) -> Counter[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return Counter(_stem(word) for word in _WORD.findall(spaced.casefold()))


def _stem(word: str) -> str:
    for ending in ("ing", "es", "ed", "s"):
        if len(word) - len(ending) > 2 and word.endswith(ending):
            return word.removesuffix(ending)
    return word


def _arguments(spec: ToolSpec) -> str:
    """Return the names of a tool's arguments; those that need not be given end with `?`."""
    known, required = spec.parameters.get("properties"), spec.parameters.get("required") or ()
    names = list(known) if isinstance(known, Mapping) else []
    shown = [name if isinstance(required, list) and name in required else f"{name}?" for name in names]
    return ", ".join(shown[:_NAMED_ARGUMENTS]) + (", …" if len(shown) > _NAMED_ARGUMENTS else "")


def _described(spec: ToolSpec) -> str:
    return " ".join(spec.description.split())[:_DESCRIBED_CHARS]
