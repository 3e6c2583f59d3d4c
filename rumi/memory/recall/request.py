"""Parses the search requests that clients and models send."""

from collections.abc import Mapping
from datetime import datetime, time, timedelta
from typing import Annotated, TypeAlias

from pydantic import Field

from rumi.errors import UsageError
from rumi.memory.recall.dates import DateSpan, span_in
from rumi.memory.recall.messages import MOST_QUERY_CHARS, MOST_TOKENS, TOKENS, Passage, Who
from rumi.memory.recall.search import search_passages
from rumi.platform.unaccented import unaccented
from rumi.platform.zones import instant_at, local_at
from rumi.store.steps import Run

Query: TypeAlias = Annotated[str, Field(description="What to look for, in words.")]
Since: TypeAlias = Annotated[str, Field(description="From this day on, such as 2026-03-01.")]
Until: TypeAlias = Annotated[str, Field(description="Up to this day.")]
Tokens: TypeAlias = Annotated[int, Field(description="Maximum size of the answer, by default 1000.")]


def search_of(
    owner: str, request: Mapping[str, object], now: float, zone: str = ""
) -> Run[tuple[Passage, ...]]:
    """Return the search that a request describes.

    Days are those of the time `zone`, by default of this machine.

    Raises:
        UsageError: the request has no query, or one of its days cannot be parsed.
    """
    query = request.get("query")
    if not isinstance(query, str) or not query.strip():
        raise UsageError("The query cannot be empty.")
    who: Who = (
        "user" if request.get("who") == "user" else "assistant" if request.get("who") == "assistant" else ""
    )
    first, last = times_of(request, now, zone)
    return search_passages(
        owner,
        query[:MOST_QUERY_CHARS],
        first,
        last,
        who,
        tokens_of(request),
        zone=zone,
    )


def times_of(request: Mapping[str, object], now: float, zone: str = "") -> tuple[float | None, float | None]:
    """Return the first and the last moment of the days `since` and `until`, as Unix times.

    Raises:
        UsageError: A day cannot be parsed.
    """
    since, until = (_span(request.get(name), now, zone) for name in ("since", "until"))
    first = None if since is None else instant_at(datetime.combine(since.first, time.min), zone)
    if until is None:
        return first, None
    return first, instant_at(datetime.combine(until.last + timedelta(1), time.min), zone) - 0.001


def tokens_of(request: Mapping[str, object]) -> int:
    """Return the maximum number of tokens of the answer."""
    tokens = request.get("tokens")
    return min(tokens, MOST_TOKENS) if isinstance(tokens, int) and tokens > 0 else TOKENS


def _span(value: object, now: float, zone: str) -> DateSpan | None:
    if not isinstance(value, str) or not value.strip():
        return None
    text, today = unaccented(value.strip()), local_at(now, zone).date()
    found = span_in(text, today) or span_in(f"in {text}", today) or span_in(f"on {text}", today)
    if found is None:
        raise UsageError("The day is not understood.", "Write it like 2026-11-23, yesterday or march.")
    return found
