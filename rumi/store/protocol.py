"""The database connection that steps of requests use, the same for SQLite and PostgreSQL.

Steps are written in the SQL that both databases share, with SQLite's parameters: `?`, `?1`, `:name`.
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
    """The result of a statement: rows as tuples, and the number of changed rows."""

    @property
    def rowcount(self) -> int:
        """Return the number of rows that the statement has changed."""
        ...

    @property
    def description(self) -> Any:
        """Return a sequence with an item for each column; the first value of an item is the name."""
        ...

    def fetchone(self) -> Any:
        """Return the next row, or None after the last one."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        ...

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the remaining rows."""
        ...

    def close(self) -> None:
        """Discard the remaining rows."""
        ...


class Database(Protocol):
    """One database connection. Blocking; used by one thread at a time."""

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
        """Close the connection; roll back an open transaction."""
        ...
