"""The whole program in a process of its own, on a home of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.forks import CLONE, Forked
from tests.conftest import ROOT

RUMI = str(Path(sys.executable).with_name("rumi"))
BOUND_S = 90
CORE = {"RUMI_SANDBOX__TOOLS": "core", "RUMI_SANDBOX__PYTHON_PACKAGES": "[]"}
"""A small sandbox is made faster, and most tests need no other."""


@contextmanager
def serving(fake: str, *words: str) -> Iterator[str]:
    """One of `tests.fakes`' servers in a process of its own, which ends with the block; its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"tests.fakes.{fake}", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=10)


@dataclass
class Program:
    """`rumi` on a home, with an environment that has nothing of the developer's."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
        ours = {"LANG": "C.UTF-8", "RUMI_HOME": str(self.home), "RUMI_SESSION__LINGER_S": "0"}
        return {**kept, **ours, **CORE, **self.env}

    def run(
        self, *words: str, text: str = "", code: int | None = 0, folder: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run it to its end and check its exit code."""
        with self._started(words, subprocess.PIPE, folder) as process:
            try:
                output, errors = process.communicate(text, BOUND_S)
            except BaseException:
                process.kill()
                raise
        done = subprocess.CompletedProcess(words, process.returncode, output, errors)
        if code is not None:
            assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start it; the caller ends it, and types where it is a chat."""
        return self._started(words, subprocess.DEVNULL if "-p" in words else subprocess.PIPE)

    def _started(
        self, words: tuple[str, ...], stdin: int, folder: Path | None = None
    ) -> "subprocess.Popen[str]":
        return (Forked if CLONE else subprocess.Popen[str])(
            [RUMI, *words],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
            cwd=folder and str(folder),
        )

    def serving(self) -> int:
        """The process that holds the home, of windows' as well."""
        return int((self.home / "run" / "lock").read_text().split("process ")[1].rstrip(")\n"))

    def end(self) -> None:
        """End the process that serves windows, where a test has it linger."""
        with suppress(OSError, IndexError, ValueError):
            process = self.serving()
            if b"serves the windows" in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGTERM)

    def kill(self, client: "subprocess.Popen[str]") -> None:
        """Kill the process that serves a window, and the window before it can start another one."""
        os.kill(self.serving(), signal.SIGKILL)
        client.kill()
        client.communicate(timeout=BOUND_S)

    def events(self, *words: str, code: int | None = 0) -> list[dict[str, Any]]:
        """Run one turn and read its events."""
        done = self.run("chat", "--json", *words, code=code)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def audit(self) -> list[dict[str, Any]]:
        lines = (self.home / "logs" / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]
