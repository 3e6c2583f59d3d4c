"""Tasks: work with an owner, a goal, a budget and a result, which survives a restart of the process."""

from rumi.tasks.kinds import TaskKind, TaskRoom, TaskWork
from rumi.tasks.services import TaskLimits, TaskServices
from rumi.tasks.serving import as_json, id_of, task_of, tasks_calls
from rumi.tasks.tasks import Tasks, places, remove_files

__all__ = [
    "TaskKind",
    "TaskLimits",
    "TaskRoom",
    "TaskServices",
    "TaskWork",
    "Tasks",
    "as_json",
    "id_of",
    "places",
    "remove_files",
    "task_of",
    "tasks_calls",
]
