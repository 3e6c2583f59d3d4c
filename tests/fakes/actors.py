"""An actor that does what it is told and writes down what happened to it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import trio

from actors import (
    Actor,
    ChildSpec,
    DynamicSupervisor,
    NodeStatus,
    Refused,
    Request,
    StopReason,
    Supervisor,
    answers,
    testing,
)

R = TypeVar("R")


class Broken(Exception):
    """What a probe crashes with."""


@dataclass(frozen=True, slots=True)
class Note:
    """Told: write it down."""

    value: object


@dataclass(frozen=True, slots=True)
class Echo(Request[Any]):
    """Asked: the value comes back."""

    value: object


@dataclass(frozen=True, slots=True)
class Crash(Request[None]):
    """Raise this, after so many seconds."""

    error: BaseException = field(default_factory=lambda: Broken("told to"))
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Work(Request[str]):
    """Take that long. With `cleanup_s`, a cancellation takes that long too (shielded)."""

    seconds: float
    cleanup_s: float = 0.0
    cleanup_error: BaseException | None = None
    reply: str = "done"


@dataclass(frozen=True, slots=True)
class End(Request[str]):
    """Stop normally."""


@dataclass(frozen=True, slots=True)
class Do(Request[Any]):
    """Call this with the actor and await it: for what has no message of its own."""

    fn: Callable[["Probe"], Any]


@dataclass(frozen=True, slots=True)
class Refuse(Request[str]):
    """Refuse with this, after so many seconds."""

    error: Exception = field(default_factory=lambda: LookupError("not here"))
    after_s: float = 0.0


Any_ = Note | Refuse | Echo | Crash | Work | End | Do


@dataclass
class Script:
    """What the incarnations of one place do; indices are incarnations, counted from 1."""

    start_errors: dict[int, BaseException] = field(default_factory=dict)
    start_s: float = 0.0
    stop_error: BaseException | None = None
    stop_s: float = 0.0
    busy: bool = False


class Probe(Actor[Any_]):
    """Writes (id, incarnation, what, …) into a log that outlives it."""

    def __init__(self, log: list[tuple[Any, ...]], script: Script | None = None) -> None:
        self.log = log
        self.script = script or Script()

    def say(self, *what: object) -> None:
        self.log.append((self.id, self.incarnation, *what))

    async def started(self) -> None:
        if self.script.start_s:
            await trio.sleep(self.script.start_s)
        if self.incarnation in self.script.start_errors:
            self.say("cannot start")
            raise self.script.start_errors[self.incarnation]
        self.say("started")

    async def receive(self, message: Any_) -> None:
        assert isinstance(message, Note)
        self.say("note", message.value)

    @answers(Request)
    async def answer(self, message: Request[R]) -> R:
        return cast(R, await self.do(message))

    async def do(self, message: object) -> object:
        match message:
            case Echo(value):
                self.say("echo", value)
                return value
            case Crash(error, after_s):
                self.say("crash")
                if after_s:
                    await trio.sleep(after_s)
                raise error
            case Refuse(error, after_s):
                self.say("refuses")
                if after_s:
                    await trio.sleep(after_s)
                raise Refused(error)
            case Work():
                return await self.work(message)
            case End():
                self.say("end")
                self.stop()
                return "ended"
            case Do(fn):
                return await fn(self)
        return None

    async def work(self, message: Work) -> str:
        self.say("work begins")
        try:
            await trio.sleep(message.seconds)
        except trio.Cancelled:
            if message.cleanup_s:
                with trio.CancelScope(shield=True):
                    await trio.sleep(message.cleanup_s)
            self.say("work cancelled")
            if message.cleanup_error is not None:
                raise message.cleanup_error from None
            raise
        self.say("work ends")
        return message.reply

    async def stopped(self, reason: StopReason) -> None:
        self.say("stopped", reason)
        if self.script.stop_s:
            await trio.sleep(self.script.stop_s)
            self.say("stopped ends")
        if self.script.stop_error is not None:
            raise self.script.stop_error

    def busy(self) -> bool:
        return self.script.busy


class House:
    """A root with probes below it, and their common log."""

    def __init__(self, root: Supervisor | DynamicSupervisor[Any_] | None = None, **options: Any) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.root = root or Supervisor("root", **options)

    def spec(
        self, id: str, script: Script | None = None, *, concurrency: int = 1, **options: Any
    ) -> ChildSpec[Any_]:
        kind = type("Probe", (Probe,), {"concurrency": concurrency})
        return ChildSpec(id, lambda: kind(self.log, script), **options)

    def add(self, id: str, script: Script | None = None, **options: Any) -> Any:
        assert isinstance(self.root, Supervisor)
        return self.root.add(self.spec(id, script, **options))

    @asynccontextmanager
    async def up(self, within_s: float = 1e6) -> AsyncGenerator[None, None]:
        """The tree runs; a hang fails at once where time is virtual."""
        with trio.fail_after(within_s):
            async with self.root.running():
                yield

    def said(self, *words: object) -> list[tuple[Any, ...]]:
        """The lines whose third word, what happened, is one of these."""
        return [line for line in self.log if line[2] in words]

    def node(self, *path: str) -> NodeStatus:
        """A node's status, by ids below the root."""
        return testing.node(self.root, *path)
