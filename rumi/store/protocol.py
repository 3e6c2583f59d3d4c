"""What a store offers to the steps of requests: one connection to a database, whatever keeps it.

Steps are written in the SQL that SQLite and PostgreSQL share, with SQLite's parameters: `?`, `?1`, `:name`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

Trouble: TypeAlias = Literal["full", "locked", "failing", "replaced", "away"]
"""The reason why a database cannot be written, although the request itself is correct.

The disk is full; another program holds a lock; the disk refuses to write; the file was deleted or replaced
while it was open; the database server does not answer.
"""

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]


class Rows(Protocol):
    """The result of a statement: rows as tuples, and how many rows it has changed."""

    @property
    def rowcount(self) -> int:
        """Return how many rows the statement has changed."""
        ...

    @property
    def description(self) -> Any:
        """Return a sequence with an item for each column; the name is its first value."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, None behind the last one."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Return the rows one by one."""
        ...

    def close(self) -> None:
        """Read no more rows."""
        ...


class Database(Protocol):
    """One connection. Blocking; used by one thread at a time."""

    @property
    def in_transaction(self) -> bool:
        """Return True between BEGIN and COMMIT."""
        ...

    def execute(self, sql: str, parameters: Any = (), /) -> Rows:
        """Execute a statement."""
        ...

    def executemany(self, sql: str, parameters: Iterable[Any], /) -> Rows:
        """Execute a statement once for each set of parameters."""
        ...

    def close(self) -> None:
        """Close the connection; a transaction that is open is rolled back."""
        ...
