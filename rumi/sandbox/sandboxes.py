"""The sandboxes of all chats: the interface for chats and tools, and the actors that implement it."""

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import trio

from actors import (
    ActorError,
    ActorRef,
    ChildSpec,
    DynamicSupervisor,
    Request,
    Supervisor,
)
from rumi.platform.home import workspaces_in
from rumi.sandbox import workspace
from rumi.sandbox.disk import Disk, DiskWatch
from rumi.sandbox.engine import Command, CommandResult, Engine, EngineKind, SandboxError, SandboxLimits
from rumi.sandbox.handover import Workspaces
from rumi.sandbox.open_files import nameless
from rumi.sandbox.registry import ContainerRegistry, RegistryMessage, Remove
from rumi.sandbox.sandbox import (
    REMOVE_S,
    SHUTDOWN_S,
    EndProcesses,
    Prepare,
    RunCommand,
    Sandbox,
    SandboxMessage,
    unconfirmed,
)
from rumi.sandbox.use import Measure, Processes, Use

R = TypeVar("R")

INTENTS_SHUTDOWN_S = 15.0
MEASURED_AT_ONCE = 4


class Sandboxes:
    """The sandboxes by chat. Every method may be called from any task of the same trio run."""

    def __init__(
        self,
        engine: Engine,
        children: DynamicSupervisor[SandboxMessage],
        registry: ActorRef[RegistryMessage],
        workspaces: Workspaces,
        ids: dict[str, str],
    ) -> None:
        self._engine = engine
        self._children = children
        self._registry = registry
        self._workspaces = workspaces
        self._ids = ids
        self._running: dict[str, set[trio.CancelScope]] = {}

    @property
    def engine(self) -> EngineKind:
        """The kind of the engine."""
        return self._engine.kind

    @property
    def degraded(self) -> tuple[str, ...]:
        """Promises that the engine cannot keep on this machine, one sentence each."""
        return self._engine.degraded

    def workspace(self, chat_id: str) -> Path:
        """Return the chat's folder on this machine, /workspace inside; the first command makes it."""
        return self._workspaces.path(chat_id)

    def container_id(self, chat_id: str) -> str:
        """Return the id of the chat's container, "" if it has none."""
        return self._ids.get(chat_id, "")

    async def prepare(self, chat_id: str) -> None:
        """Prepare the chat's container. Cancelled, a container that was being made is removed again.

        Raises:
            SandboxError: It cannot be made. The error says what to do.
        """
        await self._ask(chat_id, Prepare())

    async def run(self, chat_id: str, command: Command, timeout_s: float | None = None) -> CommandResult:
        """Run a command in the chat's container, which is made if need be. A chat's commands run one by one.

        A command that ended by itself, by its time limit or by a full workspace comes back as a result, and
        no process of it runs any more. The same holds when this is cancelled (bounded: some seconds at most).

        Raises:
            SandboxError: It could not be run, or its end is not confirmed.
        """
        with trio.CancelScope() as scope:
            running = self._running.setdefault(chat_id, set())
            running.add(scope)
            try:
                return await self._ask(chat_id, RunCommand(command, timeout_s))
            finally:
                running.discard(scope)
                if not running:
                    self._running.pop(chat_id, None)
        raise SandboxError("The sandbox was stopped while the command ran.")

    async def quiet(self, chat_id: str) -> None:
        """Return when no process of the chat is left. It makes no container.

        Raises:
            SandboxError: It is not confirmed.
        """
        if (child := self._children.lookup(chat_id)) is not None:
            try:
                await child.ask(EndProcesses())
            except ActorError:
                await self._gone(chat_id)

    async def stop(self, chat_id: str) -> None:
        """Remove the chat's container and end every process in it. Its files stay. Idempotent.

        Raises:
            SandboxError: It is not confirmed in time, and continues in the background.
        """
        for scope in self._running.get(chat_id, ()):
            scope.cancel()
        await self._children.stop(chat_id)
        await self._gone(chat_id)

    async def _ask(self, chat_id: str, request: Request[R]) -> R:
        try:
            return await (await self._children.get_or_start(chat_id)).ask(request)
        except ActorError as error:
            raise SandboxError(f"The sandbox has stopped ({type(error).__name__}).", "Try again.") from error

    async def _gone(self, chat_id: str) -> None:
        trouble = None
        with trio.move_on_after(REMOVE_S):
            try:
                await self._registry.ask(Remove(chat_id))
            except SandboxError as error:
                trouble = error
            except ActorError:
                return  # the process is ending, and everything is removed with it
            else:
                return
        raise unconfirmed("It is not confirmed that the sandbox's container is gone.", trouble)


def add_sandboxes(
    parent: Supervisor,
    engine: Engine,
    limits: SandboxLimits,
    home: Path,
    *,
    measure: Measure | None = None,
    disk: Disk | None = None,
    folder: Path | None = None,
) -> Sandboxes:
    """Add the registry, the watch of the disk and the chats' sandboxes to the tree, in this order.

    `measure` measures a workspace; by default a thread walks it. `disk` reports the free space; by default of
    the workspaces' file system, with the reserve of `limits`. The chats' folders are in the home, or in
    `folder`. The caller closes the engine, after the tree
    has ended.
    """
    ids: dict[str, str] = {}
    workspaces = Workspaces(home, engine.user, folder)
    measuring = measure or measure_in_threads(limits)
    watched_disk = disk or Disk(folder or workspaces_in(home), limits.reserve_bytes)
    registry: ActorRef[RegistryMessage] = parent.add(
        ChildSpec(
            "registry",
            lambda: ContainerRegistry(engine),
            capacity=ContainerRegistry.concurrency,
            shutdown=INTENTS_SHUTDOWN_S,
        )
    )

    parent.add(ChildSpec("disk", lambda: DiskWatch(watched_disk, measuring)))

    def spec_for(chat_id: str) -> ChildSpec[SandboxMessage]:
        return ChildSpec(
            f"sandbox:{chat_id}",
            lambda: Sandbox(chat_id, workspaces, limits, registry, measuring, watched_disk, ids),
            restart="temporary",  # the next command makes a new one, so there is nothing to restart
            shutdown=SHUTDOWN_S,
            idle_s=limits.idle_ttl_s,
        )

    children = parent.add_supervisor(DynamicSupervisor("sandboxes", spec_for))
    return Sandboxes(engine, children, registry, workspaces, ids)


def measure_in_threads(limits: SandboxLimits) -> Measure:
    """Return a function that measures workspaces in worker threads with their own limiter."""
    limiter = trio.CapacityLimiter(MEASURED_AT_ONCE)
    # Twice the limit suffices to see that it is exceeded, and if it grows.
    stop_after = 2 * limits.workspace_files + 1000

    def look(path: Path, processes: Processes) -> Use:
        held = nameless(processes(), path)
        use = workspace.measure(path, stop_after=stop_after)
        return replace(
            use, bytes=use.bytes + held.bytes, files=use.files + held.files, hidden=use.hidden or held.hidden
        )

    async def measured(path: Path, processes: Processes) -> Use:
        # An abandoned thread ends by itself, and keeps its place in the limiter until then.
        return await trio.to_thread.run_sync(look, path, processes, limiter=limiter, abandon_on_cancel=True)

    return measured
