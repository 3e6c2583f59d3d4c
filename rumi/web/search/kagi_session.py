"""The provider Kagi without its API: it uses a session token and the search page that needs no scripts."""

import html
import re
from typing import Final

from rumi.web.messages import FetchError, SearchResult
from rumi.web.search.api import Api
from rumi.web.search.provider import Fields, SearchQuery, found, malformed

_TAG: Final = re.compile(r"<([a-z][a-z0-9]*)\b([^<>]{0,5000})>", re.IGNORECASE)
_CLASS: Final = re.compile(r"""\bclass\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_HREF: Final = re.compile(r"""\bhref\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)
_LOGIN: Final = re.compile(r"""<input\b[^<>]{0,2000}\btype\s*=\s*["']?password|/signin\b""", re.IGNORECASE)
_NOTHING: Final = re.compile(r"\bno (?:search )?results\b", re.IGNORECASE)
_MOST_CHARS: Final = 3000


class KagiSession:
    """Searches with a person's Kagi account, without the API. It does not offer a separate news search."""

    name = "kagi"
    TITLE = "Kagi"
    URL = "https://kagi.com/html/search"
    KEY_NAME = "KAGI_SESSION_TOKEN"
    _FIELDS: Final = Fields(url="url", snippet="snippet", date="date")

    def __init__(self, token: str, *, timeout_s: float, url: str = "", ca_file: str | None = None) -> None:
        where = url or self.URL
        self._api = Api(self.TITLE, where, token, self.KEY_NAME, timeout_s=timeout_s, ca_file=ca_file)

    async def search(self, query: SearchQuery) -> tuple[SearchResult, ...]:
        """Return the results of Kagi's page. The search uses the settings of the token's account."""
        page = await self._api.page("kagi_session", {"q": query.text})
        items = results_in(page)
        if not items and _LOGIN.search(page):
            raise FetchError(
                "Kagi refused the session.", "Check {key_name}.", key_name=self.KEY_NAME, answered=True
            )
        if not items and not _NOTHING.search(page):
            raise malformed(self.TITLE)
        return found(self.TITLE, items, self._FIELDS, query.max_results)


def results_in(page: str) -> list[dict[str, str]]:
    """Return the results on a page. Each has a link, and the description and the date that follow it.

    The running time is proportional to the length of the page; an HTML parser does not guarantee this.
    """
    items: list[dict[str, str]] = []
    grouped = False
    for tag in _TAG.finditer(page):
        kinds = _value(_CLASS, tag[2]).split()
        grouped = grouped or "__srgi-title" in kinds
        if tag[1].lower() == "a" and (grouped or "__sri_title_link" in kinds):
            url, title = html.unescape(_value(_HREF, tag[2])), _until(page, tag.end(), "</a>")
            items.append({"url": url, "title": title, "snippet": "", "date": ""})
            grouped = False
        elif items and "__sri-desc" in kinds:
            items[-1]["snippet"] = _until(page, tag.end(), "</div>")
        elif items and "__sri-time" in kinds:
            date = _until(page, tag.end(), "</span>")
            items[-1] |= {"date": date, "snippet": items[-1]["snippet"].replace(date, "", 1)}
    return items


def _value(attribute: re.Pattern[str], attributes: str) -> str:
    match = attribute.search(attributes)
    return (match[1] or match[2] or "") if match is not None else ""


def _until(page: str, start: int, end: str) -> str:
    stop = page.find(end, start, start + _MOST_CHARS)
    return page[start : stop if stop >= 0 else start + _MOST_CHARS]
