"""Tavily's search, https://docs.tavily.com/documentation/api-reference/endpoint/search."""

from typing import Final

from rumi.web.search.api import Api
from rumi.web.search.provider import Fields, Query, found
from rumi.web.types import Found

URL: Final = "https://api.tavily.com/search"
KEY_NAME: Final = "TAVILY_API_KEY"
_FIELDS: Final = Fields(title="title", url="url", snippet="content", date="published_date")


class Tavily:
    """Searches with Tavily; see `Provider`."""

    name = "tavily"

    def __init__(self, key: str, *, timeout_s: float, url: str = URL, ca_file: str | None = None) -> None:
        self._api = Api("Tavily", url, key, KEY_NAME, timeout_s=timeout_s, ca_file=ca_file)

    async def search(self, query: Query) -> tuple[Found, ...]:
        """What Tavily found; dates come with the topic news only."""
        answer = await self._api.ask(
            {"query": query.text, "topic": query.topic, "max_results": query.max_results}
        )
        return found("Tavily", answer.get("results"), _FIELDS, query.max_results)
