"""Steps: functions that run in a transaction. Calling a step makes a request, which a store executes.

@step(of_task, owned=True)
def begin_task(transaction: Transaction, id: int) -> None: ...

await journal.ask(begin_task(7))
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from actors import Request
from rumi.store.protocol import Database

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
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


@dataclass(frozen=True, slots=True)
class Run(Request[R_co]):
    """The request to run a step with these arguments; the reply is what the step returns."""

    step: "Step[Any, ..., R_co]"
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def request_name(self) -> str:
        """Return the name of the step."""
        return self.step.name

    def do(self, transaction: "Transaction") -> R_co:
        """Run the step in the open transaction; return its reply."""
        return self.step.do(transaction, *self.args, **self.kwargs)


@dataclass(eq=False, slots=True)
class Step(Generic[T, P, R_co]):
    """A function `do` that runs in a transaction, and what a store must know about it.

    Other steps call `do` in their own transaction. `keys` returns, for the first argument, the keys of what
    the step changes; a store locks them. `owned`: in a shared database, only the worker that owns these keys
    may run the step. `shared`: the step also reads data of all chats before it changes it. `reads`: the step
    reads, and writes at most rows that it needs but that do not exist yet. `erases`: the step deletes content
    that must also vanish from the database's log.
    """

    do: Callable[Concatenate[T, P], R_co]
    keys: Callable[[Any, Any], Iterable[str]] | None = None
    owned: bool = False
    shared: bool = False
    reads: bool = False
    erases: bool = False

    @property
    def name(self) -> str:
        """Return the name of the function."""
        return self.do.__name__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Run[R_co]:
        """Return the request to run this step; nothing is executed yet."""
        return Run(self, args, kwargs)


@overload
def step(
    *, owned: bool = ..., shared: bool = ..., reads: bool = ..., erases: bool = ...
) -> Callable[[Callable[Concatenate[T, P], R]], Step[T, P, R]]: ...
@overload
def step(
    keys: Callable[[Transaction, A], Iterable[str]],
    /,
    *,
    owned: bool = ...,
    shared: bool = ...,
    reads: bool = ...,
    erases: bool = ...,
) -> Callable[[Callable[Concatenate[T, A, P], R]], Step[T, Concatenate[A, P], R]]: ...
def step(keys: Any = None, /, **flags: bool) -> Any:
    """Make a function a step: see `Step` for the flags.

    With `keys`, the step's first argument is positional, and `keys` takes an argument of its type.
    """
    return lambda do: Step(do, keys, **flags)
