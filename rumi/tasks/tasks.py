"""The interface through which chats, tools and other processes use tasks; recovery of tasks after a crash."""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from pathlib import Path
from shutil import rmtree
from typing import Final, TypeAlias

import trio
from typing_extensions import override

from actors import Actor, ActorError, ActorRef, ActorStopped, ChildSpec, DynamicSupervisor, Supervisor
from rumi.chats.commands import ChatCommand
from rumi.chats.services import ChatWorkspaces
from rumi.errors import RumiError, UsageError
from rumi.platform.chat_ids import LOCAL, TASK, ChatIds, task_key
from rumi.platform.fair_limiter import FairLimiter, LimiterBounds
from rumi.platform.grace import with_grace
from rumi.platform.texts import tasks as task_texts
from rumi.platform.texts.translation import error_text
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.records import Incoming, IterationRecord, Spent, TaskRecord
from rumi.store.journal.tasks import (
    add_task,
    delete_task,
    end_iteration,
    end_task,
    interrupt_tasks,
    list_iterations,
    list_tasks,
    load_task,
    mark_stopping,
    old_tasks,
    open_tasks,
    reopen_task,
    say_to_task,
)
from rumi.store.ownership import partition_of
from rumi.tasks.costs import Costs
from rumi.tasks.kinds import kind_of_task
from rumi.tasks.services import TaskServices
from rumi.tasks.task import GoOn, RunTask, StopTask, Task, TaskMessage, WakeTask, keeps_files
from rumi.texts import Language, Text, gettext

logger = logging.getLogger(__name__)

SHUTDOWN_S: Final = 15.0
"""Maximum time that a task waits at shutdown for the removal of its sandbox, in seconds."""

IDLE_S: Final = 1.0

MOST_ID: Final = 2**63 - 1
"""The largest task number: SQLite integers have 64 bits."""

WRITE_S: Final = 5.0
"""Maximum time that a cancelled caller waits for the journal to store a task, in seconds."""

AGAIN_S: Final = 2.0
"""Time after which `stop_all` repeats the stop request, in seconds: an actor may crash while handling one."""

TIDY_S: Final = 300.0
"""Interval between searches for workspaces that ended tasks have left behind, in seconds."""

SWEEP_S: Final = 3600.0
"""Interval between searches for tasks whose retention time is over, in seconds."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """A task exceeded its restart limit."""

    id: int


@dataclass(frozen=True, slots=True)
class TaskStored:
    """A task was stored and must be started."""

    id: int


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The caller of an attached task no longer waits for it."""

    id: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume the tasks of these partitions, which other workers served until now.

    A partition is a share of the chats and owners; one worker at a time serves it.
    """

    partitions: frozenset[int]


RecoveryMessage: TypeAlias = GaveUp | TaskStored | Abandoned | Resume


class StoredTasks:
    """Lists, shows and deletes the stored tasks of a home, even while no daemon runs tasks.

    Each method takes the owner that makes the request, or None for the owner of the home, who sees all tasks.
    Another owner's tasks are reported as unknown.
    """

    def __init__(self, ask: AskJournal, workspaces: ChatWorkspaces, files: Path) -> None:
        self._ask = ask
        self._workspaces = workspaces
        self._files = files

    async def listed(self, owner: str | None, limit: int = 50, bot: str = "") -> tuple[TaskRecord, ...]:
        """Return the latest tasks of one owner, or of all owners, newest first.

        With `bot`, return only the sessions of this bot.
        """
        return await self._ask(list_tasks(owner, limit, bot=bot))

    async def iterations(self, id: int) -> tuple[IterationRecord, ...]:
        """Return the completed iterations of a bot's session, oldest first."""
        return await self._ask(list_iterations(id))

    async def past_session(self, bot: str, summaries: Sequence[str]) -> None:
        """Store a session that a bot had in another program.

        `summaries` contains the summaries of the session's iterations, oldest first.
        """
        task = await self._ask(add_task(TaskRecord("bot", LOCAL, "", attached=True, bot=bot)))
        for number, summary in enumerate(summaries, 1):
            await self._ask(end_iteration(task.id, IterationRecord(number, "complete", summary), 0.0))
        await self._ask(end_task(task.id, "succeeded", summaries[-1]))

    async def show(self, id: int, owner: str | None) -> TaskRecord:
        """Return a task.

        Raises:
            UsageError: The task does not exist, or belongs to another owner.
        """
        loaded = await self._ask(load_task(id))
        if loaded is None or owner not in (None, loaded[0].owner):
            raise UsageError("Unknown task {id}.", "Look at the list of tasks.", id=id)
        return loaded[0]

    async def stop(self, id: int, owner: str | None) -> TaskRecord:
        """Refuse to stop a task: without a daemon, no task runs.

        Raises:
            UsageError: The task does not exist, belongs to another owner, or has ended.
            RumiError: The task has not ended, but it is not running.
        """
        task = await self.show(id, owner)
        if task.ended:
            raise UsageError("Task {id} has ended already.", "Look at the list of tasks.", id=id)
        raise RumiError("No Rumi runs, so no task runs.", "Rumi continues it at the next start.")

    async def remove_files(self, key: str) -> None:
        """Delete the files of a bot, identified by its `key`.

        Raises:
            RumiError: Some files could not be deleted.
        """
        await self._workspaces.remove(key)

    async def delete(self, id: int, owner: str | None) -> None:
        """Delete an ended task and its files.

        Raises:
            UsageError: The task does not exist, belongs to another owner, or has not ended.
            RumiError: Some of its files could not be deleted.
        """
        task = await self.show(id, owner)
        # The record first: if the deletion of files fails or is interrupted, `_tidy` finds a workspace
        # without a record and deletes it.
        if not await self._ask(delete_task(id)):
            raise UsageError("Task {id} has not ended.", "Stop it first.", id=id)
        await self._workspaces.remove(task_key(task.id))
        await self._workspaces.offload(partial(rmtree, self._files / str(task.id), ignore_errors=True))


class Tasks(StoredTasks):
    """Begins, runs and stops tasks. The actor tree adds the tasks before the chats."""

    def __init__(self, root: Supervisor, services: TaskServices, ids: ChatIds) -> None:
        super().__init__(services.journal.ask, services.workspaces, services.files)
        self._services = services
        self._ids = ids
        self._open: dict[int, TaskRecord] = {}
        self._costs: dict[int, Costs] = {}
        self._steps: dict[int, str] = {}
        self._leaving: set[int] = set()
        self._changed = trio.Event()
        self._recovery: ActorRef[RecoveryMessage] = root.add(
            ChildSpec("task_recovery", lambda: TaskRecovery(self, services), capacity=1000)
        )
        self._children = root.add_supervisor(DynamicSupervisor("tasks", self._spec, on_limit=self._give_up))

    # For chats

    def running(self, chat: str) -> tuple[int, ...]:
        """Return the numbers of the chat's detached tasks that have not ended yet."""
        return tuple(id for id, task in self._open.items() if task.chat == chat and not task.attached)

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Execute `/tasks`, `/stop ID` or `/research QUESTION`; return the reply.

        A message begins at most one task, even if its command is executed several times.
        """
        owner, said = self._ids.owner_of(message.chat), command.rest
        try:
            match command.name:
                case "tasks" if not said:
                    rows = [(t.id, t.kind, t.state, t.question) for t in await self.listed(owner)]
                    return task_texts.task_list(language, rows)
                case "stop":
                    task = await self.stop(_number(said.removeprefix("#")), owner)
                    return task_texts.task_stops(language, task.id)
                case "research" if said:
                    task = TaskRecord(
                        kind="web",
                        owner=owner,
                        question=said,
                        chat=message.chat,
                        message=message.id,
                        language=language,
                        model=message.model,
                        user=message.user,
                    )
                    return gettext(
                        language,
                        "🔎 Task {id} has begun. Its result comes here; /stop {id} stops it.",
                        id=(await self.begin(task)).id,
                    )
                case _:
                    return gettext(
                        language, "Use /research QUESTION, /tasks, or /stop and the number of a task."
                    )
        except RumiError as error:
            return f"❌ {error_text(language, error)}"
        except ActorError as error:
            logger.warning("tasks do not answer: %r", error)
            return f"❌ {gettext(language, 'The tasks do not answer. Try again in a moment.')}"

    # For chats, tools and other processes

    def checked(self, task: TaskRecord) -> TaskRecord:
        """Return a task unchanged if its kind is known, its question is not empty and its model is usable.

        Raises:
            UsageError: The question is empty.
            RumiError: The kind is unknown, or the model cannot be used.
        """
        kind_of_task(self._services.kinds, task.kind)
        if not task.question.strip():
            raise UsageError("The question is empty.", "Write what you want to know.")
        self._services.model_for(task)
        return task

    @property
    def at_work(self) -> bool:
        """Return True if at least one task has not ended."""
        return bool(self._open)

    async def all_ended(self) -> None:
        """Wait until all tasks have ended."""
        while self._open:
            await self._changed.wait()

    def step_of(self, id: int) -> str:
        """Return the last step of a running task, or an empty string."""
        return self._steps.get(id, "")

    def stepped(self, id: int, step: str) -> None:
        """Record the last step of a task."""
        self._steps[id] = step

    async def begin(self, task: TaskRecord) -> TaskRecord:
        """Store a detached task and start it; return the task with its number.

        Raises:
            RumiError: The owner has too many open tasks, or the task cannot be stored.
        """
        self.check_open_limit(task.owner)
        return await self._add(task)

    async def reopen(self, task: TaskRecord, *, attached: bool = False) -> TaskRecord:
        """Resume a bot's session that ended before it reached its goal; return the session.

        The session runs detached or `attached`, with the `options` and the `model` of `task`.

        Raises:
            UsageError: The task is not a session that can be resumed, or its bot has an open session.
        """
        stored = await self._services.journal.ask(reopen_task(task.id, task.options, task.model, attached))
        if stored is None:
            raise UsageError("Session {id} can't be continued.", "Look at: rumi bot history NAME", id=task.id)
        self.begun(stored)
        return stored

    async def run(
        self,
        task: TaskRecord,
        report: Callable[[str], None],
        began: Callable[[int], None] = lambda id: None,
    ) -> TaskRecord:
        """Run an attached task to its end, and return the ended task.

        A task that already has a number is a bot's session to resume. `began` gets the task's number. On
        cancellation, stops the task; when this function returns, none of the task's calls and processes run
        any more.

        Raises:
            RumiError: The task could not be started, or it failed.
        """
        if task.id:
            stored = await self.reopen(task, attached=True)
        else:
            self.check_open_limit(task.owner)
            stored = await self._add(replace(task, attached=True))
        began(stored.id)
        done = None
        try:
            child = await self._children.get_or_start(str(stored.id))
            done = await child.ask(RunTask(report))
        except ActorError as error:
            text = f"❌ {error_text(task.language, error)}"
            await self._services.journal.ask(end_task(stored.id, "failed", text, spent=self.spent(stored.id)))
            raise RumiError("The task {id} failed.", Text("Try again."), id=stored.id) from error
        finally:
            self.ended(stored.id)
            if done is None:  # the actor may have crashed: recovery makes sure that the end is stored
                self._notify_recovery(Abandoned(stored.id))
        return done

    async def _add(self, task: TaskRecord) -> TaskRecord:
        """Store a task and start it. On cancellation, either both happen or neither."""
        added: list[TaskRecord] = []

        async def add() -> None:
            stored = await self._services.journal.ask(add_task(task))
            added.append(stored)
            self.begun(stored)

        try:
            # The journal may store the task although the caller is cancelled: wait for the result, because a
            # stored task has to be started or ended.
            await with_grace(add, WRITE_S)
        except trio.Cancelled:
            for stored in added:
                if stored.attached:
                    self.ended(stored.id)
                    self._notify_recovery(Abandoned(stored.id))
            raise
        return added[0]

    def begun(self, task: TaskRecord) -> None:
        """Start a stored task if it has not ended and this worker serves it. Never waits.

        Other workers are notified separately and start the tasks that they serve.
        """
        if not task.ended and self._serves(task):
            self._open[task.id] = task
            self._notify_recovery(TaskStored(task.id))

    @override
    async def stop(self, id: int, owner: str | None) -> TaskRecord:
        """Ask a task to stop; its result is sent to the chat later.

        Raises:
            UsageError: The task does not exist, belongs to another owner, or has ended.
        """
        task = await self.show(id, owner)
        # Stored before the actor gets the request: after a crash, or on another worker, the task reads the
        # stored state and stops.
        if not await self._services.journal.ask(mark_stopping(id)):
            raise UsageError("Task {id} has ended already.", "Look at the list of tasks.", id=id)
        if self._serves(task):
            await self.start(id, StopTask())
        return task

    async def say(self, id: int, text: str = "") -> None:
        """Store a person's message to a bot's session, and wake the session.

        Raises:
            UsageError: The session has ended, or has too many unread messages.
        """
        if not await self._services.journal.ask(say_to_task(id, text)):
            raise UsageError("Task {id} can't receive messages now.", "Look at the list of tasks.", id=id)
        await self.start(id, WakeTask())

    def session_of(self, bot: str) -> TaskRecord | None:
        """Return the open session of a bot, or None."""
        return next((task for task in self._open.values() if task.bot == bot), None)

    def open_tasks(self) -> dict[int, TaskRecord]:
        """Return a dict from the numbers of the open tasks to the tasks."""
        return dict(self._open)

    def is_open(self, id: int) -> bool:
        """Return True if the task has not ended and this worker runs it."""
        return id in self._open

    def has_actor(self, id: int) -> bool:
        """Return True if the task has an actor, which then removes the task's sandbox and files."""
        return self._children.lookup(str(id)) is not None

    async def stop_all(self, ids: Collection[int]) -> None:
        """Stop these tasks and wait until they have ended. Their results are sent to the chats later."""

        async def stop(id: int) -> None:
            with suppress(RumiError, ActorError):  # the task has ended, or the loop below asks again
                await self.stop(id, None)

        left = set(ids)
        while left := left & self._open.keys():
            async with trio.open_nursery() as nursery:
                for id in left:
                    nursery.start_soon(stop, id)
            with trio.move_on_after(AGAIN_S):
                while left & self._open.keys():
                    await self._changed.wait()

    # With other workers

    async def look(self) -> None:
        """Start and stop tasks that other workers have stored or stopped in this worker's partitions."""
        for task in await self._services.journal.ask(open_tasks()):
            if task.id not in self._open:
                self.begun(task)
            elif task.state == "stopping" and self._serves(task):
                await self.start(task.id, StopTask())

    def _serves(self, task: TaskRecord) -> bool:
        return partition_of(task.partition_key) not in self._leaving and self._services.serves(
            task.partition_key
        )

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Resume the tasks in these partitions, which other workers served before."""
        self._leaving -= numbers
        self._notify_recovery(Resume(numbers))

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Stop the actors of the tasks in these partitions; another worker resumes the tasks."""
        # Marked before the stops: a task that `look` or a tool starts meanwhile must not run here.
        self._leaving.update(numbers)
        tasks = [task for task in self._open.values() if partition_of(task.partition_key) in numbers]
        async with trio.open_nursery() as nursery:
            for task in tasks:
                nursery.start_soon(self._children.stop, str(task.id))
        for task in tasks:
            self.ended(task.id)

    # For its actors

    async def start(self, id: int, message: GoOn | StopTask | WakeTask) -> None:
        """Send a message to a task's actor; if the task has no actor, start one."""
        child = await self._children.get_or_start(str(id))
        await child.tell(message)

    def open_are(self, tasks: Sequence[TaskRecord]) -> None:
        """Replace the set of open tasks with the open tasks in the journal."""
        for id in self._open.keys() - {task.id for task in tasks}:
            self.ended(id)
        self._open = {task.id: task for task in tasks}

    def open_too(self, tasks: Sequence[TaskRecord]) -> None:
        """Add tasks to the open tasks, except those handed over to another worker meanwhile."""
        self._open |= {task.id: task for task in tasks if self._serves(task)}

    def spent(self, id: int) -> Spent | None:
        """Return the spending of a task that ran in this process; None for other tasks."""
        costs = self._costs.get(id)
        return None if costs is None else costs.spent

    def _costs_of(self, id: int) -> Costs:
        return self._costs.setdefault(id, Costs()) if id in self._open else Costs()

    def ended(self, id: int) -> None:
        """Remove an ended task from the open tasks, and wake all callers that wait for tasks to end."""
        self._open.pop(id, None)
        self._costs.pop(id, None)
        self._steps.pop(id, None)
        self._changed.set()
        self._changed = trio.Event()

    def check_open_limit(self, owner: str) -> None:
        """Check that an owner may begin another task.

        Raises:
            RumiError: The owner has too many open tasks.
        """
        most = self._services.max_open
        if sum(task.owner == owner for task in self._open.values()) >= most:
            raise RumiError(
                "{most} tasks have not ended yet.",
                "Wait for one, or stop one: /tasks lists them.",
                most=most,
            )

    def _spec(self, key: str) -> ChildSpec[TaskMessage]:
        return ChildSpec(
            key,
            lambda: Task(int(key), self._services, partial(self._costs_of, int(key))),
            restart="transient",
            shutdown=SHUTDOWN_S,
            idle_s=IDLE_S,
        )

    def _give_up(self, key: str, error: BaseException) -> None:
        self._notify_recovery(GaveUp(int(key)))

    def _notify_recovery(self, message: RecoveryMessage) -> None:
        with suppress(ActorError):  # the process is shutting down: recovery reads all tasks at the next start
            self._recovery.tell_nowait(message)


class TaskRecovery(Actor[RecoveryMessage]):
    """Starts new tasks, resumes interrupted ones, fails tasks that crash repeatedly, and deletes old ones."""

    def __init__(self, tasks: Tasks, services: TaskServices) -> None:
        self._tasks = tasks
        self._services = services

    async def started(self) -> None:
        """Mark attached tasks as interrupted, and start resuming the detached tasks."""
        # In this order: the callers of attached tasks ended with the earlier process, so these tasks must
        # not be among the open ones that are resumed.
        await self._services.journal.ask(interrupt_tasks())
        tasks = await self._services.journal.ask(open_tasks())
        self._tasks.open_are(tasks)
        self.start_soon(self._resume, tasks)
        self.start_soon(self._tidy)
        if self._services.settings.tasks.retention_s:
            self.start_soon(self._sweep)

    async def receive(self, message: RecoveryMessage) -> None:
        """Start a task, stop an abandoned one, fail a crashing one, or resume the tasks of partitions."""
        match message:
            case GaveUp():
                await self._fail(message.id)
            case Resume(partitions):
                await self._services.journal.ask(interrupt_tasks(partitions))
                tasks = await self._services.journal.ask(open_tasks(partitions=partitions))
                self._tasks.open_too(tasks)
                await self._resume(tasks)
            case TaskStored(id) | Abandoned(id):
                try:
                    await self._tasks.start(id, StopTask() if isinstance(message, Abandoned) else GoOn())
                except ActorError as error:
                    logger.info("task %d is not started: %r", id, error)

    async def _fail(self, id: int) -> None:
        loaded = await self._services.journal.ask(load_task(id))
        if loaded is None or loaded[0].ended:
            return
        task = loaded[0]
        text = gettext(task.language, "❌ Something failed several times. Ask for it again.")
        result = task_texts.task_result(task.language, task.id, "failed", task.question, text)
        spent = self._tasks.spent(task.id)
        stored = await self._services.journal.ask(
            end_task(task.id, "failed", text, spent=spent, message=result)
        )
        self._tasks.ended(task.id)
        if stored is not None:
            self._services.wake(stored)

    async def _resume(self, tasks: Sequence[TaskRecord]) -> None:
        for task in tasks:
            if not self._tasks.is_open(task.id):  # the task has ended, or was handed over to another worker
                continue
            try:
                await self._tasks.start(task.id, GoOn())
            except ActorStopped:
                return
            except Exception as error:  # one task's failure must not keep the others from starting
                logger.error("task %d cannot be started", task.id, exc_info=error)
                await self._fail(task.id)

    async def _tidy(self) -> None:
        """Delete workspaces that ended tasks left behind because the process was killed or a disk failed."""
        services = self._services
        while True:
            for id in await services.workspaces.offload(partial(_ids_in, services.workspaces.folder)):
                loaded = await services.journal.ask(load_task(id))
                ended = loaded is None or (loaded[0].ended and not keeps_files(loaded[0]))
                # A task whose actor still exists removes its own files in `Task.stopped`.
                if ended and not self._tasks.has_actor(id):
                    try:
                        await services.sandboxes.stop(task_key(id))
                        await services.workspaces.remove(task_key(id))
                    except RumiError as error:
                        logger.warning("the workspace of task %d is left: %s", id, error)
            await trio.sleep(TIDY_S)

    async def _sweep(self) -> None:
        while True:
            before = self._services.now() - self._services.settings.tasks.retention_s
            for id in await self._services.journal.ask(old_tasks(before)):
                try:
                    await self._tasks.delete(id, None)
                except RumiError as error:
                    logger.warning("task %d is left: %s", id, error)
            await trio.sleep(SWEEP_S)


def _number(digits: str) -> int:
    """Parse a task number; return 0, which no task has, for a number above the largest task number."""
    return int(digits) if len(digits) < len(str(MOST_ID)) else 0


def _ids_in(workspaces: Path) -> list[int]:
    """Return the numbers of all tasks that have a workspace, in ascending order."""
    names = (folder.name.removeprefix(TASK) for folder in workspaces.glob(f"{TASK}*"))
    return sorted(_number(name) for name in names if name.isdecimal())


def task_slots(max_running: int, per_owner: int) -> FairLimiter:
    """Return the limiter of running tasks, in total and per owner.

    Any number of tasks can wait for a slot, for an unlimited time.
    """
    return FairLimiter(LimiterBounds(max_running, per_owner, max_running, 10**9, inf))
