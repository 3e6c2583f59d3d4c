"""The interface of a task kind: instructions, tools, and the handling of the model's answer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from rumi.agent.permissions.gate import Parking
from rumi.agent.tool import Tool
from rumi.agent.tools.bash import CommandShell
from rumi.errors import UsageError
from rumi.models.model import Message, Model
from rumi.platform.config.plugins import PluginContext, Registration
from rumi.store.journal.records import Buttons, IterationRecord, Reason, Spent, TaskRecord, TaskState
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class TaskContext:
    """The environment of one task: its record, its sandbox, its model and its callbacks.

    `key` identifies the task to the sandboxes and the fetcher. `task.said` contains the messages from people
    that this iteration reads; it is empty if the iteration resumes after a restart. `workspace` is the folder
    that the sandbox uses; only the program writes to the folder `files`. Either folder may be missing.
    `context_tokens` is the model's maximum context. `report` shows a step to people. For a bot, `iterations`
    contains the completed iterations, and `spent` returns what the session has used so far. `tainted` returns
    True if the turn has read untrusted content. `zone` is the owner's time zone, empty if it is unknown.
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
    zone: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a turn that ends its task: the `answer` shown to people, and the `report`, a JSON object.

    If `state` is not set, the reason why the last turn ended decides the task's state. A bot's last iteration
    also has a `summary`.
    """

    answer: str
    report: str = "{}"
    state: TaskState | None = None
    summary: str = ""


@dataclass(frozen=True, slots=True)
class NextIteration:
    """The result of a turn after which another iteration follows. `summary` describes the turn.

    The next iteration starts at `wake_at`, in seconds since 1970. If `message` is not empty, it is sent to
    the task's chat with its `buttons`. The message then asks a person to approve the calls whose numbers are
    in `asked`.
    """

    summary: str
    wake_at: float
    message: str = ""
    buttons: Buttons = ()
    asked: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskWork:
    """The work of a task: a turn with these instructions and tools, which follows the messages `before`.

    `before` is untrusted. `known_urls` are the URLs in the question. `sources` returns the number of sources
    read so far. `finish` gets the model's answer and the reason why the turn ended. `tainted` means that the
    instructions contain untrusted content. With `parking`, calls that need a person's approval are stored
    until a person decides. The turn makes at most `max_calls` model calls. It may cost `max_nano_usd`
    billionths of a USD; the call that reaches this limit may exceed it.
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
        """Prepare the work of a task for a block; when the block ends, release everything that was prepared.

        Raises:
            RumiError: The task cannot be done. The error says what to do.
        """
        ...


def kind_of_task(kinds: Mapping[str, TaskKind], name: str) -> TaskKind:
    """Return the kind of tasks with a name.

    Raises:
        UsageError: There is no such kind: the plugin that brought it may be missing.
    """
    if name not in kinds:
        raise UsageError(
            "Unknown kind of task {kind}.",
            "There are: {kinds}. A plugin may be missing: rumi plugins",
            kind=name,
            kinds=", ".join(kinds),
        )
    return kinds[name]


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result of a task: `answer` is shown to people, `report` is a JSON object of the task's kind.

    `tainted`: the result contains untrusted content.
    """

    state: TaskState
    answer: str
    report: str = "{}"
    tainted: bool = False
    reason: Reason = "model_error"
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlugin(Registration):
    """The registration of a kind of tasks, for the group `rumi.tasks`.

    The entry point's name becomes a tool of all chats with which the model starts a task with a question; for
    the tool, `description` says what a task does. `kind` returns the kind. Its tasks are stored, restarted
    after a crash, bounded by budgets, shown and stopped as all tasks are. What a task answers is untrusted.
    """

    group: ClassVar[str] = "rumi.tasks"

    description: str
    kind: Callable[[PluginContext], TaskKind]
