"""A task of `bench.agent`: messages with scripts, files and pages, and checks of what has come of it."""

import os
import re
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from bench.agent_model import MakesScript, Script, View
from rumi.agent.tool import ToolResult


@dataclass(slots=True)
class Done:
    """What has come of a task: its folder, the answers, the questions to the user, the requests for pages."""

    folder: Path
    answers: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    visited: list[str] = field(default_factory=list)
    results: list[tuple[str, ToolResult]] = field(default_factory=list)
    """Each call's tool and result."""

    def text(self, name: str) -> str:
        """Return a file's text with its line ends; "" if the file is not there."""
        path = self.folder / name
        return path.read_bytes().decode() if path.is_file() else ""

    def used(self, tool: str) -> int:
        return sum(name == tool and result.ok for name, result in self.results)

    def runs(self, *words: str) -> str:
        """Return what a program of this machine says in the folder."""
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def git(self, *words: str) -> str:
        return self.runs("git", "-c", "safe.directory=*", *words)


Check: TypeAlias = Callable[[Done], bool]


@dataclass(frozen=True, slots=True)
class Task:
    """Messages of one chat with their scripts, what is there before, and the checks.

    `pages` are web pages by path; `{pages}` in messages and pages is their server. `meanwhile` runs beside
    the turns, and `sets_up` makes what files alone cannot. `consents` is the user's answer to all questions.
    `waits` means that the task mostly waits.
    """

    name: str
    group: str
    turns: tuple[tuple[str, MakesScript], ...]
    checks: Sequence[Check]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)
    sets_up: Callable[[Path], None] = lambda folder: None
    meanwhile: Callable[[Path], Awaitable[None]] | None = None
    consents: bool = False
    waits: bool = False

    def put_files(self, folder: Path, owner: tuple[int, int]) -> None:
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            if name in self.times:
                os.utime(path, (self.times[name], self.times[name]))
        self.sets_up(folder)
        for path in folder.rglob("*"):
            os.chown(path, *owner, follow_symlinks=False)


class Tasks:
    """The tasks of one group. A function that is decorated becomes a task's script."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.all: list[Task] = []

    def task(self, says: str, *checks: Check, **more: object) -> Callable[[MakesScript], MakesScript]:
        """Add a task of one message; further messages are added with `then`."""

        def add(script: MakesScript) -> MakesScript:
            name = script.__name__.replace("_", " ")
            self.all.append(Task(name, self.group, ((says, script),), checks, **more))  # type: ignore[arg-type]
            return script

        return add

    def command(self, says: str) -> None:
        """Add a command to the last task, which no model answers."""
        self.then(says)(_no_model)

    def then(self, says: str) -> Callable[[MakesScript], MakesScript]:
        """Add a message to the last task."""

        def add(script: MakesScript) -> MakesScript:
            last = self.all[-1]
            self.all[-1] = replace(last, turns=(*last.turns, (says, script)))
            return script

        return add


def _no_model(m: View) -> Script:
    yield from ()
    raise AssertionError("a command needs no model")


def answers(*patterns: str) -> Check:
    """The last answer has each of these."""
    return lambda done: all(re.search(pattern, done.answers[-1]) for pattern in patterns)


def holds(name: str, text: str) -> Check:
    """A file has exactly this text."""
    return lambda done: done.text(name) == text


def same_files(files: Mapping[str, str | bytes]) -> Check:
    return lambda done: all(
        (done.folder / name).read_bytes() == (text if isinstance(text, bytes) else text.encode())
        for name, text in files.items()
    )


def names(folder: Path, pattern: str = "*") -> set[str]:
    return {path.name for path in folder.glob(pattern)}
