"""Interface of a database connection for steps of transactions. SQLite and PostgreSQL both provide it.

Steps are written in the SQL that both databases support, with SQLite's parameters: `?`, `?1`, `:name`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

Trouble: TypeAlias = Literal["full", "locked", "failing", "replaced", "away"]
"""Reason why the database cannot be written, although the request itself is correct.

- `full`: the disk is full.
- `locked`: another program holds a lock.
- `failing`: the disk refuses to write.
- `replaced`: the file was deleted or replaced while it was open.
- `away`: the database server does not answer.
"""

Parameters: TypeAlias = Sequence[object] | Mapping[str, object]


class Rows(Protocol):
    """Result of a statement: rows as tuples, and the number of changed rows."""

    @property
    def rowcount(self) -> int:
        """Return the number of rows that the statement changed."""
        ...

    @property
    def description(self) -> Any:
        """Return one sequence for each column of the result; its first item is the column's name."""
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
