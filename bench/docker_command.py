"""What a command in a chat's container costs, against the bare calls of the Engine API.

Both run `true` in the same container, in turns: through the sandbox actor with its watch, its bounds and its
proof that nothing is left, and as three plain HTTP calls over the socket with the standard library alone.
Beside them `true` in a bare bubblewrap. Then many at once: 200 commands in 20 containers, and 50 chats whose
first command makes their container.

    python -m bench.docker_command [ROUNDS]

Needs a Docker daemon. It makes an image of this host's programs, unless RUMI_BENCH_IMAGE names one.
"""

import http.client
import json
import math
import os
import secrets
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from actors import Supervisor
from bench.bubblewrap_command import INSTALLATION, PAUSE_S
from bench.bubblewrap_command import bare as bare_bubblewrap
from rumi.sandbox.docker.api import DEFAULT_SOCKET
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.docker.image import build_image
from rumi.sandbox.engine import Command, SandboxLimits
from rumi.sandbox.sandboxes import Sandboxes, add_sandboxes
from runner.rootfs import build_rootfs

SOCKET = os.environ.get("DOCKER_HOST", f"unix://{DEFAULT_SOCKET}").removeprefix("unix://")
TRUE = Command(("true",))
CONTAINERS, EACH, CHATS = 20, 10, 50


class UnixConnection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


def bare(container_id: str) -> float:
    """Create an exec, start it and read to its end, ask for the exit code: the least that there is."""
    began = time.perf_counter()
    body = {"AttachStdout": True, "AttachStderr": True, "Cmd": ["true"]}
    exec_id = json.loads(ask("POST", f"/containers/{container_id}/exec", body))["Id"]
    ask("POST", f"/exec/{exec_id}/start", {"Detach": False, "Tty": False})
    assert json.loads(ask("GET", f"/exec/{exec_id}/json"))["ExitCode"] == 0
    return time.perf_counter() - began


def ask(method: str, path: str, body: object = None) -> bytes:
    connection = UnixConnection("docker")
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    answer = connection.getresponse().read()
    connection.close()
    return answer


def let_in(home: Path) -> None:
    """The bare bubblewrap runs as an ordinary user, and has only its rights."""
    for path in (home, home / "workspace"):
        path.chmod(0o711)


async def one_by_one(sandboxes: Sandboxes, home: Path, rounds: int) -> None:
    """Commands and bare calls in turns, so that both see the same machine."""
    ours, plain, embedded = [], [], []
    await sandboxes.run("bench", TRUE)
    container_id = sandboxes.container_id("bench")
    let_in(home)
    for number in range(rounds + 2):
        await trio.sleep(PAUSE_S)  # the daemon still clears up after a bare exec
        began = time.perf_counter()
        assert (await sandboxes.run("bench", TRUE)).exit_code == 0
        taken = time.perf_counter() - began
        await trio.sleep(PAUSE_S)
        compared = bare(container_id)
        await trio.sleep(PAUSE_S)
        box = bare_bubblewrap(home, home / "workspace/bench", TRUE.argv) / 1000
        if number >= 2:  # the first warm up
            ours.append(taken)
            plain.append(compared)
            embedded.append(box)
    for name, taken_s in (("sandbox", ours), ("bare API", plain), ("bare bubblewrap", embedded)):
        ordered = sorted(taken_s)
        median, p99 = statistics.median(ordered), ordered[math.ceil(len(ordered) * 0.99) - 1]
        print(f"{name:16} median {ms(median)}   p99 {ms(p99)}   best {ms(ordered[0])}")
    ratios = sorted(mine / theirs for mine, theirs in zip(ours, plain, strict=True))
    quarter = len(ratios) // 4
    print(f"ratio of medians {statistics.median(ours) / statistics.median(plain):.2f}", end="   ")
    print(f"of each round: quartiles {ratios[quarter]:.2f} to {ratios[-quarter - 1]:.2f}   ({rounds} rounds)")


async def at_once(sandboxes: Sandboxes, what: str, chats: int, commands_each: int) -> None:
    """Every chat runs its commands one after the other, all chats at the same time."""
    taken = list[float]()

    async def chat(name: str) -> None:
        for _ in range(commands_each):
            began = time.perf_counter()
            assert (await sandboxes.run(name, TRUE)).exit_code == 0
            taken.append(time.perf_counter() - began)

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(chats):
            nursery.start_soon(chat, f"{chats}-{number}")
    total, median = time.perf_counter() - began, statistics.median(taken)
    print(f"{what:42} {ms(total)}   median of one {ms(median)}   slowest {ms(max(taken))}")


def ms(seconds: float) -> str:
    return f"{seconds * 1000:7.1f} ms"


@asynccontextmanager
async def image() -> AsyncIterator[str]:
    """The image that the caller names, or one of this host's programs, which is removed at the end."""
    if named_image := os.environ.get("RUMI_BENCH_IMAGE"):
        yield named_image
        return
    made = f"rumi-runner-bench:{secrets.token_hex(4)}"
    await build_image(made, lambda _: None, sources=("host",))
    try:
        yield made
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(20):
            await trio.run_process(["docker", "rmi", "--force", made], capture_stdout=True)


async def main(rounds: int) -> None:
    async with image() as name:
        root = Supervisor("root")
        with tempfile.TemporaryDirectory() as folder:
            home, limits = Path(folder), SandboxLimits()
            await trio.to_thread.run_sync(lambda: build_rootfs(home / "rootfs"))
            engine = DockerEngine(INSTALLATION, limits, image=name, home=home)
            sandboxes = add_sandboxes(root, engine, limits, home)
            async with root.running():
                why = await engine.starts_by_exec()
                print(f"started by Docker's exec: {why}" if why else "started by the first process")
                await one_by_one(sandboxes, home, rounds)
                await at_once(sandboxes, f"{CHATS} chats with a first command at once", CHATS, 1)
                await at_once(sandboxes, f"{CHATS} chats with another command at once", CHATS, 1)
                async with trio.open_nursery() as nursery:
                    for number in range(CONTAINERS):
                        nursery.start_soon(sandboxes.prepare, f"{CONTAINERS}-{number}")
                count = CONTAINERS * EACH
                await at_once(
                    sandboxes, f"{count} commands in {CONTAINERS} containers at once", CONTAINERS, EACH
                )
            await engine.aclose()


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 100)
