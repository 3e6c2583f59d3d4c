"""The `Actor` base class, which users of the runtime subclass, and the `answers` decorator."""

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
    """The decorator that `answers` returns; it requires the method to return the `R` of its `Request[R]`."""

    __slots__ = ("_kinds",)

    def __init__(self, kinds: tuple[type[Q_co], ...]) -> None:
        self._kinds = kinds

    def __call__(
        self: "Answers[Request[R]]", method: Callable[[A, Q_co], Coroutine[Any, Any, R]]
    ) -> Callable[[A, Q_co], Coroutine[Any, Any, R]]:
        """Register `method` as the handler of these requests."""
        method.__answers__ = self._kinds  # type: ignore[attr-defined]
        return method


def answers(*kinds: type[Q]) -> Answers[Q]:
    """Decorate a method as the handler of these request types: `@answers(Get) async def get(self, message)`.

    A type checker rejects a method that takes another message, or that returns something other than the
    `R` of `Request[R]`. A method for a base class also handles requests of its subclasses.
    """
    return Answers(kinds)


class Life(OwnTasks):
    """The interface through which an actor uses its running incarnation: reference, number and tasks."""

    __slots__ = ("number", "ref")

    def __init__(self, ref: ActorRef[Any], number: int) -> None:
        super().__init__()
        self.ref = ref
        self.number = number

    @abstractmethod
    def request_end(self) -> None:
        """End the incarnation normally after the current message."""


class Actor(Generic[M_contra]):
    """Base class of actors: private state, and handlers that run one message at a time.

    Subclass it with the messages that the actor accepts: `class Counter(Actor[Get | Put])`. Methods decorated
    with `answers` handle its requests, `receive` handles all other messages. An object is used for one
    incarnation; after a crash the spec's factory creates the next one. `ref`, `id` and `incarnation` are
    available from `started` on, but not in `__init__`.

    Every exception of a handler is a crash, except `Refused`, which goes to the asker. If the asker is
    cancelled, its handler is cancelled too, and the actor continues with the next message; therefore its
    state must be consistent at every checkpoint.
    """

    concurrency: ClassVar[int] = 1
    """Maximum number of messages handled at once. Above 1, each message runs in its own task."""

    _methods: ClassVar[Mapping[type, str]] = {}  # method names by the types given to `answers`
    _handlers: ClassVar[dict[type, str]] = {}  # cache: method names by the types of received messages
    _life: Life | None = None

    async def started(self) -> None:
        """Prepare the actor; called before the first message.

        If `started` raises, the start has failed, and `stopped` is not called. If the actor has to stop in
        the meantime, `started` is cancelled at once.
        """

    async def receive(self, message: M_contra) -> None:
        """Handle a message for whose type no method is decorated with `answers`. Any exception is a crash."""
        raise TypeError(f"{type(self).__name__} does not take {type(message).__name__}")

    async def stopped(self, reason: StopReason) -> None:
        """Clean up; called when the incarnation's tasks have ended, and only if `started` had returned.

        `stopped` runs shielded from cancellation, for at most `shutdown` seconds. If it raises, the exception
        is only logged.
        """

    def busy(self) -> bool:
        """Return True while the actor works outside of its handlers; a busy actor does not go idle."""
        return False

    def activity(self) -> str:
        """Describe the current work in a short text for the status tree; must be quick and must not wait."""
        return ""

    def metrics(self) -> Mapping[str, object]:
        """Return the actor's counters by name, as plain values, for the status tree; must not wait."""
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
        """Return the number of this incarnation: 1 for the first, one more after every restart."""
        return self._bound.number

    def start_soon(self, fn: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start a task that belongs to this incarnation.

        The task is cancelled when the incarnation ends. If it raises, the actor crashes.

        Raises:
            RuntimeError: The incarnation has ended.
        """
        self._bound.start_soon(fn, *args)

    async def start(self, fn: Callable[..., Awaitable[object]], *args: object) -> Any:
        """Start a task as `start_soon` does, wait for `task_status.started(value)`, and return the value.

        As with `trio.Nursery.start`, this call raises the task's error if the task fails before it reports,
        and cancelling this call cancels the task.
        """
        return await self._bound.start(fn, *args)

    def tell_after(self, seconds: float, message: M_contra) -> trio.CancelScope:
        """Tell this actor `message` after `seconds`; cancel the returned scope to stop the timer.

        The timer belongs to the incarnation: it is cancelled when the incarnation ends, and the next
        incarnation starts without it.
        """
        return self._start_timer(seconds, message, again=False)

    def tell_every(self, seconds: float, message: M_contra) -> trio.CancelScope:
        """Tell this actor `message` repeatedly, every `seconds`; otherwise like `tell_after`.

        The next interval begins when the mailbox has accepted the message, so ticks do not pile up while the
        mailbox is full. With overflow="reject", a tick is skipped if the mailbox is full.

        Raises:
            ValueError: `seconds` is not more than 0.
        """
        if not seconds > 0:
            raise ValueError("a timer that repeats needs more than 0 seconds")
        return self._start_timer(seconds, message, again=True)

    def _start_timer(self, seconds: float, message: M_contra, *, again: bool) -> trio.CancelScope:
        scope = trio.CancelScope()
        self.start_soon(_tick, self.ref, scope, seconds, message, again)
        return scope

    def stop(self) -> None:
        """End this incarnation normally after the current message; a "permanent" child then restarts.

        For other children this is the final stop: messages that are still queued are not handled.
        """
        self._bound.request_end()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Collect the methods decorated with `answers`.

        Raises:
            TypeError: The class declares a request among its messages, but no method handles that request.
            ValueError: `concurrency` is less than 1.
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
