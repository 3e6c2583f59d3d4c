"""The sandboxes of all chats: the interface that chats and tools call, and the actors that implement it."""

from collections.abc import Callable
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
from rumi.sandbox.chat_files import ChatFiles
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
from rumi.texts import Text

R = TypeVar("R")

INTENTS_SHUTDOWN_S = 15.0
MEASURED_AT_ONCE = 4


class Sandboxes:
    """The sandboxes of all chats. Its methods may be called from any task of the same trio run."""

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
        """Return the kind of the sandbox engine: Docker or bubblewrap."""
        return self._engine.kind

    @property
    def degraded(self) -> tuple[str, ...]:
        """Return the guarantees that the engine cannot give on this machine, one sentence each."""
        return self._engine.degraded

    def workspace(self, chat_id: str) -> Path:
        """Return the chat's folder on this machine (/workspace inside); the first command creates it."""
        return self._workspaces.path(chat_id)

    def runs(self, chat_id: str) -> bool:
        """Return True if a command of the chat runs."""
        return bool(self._running.get(chat_id))

    def container_id(self, chat_id: str) -> str:
        """Return the id of the chat's container, or "" if it has none."""
        return self._ids.get(chat_id, "")

    async def prepare(self, chat_id: str) -> None:
        """Create the chat's container ahead of its first command. If this is cancelled, remove the container.

        Raises:
            SandboxError: The container cannot be created; the advice says what to do.
        """
        await self._ask(chat_id, Prepare())

    async def run(self, chat_id: str, command: Command, timeout_s: float | None = None) -> CommandResult:
        """Run a command in the chat's container, and create the container if necessary.

        A chat's commands run one at a time, and background commands beside them. A command that ends by
        itself, exceeds its time limit or fills the workspace gives a result. When this call returns, even
        after a cancellation, no process of the command runs any more. A cancellation takes a few seconds at
        most.

        Raises:
            SandboxError: The command could not be run, or its end was not confirmed.
        """
        # A scope of its own, through which `stop` can end this call without cancelling the caller's task.
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
        """End all processes of the chat; return when none is left. This never creates a container.

        Raises:
            SandboxError: The end of the processes was not confirmed.
        """
        if (child := self._children.lookup(chat_id)) is not None:
            try:
                await child.ask(EndProcesses())
            except ActorError:
                # The actor has stopped, and with it its container is removed, which ends all processes.
                await self._gone(chat_id)

    async def stop(self, chat_id: str) -> None:
        """Remove the chat's container with all processes in it; preserve the files. Idempotent.

        Raises:
            SandboxError: The removal was not confirmed in time; it continues in the background.
        """
        # First, because the actor would otherwise let the running command finish within its `shutdown`.
        for scope in self._running.get(chat_id, ()):
            scope.cancel()
        await self._children.stop(chat_id)
        await self._gone(chat_id)

    async def _ask(self, chat_id: str, request: Request[R]) -> R:
        try:
            return await (await self._children.get_or_start(chat_id)).ask(request)
        except ActorError as error:
            raise SandboxError(
                "The sandbox has stopped ({name}).", Text("Try again."), name=type(error).__name__
            ) from error

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
    files: ChatFiles | None = None,
) -> Sandboxes:
    """Add the container registry, the disk watch and the chats' sandboxes to the actor tree, in this order.

    `measure` is the function that measures a workspace; by default a worker thread walks through it. `disk`
    is the function that reports the free space; by default it uses the workspaces' file system and the
    reserve from `limits`. The chats' folders are in RUMI_HOME, or in `folder` if it is given; `files` knows
    the chats that are linked to other folders. The caller closes the engine after the tree has ended.
    """
    # The order matters at the stop, which is in reverse: the sandboxes need the registry to remove their
    # containers, so the registry must stop after them.
    ids: dict[str, str] = {}
    workspaces = Workspaces(home, engine.user, folder, None if files is None else files.folders)
    measuring = measure or measure_in_threads(limits, workspaces.seen_at)
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
            restart="temporary",  # the next command starts a new one
            shutdown=SHUTDOWN_S,
            idle_s=limits.idle_ttl_s,
        )

    children = parent.add_supervisor(DynamicSupervisor("sandboxes", spec_for))
    return Sandboxes(engine, children, registry, workspaces, ids)


def measure_in_threads(limits: SandboxLimits, seen_at: Callable[[Path], Path] = lambda path: path) -> Measure:
    """Return a function that measures workspaces in worker threads, with a separate limit on their number.

    `seen_at` returns the path at which the commands' open files of a workspace appear to be.
    """
    limiter = trio.CapacityLimiter(MEASURED_AT_ONCE)
    # Counting up to twice the limit is enough to see that it is exceeded, and whether it still grows.
    stop_after = 2 * limits.workspace_files + 1000

    def look(path: Path, processes: Processes) -> Use:
        held = nameless(processes(), seen_at(path))
        use = workspace.measure(path, stop_after=stop_after)
        return replace(
            use, bytes=use.bytes + held.bytes, files=use.files + held.files, hidden=use.hidden or held.hidden
        )

    async def measured(path: Path, processes: Processes) -> Use:
        # An abandoned thread ends by itself. Until then it holds its slot of the limiter, so that repeated
        # cancellations cannot pile up threads.
        return await trio.to_thread.run_sync(look, path, processes, limiter=limiter, abandon_on_cancel=True)

    return measured
