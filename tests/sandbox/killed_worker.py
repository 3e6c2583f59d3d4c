"""A process whose children have sandboxes, and are killed by a test.

Arguments: engine, home, installation, image. A line on its standard input starts a child: `starts`, which
makes and removes two chats' sandboxes and runs commands in them without end; or `run SCRIPT`, which runs the
script in the sandbox of the chat `one`. It prints the child's pid, and when it has ended, `ended`.
"""

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, Engine, SandboxError, SandboxLimits
from rumi.sandbox.workspace import prepare_workspace

LIMITS = SandboxLimits(timeout_s=600)


def make(kind: str, home: Path, installation: str, image: str) -> Engine:
    if kind == "docker":
        return DockerEngine(installation, LIMITS, image=image, home=home)
    return BubblewrapEngine(home, installation, LIMITS)


def nothing(_: bytes) -> None:
    pass


async def starts(engine: Engine, home: Path) -> None:
    async with trio.open_nursery() as nursery:
        for chat in ("one", "two"):
            nursery.start_soon(
                start_again_and_again, engine, chat, prepare_workspace(home, chat, *engine.user)
            )


async def start_again_and_again(engine: Engine, chat: str, workspace: Path) -> None:
    while True:
        box = await engine.create(chat, workspace)
        await box.execute(Command(("bash", "-c", "sleep 600 & sleep 0.02")), nothing, nothing)
        await engine.remove(chat)


async def run(engine: Engine, home: Path, script: str) -> None:
    box = await engine.create("one", prepare_workspace(home, "one", *engine.user))
    try:
        await box.execute(Command(("bash", "-c", script)), nothing, nothing)
    except SandboxError as error:
        print(error, file=sys.stderr)


def child(work: Callable[[], Awaitable[None]]) -> int:
    """Start a child that does the work; it does not return from here."""
    pid = os.fork()
    if pid == 0:
        trio.run(work)
        os._exit(0)
    return pid


def main(kind: str, home: Path, installation: str, image: str) -> None:
    async def once() -> None:
        engine = make(kind, home, installation, image)
        await run(engine, home, "true")
        await engine.remove("one")
        await engine.aclose()

    trio.run(once)  # the root file system, and what else is made once, is there
    print("ready", flush=True)
    for line in sys.stdin:
        what, _, script = line.strip().partition(" ")

        async def work(what: str = what, script: str = script) -> None:
            engine = make(kind, home, installation, image)
            await (starts(engine, home) if what == "starts" else run(engine, home, script))

        pid = child(work)
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
