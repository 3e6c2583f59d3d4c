"""Control calls for tasks: other processes send JSON objects, and get JSON objects as answers.

`list` (returns the tasks of one `owner`, or all); `show`, `stop`, `delete` (with an `id`); `begin` (with a
`kind`, a `question`, its `options`, and a `chat`).
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from rumi.errors import UsageError
from rumi.platform.caller import Caller, ControlCall
from rumi.platform.chat_ids import ChatIds
from rumi.platform.texts.language import known_language
from rumi.platform.timestamps import utc
from rumi.store.journal.records import TaskRecord
from rumi.tasks.tasks import StoredTasks, Tasks

MOST_LISTED: Final = 1000


def task_call(tasks: StoredTasks, ids: ChatIds) -> ControlCall:
    """Return the function that answers control calls for tasks.

    A caller can see and change only tasks of owners that the caller has access to. New tasks belong to the
    caller's owner. `begin` needs a process that runs tasks.
    """

    async def answer(caller: Caller, request: Mapping[str, object]) -> object:
        """Execute a request.

        Raises:
            UsageError: The request is invalid, or the task does not exist.
            RumiError: The request cannot be executed.
        """
        match request.get("do"):
            case "list":
                owner = str(request["owner"]) if request.get("owner") else None
                listed = await tasks.listed(caller.scope_in(owner), MOST_LISTED)
                return [task_as_json(task) for task in listed]
            case "show":
                return task_as_json(await tasks.show(task_id_of(request), caller.scope))
            case "stop":
                return task_as_json(await tasks.stop(task_id_of(request), caller.scope))
            case "delete":
                await tasks.delete(task_id_of(request), caller.scope)
                return None
            case "begin" if isinstance(tasks, Tasks):
                task = task_of(caller, request)
                caller.chat_in(task.chat, ids.owner_of)
                return task_as_json(await tasks.begin(tasks.checked(task)))
            case _:
                raise UsageError(
                    "The tasks do not know this request.", "They can list, show, stop, delete and begin."
                )

    return answer


def task_as_json(task: TaskRecord) -> dict[str, object]:
    """Return a task as JSON. Times are in RFC 3339; the time of an event that has not happened is None."""
    times = {
        name: utc(at) if (at := getattr(task, name)) else None
        for name in ("created", "started", "ended", "wake_at")
    }
    return {
        **asdict(task),
        **times,
        "parent": task.parent or None,
        "message": task.message or None,
        "options": json.loads(task.options),
        "report": json.loads(task.report),
    }


def task_id_of(request: Mapping[str, object]) -> int:
    """Parse the task number in a request.

    Raises:
        UsageError: The request has no task number.
    """
    value = request.get("id")
    if not isinstance(value, int):
        raise UsageError("The request names no task.")
    return value


def task_of(caller: Caller, request: Mapping[str, object]) -> TaskRecord:
    """Return the task that a request describes. The task belongs to the caller's owner.

    Raises:
        UsageError: The request does not describe a task.
    """
    kind, question, options = request.get("kind"), request.get("question"), request.get("options") or {}
    if not isinstance(kind, str) or not isinstance(question, str) or not isinstance(options, dict):
        raise UsageError("The request names no task.")
    language = known_language(request.get("language")) or "en"
    chat, model = str(request.get("chat") or ""), str(request.get("model") or "")
    return TaskRecord(
        kind, caller.owner, question, chat, options=json.dumps(options), language=language, model=model
    )
