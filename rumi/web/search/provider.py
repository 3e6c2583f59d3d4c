"""The interface of a search provider, and the conversion of a provider's answers to results."""

import html
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from rumi.web.messages import FetchError, SearchResult, Topic

MAX_ANSWER_BYTES: Final = 1_000_000
"""Maximum size of a provider's answer, in bytes."""

_TITLE_CHARS: Final = 200
_SNIPPET_CHARS: Final = 1000
_DATE_CHARS: Final = 40
_TAG: Final = re.compile(r"</?[A-Za-z][^<>]{0,500}>")


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query to a provider. `text` is one line of valid Unicode."""

    text: str
    max_results: int
    topic: Topic


class SearchProvider(Protocol):
    """A service that searches the web."""

    @property
    def name(self) -> str:
        """The provider's name in the configuration and in results."""
        ...

    async def search(self, query: SearchQuery) -> tuple[SearchResult, ...]:
        """Return the results, best first. An empty result is not a failure.

        On cancellation, no part of the search continues.

        Raises:
            FetchError: There is no usable answer in time. The error contains no secret and no text of the
                provider.
        """
        ...


@dataclass(frozen=True, slots=True)
class Fields:
    """The names that a provider uses for the fields of a result. `date` is empty if there are no dates.

    All providers use the same name for `title`.
    """

    url: str
    snippet: str
    date: str = ""


def found(provider: str, items: object, fields: Fields, max_results: int) -> tuple[SearchResult, ...]:
    """Convert a provider's items to at most `max_results` results, each with a different URL.

    Items without a web URL are left out.

    Raises:
        FetchError: `items` is not a list of results.
    """
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise malformed(provider)
    results: dict[str, SearchResult] = {}
    for item in items:
        if not isinstance(item, Mapping):
            raise malformed(provider)
        result = _found(item, fields)
        if result is not None:
            results.setdefault(result.url, result)
    return tuple(results.values())[:max_results]


def malformed(provider: str) -> FetchError:
    """Return the error for an answer that does not match the provider's documentation."""
    return FetchError(
        "{provider} does not answer as its documentation says.", provider=provider, answered=True
    )


def _found(item: Mapping[str, object], fields: Fields) -> SearchResult | None:
    from rumi.web.url import normal  # imported late: the parser is loaded by the first search

    address = item.get(fields.url)
    url = normal(address) if isinstance(address, str) else None
    if url is None:
        return None
    return SearchResult(
        _plain(item.get("title"), _TITLE_CHARS),
        url,
        _plain(item.get(fields.snippet), _SNIPPET_CHARS),
        _plain(item.get(fields.date), _DATE_CHARS),
    )


def _plain(words: object, max_chars: int) -> str:
    """Return a text on one line, without tags, entities and control characters, cut to `max_chars`."""
    if not isinstance(words, str):
        return ""
    text = html.unescape(_TAG.sub("", words[: 10 * max_chars]))
    text = "".join(c if unicodedata.category(c)[0] != "C" else " " for c in text)
    text = " ".join(text.split())
    return text if len(text) <= max_chars else f"{text[:max_chars]}…"
