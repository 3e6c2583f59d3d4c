"""The `web_search` tool: returns the results of a search provider."""

import unicodedata
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final
from urllib.parse import unquote

from rumi.agent.tool import Question, Tool, ToolResult
from rumi.models.model import ToolSpec
from rumi.platform.untrusted_text import untrusted_block
from rumi.texts import Text
from rumi.web.messages import FetchError, SearchResult, SearchResults, Topic

MAX_QUERY_CHARS: Final = 400
"""Maximum length of a query, in characters: the smallest limit of all providers."""

DEFAULT_RESULTS: Final = 5
MAX_RESULTS: Final = 20

SPEC = ToolSpec(
    name="web_search",
    description=("Search the web: titles, addresses, snippets and dates. Read a result with web_fetch."),
    parameters={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "A few words"},
            "max_results": {"type": "integer", "description": "1 to 20; 5"},
            "topic": {
                "type": "string",
                "enum": ["general", "news"],
            },
        },
        "required": ["query"],
    },
)


class WebSearch(Tool):
    """The `web_search` tool for the chat that `search(query, max_results, topic)` is bound to."""

    spec = SPEC
    concurrent = True
    looks_outside = True
    only_reads = True

    def __init__(self, search: Callable[[str, int, Topic], Awaitable[SearchResults]]) -> None:
        self._search = search

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return None: no approval is needed, because a query is only sent to the configured provider."""
        return None

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Search the web. On cancellation, nothing of the search keeps running."""
        query = arguments.get("query")
        if not isinstance(query, str) or not query.split():
            return ToolResult(False, Text("web_search needs `query`, a string that is not empty"))
        if len(query) > MAX_QUERY_CHARS:
            return ToolResult(
                False,
                Text(
                    "web_search takes a `query` of at most {max_query_chars} characters",
                    max_query_chars=MAX_QUERY_CHARS,
                ),
            )
        max_results, topic = _max_results(arguments), _topic(arguments)
        if max_results is None:
            return ToolResult(
                False,
                Text(
                    "web_search takes `max_results` as a whole number, 1 to {max_results}",
                    max_results=MAX_RESULTS,
                ),
            )
        if topic is None:
            return ToolResult(False, Text("web_search takes `topic` as general or news"))
        try:
            results = await self._search(query, max_results, topic)
        except FetchError as error:
            # The advice names keys and settings of the provider.
            return ToolResult(
                False,
                Text("nothing was searched: {error}", error=error.message),
                tainted=error.answered,
                advice=error.advice,
            )
        return report(query, results)


def report(query: str, results: SearchResults) -> ToolResult:
    """Return the tool result: the provider's name, then the search results in a delimited untrusted block.

    `links` contains the results' URLs, except URLs that the query contains: otherwise a model could make a
    URL known by searching for it.
    """
    failed = "".join(f" Before that: {reason}" for reason in results.failed)
    number = len(results.results)
    said = f"{number} result{'s' * (number != 1)} from {results.provider}.{failed}"
    if not results.results:
        return ToolResult(True, said, same_as=said, tainted=True)
    listed = "\n\n".join(_entry(rank, found) for rank, found in enumerate(results.results, 1))
    content = f"{said}\n{untrusted_block(f'web search, {results.provider}', listed)}"
    links = dict.fromkeys(result.url for result in results.results if not _echoes(result.url, query))
    return ToolResult(True, content, same_as=content, tainted=True, links=tuple(links))


def _entry(rank: int, found: SearchResult) -> str:
    date = f" ({found.date})" if found.date else ""
    lines = [f"{rank}. {found.title or '(no title)'}{date}", f"   {found.url}", f"   {found.snippet}"]
    return "\n".join(line for line in lines if line.strip())


def _echoes(url: str, query: str) -> bool:
    """Return True if the query contains the URL, or the URL's query string contains the query.

    Such a URL may have been built from the query. All spellings of the URL count: with or without the scheme,
    in Unicode compatibility characters, percent-encoded, or with spaces in between.
    """
    address = _squeezed(url.partition("://")[2]).removeprefix("www.").rstrip("/")
    if address in _squeezed(query):
        return True
    asked = "".join(c for c in _squeezed(query) if c.isalnum())
    _, mark, data = address.partition("?")
    return bool(mark and asked) and asked in "".join(c for c in data.replace("+", "") if c.isalnum())


def _squeezed(text: str) -> str:
    """Return the text normalized: percent-decoded, lower-cased, in NFKC form, and without white space."""
    for _ in range(3):
        text = unquote(text)
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def _max_results(arguments: Mapping[str, object]) -> int | None:
    number = arguments.get("max_results")
    if number is None:  # many models write null for arguments that they omit
        return DEFAULT_RESULTS
    if isinstance(number, bool) or not isinstance(number, int | float) or number != number // 1:
        return None
    return int(min(max(number, 1), MAX_RESULTS))


def _topic(arguments: Mapping[str, object]) -> Topic | None:
    topic = arguments.get("topic")
    known: dict[object, Topic] = {None: "general", "general": "general", "news": "news"}
    return known.get(topic) if topic is None or isinstance(topic, str) else None
