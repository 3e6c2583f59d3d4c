"""What a command in a chat's container costs, against the bare calls of the Engine API.

Both run `true` in the same container, in turns: through the sandbox actor with its watch, its bounds and its
proof that nothing is left, and as three plain HTTP calls over the socket with the standard library alone.

    python -m bench.docker_command [ROUNDS]

Needs a Docker daemon and the image (`rumi sandbox build`, or RUMI_BENCH_IMAGE).
"""

import http.client
import json
import os
import secrets
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

import trio

from actors import Supervisor
from rumi.sandbox import Command, SandboxLimits
from rumi.sandbox.docker.api import DEFAULT_SOCKET
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.sandboxes import add_sandboxes

SOCKET = os.environ.get("DOCKER_HOST", f"unix://{DEFAULT_SOCKET}").removeprefix("unix://")
IMAGE = os.environ.get("RUMI_BENCH_IMAGE", "rumi-runner:latest")


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


async def main(rounds: int) -> None:
    engine = DockerEngine(secrets.token_hex(6), SandboxLimits(), image=IMAGE)
    root = Supervisor("root")
    ours, plain = [], []
    with tempfile.TemporaryDirectory() as home:
        sandboxes = add_sandboxes(root, engine, SandboxLimits(), Path(home))
        async with root.running():
            await sandboxes.run("bench", Command(("true",)))
            container_id = sandboxes.container_id("bench")
            for number in range(rounds + 2):
                began = time.perf_counter()
                assert (await sandboxes.run("bench", Command(("true",)))).exit_code == 0
                taken, compared = time.perf_counter() - began, bare(container_id)
                if number >= 2:  # the first warm up
                    ours.append(taken)
                    plain.append(compared)
        await engine.aclose()
    ratios = sorted(mine / theirs for mine, theirs in zip(ours, plain, strict=True))
    quarter = len(ratios) // 4
    print(f"sandbox   median {statistics.median(ours) * 1000:6.1f} ms   best {min(ours) * 1000:6.1f} ms")
    print(f"bare API  median {statistics.median(plain) * 1000:6.1f} ms   best {min(plain) * 1000:6.1f} ms")
    print(f"ratio of medians {statistics.median(ours) / statistics.median(plain):.2f}", end="   ")
    print(f"of each round: quartiles {ratios[quarter]:.2f} to {ratios[-quarter - 1]:.2f}   ({rounds} rounds)")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 60)
