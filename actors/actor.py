"""What users of the runtime write: the actor."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from types import FunctionType
from typing import Any, ClassVar, Generic, TypeVar, TypeVarTuple, get_args, get_origin

import trio

from actors.errors import ActorStopped, MailboxFull, Refused
from actors.own_tasks import OwnTasks
from actors.ref import ActorRef
from actors.request import Request
from actors.status import StopReason

M_contra = TypeVar("M_contra", contravariant=True)
A = TypeVar("A")
M = TypeVar("M")
Q = TypeVar("Q")
Q_co = TypeVar("Q_co", covariant=True)
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


class Answers(Generic[Q_co]):
    """What `answers` returns: it marks the method, and ties the method's reply to the request's `R`."""

    __slots__ = ("_kinds",)

    def __init__(self, kinds: tuple[type[Q_co], ...]) -> None:
        self._kinds = kinds

    def __call__(
        self: "Answers[Request[R]]", method: Callable[[A, Q_co], Coroutine[Any, Any, R]]
    ) -> Callable[[A, Q_co], Coroutine[Any, Any, R]]:
        """Mark `method` as what answers these requests."""
        method.__answers__ = self._kinds  # type: ignore[attr-defined]
        return method


def answers(*kinds: type[Q]) -> Answers[Q]:
    """Make a method the answer to requests of these types: `@answers(Get) async def get(self, message)`.

    A type checker refuses a method that takes another message, or that returns something other than the
    `R` of `Request[R]`. A method for a base class answers what is derived from it.
    """
    return Answers(kinds)


class Life(OwnTasks):
    """What an actor has while it runs; it is the actor's incarnation."""

    __slots__ = ("number", "ref")

    def __init__(self, ref: ActorRef[Any], number: int) -> None:
        super().__init__()
        self.ref = ref
        self.number = number

    @abstractmethod
    def request_end(self) -> None:
        """End normally after the message in hand."""


class Actor(Generic[M_contra]):
    """One incarnation of a child: state that only its own tasks touch, and a message at a time.

    Subclass it with the messages it takes: `class Counter(Actor[Get | Put])`. Methods marked with `answers`
    serve its requests, `receive` serves its other messages. An object serves for one incarnation; after a
    crash the spec's factory makes the next. `ref`, `id` and `incarnation` are there from `started` on, not
    yet in `__init__`.

    What such a method raises is a crash, apart from `Refused`, which is the asker's. When the asker gives
    up, the method is cancelled; the actor then goes on with the next message, so state must be sound at
    every checkpoint.
    """

    concurrency: ClassVar[int] = 1
    """How many messages an object of this class handles at once, each in a task of its own."""

    _methods: ClassVar[Mapping[type, str]] = {}  # by the types that `answers` names
    _handlers: ClassVar[dict[type, str]] = {}  # by the types of the messages that have come
    _life: Life | None = None

    async def started(self) -> None:
        """Runs before the first message. Raising means that it could not start; `stopped` is then not run.

        A stop that comes meanwhile cancels it at once.
        """

    async def receive(self, message: M_contra) -> None:
        """Handle a message that has no method of its own. Raising is a crash."""
        raise TypeError(f"{type(self).__name__} does not take {type(message).__name__}")

    async def stopped(self, reason: StopReason) -> None:
        """Runs when the incarnation's tasks have ended, shielded, for at most `shutdown` seconds.

        Only where `started` had returned. Raising is logged and changes nothing.
        """

    def busy(self) -> bool:
        """Return True if work is under way that no message in hand shows; a busy actor does not go idle."""
        return False

    def activity(self) -> str:
        """Free text for the status tree; must be quick and must not wait."""
        return ""

    def metrics(self) -> Mapping[str, object]:
        """Return what it counts, by name, for the status tree: plain values; quick, and must not wait."""
        return {}

    @property
    def ref(self) -> ActorRef[M_contra]:
        """Return the reference of this child, the same for all incarnations."""
        return self._bound.ref

    @property
    def id(self) -> str:
        """Return the id of the child's spec."""
        return self._bound.ref.id

    @property
    def incarnation(self) -> int:
        """1 for the first incarnation in this node, one more after every restart."""
        return self._bound.number

    def start_soon(self, fn: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start a task of this incarnation: cancelled at its end; if it raises, the actor crashes.

        Raises RuntimeError when the incarnation has ended.
        """
        self._bound.start_soon(fn, *args)

    async def start(self, fn: Callable[..., Awaitable[object]], *args: object) -> Any:
        """Like `start_soon`, but wait until the task calls `task_status.started(value)`; returns the value.

        As with `trio.Nursery.start`, an error before that is raised here, and cancelling this cancels it.
        """
        return await self._bound.start(fn, *args)

    def tell_after(self, seconds: float, message: M_contra) -> trio.CancelScope:
        """Tell this actor `message` in so many seconds; cancel what is returned to prevent that.

        A timer belongs to the incarnation: it is cancelled at its end, and the next one has none.
        """
        return self._start_timer(seconds, message, again=False)

    def tell_every(self, seconds: float, message: M_contra) -> trio.CancelScope:
        """Tell this actor `message` every so many seconds, as `tell_after` does.

        The pause begins when the mailbox has taken the message: ticks do not pile up before a busy actor.
        With overflow="reject", a tick that finds the mailbox full is left out.
        """
        if not seconds > 0:
            raise ValueError("a timer that repeats needs more than 0 seconds")
        return self._start_timer(seconds, message, again=True)

    def _start_timer(self, seconds: float, message: M_contra, *, again: bool) -> trio.CancelScope:
        scope = trio.CancelScope()
        self.start_soon(_tick, self.ref, scope, seconds, message, again)
        return scope

    def stop(self) -> None:
        """End normally once the message in hand is done; "permanent" children then restart.

        For other children this is the final stop: what is still queued is not handled any more.
        """
        self._bound.request_end()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Collect what `answers` marked.

        Raises TypeError when a request that the class names among its messages has no method, and
        ValueError when `concurrency` is less than 1.
        """
        super().__init_subclass__(**kwargs)
        if cls.concurrency < 1:
            raise ValueError(f"{cls.__name__}: concurrency must be 1 or more")
        cls._methods = {
            kind: name
            for base in reversed(cls.__mro__)
            for name, member in vars(base).items()
            if isinstance(member, FunctionType)
            for kind in getattr(member, "__answers__", ())
        }
        cls._handlers = {}
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is Actor:
                (messages,) = get_args(base)
                for kind in get_args(messages) or (messages,):
                    if isinstance(kind, type) and issubclass(kind, Request) and not cls._method_for(kind):
                        raise TypeError(f"{cls.__name__} has no method that answers {kind.__name__}")

    @classmethod
    def _method_for(cls, kind: type) -> str | None:
        return next((cls._methods[base] for base in kind.__mro__ if base in cls._methods), None)

    def _handle(self, message: Any) -> Awaitable[object]:
        kind = type(message)
        name = self._handlers.get(kind)
        if name is None:
            default = "_refuse" if issubclass(kind, Request) else "receive"
            name = self._handlers[kind] = self._method_for(kind) or default
        handler: Callable[[object], Awaitable[object]] = getattr(self, name)
        return handler(message)

    async def _refuse(self, message: object) -> None:
        raise Refused(TypeError(f"{type(self).__name__} does not answer {type(message).__name__}"))

    @property
    def _bound(self) -> Life:
        if self._life is None:
            raise RuntimeError(f"{type(self).__name__} is not running: use it from started() on")
        return self._life


async def _tick(ref: ActorRef[M], scope: trio.CancelScope, seconds: float, message: M, again: bool) -> None:
    with scope, suppress(ActorStopped):
        while True:
            await trio.sleep(seconds)
            with suppress(MailboxFull):
                await ref.tell(message)
            if not again:
                return
