"""The whole program in a process of its own, on a home of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUMI = str(Path(sys.executable).with_name("rumi"))
BOUND_S = 90

FORKS = """
import gc, importlib, json, os, sys
from pathlib import Path
from rumi.cli import group, main
for module in (*(module for module, _ in group.COMMANDS.values()), "rumi.app", "rumi.channels.terminal"):
    importlib.import_module(module)
gc.freeze()
commands, ended = json.load(sys.stdin), []
for number, words in enumerate(commands):
    files = [os.open(f"{sys.argv[1]}/{number}.{name}", os.O_CREAT | os.O_RDWR) for name in ("out", "err")]
    child = os.fork()
    if not child:
        sys.argv = ["rumi", *words]
        for stream, file in zip((0, 1, 2), (os.open(os.devnull, os.O_RDONLY), *files)):
            os.dup2(file, stream)
        code = 0
        try:
            main()
        except SystemExit as ended_with:
            code = ended_with.code or 0
        sys.stdout.flush()
        os._exit(code)  # without taking all modules apart, which costs as much as the command
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    ended.append([code, *(Path(f"{sys.argv[1]}/{number}.{name}").read_text() for name in ("out", "err"))])
    for file in files:
        os.close(file)
json.dump(ended, sys.stdout)
"""
"""A program that loads Rumi once and runs each command in a fork of itself."""


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

    def run_each(self, commands: Sequence[Sequence[str]]) -> "list[tuple[int, str, str]]":
        """Run commands one after the other, for the price of one start: exit code, output, error output."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", FORKS, folder],
                input=json.dumps(commands),
                capture_output=True,
                text=True,
                env=self.environment(),
                timeout=BOUND_S,
                check=True,
            )
        ended = [(code, output, errors) for code, output, errors in json.loads(done.stdout)]
        assert not any("Traceback" in errors for _, _, errors in ended)
        return ended

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
