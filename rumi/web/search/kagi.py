"""Kagi's search, version 1, https://kagi.com/api/docs/openapi/search."""

from typing import Final

from rumi.web.search.api import Api
from rumi.web.search.provider import Fields, Query, found, malformed
from rumi.web.types import Found

URL: Final = "https://kagi.com/api/v1/search"
KEY_NAME: Final = "KAGI_API_KEY"
_FIELDS: Final = Fields(title="title", url="url", snippet="snippet", date="time")


class Kagi:
    """Searches with Kagi; see `Provider`."""

    name = "kagi"

    def __init__(self, key: str, *, timeout_s: float, url: str = URL, ca_file: str | None = None) -> None:
        self._api = Api("Kagi", url, key, KEY_NAME, timeout_s=timeout_s, ca_file=ca_file)

    async def search(self, query: Query) -> tuple[Found, ...]:
        """What Kagi found, with the settings of the key's account."""
        workflow = "news" if query.topic == "news" else "search"
        answer = await self._api.ask({"query": query.text, "workflow": workflow, "limit": query.max_results})
        data = answer.get("data")
        if not isinstance(data, dict):
            raise malformed("Kagi")
        # Each kind of result has a list of its own; one without results may be missing.
        return found("Kagi", data.get(workflow) or [], _FIELDS, query.max_results)
