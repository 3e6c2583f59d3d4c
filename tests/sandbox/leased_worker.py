"""A process with a sandbox that has a lease, which a test stops.

Arguments: engine, home, installation, image, seconds. It prints a line for the container, and for the end of
each command. It renews its lease itself, so a process that is stopped does not.
"""

import sys
from pathlib import Path

import trio

from actors import Supervisor
from rumi.sandbox.bubblewrap.engine import BubblewrapEngine
from rumi.sandbox.docker.engine import DockerEngine
from rumi.sandbox.engine import Command, Engine, SandboxError, SandboxLimits
from rumi.sandbox.lease import Lease, boottime
from rumi.sandbox.sandboxes import add_sandboxes

WRITES = "trap '' HUP TERM; (while true; do echo x >> ticks; sleep 0.02; done) & while true; do sleep 1; done"


class OwnLease:
    """A lease that is renewed as long as this process runs, until it is lost for good."""

    def __init__(self, length_s: float) -> None:
        self._length_s = length_s
        self._until = boottime() + length_s

    @property
    def length_s(self) -> float:
        return self._length_s

    def valid_until(self) -> float:
        return self._until

    async def renewed(self) -> None:
        while True:
            now = boottime()
            if now > self._until:
                return  # another process may have it by now
            self._until = now + self._length_s
            await trio.sleep(self._length_s / 5)


async def main(kind: str, home: Path, installation: str, image: str, length_s: float) -> None:
    lease, limits = OwnLease(length_s), SandboxLimits(timeout_s=60)

    def leases(chat_id: str) -> Lease:
        return lease

    engine: Engine
    if kind == "docker":
        engine = DockerEngine(installation, limits, image=image, home=home, leases=leases)
    else:
        engine = BubblewrapEngine(home, installation, limits, leases=leases)
    root = Supervisor("root")
    sandboxes = add_sandboxes(root, engine, limits, home)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lease.renewed)
        async with root.running():
            await sandboxes.prepare("one")
            print("ready", sandboxes.container_id("one"), flush=True)
            for script in (WRITES, "echo again >> ticks"):
                try:
                    result = await sandboxes.run("one", Command(("bash", "-c", script)))
                    print(result.ended, flush=True)
                except SandboxError as error:
                    print(type(error).__name__, flush=True)
        nursery.cancel_scope.cancel()
    await engine.aclose()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5]))
