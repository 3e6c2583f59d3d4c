"""What a chat has to wait for: what is outside of the house and its own, and what is everybody's.

Virtual time passes only where somebody waits for something. A chat waits for its own model calls, boxes,
files and questions; all wait for the disk, and for a tree that is being restarted. Whatever else a chat has
waited for was another chat's.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from math import inf

import trio

EVERYBODY = ""
"""In place of a chat: all of them wait."""


class Span:
    """A context in which there is something to wait for. What took no time leaves nothing behind."""

    __slots__ = ("_after_s", "_span", "_spans")

    def __init__(self, spans: list[list[float]], after_s: float) -> None:
        self._spans = spans
        self._after_s = after_s

    def __enter__(self) -> None:
        self._span = [trio.current_time(), inf]
        self._spans.append(self._span)

    def __exit__(self, *error: object) -> None:
        span = self._span
        span[1] = trio.current_time() + self._after_s
        if span[1] <= span[0]:
            self._spans.remove(span)


class Waits:
    """When chats had something to wait for, on trio's clock."""

    def __init__(self) -> None:
        self._spans: defaultdict[str, list[list[float]]] = defaultdict(list)
        self._held: list[float] | None = None

    def of(self, chat: str = EVERYBODY, *, after_s: float = 0.0) -> "Span":
        """Something of the chat's is under way; what comes of that may take it `after_s` longer."""
        return Span(self._spans[chat], after_s)

    def until(self, end: float, chat: str = EVERYBODY, *, since: float | None = None) -> None:
        """It has to wait until then, from now on or since that moment."""
        self._spans[chat].append([trio.current_time() if since is None else since, end])

    def hold(self, held: bool) -> None:
        """All wait for something from now on, until that is said to be over."""
        if held and self._held is None:
            self._held = [trio.current_time(), inf]
            self._spans[EVERYBODY].append(self._held)
        elif not held and self._held is not None:
            self._held[1] = trio.current_time()
            self._held = None

    def unexplained_s(
        self, begin: float, end: float, *chats: str, besides: Iterable[Sequence[float]] = ()
    ) -> float:
        """For how long there was nothing to wait for between two moments, under any of these names.

        `besides` are other times in which there was.
        """
        known = chain(besides, *(self._spans[who] for who in (*chats, EVERYBODY)))
        spans = sorted(
            (max(begin, since), min(end, until)) for since, until in known if since < end and until > begin
        )
        left, at = 0.0, begin
        for since, until in spans:
            left += max(0.0, since - at)
            at = max(at, until)
        return left + max(0.0, end - at)
