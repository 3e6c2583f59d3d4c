"""The whole program in a process of its own, on a home of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUMI = str(Path(sys.executable).with_name("rumi"))
BOUND_S = 90


@dataclass
class Program:
    """`rumi` on a home, with an environment that has nothing of the developer's."""

    home: Path
    env: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "DOCKER_HOST") if name in os.environ}
        return {**kept, "LANG": "C.UTF-8", "RUMI_HOME": str(self.home), **self.env}

    def run(self, *words: str, text: str = "", code: int | None = 0) -> "subprocess.CompletedProcess[str]":
        """Run it to its end and check its exit code."""
        done = subprocess.run(
            [RUMI, *words],
            input=text,
            capture_output=True,
            text=True,
            env=self.environment(),
            timeout=BOUND_S,
            check=False,
        )
        if code is not None:
            assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start it; the caller ends it, and types where it is a chat."""
        return subprocess.Popen(
            [RUMI, *words],
            stdin=subprocess.DEVNULL if "-p" in words else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
        )

    def events(self, *words: str, code: int | None = 0) -> list[dict[str, Any]]:
        """Run one turn and read its events."""
        done = self.run("chat", "--json", *words, code=code)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def audit(self) -> list[dict[str, Any]]:
        lines = (self.home / "logs" / "audit.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]
