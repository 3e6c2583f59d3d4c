"""The socket and the log-in, which exist before the tree starts."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import HTTPConnection

from rumi.channels.http.address import BoundSocket, listen
from rumi.channels.page.login import LINK_S, Door
from rumi.platform.texts import page as page_texts
from rumi.platform.texts.language import Language, language_of_browser


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where the page is, and who may come in. It outlives every incarnation of the server."""

    bound: BoundSocket
    door: Door
    language: Language
    say: Callable[[str], None]
    ask_browsers: bool

    def language_of(self, request: HTTPConnection) -> Language:
        """Return the language that a browser is answered in: the configuration's, or with `auto` its own."""
        if not self.ask_browsers:
            return self.language
        return language_of_browser(request.headers.get("accept-language", ""), self.language)

    def introduce(self) -> None:
        """Tell where the program was started how to come in, and what to mind."""
        if not self.bound.loopback:
            self.say(page_texts.page_is_open(self.language, self.bound.url))
        self.door.offer()


@contextmanager
def open_entrance(
    where: str, language: Language, say: Callable[[str], None], sessions: Path, *, ask_browsers: bool = False
) -> Iterator[Entrance]:
    """Listen at `HOST:PORT` until the block ends.

    `say` shows a line, such as a login link, where the program was started. `sessions` is the file that
    keeps who is logged in. With `ask_browsers` each browser's own language goes before `language`.

    Raises:
        UsageError: no such address, or the port is taken.
    """
    bound = listen(where, "--web")

    def announce(code: str) -> None:
        say(page_texts.page_link(language, f"{bound.url}/login?code={code}", round(LINK_S / 60)))

    try:
        yield Entrance(bound, Door(announce, time.monotonic, sessions), language, say, ask_browsers)
    finally:
        bound.close()
