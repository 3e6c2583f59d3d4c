"""Control calls for tasks."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from rumi.chats.budgets.amounts import as_usd
from rumi.errors import RumiError
from rumi.platform.caller import Caller
from rumi.platform.calls import PartitionKey, call
from rumi.platform.chat_ids import LOCAL, ChatIds
from rumi.platform.timestamps import utc
from rumi.store.journal.records import Spent, TaskRecord
from rumi.tasks.tasks import StoredTasks, Tasks
from rumi.texts import Language

MOST_LISTED: Final = 1000


TASK: Final = PartitionKey("id", of="task")
NEW_TASK: Final = PartitionKey("chat", default=LOCAL)


@dataclass(frozen=True, slots=True)
class NewTask:
    """A request for a task, with the options of its kind."""

    kind: str
    question: str
    options: Mapping[str, Any] | None = None
    chat: str = ""
    model: str = ""
    language: Language = "en"

    def record(self, caller: Caller) -> TaskRecord:
        """Return the task, which is not stored yet. It belongs to the caller's owner."""
        return TaskRecord(
            self.kind, caller.owner, self.question, self.chat,
            options=json.dumps(self.options or {}), language=self.language, model=self.model,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TaskCalls:
    """The control calls for tasks. A caller sees and changes only tasks of owners in its scope."""

    tasks: StoredTasks
    ids: ChatIds

    @call("tasks.list")
    async def list(self, caller: Caller, *, owner: str = "") -> object:
        """Return the tasks of one `owner`, or of all owners, latest first; `doing` is the last step."""
        listed = await self.tasks.listed(caller.scope_in(owner or None), MOST_LISTED)
        return [{**task_as_json(task), "doing": self._doing(task)} for task in listed]

    @call("tasks.show")
    async def show(self, caller: Caller, *, id: int) -> object:
        """Return a task; `doing` is the last step of a running one, and `iterations` are those of a bot."""
        task = await self.tasks.show(id, caller.scope)
        iterations = await self.tasks.iterations(id) if task.bot else ()
        return {
            **task_as_json(task),
            "doing": self._doing(task),
            "iterations": [
                {**asdict(one), "spent": spent_as_json(one.spent), "ended": utc(one.ended)}
                for one in iterations
            ],
        }

    @call("tasks.stop", key=TASK)
    async def stop(self, caller: Caller, *, id: int) -> object:
        """Stop a task, and return it."""
        return task_as_json(await self.tasks.stop(id, caller.scope))

    @call("tasks.delete", key=TASK)
    async def delete(self, caller: Caller, *, id: int) -> None:
        """Delete a task that has ended."""
        await self.tasks.delete(id, caller.scope)

    @call("tasks.begin", key=NEW_TASK)
    async def begin(self, caller: Caller, *, new: NewTask) -> object:
        """Start a task, whose result goes to the `chat`, and return it.

        Raises:
            RumiError: This process runs no tasks.
        """
        if not isinstance(self.tasks, Tasks):
            raise RumiError("No Rumi runs, so no task runs.", "Start one with: rumi serve")
        task = new.record(caller)
        caller.chat_in(task.chat, self.ids.owner_of)
        return task_as_json(await self.tasks.begin(self.tasks.checked(task)))

    def _doing(self, task: TaskRecord) -> str:
        """Return the last step of a running task; empty for others, and for tasks of other workers."""
        return self.tasks.step_of(task.id) if isinstance(self.tasks, Tasks) and not task.ended else ""


def task_as_json(task: TaskRecord) -> dict[str, object]:
    """Return a task as JSON. Times are in RFC 3339; the time of an event that has not happened is None."""
    times = {
        name: utc(at) if (at := getattr(task, name)) else None
        for name in ("created", "started", "ended", "wake_at")
    }
    return {
        **asdict(task),
        **times,
        "message": task.message or None,
        "options": json.loads(task.options),
        "report": json.loads(task.report),
        "spent": spent_as_json(task.spent),
    }


def spent_as_json(spent: Spent) -> dict[str, object]:
    """Return what a task has used as JSON; money is in USD."""
    fields = asdict(spent)
    usd = as_usd(fields.pop("nano_usd"))
    return {**fields, "usd": usd}
