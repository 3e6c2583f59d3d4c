"""What a kind of task brings: instructions, tools, and what becomes of the answer."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rumi.agent.permissions.gate import Parking
from rumi.agent.tool import Tool
from rumi.agent.tools.bash import CommandShell
from rumi.models.model import Message, Model
from rumi.platform.texts.language import Language
from rumi.store.journal.records import Buttons, IterationRecord, Reason, Spent, TaskRecord, TaskState


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What one task works with: the stored `task`, and its `key`, by which sandboxes and the web know it.

    Of what people have `said`, the task has what this iteration reads, and nothing where it goes on in the
    middle. `workspace` is the folder of its sandbox, `files` one that only the program writes; neither has to
    exist. `context_tokens` is the model's maximum. `report` shows a step to people. Of a bot, `iterations`
    are those that have ended, and `spent` returns what its session has used by now. `tainted` returns True
    if the turn has read something from outside.
    """

    task: TaskRecord
    key: str
    shell: CommandShell
    workspace: Path
    files: Path
    model: Model
    language: Language
    context_tokens: int
    report: Callable[[str], None]
    iterations: tuple[IterationRecord, ...] = ()
    spent: Callable[[], Spent] = Spent
    tainted: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a task: what people read, and the report, a JSON object.

    Without a `state` it ends as its last turn did. A bot's last iteration has a `summary` too.
    """

    answer: str
    report: str = "{}"
    state: TaskState | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class NextIteration:
    """The end of an iteration: its `summary`, and when the next one begins, in seconds since 1970.

    The `message`, if there is one, goes to the task's chat, with its `buttons`; it asks for the parked calls
    `asked`.
    """

    summary: str
    wake_at: float
    message: str = ""
    buttons: Buttons = ()
    asked: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskWork:
    """What a task does: a turn with these instructions and tools, behind the messages `before`.

    `before` came from outside; `given` are the addresses that the question gave. `sources` counts what was
    read so far. `finish` gets the model's answer, and how its turn ended. `tainted`: the instructions hold
    something from outside. With `parking` calls that need a person's yes wait for one. The turn makes at most
    `max_calls` model calls, for at most `max_nano_usd` billionths of a USD and one call more.
    """

    instructions: str
    tools: Sequence[Tool]
    finish: Callable[[str, Reason], Awaitable[Finished | NextIteration]]
    before: tuple[Message, ...] = ()
    known_urls: tuple[str, ...] = ()
    sources: Callable[[], int] = lambda: 0
    tainted: bool = False
    parking: Parking | None = None
    max_calls: int | None = None
    max_nano_usd: int | None = None


class TaskKind(Protocol):
    """A kind of task."""

    def open(self, context: TaskContext) -> AbstractAsyncContextManager[TaskWork]:
        """Prepare the work of a task; what is prepared ends with the block.

        Raises:
            RumiError: It cannot be done. The error says what to do.
        """
        ...


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """How a task ended. `answer` is what people read, `report` a JSON object of its kind.

    `tainted`: something in it came from outside.
    """

    state: TaskState
    answer: str
    report: str = "{}"
    tainted: bool = False
    reason: Reason = "model_error"
    summary: str = ""
