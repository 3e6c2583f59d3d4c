"""Steps of a transaction: functions that each execute one type of request in the open transaction."""

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
    """The open database transaction that a step runs in.

    `now` returns the time in seconds since 1970, and `size` returns the size of the database in bytes.
    `owned` returns the partitions of this worker; `owned` is None if one process serves all chats. A step
    adds a chat to `touched` if the chat's worker must be notified about what the step stored there.
    `lock_rows` is the SQL suffix that makes a SELECT lock its rows until the transaction ends.
    """

    db: Database
    now: Callable[[], float]
    size: Callable[[], int] = lambda: 0
    owned: Callable[[], Collection[int]] | None = None
    touched: set[str] = field(default_factory=set)
    lock_rows: str = ""


class Steps(Generic[T]):
    """Registry of the functions that execute requests in transactions of one kind, by request type."""

    def __init__(self) -> None:
        self._steps: dict[type, Callable[[Any, T], object]] = {}

    @property
    def kinds(self) -> Collection[type]:
        """Return the request types that have a registered function."""
        return self._steps.keys()

    def of(self, kind: type[Q]) -> "_Step[Q, T]":
        """Register a function for a request type: `@steps.of(Get) def get(request, transaction)`.

        A type checker rejects a function that takes another request type. It also rejects a return type other
        than the `R` of the request's base class `Request[R]`.
        """
        return _Step(kind, self._steps)

    def do(self, request: Request[R], transaction: T) -> R:
        """Execute a request in the open transaction; return its reply.

        Raises:
            TypeError: No function is registered for this request type.
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
