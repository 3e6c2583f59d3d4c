"""A page, files and commands that schedules of a test watch, in virtual time."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import trio

from rumi.platform.threads import Offload
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.policy import STRICT
from rumi.tasks.schedules.sources import WatchSources
from rumi.web.messages import FetchError, Page
from tests.chats.house import MemorySandboxes

URL = "https://example.org/prices"


@dataclass
class Site:
    """A site with one page. It takes `slow_s` for an answer, and has the faults that `random` draws."""

    text: str = "# Prices\n\nApples 1 €\nPears 2 €"
    status: int = 200
    slow_s: float = 0.0
    random: Random | None = None
    fault: str = ""
    fetched: int = 0
    running: int = 0
    urls: list[str] = field(default_factory=list)

    async def fetch(self, chat: str, url: str) -> Page:
        """Return the page as the fetcher would."""
        self.fetched += 1
        self.urls.append(url)
        self.running += 1
        try:
            await trio.sleep(self.slow_s)
            fault = self.fault or self._draw()
            if fault == "timeout":
                await trio.sleep(30)
                raise FetchError("example.org did not answer within 30 s.")
            if fault == "500":
                return Page(url, 500, text="Internal error", title="Error")
            if fault == "cut":
                return Page(url, 200, text=self.text[:10], broken_off=True, cut="it broke off")
            if fault == "empty":
                return Page(url, 200, described="The page is empty.")
            # The layout and the links' queries differ from visit to visit.
            link = f"[more](https://example.org/more?visit={self.fetched})"
            return Page(url, self.status, "text/html", "Prices", f"{self.text}\n\n {link}  ")
        finally:
            self.running -= 1

    def _draw(self) -> str:
        if self.random is None or self.random.random() > 0.02:
            return ""
        return self.random.choice(["timeout", "500", "cut", "empty"])

    def sources(self) -> Callable[[MemorySandboxes, Path, Offload], WatchSources]:
        """Return what makes the sources of a house that watch this site."""
        return lambda boxes, files, offload: WatchSources(
            self.fetch, boxes.run, lambda chat: STRICT, ChatFiles(files), offload
        )
