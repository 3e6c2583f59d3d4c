"""An engine without a kernel below: boxes that are entries in a dict, and switches for what goes wrong."""

import os
from dataclasses import dataclass, field
from pathlib import Path

import trio

from rumi.platform.config.schema import PYTHON_PACKAGES
from rumi.sandbox.engine import Command, ContainerGoneError, ContainerInfo, EngineKind, SandboxError, Sink
from tests.fakes.lines import words_of


@dataclass
class FakeBox:
    """A box in which `sleep` sleeps, `fork` leaves a process behind, `say` speaks, and all else is quick."""

    engine: "FakeEngine"
    chat_id: str
    container_id: str
    running: list[str] = field(default_factory=list)
    killed: trio.Event = field(default_factory=trio.Event)
    gone: trio.Event = field(default_factory=trio.Event)

    async def execute(self, command: Command, stdout: Sink, stderr: Sink) -> int:
        await trio.lowlevel.checkpoint()
        if self.gone.is_set():
            raise ContainerGoneError("the box is gone")
        program, *words = words_of(command.argv)
        self.engine.commands.append((self.chat_id, program))
        if program == "fork":
            self.running.append("forked")
        elif program == "say":
            stdout(" ".join(words).encode())
            stderr(b"err")
        elif program == "sleep":
            self.running.append(program)
            killed = self.killed
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until, killed, nursery.cancel_scope)
                nursery.start_soon(self._until, self.gone, nursery.cancel_scope)
                await trio.sleep(float(words[0]))
                nursery.cancel_scope.cancel()
            if self.gone.is_set():
                raise SandboxError("the box went during the command")
            if killed.is_set():
                return 137
            self.running.remove(program)
        return 0

    async def _until(self, event: trio.Event, scope: trio.CancelScope) -> None:
        await event.wait()
        scope.cancel()

    concurrent = False

    async def end(self, command: Command) -> bool:
        await trio.lowlevel.checkpoint()
        return False

    async def kill_all(self) -> None:
        await trio.lowlevel.checkpoint()
        await self.engine.sometimes("kill")
        self.running.clear()
        self.killed.set()
        self.killed = trio.Event()


def disk_with_space(path: Path) -> os.statvfs_result:
    """A disk with room, always the same: what others write to this machine's must not change a test."""
    gigabyte = 1 << 18  # in blocks of 4096 bytes
    return os.statvfs_result((4096, 4096, 100 * gigabyte, *[50 * gigabyte] * 2, *[1 << 24] * 3, 0, 255))


class FakeEngine:
    """Keeps boxes by chat. `failing` holds the steps that fail, `hanging` those that never answer."""

    kind: EngineKind = "docker"
    degraded: tuple[str, ...] = ()
    missing_programs: tuple[str, ...] = ()
    packages: tuple[str, ...] = PYTHON_PACKAGES
    user = (os.getuid(), os.getgid())

    def __init__(self, create_s: float = 0.1) -> None:
        self.create_s = create_s
        self.live: dict[str, FakeBox] = {}
        self.failing: set[str] = set()
        self.hanging: set[str] = set()
        self.awake = trio.Event()
        self.commands: list[tuple[str, str]] = []
        self.created: list[str] = []
        self.removed: list[str] = []

    async def sometimes(self, step: str) -> None:
        while step in self.hanging:
            await self.awake.wait()
        if step in self.failing:
            raise SandboxError(f"{step} fails")

    def wake(self) -> None:
        """Let what hangs go on."""
        self.hanging.clear()
        self.awake.set()
        self.awake = trio.Event()

    async def create(self, chat_id: str, workspace: Path) -> FakeBox:
        assert chat_id not in self.live, "its predecessor was still there"
        # From here on it exists, as in a daemon that has taken the call, whether we are told or not.
        box = FakeBox(self, chat_id, f"id-{len(self.created)}")
        self.live[chat_id] = box
        self.created.append(chat_id)
        await trio.sleep(self.create_s)
        await self.sometimes("create")
        return box

    async def remove(self, chat_id: str) -> None:
        await trio.sleep(0.05)
        await self.sometimes("remove")
        if (box := self.live.pop(chat_id, None)) is not None:
            box.gone.set()
            self.removed.append(chat_id)

    async def sweep(self) -> list[str]:
        await trio.lowlevel.checkpoint()
        return []

    async def containers(self) -> list[ContainerInfo]:
        await trio.lowlevel.checkpoint()
        await self.sometimes("list")
        return [
            ContainerInfo(f"fake-{chat}", chat, box.container_id, "running")
            for chat, box in self.live.items()
        ]

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
