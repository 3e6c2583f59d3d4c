"""Faults for `bench.agent`: each is planted in the running program, and tasks must notice it."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from rumi.agent.acting import Acting
from rumi.agent.permissions.gate import Gate
from rumi.agent.prompts.prompts import built_in
from rumi.agent.tool import ToolResult
from rumi.agent.tools.bash import Bash
from rumi.agent.tools.edit_file import EditFile
from rumi.platform.config.schema import AgentSection, SandboxSection
from rumi.sandbox.policy import CommandPolicy
from rumi.sandbox.words import CommandRefused

ERRORS = re.compile(r"^error output[^\n]*:\n.*", re.MULTILINE | re.DOTALL)
ADVICE = re.compile(r"(?<=\.) .*", re.DOTALL)
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
PIPE = re.compile(r"(?<!\|)\|(?![|&])")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: what is planted, settings, and the groups of tasks for which it was made."""

    name: str
    groups: tuple[str, ...] = ()
    planted: Callable[[], AbstractContextManager[object]] = nullcontext
    settings: Callable[[], Mapping[str, object]] = dict


def _results(change: Callable[[ToolResult], ToolResult]) -> Callable[[], AbstractContextManager[object]]:
    """Change each result that a model gets."""

    @contextmanager
    def planted() -> Iterator[None]:
        real = Acting.run

        async def run(self: Acting, *arguments: Any, **more: Any) -> Any:
            done = await real(self, *arguments, **more)
            return [
                tuple(change(part) if isinstance(part, ToolResult) else part for part in one) for one in done
            ]

        with patch.object(Acting, "run", run):
            yield

    return planted


def _content(change: Callable[[str], str]) -> Callable[[ToolResult], ToolResult]:
    return lambda result: replace(result, content=change(str(result.content)))


def _without_errors(text: str) -> str:
    return ERRORS.sub("(no output)", text)


def _always_0(text: str) -> str:
    return re.sub(r"^exit code \d+", "exit code 0", text)


def _without_advice(result: ToolResult) -> ToolResult:
    return replace(result, content=ADVICE.sub("", str(result.content))) if result.refused else result


@contextmanager
def _no_pipes() -> Iterator[None]:
    real = CommandPolicy.parse

    def parse(self: CommandPolicy, command: str) -> tuple[str, ...]:
        if PIPE.search(QUOTED.sub("", command)):
            raise CommandRefused("Refused: a pipe.", "Run the programs one after the other.")
        return real(self, command)

    with patch.object(CommandPolicy, "parse", parse):
        yield


@contextmanager
def _cutting_edits() -> Iterator[None]:
    real = EditFile.put

    async def put(self: EditFile, path: Any, content: bytes, *more: Any, **named: Any) -> Any:
        return await real(self, path, content[: len(content) * 2 // 3], *more, **named)

    with patch.object(EditFile, "put", put):
        yield


@contextmanager
def _bash_without_description() -> Iterator[None]:
    real = Bash.__init__

    def init(self: Bash, *arguments: Any, **more: Any) -> None:
        real(self, *arguments, **more)
        self.spec = replace(self.spec, description="")

    with patch.object(Bash, "__init__", init):
        yield


def _without_identity() -> AbstractContextManager[object]:
    return patch.dict(built_in(), {"identity": ""})


def _five_calls() -> Mapping[str, object]:
    names = [name for name in AgentSection.model_fields if name.startswith("max_turns")]
    return {f"agent.{name}": 5 for name in names}


def _two_seconds() -> Mapping[str, object]:
    names = [name for name in ("timeout_s", "max_timeout_s") if name in SandboxSection.model_fields]
    return {f"sandbox.{name}": 2 for name in names}


def _never_tainted() -> AbstractContextManager[object]:
    return patch.object(Gate, "note_result", lambda self, name, result: None)


FAULTS = (
    Fault("error output of commands dropped", ("edits",), _results(_content(_without_errors))),
    Fault("results cut to 300 characters", ("code",), _results(_content(lambda text: text[:300]))),
    Fault("ends of results dropped", ("code",), _results(_content(lambda text: text[: len(text) * 2 // 3]))),
    Fault("exit codes always 0", ("shell",), _results(_content(_always_0))),
    Fault("pipes refused", ("shell",), _no_pipes),
    Fault("refusals without advice", ("refused",), _results(_without_advice)),
    Fault("edit_file cuts the file", ("edits",), _cutting_edits),
    Fault("the identity prompt emptied", ("chat", "refused"), _without_identity),
    Fault("the description of bash emptied", ("shell",), _bash_without_description),
    Fault("what was read does not taint", ("outside",), _never_tainted),
    Fault("five calls a turn", ("git", "code"), settings=_five_calls),
    Fault("two seconds a command", ("time",), settings=_two_seconds),
)
