"""What users of the runtime write: the actor."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, TypeVarTuple

from actors.own_tasks import OwnTasks
from actors.ref import ActorRef
from actors.status import StopReason

M_contra = TypeVar("M_contra", contravariant=True)
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class Life:
    """What an actor has while it runs."""

    ref: ActorRef[Any]
    incarnation: int
    tasks: OwnTasks
    end: Callable[[], None]


class Actor(ABC, Generic[M_contra]):
    """One incarnation of a child: state that only its own tasks touch, and a message at a time.

    Subclass it with the messages it takes: `class Counter(Actor[Get | Put])`. An object serves for one
    incarnation; after a crash the spec's factory makes the next. `ref`, `id` and `incarnation` are there
    from `started` on, not yet in `__init__`.
    """

    _life: Life | None = None

    async def started(self) -> None:
        """Runs before the first message. Raising means that it could not start; `stopped` is then not run.

        A stop that comes meanwhile cancels it at once.
        """

    @abstractmethod
    async def receive(self, message: M_contra) -> object:
        """Handle a message; what it returns answers an ask and is dropped for a tell.

        Raising is a crash. When the asker gives up, this is cancelled; the actor then goes on with the next
        message, so state must be sound at every checkpoint. An error that the asker should see is a value
        to return.
        """

    async def stopped(self, reason: StopReason) -> None:
        """Runs when the incarnation's tasks have ended, shielded, for at most `shutdown` seconds.

        Only where `started` had returned. Raising is logged and changes nothing.
        """

    def busy(self) -> bool:
        """Whether work is under way that no message in hand shows; a busy actor does not go idle."""
        return False

    def doing(self) -> str:
        """Free text for the status tree; must be quick and must not wait."""
        return ""

    def figures(self) -> Mapping[str, object]:
        """What it counts, by name, for the status tree: plain values; quick, and must not wait."""
        return {}

    @property
    def ref(self) -> ActorRef[M_contra]:
        """The reference under which this child is known, the same for all incarnations."""
        return self._bound.ref

    @property
    def id(self) -> str:
        """The id of the child's spec."""
        return self._bound.ref.id

    @property
    def incarnation(self) -> int:
        """1 for the first incarnation in this place, one more after every restart."""
        return self._bound.incarnation

    def start_soon(self, fn: Callable[[*Ts], Awaitable[object]], *args: *Ts) -> None:
        """Start a task of this incarnation: cancelled at its end; if it raises, the actor crashes.

        Raises RuntimeError when the incarnation has ended.
        """
        self._bound.tasks.start_soon(fn, *args)

    async def start(self, fn: Callable[..., Awaitable[object]], *args: object) -> Any:
        """Like `start_soon`, but wait until the task calls `task_status.started(value)`; returns the value.

        As with `trio.Nursery.start`, an error before that is raised here, and cancelling this cancels it.
        """
        return await self._bound.tasks.start(fn, *args)

    def stop(self) -> None:
        """End normally once the message in hand is done; "permanent" children then restart.

        For other children this is the final stop: what is still queued is not handled any more.
        """
        self._bound.end()

    @property
    def _bound(self) -> Life:
        if self._life is None:
            raise RuntimeError(f"{type(self).__name__} is not running: use it from started() on")
        return self._life
