"""A real state with conversations in it, in a file or a database, written through the journal's own steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors import Request
from rumi.models.model import Message
from rumi.store.journal.history import append_history
from rumi.store.journal.records import HistoryEntry
from rumi.store.journal.store import Store
from tests.store.journal.conftest import shared_store


class State:
    """Turns are numbered on; each exchange is complete."""

    def __init__(self, path: Path, url: str = "") -> None:
        """With a `url` it is in that database, by a worker that serves all chats."""
        self.path = path
        self.now = 1_790_000_000.0
        now = lambda: self.now  # noqa: E731
        self.store = shared_store(url, now=now) if url else Store(path, now)
        self._turn = 0
        self._waiting: list[Request[None]] | None = None

    def add_turn(
        self,
        chat: str,
        said: str,
        answered: str,
        *,
        at: float | None = None,
        session: int = 1,
        tainted: bool = False,
    ) -> str:
        """Store an exchange; return its turn."""
        self.now = at if at is not None else self.now + 60
        self._turn += 1
        turn = f"t{self._turn}"
        entries = tuple(
            HistoryEntry(turn, message, tainted)
            for message in (Message("user", said), Message("assistant", answered))
        )
        self.store.run([append_history(chat, session, entries)])
        return turn

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Store many exchanges without waiting for the disk each time."""
        self.store._db.execute("PRAGMA synchronous = OFF")
        yield
        self.store._db.execute("PRAGMA synchronous = FULL")
