"""Requests to a database: one function for each type of request executes it within a transaction."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from actors import Request
from rumi.store.protocol import Database

Q = TypeVar("Q")
Q_co = TypeVar("Q_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T", bound="Transaction")


@dataclass(frozen=True, slots=True)
class Transaction:
    """The open transaction of a database, and the time in seconds since 1970.

    `size` returns how many bytes the database takes. `owned` returns the partitions of this worker; None
    where one process serves all chats. Steps add the chats to `touched` in which they have stored something
    that the chat's owner has to see. `lock_rows` ends a SELECT that locks
    what it finds until the transaction ends.
    """

    db: Database
    now: Callable[[], float]
    size: Callable[[], int] = lambda: 0
    owned: Callable[[], Collection[int]] | None = None
    touched: set[str] = field(default_factory=set)
    lock_rows: str = ""


class Steps(Generic[T]):
    """The functions that execute requests in transactions of one kind, by the type of the request."""

    def __init__(self) -> None:
        self._steps: dict[type, Callable[[Any, T], object]] = {}

    @property
    def kinds(self) -> Collection[type]:
        """The types of the requests that have a function."""
        return self._steps.keys()

    def of(self, kind: type[Q]) -> "_Step[Q, T]":
        """Make a function execute the requests of a type: `@steps.of(Get) def get(request, transaction)`.

        A type checker refuses a function that takes another request, or that returns something other than the
        `R` of `Request[R]`.
        """
        return _Step(kind, self._steps)

    def do(self, request: Request[R], transaction: T) -> R:
        """Execute a request in the transaction that is open; return its reply.

        Raises:
            TypeError: No function executes such requests.
        """
        step = self._steps.get(type(request))
        if step is None:
            raise TypeError(f"no step executes {type(request).__name__}")
        return cast(R, step(request, transaction))


class _Step(Generic[Q_co, T]):
    def __init__(self, kind: type[Q_co], steps: dict[type, Callable[[Any, T], object]]) -> None:
        self._kind = kind
        self._steps = steps

    def __call__(self: "_Step[Request[R], T]", step: Callable[[Q_co, T], R]) -> Callable[[Q_co, T], R]:
        self._steps[self._kind] = step
        return step
