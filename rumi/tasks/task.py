"""The actor of one task. The task works towards an answer, and the actor stores every step.

The journal stores each message of a task immediately, together with the spending so far. So a task whose
process was killed resumes from the last stored message. A tool call without a stored result is not repeated;
the model gets a note about it. A bot's session works in iterations, and each iteration is a turn with its own
history. Between two iterations the session sleeps, and does not count as one of the running tasks.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Final, TypeAlias

import trio

from actors import Actor, Request, answers
from rumi.agent.events import (
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    TurnEvent,
    TurnFinished,
    title_of,
)
from rumi.agent.fitting import complete
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput, TurnMessage
from rumi.chats.budgets.amounts import as_usd
from rumi.chats.events import Replied, TurnStarted
from rumi.chats.services import ChatSandboxes, SandboxShell
from rumi.chats.surroundings import variables
from rumi.errors import RumiError
from rumi.models.model import Message, Model, Usage
from rumi.models.token_budget import context_of
from rumi.platform.chat_ids import bot_key, task_key
from rumi.platform.printable import last_lines
from rumi.platform.texts import bots as bot_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import tasks as task_texts
from rumi.platform.texts.translation import error_text
from rumi.platform.untrusted_text import one_line
from rumi.sandbox.engine import Command, CommandResult, SandboxError
from rumi.store.journal.history import mark_files
from rumi.store.journal.inbox import load_chat
from rumi.store.journal.records import HistoryEntry, IterationRecord, Reason, Spent, TaskRecord, TaskState
from rumi.store.journal.tasks import (
    begin_task,
    end_iteration,
    end_task,
    keep_task,
    list_iterations,
    load_task,
)
from rumi.tasks.costs import Costs, MeteredModel
from rumi.tasks.kinds import NextIteration, TaskContext, TaskOutcome, TaskWork, kind_of_task
from rumi.tasks.services import TaskServices, turn_limits
from rumi.texts import translate

logger = logging.getLogger(__name__)

STATE_OF: Final[Mapping[Reason, TaskState]] = {
    "complete": "succeeded",
    "max_turns": "out_of_budget",
    "budget": "out_of_budget",
    "timeout": "out_of_budget",
    "stopped": "stopped",
    "interrupted": "interrupted",
}
"""Maps the reason why the task's turn ended to the task's end state. All other reasons mean failure."""

SPARE_CALLS: Final = 2
"""Number of model calls beyond the budget for the task's last answer, including calls after restarts."""

STEP_S: Final = 1.0
"""Minimum time between two progress steps that begin with the same word, in seconds."""

MOST_WORDS: Final = 100

LOOK_S: Final = 60.0
"""Interval at which a sleeping task reads the clock, in seconds, because the clock may have been set."""


@dataclass(frozen=True, slots=True)
class RunTask(Request[TaskRecord]):
    """Run an attached task to its end, and return the ended task. Cancelling this request stops the task.

    `report` gets each step, described in a few words.
    """

    report: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class GoOn:
    """Resume a task whose actor loaded it before this worker began to serve the task's partition."""


@dataclass(frozen=True, slots=True)
class StopTask:
    """Stop the task."""


@dataclass(frozen=True, slots=True)
class WakeTask:
    """End the sleep of a task. It carries no text: the task reads people's messages from the journal."""


TaskMessage: TypeAlias = RunTask | GoOn | StopTask | WakeTask


class Task(Actor[TaskMessage]):
    """Runs one task. A detached task starts by itself; an attached task starts when it gets `RunTask`."""

    concurrency = 4  # more than one, so that a stop is handled while `RunTask` runs

    def __init__(self, id: int, services: TaskServices, costs: Callable[[], Costs]) -> None:
        """Create the actor of the task `id`. `costs` returns the task's spending in this process."""
        self._id = id
        self._key = task_key(id)
        self._services = services
        self._costs_now = costs
        self._costs = Costs()
        self._scope = trio.CancelScope()
        self._record: TaskRecord | None = None
        self._entries: list[HistoryEntry] = []
        self._tainted = False
        self._step = ""
        self._runs = False
        self._done: tuple[IterationRecord, ...] = ()
        self._awake = trio.Event()
        self._shown: dict[str, float] = {}
        self._over = False
        self._report: Callable[[str], None] = lambda text: None

    async def started(self) -> None:
        """Load the stored task and resume it, unless it is attached."""
        self._services.publisher.hub.nothing_runs(self._key)
        await self._load()

    async def _load(self) -> None:
        loaded = await self._services.journal.ask(load_task(self._id))
        if loaded is None or loaded[0].ended or not self._services.serves(loaded[0].partition_key):
            self._over = True
            self._services.ended(self._id)
            return
        self._record, entries = loaded
        self._entries = list(entries)
        if self._record.bot:
            self._done = await self._services.journal.ask(list_iterations(self._id))
        self._costs = self._costs_now()
        self._costs.load(self._record.spent, self._done[-1].spent if self._done else Spent())
        self._tainted = any(entry.tainted for entry in entries)
        if self._record.state == "stopping":
            # Cancelled before the run starts: `_run` then does nothing but store the end.
            self._scope.cancel()
        if not self._record.attached:
            self._runs = True
            self.start_soon(self._run, self._record)

    @answers(RunTask)
    async def run(self, message: RunTask) -> TaskRecord:
        """Run the task, and return the ended task.

        On cancellation, returns only when none of the task's calls and processes run any more. A background
        task of this actor then stores the end of the task and removes its files.
        """
        assert self._record is not None, "who asks has just stored the task"
        self._report, self._runs = message.report, True
        done = None
        try:
            done = await self._run(self._record)
        finally:
            # The caller was cancelled, and the end must still be stored. This handler cannot await any more;
            # if the actor crashed instead, its nursery cancels the new task at once.
            if done is None:
                self.start_soon(self._end, self._record, self._stopped(self._record))
        return done

    async def receive(self, message: TaskMessage) -> None:
        """Resume, wake or stop the task.

        An attached task is also stopped if its caller no longer waits for its result.
        """
        if self._over and self._record is None:  # another worker served the partition at the last load
            self._over = False
            await self._load()
        match message:
            case WakeTask():
                self._awake.set()
            case StopTask():
                self._scope.cancel()
                if self._record is not None and not (self._runs or self._over):
                    self._runs = True
                    self.start_soon(self._end, self._record, self._stopped(self._record))

    def busy(self) -> bool:
        """Return True until the task has ended, so that its supervisor does not stop it as idle."""
        return not self._over

    def activity(self) -> str:
        """Return the kind, owner, state and spending of the task, and its last step."""
        record, costs = self._record, self._costs
        if record is None or self._over:
            return ""
        state = f"{self._state}, {costs.spent.calls} calls, {costs.seconds:.0f} s"
        return f"{record.kind} of {record.owner}: {state}{': ' if self._step else ''}{self._step}"

    def metrics(self) -> Mapping[str, object]:
        """Return the task's kind, owner, state and spending, and its last step."""
        record, spent = self._record, self._costs.spent
        if record is None:
            return {}
        return {
            "kind": record.kind,
            "owner": record.owner,
            "chat": record.chat or None,
            "bot": record.bot or None,
            "iterations": len(self._done),
            "state": self._state,
            "calls": spent.calls,
            "tokens": spent.prompt_tokens + spent.completion_tokens,
            "usd": as_usd(spent.nano_usd),
            "sources": spent.sources,
            "seconds": round(self._costs.seconds, 3),
            "step": self._step,
        }

    async def stopped(self, reason: str) -> None:
        """Remove the sandbox. If the task has ended, also remove its files unless they are retained."""
        self._services.publisher.hub.nothing_runs(self._key)
        record = self._record
        try:
            if record is not None:
                await self._services.sandboxes.stop(sandbox_of(record))
            if record is not None and record.ended and not keeps_files(record):
                await self._services.workspaces.remove(self._key)
        except RumiError as error:
            logger.warning("task %d: %s", self._id, error)

    # The work

    async def _run(self, record: TaskRecord) -> TaskRecord:
        """Wait for a slot, run the iterations, and store the end of the task."""
        outcome: TaskOutcome | None = None
        with self._scope:
            while outcome is None:
                record = await self._slept(record)
                # The slot is released between iterations: a sleeping bot must not keep others from running.
                async with self._services.slots.turn(record.owner):
                    await self._services.journal.ask(begin_task(self._id))
                    if not self._services.serves(record.partition_key):
                        # The partition was handed over: this actor is about to be stopped, and another worker
                        # resumes the task. Returning would store an end.
                        await trio.sleep_forever()
                    record = replace(record, started=record.started or self._services.now())
                    done = await self._work(record)
                if isinstance(done, TaskOutcome):
                    outcome = done
                else:
                    record = await self._end_iteration(record, *done)
        # Outside of the scope: a stop cancels the work, but its end has to be stored.
        return await self._end(record, outcome or self._stopped(record))

    async def _slept(self, record: TaskRecord) -> TaskRecord:
        """Sleep until the task's wake-up time or until a `WakeTask` arrives; return the current record."""
        while not record.said and (left_s := record.wake_at - self._services.now()) > 0:
            with trio.move_on_after(min(left_s, LOOK_S)):  # the clock may be set meanwhile
                await self._awake.wait()
            if self._awake.is_set():
                break
        if self._done or self._awake.is_set():
            self._awake = trio.Event()
            record = await self._stored()
        return record

    async def _stored(self) -> TaskRecord:
        """Load the task's current record, and return it."""
        loaded = await self._services.journal.ask(load_task(self._id))
        assert loaded is not None, "a task that has not ended is not deleted"
        self._record = loaded[0]
        return self._record

    async def _end_iteration(self, record: TaskRecord, again: NextIteration, reason: Reason) -> TaskRecord:
        """Store and publish the end of an iteration, and reset the state for the next one."""
        services, spent = self._services, self._costs.by_now()
        done = IterationRecord(len(self._done) + 1, reason, again.summary, self._tainted, spent)
        stored = await services.journal.ask(
            end_iteration(self._id, done, again.wake_at, again.message, again.buttons, again.asked)
        )
        if stored is not None:
            services.wake(stored)
        usage = Usage(spent.prompt_tokens, spent.completion_tokens, spent.cached_tokens, spent.nano_usd)
        services.publisher.publish(self._key, self._turn, TurnFinished(reason, again.summary, usage))
        services.publisher.publish(self._key, self._turn, Replied(0, (), again.summary))
        self._say(again.summary)
        if again.message:
            self._report(again.message)
        if (sleep_s := again.wake_at - services.now()) >= STEP_S:
            self._report(bot_texts.bot_sleeps(record.language, sleep_s))
        self._done = (*self._done, done)
        self._entries, self._tainted = [], False
        self._costs.end_iteration()
        return await self._stored()

    async def _work(self, record: TaskRecord) -> "TaskOutcome | tuple[NextIteration, Reason]":
        services, key, language = self._services, self._key, record.language
        limits, sandbox, costs = turn_limits(record, services.settings), sandbox_of(record), self._costs
        # A task that crashes and restarts again and again must not spend without limit: the counted calls
        # survive restarts, so the task ends here without another model call.
        if costs.of_turn.calls >= limits.max_turns + SPARE_CALLS:
            warning = reply_texts.breaker(language, "max_turns", limits.max_turns)
            return TaskOutcome("out_of_budget", warning, tainted=self._tainted, reason="max_turns")
        costs.begin()
        services.publisher.publish(key, self._turn, TurnStarted(record.question, 0, language))
        partition_key, carry = record.partition_key, services.workspaces.carry
        try:
            model = services.model_for(record)
            await carry.fetch(sandbox, partition_key)
            zone = await services.zone_of(record.owner)
            context = TaskContext(
                # A history exists after a restart in the middle of an iteration: it contains `said` already.
                task=replace(record, said=()) if self._entries else record,
                key=key,
                shell=TaskShell(
                    sandbox,
                    services.sandboxes,
                    lambda: services.settings.tasks.sandbox_s - costs.of_turn.sandbox_s,
                    costs.take_sandbox,
                    await self._file_taint(record),
                    variables(zone, services.now()),
                ),
                workspace=services.workspaces.folder / sandbox,
                files=services.files / str(self._id),
                model=model,
                language=language,
                context_tokens=context_of(model, services.context_tokens),
                report=self._progress,
                iterations=self._done,
                spent=lambda: costs.spent,
                tainted=lambda: self._tainted,
                zone=zone,
            )
            async with kind_of_task(services.kinds, record.kind).open(context) as work:
                done = await self._think(record, work, MeteredModel(model, costs, work.max_calls))
            if (error := await carry.store(sandbox, partition_key)) is not None:
                logger.warning("task %d: %s", self._id, error)
            return done
        except RumiError as error:
            text = f"❌ {error_text(language, error)}"
            return TaskOutcome("failed", text, json.dumps({"error": error.to_json()}, ensure_ascii=False))

    async def _think(
        self, record: TaskRecord, work: TaskWork, model: Model
    ) -> "TaskOutcome | tuple[NextIteration, Reason]":
        self._tainted = self._tainted or work.tainted or bool(work.before)
        if not self._entries:
            # `heard` is removed in the transaction that stores these messages: a restart neither loses nor
            # repeats a message from people.
            await self._store(
                *(TurnMessage(Message("user", text)) for text in record.said),
                TurnMessage(Message("user", record.question), links=work.known_urls),
                heard=len(record.said),
            )
        links = (link for entry in self._entries for link in entry.links)

        async def store(message: TurnMessage) -> None:
            self._costs.take_sources(work.sources())
            await self._store(message)

        finished = await run_turn(
            TurnInput(
                instructions=work.instructions,
                history=(*work.before, *complete([entry.message for entry in self._entries])),
                model=model,
                tools=self._services.people.tools_of_task(record, work.tools),
                limits=self._costs.left(turn_limits(record, self._services.settings), work),
                language=record.language,
                context_tokens=self._services.context_tokens,
                tainted=self._tainted,
                known_urls=(*work.known_urls, *links),
                parking=work.parking,
            ),
            self._watch,
            store,
        )
        self._costs.take_sources(work.sources())
        state = STATE_OF.get(finished.reason, "failed")
        if state == "succeeded" and not finished.answer.strip():
            error = RumiError("The model gave no answer.")
            text, failed = f"❌ {error_text(record.language, error)}", _failure("model", error.message)
            return TaskOutcome("failed", text, json.dumps(failed))
        done = await work.finish(finished.answer, finished.reason)
        if isinstance(done, NextIteration):
            return done, finished.reason
        answer, report, state = done.answer, done.report, done.state or state
        if state == "failed":
            code = "model" if finished.reason == "model_error" else finished.reason
            report = json.dumps(_failure(code, finished.answer) | json.loads(report), ensure_ascii=False)
        return TaskOutcome(state, answer, report, self._tainted, finished.reason, done.summary)

    async def _file_taint(self, record: TaskRecord) -> "FileTaint | None":
        """Return the `FileTaint` of a bot's files; None for other tasks.

        The files of other tasks always count as tainted.
        """
        if not record.bot:
            return None
        ask, key = self._services.journal.ask, sandbox_of(record)
        files_tainted = (await ask(load_chat(key, 1))).files_tainted
        return FileTaint(files_tainted, lambda: self._tainted, partial(ask, mark_files(key, True)))

    async def _store(self, *messages: TurnMessage, heard: int = 0) -> None:
        """Store messages and the spending so far, in one transaction."""
        entries = tuple(
            HistoryEntry(self._turn, turn_message.message, turn_message.tainted, turn_message.links)
            for turn_message in messages
        )
        self._entries += entries
        self._tainted = self._tainted or any(turn_message.tainted for turn_message in messages)
        await self._services.journal.ask(keep_task(self._id, entries, self._costs.by_now(), heard))

    def _watch(self, event: TurnEvent) -> None:
        match event:
            case ToolStarted():
                self._say(title_of(event, one_line))
            case ToolProgress(_, text):
                self._progress(text)
            case ToolOutput(_, text):
                for line in last_lines(text, 1):
                    self._progress(line)
            case ToolFinished(_, result):
                # Set before the result is stored: tools that run at the same time see the taint at once.
                self._tainted = self._tainted or result.tainted
            case TurnFinished():
                return  # published after the end of the iteration or the task is stored
        self._services.publisher.publish(self._key, self._turn, event)

    def _progress(self, text: str) -> None:
        """Show a progress step, unless a step with the same first word was shown less than `STEP_S` ago."""
        assert self._record is not None, "it works"
        step = translate(self._record.language, text)
        word, now = step.partition(" ")[0], trio.current_time()
        if now - self._shown.get(word, -inf) < STEP_S:
            return
        if len(self._shown) > MOST_WORDS:
            self._shown.clear()
        self._shown[word] = now
        self._say(step)

    def _say(self, step: str) -> None:
        """Show a step to people."""
        self._step = one_line(step, 200)
        self._services.stepped(self._id, self._step)
        self._report(self._step)

    # The end

    def _stopped(self, record: TaskRecord) -> TaskOutcome:
        return TaskOutcome(
            "stopped", reply_texts.stopped(record.language), tainted=self._tainted, reason="stopped"
        )

    async def _end(self, record: TaskRecord, outcome: TaskOutcome) -> TaskRecord:
        """Store and publish the end of the task, and stop this actor, which removes sandbox and files."""
        services = self._services
        spent = self._costs.by_now()
        record = replace(
            record,
            state=outcome.state,
            answer=outcome.answer,
            report=outcome.report,
            tainted=outcome.tainted,
            spent=spent,
            ended=services.now(),
        )
        last = None
        if record.bot and outcome.summary:
            number = len(self._done) + 1
            last = IterationRecord(number, outcome.reason, outcome.summary, outcome.tainted, spent)
        # Stored before it is published: subscribers must not see an end that a crash would lose. The journal
        # stores only the first end of a task.
        message = await services.journal.ask(
            end_task(
                self._id,
                record.state,
                record.answer,
                record.report,
                spent,
                record.tainted,
                task_texts.task_result(
                    record.language, record.id, record.state, record.question, record.answer, record.bot
                ),
                last,
            )
        )
        if message is not None:
            services.wake(message)
        usage = Usage(spent.prompt_tokens, spent.completion_tokens, spent.cached_tokens, spent.nano_usd)
        services.publisher.publish(self._key, self._turn, TurnFinished(outcome.reason, record.answer, usage))
        services.publisher.publish(self._key, self._turn, Replied(0, (), record.answer))
        services.ended(self._id)
        self._record = record
        self._over = True
        self.stop()
        return record

    @property
    def _state(self) -> str:
        return "running" if self._costs.running else "sleeping" if self._done else "queued"

    @property
    def _turn(self) -> str:
        return f"r{self._id}.{len(self._done)}" if self._done else f"r{self._id}"


def _failure(code: str, message: str) -> dict[str, object]:
    """Return the report of a failed task."""
    return {"error": {"code": code, "message": message, "advice": ""}}


def sandbox_of(task: TaskRecord) -> str:
    """Return the key of the task's sandbox and workspace. All sessions of a bot share the bot's key."""
    return bot_key(task.bot) if task.bot else task_key(task.id)


def keeps_files(task: TaskRecord) -> bool:
    """Return True if the task's files are retained after its end."""
    return bool(task.bot) or bool(json.loads(task.options).get("keep"))


@dataclass(slots=True)
class FileTaint:
    """Records whether a bot's files are tainted, which means that they may contain untrusted content.

    `turn_tainted` returns True if the running turn has read untrusted content.
    """

    tainted: bool
    turn_tainted: Callable[[], bool]
    store: Callable[[], Awaitable[None]]

    async def written(self) -> None:
        """Mark the files as tainted before a tainted turn writes to them.

        When this method returns, the mark is stored.
        """
        if self.turn_tainted() and not self.tainted:
            self.tainted = True
            await self.store()


class TaskShell(SandboxShell):
    """The shell of one task's sandbox. By default, all files in the sandbox count as untrusted.

    A bot's files count as untrusted only after a tainted turn has written to them; `marks` reads and stores
    this taint.
    """

    def __init__(
        self,
        key: str,
        sandboxes: ChatSandboxes,
        left_s: Callable[[], float],
        used: Callable[[float], None],
        marks: "FileTaint | None" = None,
        variables: tuple[str, ...] = (),
    ) -> None:
        super().__init__(key, sandboxes)
        self.variables = variables
        self._marks = marks
        self._left_s = left_s
        self._used = used

    @property
    def tainted(self) -> bool:
        """Return True if the files may contain untrusted content."""
        return self._marks is None or self._marks.tainted

    async def touched(self) -> None:
        """In a tainted turn of a bot, mark the files as tainted."""
        if self._marks is not None:
            await self._marks.written()

    async def run(self, command: Command) -> CommandResult:
        """Run a command, and count its time.

        Raises:
            SandboxError: The command could not be run, or the task has used up its time for commands.
        """
        if self._left_s() <= 0:
            raise SandboxError("This task has used up its time in the sandbox.", "Answer with what is found.")
        began = trio.current_time()
        try:
            return await super().run(command)
        finally:
            self._used(trio.current_time() - began)
