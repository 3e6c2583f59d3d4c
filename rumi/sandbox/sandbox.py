"""The sandbox actor: one per chat; it owns the chat's container and runs its commands."""

import signal
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TypeAlias

import trio

from actors import Actor, ActorError, ActorRef, Refused, Request, answers
from rumi.sandbox.disk import Disk, Free, Running
from rumi.sandbox.engine import (
    Command,
    CommandResult,
    Container,
    ContainerGoneError,
    Ending,
    HeadTail,
    Output,
    SandboxError,
    SandboxLimits,
)
from rumi.sandbox.handover import Workspaces
from rumi.sandbox.lease import BEATS, Leased, LeaseLostError
from rumi.sandbox.open_files import ShowsProcesses
from rumi.sandbox.policy import program_of
from rumi.sandbox.registry import Make, RegistryMessage, Remove
from rumi.sandbox.use import Measure, Use, limits_for_freeing, nobody, only_frees, over_limits, signal_all
from rumi.texts import Text

MAKE_S = 30.0
"""Maximum time to create a container; after that the engine's daemon counts as hanging."""
KILL_ALL_S = 20.0
REMOVE_S = 10.0
LINGER_S = 2.0
"""Maximum time to read the streams of a killed command, whose earlier output may still be in transit."""
SHUTDOWN_S = KILL_ALL_S + REMOVE_S + LINGER_S
"""The `shutdown` of the actor's spec: a cancelled asker returns only when its command has ended."""

WATCH_LEAST_S = 0.05
WATCH_LONGEST_S = 1.0
WATCH_UNCOUNTED_S = 0.2
"""Seconds between measurements of a workspace: the minimum, the maximum, and the maximum on file systems that
do not count free files."""


@dataclass(frozen=True, slots=True)
class Prepare(Request[None]):
    """Prepare the chat's container. Idempotent."""


@dataclass(frozen=True, slots=True)
class RunCommand(Request[CommandResult]):
    """Run a command to its end. With `timeout_s` None, the configured time limit applies.

    A cancelled ask returns when no process of the command runs any more.
    """

    command: Command
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class EndProcesses(Request[None]):
    """End all processes of the chat's commands. Sent at the end of every turn; cheap if no process runs."""


SandboxMessage: TypeAlias = Prepare | RunCommand | EndProcesses


@dataclass(slots=True, eq=False)
class _Course:
    """The state of a running command."""

    program: str
    stdout: HeadTail
    stderr: HeadTail
    over: trio.Event = field(default_factory=trio.Event)
    """Set when the command has ended, its container was lost, or the command has to be ended."""
    executed: trio.Event = field(default_factory=trio.Event)
    code: int | None = None
    lost: SandboxError | None = None
    ending: Ending | None = None
    """The reason for ending the command, if Rumi ends it."""

    def end(self, why: Ending) -> None:
        """Request the end of the command; do nothing if the command is over already."""
        if not self.over.is_set():
            self.ending = why
        self.over.set()


class Sandbox(Actor[SandboxMessage]):
    """Actor that runs a chat's commands. When the actor stops, it removes the container.

    Commands run one at a time, and background commands beside them. When the last one ends, all processes of
    the container are ended. While others run, only the processes of the one that ends are.
    """

    concurrency = 16

    def __init__(
        self,
        chat_id: str,
        workspaces: Workspaces,
        limits: SandboxLimits,
        registry: ActorRef[RegistryMessage],
        measure: Measure,
        disk: Disk,
        ids: MutableMapping[str, str],
    ) -> None:
        """`ids` maps chats to the ids of their containers; this actor updates the entry of its chat."""
        self._chat_id = chat_id
        self._workspaces = workspaces
        self._workspace = workspaces.path(chat_id)
        """The folder whose files count to the chat's limits."""
        self._limits = limits
        self._registry = registry
        self._measure = measure
        self._disk = disk
        self._ids = ids
        self._container: Container | None = None
        self._leaving = False
        self._use: Use | None = None
        self._courses: dict[_Course, None] = {}
        self._foreground = trio.Lock()
        """Held by the command that is not in the background."""
        self._changing = trio.Lock()
        """Held while the container is made or removed, and while processes are ended: a command that starts
        meanwhile would be ended too."""
        self._making = False
        self._beats = False
        self._fresh = False
        """True once the folder of a linked chat has been looked at again in this turn."""

    @answers(Prepare)
    async def prepare(self, message: Prepare) -> None:
        """Prepare the container."""
        with self._refusing():
            await self._ready()

    @answers(RunCommand)
    async def run(self, message: RunCommand) -> CommandResult:
        """Run a command to its end."""
        with self._refusing():
            return await self._run(message)

    @answers(EndProcesses)
    async def quiet(self, message: EndProcesses) -> None:
        """End all processes and prove that none is left."""
        async with self._foreground, self._changing:
            with self._refusing():
                await self._end_all()
            if self._fresh:
                self._fresh = False
                await self._workspaces.record(self._chat_id)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turn the engine's error into a refusal: a daemon that does not answer must not crash this actor."""
        try:
            yield
        except SandboxError as error:
            raise Refused(error) from error

    async def stopped(self, reason: str) -> None:
        """Remove the container. If the removal is not confirmed in time, the registry continues it."""
        if self._container is not None or self._leaving:
            with trio.move_on_after(REMOVE_S):
                try:
                    await self._discard()
                except (SandboxError, ActorError):
                    return

    def activity(self) -> str:
        """Return the running programs, without their arguments, which are private to the chat."""
        if self._making:
            return "making the container"
        return ", ".join(f"running {course.program}" for course in self._courses)

    def metrics(self) -> Mapping[str, object]:
        """Return the id of the chat's container, and how a linked chat sees its folder."""
        how = self._workspaces.how(self._chat_id)
        return {"container": self._ids.get(self._chat_id), **({"folder": how} if how else {})}

    async def _ready(self) -> Container:
        """Return the chat's container; create it if there is none. If cancelled, the container is removed."""
        async with self._changing:
            if self._container is not None:
                return self._container
            self._making = True
            try:
                return await self._make()
            finally:
                self._making = False

    async def _make(self) -> Container:
        workspace = await self._workspaces.ready(self._chat_id)
        # Until the reply arrives, a container may exist whose id is not known. If the ask is cancelled, this
        # flag makes the end of the turn, or `stopped`, have that container removed.
        self._leaving = True
        # At the time limit the ask is cancelled, and the registry then removes the container.
        with trio.move_on_after(MAKE_S):
            made = await self._registry.ask(Make(self._chat_id, workspace))
            self._container, self._leaving = made, False
            self._ids[self._chat_id] = made.container_id
            if isinstance(made, Leased) and made.lease is not None and not self._beats:
                self._beats = True
                self.start_soon(self._beat, made.lease.length_s / BEATS)
            return made
        raise SandboxError(
            "The sandbox was not ready after {make_s} seconds.",
            "Look at `rumi doctor`; restart the Docker daemon if it hangs.",
            make_s=f"{MAKE_S:.0f}",
        )

    async def _beat(self, pause_s: float) -> None:
        """Send lease heartbeats to the current container, as long as this actor lives."""
        while True:
            container = self._container
            if isinstance(container, Leased):
                with trio.move_on_after(pause_s):
                    await container.beat()
            await trio.sleep(pause_s)

    async def _run(self, message: RunCommand) -> CommandResult:
        if (fault := _unspeakable(message.command)) is not None:
            raise fault
        if message.command.background:
            return await self._run_here(message)
        async with self._foreground:
            return await self._run_here(message)

    async def _run_here(self, message: RunCommand) -> CommandResult:
        if not self._fresh:
            async with self._changing:
                if not self._courses:
                    self._fresh = True
                    await self._workspaces.refresh(self._chat_id)
        container = await self._ready()
        if message.command.background and not container.concurrent:
            raise SandboxError("This sandbox runs one command at a time, so none in the background.")
        try:
            return await self._run_in(container, message)
        except LeaseLostError:
            await self._discard_this(container)
            raise
        except ContainerGoneError:
            # Another program has removed the container since the last command. This command was not started,
            # so running it in a new container cannot run it twice.
            await self._discard_this(container)
            return await self._run_in(await self._ready(), message)

    async def _discard_this(self, container: Container) -> None:
        """Remove a container that has ended, unless another command has removed it already."""
        async with self._changing:
            if self._container is container:
                await self._discard()

    async def _run_in(self, container: Container, message: RunCommand) -> CommandResult:
        command, limits = message.command, self._limits
        started = command.with_variables()
        # The measurement after the previous command saves a walk through the workspace. Before a refusal, it
        # is repeated, because files may have been deleted since.
        before = self._use
        if before is None or over_limits(before, limits, command.needed_bytes):
            before = await self._measured()
        full = over_limits(before, limits, command.needed_bytes)
        async with self._disk.pausing:  # a command that starts now would write while all others are paused
            pass
        if (full or self._disk.look().low) and not (command.reads or only_frees(command.argv)):
            why: Ending = "workspace_full" if full else "disk_full"
            return CommandResult(None, Output(), Output(), 0, why, container.container_id, ran=False)
        output_limit = command.output_limit or limits.output_limit
        course = _Course(program_of(command.argv), HeadTail(output_limit), HeadTail(output_limit))
        limit_s = message.timeout_s or command.timeout_s or limits.timeout_s
        began = trio.current_time()
        async with self._changing:
            self._courses[course] = None
        try:
            ended = await self._attend(container, started, limit_s, course, before, full)
            duration_ms = round((trio.current_time() - began) * 1000)
            async with self._changing:
                del self._courses[course]
                if ended == "lost":
                    await self._discard()
                elif not self._courses:
                    await self._end_all()
        except SandboxError:
            raise
        except BaseException:
            # The turn was cancelled, or this actor crashes. In either case, the command's processes must have
            # ended before the error propagates.
            with trio.CancelScope(shield=True):  # bounded inside
                await self._end_quietly(container, started, course)
            raise
        finally:
            self._courses.pop(course, None)
        over = over_limits(await self._measured(), limits)
        if over and not full and not command.reads and ended == "exited":
            ended = "workspace_full"
        out, err = course.stdout.output(), course.stderr.output()
        return CommandResult(course.code, out, err, duration_ms, ended, container.container_id)

    async def _attend(
        self,
        container: Container,
        command: Command,
        limit_s: float,
        course: _Course,
        before: Use,
        full: bool,
    ) -> Ending:
        """Run the command with its time limit and workspace watch; read its output even if it is killed."""
        processes = container.processes if isinstance(container, ShowsProcesses) else nobody
        running = Running(self._workspace, processes, before, self._end_commands)
        limits = limits_for_freeing(self._limits, before) if full else self._limits
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._execute, container, command, course)
            # Registered only until the end is requested: a process that is being killed must not be paused.
            with self._disk.runs(running), trio.move_on_after(limit_s):
                nursery.start_soon(self._watch, running, limits, self._disk.look())
                await course.over.wait()
            if course.ending is not None and processes is not nobody:
                # At once, and without the engine, which needs longer: a command that fills the disk must not
                # write any more. The engine's kill_all below then proves that no process is left.
                await trio.to_thread.run_sync(signal_all, processes, signal.SIGKILL)
            killed = not course.executed.is_set()
            if killed:
                await self._end_quietly(container, command, course)
                with trio.move_on_after(LINGER_S):
                    await course.executed.wait()
                course.code = 137 if course.code is None else course.code
            nursery.cancel_scope.cancel()  # the watch, and a listener to a command that was killed
        if isinstance(course.lost, ContainerGoneError | LeaseLostError):
            raise course.lost
        if course.ending is not None or killed:
            return course.ending or "timeout"
        return "exited" if course.lost is None else "lost"

    async def _execute(self, container: Container, command: Command, course: _Course) -> None:
        command.began(container.container_id)

        def hear(stream: HeadTail, piece: bytes) -> None:
            stream.add(piece)
            command.heard(piece)

        try:
            course.code = await container.execute(
                command, partial(hear, course.stdout), partial(hear, course.stderr)
            )
        except SandboxError as error:
            course.lost = error
        course.executed.set()
        course.over.set()

    async def _watch(self, running: Running, limits: SandboxLimits, began: Free) -> None:
        """Measure the workspace while the command runs, and end the command if it exceeds the limits.

        The free disk space decides when to measure: the chat cannot exceed its limit before the disk has lost
        as much as the chat may still use. Other programs may free space and so hide the chat's growth;
        therefore the workspace is also measured every second. `began` is the free space at the command's
        start.
        """
        first, since, taken = running.use, began, float(running.use.bytes)
        longest = WATCH_LONGEST_S if began.files < inf else WATCH_UNCOUNTED_S
        while True:
            left_bytes = max(limits.workspace_bytes - taken, 0)
            left_files = max(limits.workspace_files - running.use.files, 0)
            await self._disk.until_taken(since, left_bytes, left_files, longest)
            since, at = self._disk.look(), trio.current_time()
            use = await self._measure(self._workspace, running.processes)
            running.looked(use)
            taken = use.bytes
            if use.hidden:  # then everything that the disk has lost since the start counts
                taken = max(taken, first.bytes + began.bytes - since.bytes)
            if over_limits(use, limits) or (running.hides and taken > limits.workspace_bytes):
                running.end("workspace_full")
                return
            # A large workspace takes long to measure; spend at most a third of the time on it.
            await trio.sleep(min(max(WATCH_LEAST_S, 2 * (trio.current_time() - at)), WATCH_LONGEST_S))

    async def _measured(self) -> Use:
        self._use = await self._measure(self._workspace, nobody)
        return self._use

    async def _end_all(self) -> None:
        """End all processes and prove that none is left; if that fails, remove the container.

        Raises:
            SandboxError: Neither the end of the processes nor the removal was confirmed in time.
        """
        if self._container is None:
            if self._leaving:
                await self._discard()
            return
        with trio.move_on_after(KILL_ALL_S):
            try:
                await self._container.kill_all()
                # kill_all may have restarted the container, which can change its id.
                self._ids[self._chat_id] = self._container.container_id
                return
            except SandboxError:
                pass
        await self._discard()

    async def _end_quietly(self, container: Container, command: Command, course: _Course) -> None:
        """End a command and ignore errors, because `EndProcesses` at the end of the turn tries again.

        If other commands run and this one cannot be ended by itself, all are ended.
        """
        async with self._changing:
            with suppress(SandboxError, ActorError):
                if self._courses.keys() == {course} or not await container.end(command):
                    await self._end_all()

    def _end_commands(self, why: Ending) -> None:
        """Request the end of all commands, because they write to the same workspace."""
        for course in self._courses:
            course.end(why)

    async def _discard(self) -> None:
        """Ask the registry to remove the container, and wait for the removal.

        Raises:
            SandboxError: The removal was not confirmed in time (the error says why); it continues.
        """
        self._container, self._leaving = None, True
        self._ids.pop(self._chat_id, None)
        trouble = None
        with trio.move_on_after(REMOVE_S):
            try:
                await self._registry.ask(Remove(self._chat_id))
            except SandboxError as error:
                trouble = error
            else:
                self._leaving = False
                return
        raise unconfirmed(Text("It is not confirmed that the sandbox's processes have ended."), trouble)


def unconfirmed(what: str, trouble: SandboxError | None) -> SandboxError:
    """Return the error for an action that was not confirmed, with the engine's reason if there is one."""
    if trouble is None:
        return SandboxError(
            what, Text("The removal of its container continues; restart the Docker daemon if it hangs.")
        )
    return SandboxError("{what} {message}", trouble.advice, what=what, message=trouble.message)


def _unspeakable(command: Command) -> SandboxError | None:
    """Return an error if argv is empty or has a word that no program can get (lone surrogate, NUL byte)."""
    try:
        bad = any(b"\0" in word.encode() for word in command.argv)
    except UnicodeEncodeError:
        bad = True
    if bad or not command.argv:
        return SandboxError("The command cannot be run: it is empty, or one of its words is not text.")
    return None
