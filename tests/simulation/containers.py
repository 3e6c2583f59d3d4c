"""The daemon that makes boxes: it outlives the program, fails, hangs, and keeps what nobody removes."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import trio

from rumi.sandbox.engine import Command, ContainerGoneError, ContainerInfo, EngineKind, SandboxError, Sink
from tests.fakes.lines import words_of
from tests.simulation.waits import EVERYBODY
from tests.simulation.world import World

AGAIN_S = 12.0
"""How long the house may go on to wait, and to try again, behind a call that failed or was too slow."""


@dataclass(eq=False)
class Container:
    """A box as the daemon has it. `running` are processes, `doubtful` says that a kill was not confirmed."""

    chat: str
    id: str
    workspace: Path
    running: list[str] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    doubtful: bool = False
    changed: trio.Event = field(default_factory=trio.Event)
    gone: bool = False
    client: "Client | None" = None
    """Who asked for it."""

    def end(self) -> None:
        self.gone = True
        self.running.clear()
        self.wake()

    def wake(self) -> None:
        self.changed.set()
        self.changed = trio.Event()


class Daemon:
    """All boxes, by chat."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.live: dict[str, Container] = {}
        self.made: list[Container] = []

    def lose(self, chat: str) -> None:
        """A box goes, and nobody here has asked for it."""
        container = self.live.pop(chat, None)
        if container is not None:
            self.world.note("daemon", f"loses {container.id} of {chat}")
            container.end()

    async def trouble(
        self, chat: str = EVERYBODY, fails: float = 0.04, hangs: float = 0.02, stuck: float = 0.9
    ) -> None:
        """What may come over any call, once the daemon has it. `stuck`: how often the stuck chat's hang."""
        world = self.world
        with world.waits.of(chat):
            await trio.sleep(world.random.choice((0, 0.05)))
            if world.dice("sandbox", fails):
                world.waits.until(trio.current_time() + AGAIN_S, chat)
                raise SandboxError("The daemon did not.", "Try again.")
            if world.hangs(chat, stuck) or world.dice("sandbox", hangs):
                with world.waits.of(chat, after_s=AGAIN_S):
                    await trio.sleep(world.random.choice((2, 15, 60)))


class Client:
    """One process's connection to the daemon: an engine. Once `dead`, nothing goes through it any more."""

    kind: EngineKind = "docker"
    degraded: tuple[str, ...] = ()
    user = (os.getuid(), os.getgid())

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.dead = False

    def alive(self) -> None:
        """Raises where nothing goes through any more."""
        if self.dead:
            raise SandboxError("The process is dead.")

    async def create(self, chat_id: str, workspace: Path) -> "Box":
        self.alive()
        daemon = self.daemon
        if chat_id in daemon.live:
            daemon.world.complain(f"{chat_id}: a box is made while its predecessor is still there")
        # From here on it exists, whether we are told or not.
        container = Container(chat_id, f"box-{len(daemon.made)}", workspace, client=self)
        daemon.live[chat_id] = container
        daemon.made.append(container)
        daemon.world.note("daemon", f"creates {container.id} for {chat_id}")
        await daemon.trouble(chat_id, stuck=0.4)
        self.alive()
        return Box(self, container)

    async def remove(self, chat_id: str) -> None:
        self.alive()
        await self.daemon.trouble(chat_id)
        self.alive()
        container = self.daemon.live.pop(chat_id, None)
        if container is not None:
            self.daemon.world.note("daemon", f"removes {container.id} of {chat_id}")
            container.end()

    async def sweep(self) -> list[str]:
        self.alive()
        return []

    async def containers(self) -> list[ContainerInfo]:
        self.alive()
        await self.daemon.trouble()
        self.alive()
        live = self.daemon.live.values()
        return [ContainerInfo(f"rumi-{box.chat}", box.chat, box.id, "running") for box in live]

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class Box:
    """A box as one process sees it. `sleep` sleeps, `tail` leaves a process behind, `tee` writes a file."""

    def __init__(self, client: Client, container: Container) -> None:
        self._client = client
        self._container = container

    @property
    def container_id(self) -> str:
        return self._container.id

    async def execute(self, command: Command, stdout: Sink, stderr: Sink) -> int:
        self._client.alive()
        container, world = self._container, self._client.daemon.world
        await trio.lowlevel.checkpoint()
        if container.gone or world.dice("sandbox", 0.01):
            raise ContainerGoneError("the box is gone")
        if world.dice("sandbox", 0.03):
            raise SandboxError("the daemon does not answer")
        container.commands.append(command)
        program, *words = words_of(command.argv)
        if program == "sleep":
            return await self._sleep(command, float(words[0]))
        if program == "tail":
            if not container.running:  # beside other commands, the end of a command ends what it leaves
                container.running.append("left behind")
        elif program == "tee":
            (container.workspace / words[0]).write_bytes(command.stdin)
        else:
            stdout(" ".join(words).encode())
        return 0

    async def _sleep(self, command: Command, seconds: float) -> int:
        container = self._container
        process = f"sleep {seconds:g}{self._mark(command)}"
        container.running.append(process)
        with self._client.daemon.world.waits.of(container.chat), trio.move_on_after(seconds):
            while process in container.running:
                await container.changed.wait()
        if container.gone:
            raise SandboxError("the box went during the command")
        if process not in container.running:
            return 137
        container.running.remove(process)
        return 0

    concurrent = True

    async def end(self, command: Command) -> bool:
        self._client.alive()
        await trio.lowlevel.checkpoint()
        if self._client.daemon.world.dice("sandbox", 0.05):
            return False
        mark = self._mark(command)
        self._container.running[:] = [each for each in self._container.running if not each.endswith(mark)]
        self._container.wake()
        return True

    def _mark(self, command: Command) -> str:
        """What the process of a command ends with: the command's place among all, if it was started."""
        places = [place for place, other in enumerate(self._container.commands) if other is command]
        return f" #{places[0]}" if places else " #none"

    async def kill_all(self) -> None:
        self._client.alive()
        self._container.doubtful = True
        await self._client.daemon.trouble(self._container.chat)
        self._client.alive()
        self._container.doubtful = False
        self._container.running.clear()
        self._container.wake()
