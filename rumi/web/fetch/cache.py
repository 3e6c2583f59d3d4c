"""Pages of the last minutes, for all chats: only answers that every client would get."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

import trio

from rumi.web.types import Page

LONGEST_S: Final = 300.0
MOST_PAGES: Final = 64
MOST_BYTES: Final = 32_000_000


@dataclass(frozen=True, slots=True)
class _Kept:
    page: Page
    until: float
    size_bytes: int


class Cache:
    """Keeps at most `most_pages` and about `most_bytes`; the page whose last use is the oldest goes first."""

    def __init__(self, most_pages: int = MOST_PAGES, most_bytes: int = MOST_BYTES) -> None:
        self._most_pages = most_pages
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, url: str) -> Page | None:
        """Return the page stored under a URL without fragment, marked as cached; None if there is none."""
        kept = self._kept.get(url)
        if kept is None:
            return None
        if kept.until <= trio.current_time():
            self._drop(url)
            return None
        self._kept.move_to_end(url)
        return replace(kept.page, cached=True)

    def put(self, url: str, page: Page, kept_s: float) -> None:
        """Store a page for so many seconds; 0 removes the stored one."""
        if url in self._kept:
            self._drop(url)
        kept = _Kept(page, trio.current_time() + kept_s, _size_bytes(page))
        if kept_s <= 0 or kept.size_bytes > self._most_bytes:
            return
        self._kept[url] = kept
        self._bytes += kept.size_bytes
        while len(self._kept) > self._most_pages or self._bytes > self._most_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, url: str) -> None:
        self._bytes -= self._kept.pop(url).size_bytes


def _size_bytes(page: Page) -> int:
    """Return the approximate memory: at most 4 bytes a character, and some for each object."""
    return 4 * (len(page.text) + len(page.title)) + sum(len(link) + 100 for link in page.links) + 1000
