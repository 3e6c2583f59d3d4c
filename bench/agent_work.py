"""What a task of `bench.agent` is made of: messages, scripts of an ideal model, files and a check."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from bench.cost import sent
from rumi.agent.end_check import CONFIRMED
from rumi.agent.fitting import CHECK
from rumi.models.model import text_tokens
from tests.fakes.groq_server import Answer, Body, answered_calls, last_user_text

Variant: TypeAlias = Literal["bash", "files"]
Call: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model sees before a step: the instructions, the message, and what its calls gave so far.

    To find nothing is a LookupError: a model would be lost here, and the task fails.
    """

    instructions: str
    message: str
    results: Sequence[str]

    def find(self, pattern: str, index: int = -1) -> str:
        """Return what the pattern's last group matches in the last result, or in another one."""
        return _found(pattern, self.results[index])

    def asked(self, pattern: str) -> str:
        return _found(pattern, self.message)

    def knows(self, pattern: str) -> str:
        return _found(pattern, self.instructions)


Reply: TypeAlias = str | Call | Sequence[Call]
Step: TypeAlias = Reply | Callable[[Seen], Reply]
"""An answer, one call or several, or a function that decides when it has seen the last results."""


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"{pattern!r} is not in: {text[-1500:]}")
    return found[found.re.groups]


def call(name: str, **arguments: object) -> Call:
    return name, json.dumps(arguments, ensure_ascii=False)


def sh(command: str, stdin: str = "") -> Call:
    return call("bash", command=command, **({"stdin": stdin} if stdin else {}))


def python(code: str) -> Call:
    """Run code that Python reads from its standard input, as a strict policy allows."""
    return sh("python3 -", code)


def read(path: str, **more: int) -> Call:
    return call("read_file", path=path, **more)


def edit(path: str, old: str, new: str) -> Call:
    return call("edit_file", path=path, old_text=old, new_text=new)


def write(path: str, content: str) -> Call:
    return call("write_file", path=path, content=content)


def says(text: str, **patterns: str) -> Step:
    """Answer with what patterns find in the last result: `says("It is {n}.", n=r"total (.+)")`."""
    return lambda seen: text.format(**{name: seen.find(pattern) for name, pattern in patterns.items()})


def after(pattern: str, reply: Reply) -> Step:
    """Reply so once the last result has the pattern."""

    def step(seen: Seen) -> Reply:
        seen.find(pattern)
        return reply

    return step


@dataclass(frozen=True, slots=True)
class Turn:
    """A message and the steps that answer it: with commands, and with the file tools if there are any."""

    says: str
    bash: Sequence[Step]
    files: Sequence[Step] = ()

    def steps(self, variant: Variant) -> Sequence[Step]:
        return self.files or self.bash if variant == "files" else self.bash


@dataclass(frozen=True, slots=True)
class Task:
    """Messages of one chat, the files that are there before, and a check of its folder and last answer."""

    name: str
    turns: Sequence[Turn]
    check: Callable[[Path, str], bool]
    input_files: Mapping[str, str | bytes] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    """When files were last changed, in seconds since 1970."""
    pages: Mapping[str, str] = field(default_factory=dict)
    """Web pages by path; messages name their server as `{pages}`."""

    @property
    def variants(self) -> tuple[Variant, ...]:
        return ("bash", "files") if any(turn.files for turn in self.turns) else ("bash",)

    def put_files(self, folder: Path, owner: tuple[int, int]) -> None:
        for name, content in self.input_files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            if name in self.times:
                os.utime(path, (self.times[name], self.times[name]))
        for path in folder.rglob("*"):
            os.chown(path, *owner)


def task(
    name: str,
    says: str,
    bash: Sequence[Step],
    files: Sequence[Step] = (),
    *,
    check: Callable[[Path, str], bool],
    input_files: Mapping[str, str | bytes] | None = None,
    times: Mapping[str, float] | None = None,
    pages: Mapping[str, str] | None = None,
) -> Task:
    """A task of one message."""
    return Task(name, [Turn(says, bash, files)], check, input_files or {}, times or {}, pages or {})


class Model:
    """Replies with the steps of the turn that runs, and counts the tokens that come and go."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.steps: list[Step] = []
        self.calls = self.prompt = self.completion = 0
        self.wrong = ""

    def __call__(self, body: Body) -> Answer:
        prompt = sent(body)
        self.calls += 1
        self.prompt += text_tokens(prompt)
        instructions = str(body["messages"][0]["content"])
        if str(body["messages"][-1]["content"]).startswith(CHECK):  # the script's answer stays as it is
            self.completion += text_tokens(CONFIRMED)
            return Answer(CONFIRMED)
        reply = self._next(Seen(instructions, last_user_text(body), answered_calls(body)))
        text, calls = (reply, []) if isinstance(reply, str) else ("", _calls(reply))
        self.completion += text_tokens(text) + sum(text_tokens("".join(words)) for words in calls)
        return Answer(text, calls)

    def _next(self, seen: Seen) -> Reply:
        if not self.steps:
            self.wrong = self.wrong or "more calls than the script has"
            return "I do not know how to go on."
        step = self.steps.pop(0)
        try:
            return step(seen) if callable(step) else step
        except LookupError as error:
            self.wrong = str(error)
            self.steps.clear()
            return "The result is not what I expected."


def _calls(reply: Call | Sequence[Call]) -> list[Call]:
    if isinstance(reply, tuple) and isinstance(reply[0], str):
        return [reply]  # type: ignore[list-item]
    return list(reply)  # type: ignore[arg-type]
