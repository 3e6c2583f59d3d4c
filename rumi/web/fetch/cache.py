"""A cache of pages, shared by all chats. It contains only answers that every client would get."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

import trio

from rumi.web.messages import Page

LONGEST_S: Final = 300.0
MOST_PAGES: Final = 64
MOST_BYTES: Final = 32_000_000


@dataclass(frozen=True, slots=True)
class _Entry:
    page: Page
    until: float
    size_bytes: int


class Cache:
    """Holds at most `most_pages` pages and about `most_bytes`; evicts the least recently used page first."""

    def __init__(self, most_pages: int = MOST_PAGES, most_bytes: int = MOST_BYTES) -> None:
        self._most_pages = most_pages
        self._most_bytes = most_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, url: str) -> Page | None:
        """Return the page for a URL that has no fragment, with the field `cached` set; None if not cached."""
        entry = self._entries.get(url)
        if entry is None:
            return None
        if entry.until <= trio.current_time():
            self._drop(url)
            return None
        self._entries.move_to_end(url)
        return replace(entry.page, cached=True)

    def put(self, url: str, page: Page, ttl_s: float) -> None:
        """Store a page for `ttl_s` seconds, replacing an older copy.

        If `ttl_s` is 0, only remove the older copy.
        """
        if url in self._entries:
            self._drop(url)
        entry = _Entry(page, trio.current_time() + ttl_s, _size_bytes(page))
        if ttl_s <= 0 or entry.size_bytes > self._most_bytes:
            return
        self._entries[url] = entry
        self._bytes += entry.size_bytes
        while len(self._entries) > self._most_pages or self._bytes > self._most_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, url: str) -> None:
        self._bytes -= self._entries.pop(url).size_bytes


def _size_bytes(page: Page) -> int:
    """Return the approximate memory size of a page: up to 4 bytes per character, plus a fixed part."""
    return 4 * (len(page.text) + len(page.title)) + sum(len(link) + 100 for link in page.links) + 1000
