"""What a kind of task brings: instructions, tools, and what becomes of the answer."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rumi.agent import Reason
from rumi.journal import TaskRecord, TaskState
from rumi.models import Message, Model
from rumi.texts import Language
from rumi.tools import Shell, Tool


@dataclass(frozen=True, slots=True)
class TaskRoom:
    """What one task works with: the stored `task`, and its `key`, by which sandboxes and the web know it.

    `workspace` is the folder of its sandbox, `files` one that only the program writes; neither has to exist.
    `context_tokens` is the model's maximum. `report` shows a step to people.
    """

    task: TaskRecord
    key: str
    shell: Shell
    workspace: Path
    files: Path
    model: Model
    language: Language
    context_tokens: int
    report: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TaskWork:
    """What a task does: a turn with these instructions and tools, behind the messages `before`.

    `before` came from outside; `given` are the addresses that the question gave. `sources` counts what was
    read so far. `finish` returns what people read and the report, a JSON object, of the model's answer; its
    second argument is False for an answer that a limit cut short.
    """

    instructions: str
    tools: Sequence[Tool]
    finish: Callable[[str, bool], Awaitable[tuple[str, str]]]
    before: tuple[Message, ...] = ()
    given: tuple[str, ...] = ()
    sources: Callable[[], int] = lambda: 0


class TaskKind(Protocol):
    """A kind of task."""

    def open(self, room: TaskRoom) -> AbstractAsyncContextManager[TaskWork]:
        """Prepare the work of a task; what is prepared ends with the block.

        Raises:
            RumiError: It cannot be done. The error says what to do.
        """
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended. `answer` is what people read, `report` a JSON object of its kind.

    `tainted`: something in it came from outside.
    """

    state: TaskState
    answer: str
    report: str = "{}"
    tainted: bool = False
    reason: Reason = "model_error"
