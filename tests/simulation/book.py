"""The journal as the simulation reads it, from outside, while or after processes write it."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Row:
    """A reply in the outbox. `known`: one of its messages came from Telegram, from a task or a reminder."""

    delivery: int
    text: str
    created: float
    delivered: float | None
    parts: int
    failure: str | None
    known: bool


class Book:
    """One connection for a whole history. A file that has no tables yet has no rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None

    def ask(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        if self._database is None:
            if not self._path.exists():
                return []
            self._database = sqlite3.connect(self._path)
        try:
            return self._database.execute(question, values).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return []

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def replies(self, chat: str) -> list[Row]:
        """A chat's replies, in order."""
        rows = self.ask(
            "SELECT outbox.id, outbox.text, created, delivered, parts, failure,"
            " count(origin) + count(task) + count(schedule)"
            " FROM outbox LEFT JOIN messages ON reply = outbox.id WHERE outbox.chat = ?"
            " GROUP BY outbox.id ORDER BY outbox.id",
            chat,
        )
        return [Row(*row[:6], known=bool(row[6])) for row in rows]

    def previews(self, chat: str) -> set[int]:
        """Telegram's numbers of the messages in which answers grow that are not there, and may never be."""
        rows = self.ask(
            "SELECT preview FROM messages LEFT JOIN outbox ON reply = outbox.id"
            " WHERE messages.chat = ? AND preview IS NOT NULL AND coalesce(parts, 0) = 0"
            " AND (delivered IS NULL OR failure IS NOT NULL)",
            chat,
        )
        return {abs(row[0]) for row in rows}

    def unfinished(self) -> list[str]:
        """What is still to be done, in words."""
        open_ = self.ask("SELECT id FROM messages WHERE reply IS NULL")
        waiting = self.ask(
            "SELECT DISTINCT outbox.id FROM outbox JOIN messages ON reply = outbox.id"
            " WHERE delivered IS NULL AND (origin IS NOT NULL OR task IS NOT NULL OR schedule IS NOT NULL)"
        )
        tasks = self.ask("SELECT id, state FROM tasks WHERE ended IS NULL")
        found = [f"the message {number} has no reply" for (number,) in open_]
        found += [f"the task {number} has not ended, it is {state}" for number, state in tasks]
        return found + [f"the reply {number} is not delivered" for (number,) in waiting]

    def answered(self, chat: str) -> bool:
        """Whether a chat has, and was told, all of its replies."""
        return not self.ask(
            "SELECT 1 FROM messages LEFT JOIN outbox ON reply = outbox.id"
            " WHERE messages.chat = ? AND (reply IS NULL OR delivered IS NULL AND origin IS NOT NULL)",
            chat,
        )
