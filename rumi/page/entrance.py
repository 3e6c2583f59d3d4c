"""What has to be there before the house is: the socket, and the door."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rumi import texts
from rumi.page.address import Bound, listen
from rumi.page.login import LINK_S, Door
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class Entrance:
    """Where the page is, and who may come in. It outlives every incarnation of the server."""

    bound: Bound
    door: Door
    language: Language
    say: Callable[[str], None]

    def introduce(self) -> None:
        """Tell whoever started the program how to come in, and what to mind."""
        if not self.bound.loopback:
            self.say(texts.page_is_open(self.language, self.bound.url))
        self.door.offer()


@contextmanager
def open_entrance(where: str, language: Language, say: Callable[[str], None]) -> Iterator[Entrance]:
    """Listen at `HOST:PORT` until the block ends. `say` shows a line, such as a login link, to whoever
    started the program.

    Raises:
        UsageError: no such address, or the port is taken.
    """
    bound = listen(where)

    def announce(code: str) -> None:
        say(texts.page_link(language, f"{bound.url}/login?code={code}", round(LINK_S / 60)))

    try:
        yield Entrance(bound, Door(announce, time.monotonic), language, say)
    finally:
        bound.close()
