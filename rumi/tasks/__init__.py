"""Tasks: work with an owner, a goal, a budget and a result, which survives a restart of the process."""

from rumi.tasks.kinds import Again, Finished, TaskKind, TaskRoom, TaskWork
from rumi.tasks.services import TaskLimits, TaskServices, account_of
from rumi.tasks.serving import as_json, id_of, task_of, tasks_calls
from rumi.tasks.tasks import StoredTasks, Tasks, places

__all__ = [
    "Again",
    "Finished",
    "StoredTasks",
    "TaskKind",
    "TaskLimits",
    "TaskRoom",
    "TaskServices",
    "TaskWork",
    "Tasks",
    "account_of",
    "as_json",
    "id_of",
    "places",
    "task_of",
    "tasks_calls",
]
