"""Processes with sandboxes that tests kill, and what is left of them: looked for without Rumi's own means."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trio

from tests.conftest import ROOT


class Killed:
    """The process of `killed_worker`, of whose children one runs at a time."""

    def __init__(self, process: trio.Process, kind: str, home: Path, installation: str) -> None:
        self._process = process
        self._said = b""
        self.kind, self.home, self.installation = kind, home, installation
        self.pid = 0

    async def start(self, line: str) -> None:
        """Start a child."""
        assert self._process.stdin is not None
        await self._process.stdin.send_all(line.encode() + b"\n")
        self.pid = int(await self.line())

    async def kill(self) -> None:
        """Kill it, as `kill -9` does, and return when it has ended."""
        os.kill(self.pid, signal.SIGKILL)
        assert await self.line() == "ended"

    async def line(self) -> str:
        """Return what it says next."""
        assert self._process.stdout is not None
        with trio.fail_after(60):
            while b"\n" not in self._said:
                chunk = await self._process.stdout.receive_some()
                assert chunk, "it has ended"
                self._said += chunk
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()

    def left(self) -> list[str]:
        """Return the processes, control groups and containers of this home that there are."""
        # The last is the beginning of the mark of the containers of the child's engine.
        found, marks = [], (os.fsencode(self.home), self.installation.encode(), b"\0%d-" % self.pid)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
                if int(pid) in (self._process.pid, os.getpid()) or b"pytest" in words:
                    continue
                if any(mark in words for mark in marks):
                    found.append(f"process {pid} {words.replace(bytes(1), b' ')[:200]!r}")
                elif marks[0] in Path(f"/proc/{pid}/mountinfo").read_bytes():
                    found.append(f"process {pid} with mounts {words[:100]!r}")
        for folder, names, _ in os.walk("/sys/fs/cgroup"):
            found += [f"{folder}/{name}" for name in names if self.installation in name]
        if self.kind == "docker":
            found += containers_of(self.installation)
        return found

    async def nothing_left(self, within_s: float = 15) -> float:
        """Wait until nothing is left; return how long that took."""
        began = time.monotonic()
        while left := await trio.to_thread.run_sync(self.left):
            assert time.monotonic() - began < within_s, left
            await trio.sleep(0.02)
        return time.monotonic() - began


def containers_of(installation: str) -> list[str]:
    """Return the installation's containers in every state, by name and state."""
    words = ["docker", "ps", "--all", "--format", "container {{.Names}} {{.State}}"]
    words += ["--filter", f"label=rumi.installation={installation}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()


@asynccontextmanager
async def killed_worker(kind: str, home: Path, installation: str, image: str) -> AsyncIterator[Killed]:
    """The process, ready to start children, for as long as the block lasts."""
    words = [sys.executable, "-m", "tests.sandbox.killed_worker", kind, str(home), installation, image]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = await trio.lowlevel.open_process(words, cwd=ROOT, **pipes)
    killed = Killed(process, kind, home, installation)
    try:
        assert await killed.line() == "ready"
        yield killed
    finally:
        if killed.pid:
            with suppress(ProcessLookupError):
                os.kill(killed.pid, signal.SIGKILL)
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
