"""The stream `task` of the control socket: runs or follows a task for a program.

The stream sends `{"began": …}` with the number of a session, `{"step": …}` for each step of the task, and at
the end `{"ended": {…}}`, or `{"error": …}`. A task that the stream runs is stopped when the program
disconnects.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import trio

from rumi.channels.attach.wire import Wire, WireClosed, when_closed
from rumi.chats.events import Replied
from rumi.chats.hub import Hub
from rumi.errors import RumiError, answer_of
from rumi.platform.caller import Caller
from rumi.platform.calls import PartitionKey, answer, call
from rumi.platform.chat_ids import LOCAL, task_key
from rumi.store.journal.records import TaskRecord
from rumi.tasks.bots.bots import Bots, SessionStart
from rumi.tasks.task_calls import NEW_TASK, TASK, NewTask, task_as_json
from rumi.tasks.tasks import Tasks
from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class TaskReport:
    """Sends the beginning and the steps of a task to the program."""

    messages: "trio.MemorySendChannel[Mapping[str, object]]"

    def began(self, id: int) -> None:
        """Send the number of a session."""
        self.messages.send_nowait({"began": id})

    def step(self, text: str) -> None:
        """Send a step."""
        self.messages.send_nowait({"step": text})


class TaskStream:
    """The stream `task` of the control socket: `serve` handles one reader."""

    def __init__(self, tasks: Tasks, hub: Hub, bots: Bots) -> None:
        self._tasks = tasks
        self._bots = bots
        self._hub = hub

    async def serve(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Run or follow a task until it has ended, or the reader disconnects.

        If cancelled, or if the reader disconnects, a task that this stream started is stopped.
        """
        # Unbounded, so that a slow reader never delays the task.
        messages, received = trio.open_memory_channel[Mapping[str, object]](math.inf)
        async with trio.open_nursery() as nursery:
            # Only a receive notices that the reader has disconnected; a task may be silent for a long time.
            nursery.start_soon(when_closed, wire, nursery.cancel_scope.cancel)
            nursery.start_soon(self._work, caller, request, messages)
            with suppress(WireClosed):
                async for message in received:
                    await wire.send(message)
            nursery.cancel_scope.cancel()

    async def _work(
        self,
        caller: Caller,
        request: Mapping[str, object],
        messages: "trio.MemorySendChannel[Mapping[str, object]]",
    ) -> None:
        """Run or follow the task; send its steps and its end to `messages`, then close that channel."""

        with messages:
            try:
                done = await answer(self, "task", caller, request, TaskReport(messages))
            except RumiError as error:
                messages.send_nowait(answer_of(error))
            else:
                messages.send_nowait({"ended": task_as_json(done)})

    @call("task.run", key=NEW_TASK, stream=True)
    async def run(self, caller: Caller, report: TaskReport, *, new: NewTask) -> TaskRecord:
        """Run a task without a chat. It is stopped when the program disconnects."""
        return await self._tasks.run(self._tasks.checked(new.record(caller)), report.step)

    @call("task.bot", rights="all", key=PartitionKey("session", of="task", default=LOCAL), stream=True)
    async def run_bot(
        self,
        caller: Caller,
        report: TaskReport,
        *,
        name: str,
        start: SessionStart,
        session: int | None = None,
        language: Language = "en",
    ) -> TaskRecord:
        """Run a new session of a bot, or resume a `session`; 0 is the last one."""
        task = await self._bots.asked(name, session, start, language)
        return await self._tasks.run(task, report.step, report.began)

    @call("task.follow", key=TASK, stream=True)
    async def follow(self, caller: Caller, report: TaskReport, *, id: int) -> TaskRecord:
        """Follow a task until it has ended."""
        # Subscribed before the first look at the task, so that its end cannot fall between the two.
        with self._hub.listening(task_key(id)) as events:
            task = await self._tasks.show(id, caller.scope)
            while not task.ended:
                if said := self._tasks.step_of(id):
                    report.step(said)
                if isinstance((await events.receive()).what, Replied):
                    task = await self._tasks.show(id, caller.scope)
        return task
