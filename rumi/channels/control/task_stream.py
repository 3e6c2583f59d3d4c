"""The stream `task` of the control socket: runs or follows a task for a program.

`{"stream": "task", "do": "run", …}` runs a task without a chat; its fields are those of the control call
`begin` for tasks. `"do": "follow"` follows the task with that `id`. `"do": "bot"` runs a session of the bot
`name`; its fields are those of the control calls `begin` and `resume` for bots. The stream sends `{"began":
…}` with the number of a session, `{"step": …}` for each step of the task, and at the end `{"ended": {…}}`, or
`{"error": …}`. A task that the stream runs is stopped when the program disconnects.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

import trio

from rumi.channels.attach.wire import Wire, WireClosed, when_closed
from rumi.chats.events import Replied
from rumi.chats.hub import Hub
from rumi.errors import RumiError, answer_of
from rumi.platform.caller import Caller
from rumi.platform.chat_ids import task_key
from rumi.store.journal.records import TaskRecord
from rumi.tasks.task_calls import task_as_json, task_id_of, task_of
from rumi.tasks.tasks import Tasks

MakeSession: TypeAlias = Callable[[Mapping[str, object]], Awaitable[TaskRecord]]
"""Returns the bot session that a request asks for, whether it is already stored or not."""


class TaskStream:
    """The stream `task` of the control socket: `serve` handles one reader."""

    def __init__(self, tasks: Tasks, hub: Hub, session: MakeSession) -> None:
        self._tasks = tasks
        self._session = session
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

        def step(text: str) -> None:
            messages.send_nowait({"step": text})

        with messages:
            try:
                if request.get("do") == "bot":
                    caller.check_all()
                    task = await self._session(request)
                    done = await self._tasks.run(task, step, lambda id: messages.send_nowait({"began": id}))
                elif request.get("do") == "follow":
                    done = await self._follow(caller, task_id_of(request), step)
                else:
                    done = await self._tasks.run(self._tasks.checked(task_of(caller, request)), step)
            except RumiError as error:
                messages.send_nowait(answer_of(error))
            else:
                messages.send_nowait({"ended": task_as_json(done)})

    async def _follow(self, caller: Caller, id: int, step: Callable[[str], None]) -> TaskRecord:
        """Report the task's steps; return the task when it has ended."""
        # Subscribed before the first look at the task, so that its end cannot fall between the two.
        with self._hub.listening(task_key(id)) as events:
            task = await self._tasks.show(id, caller.scope)
            while not task.ended:
                if said := self._tasks.step_of(id):
                    step(said)
                if isinstance((await events.receive()).what, Replied):
                    task = await self._tasks.show(id, caller.scope)
        return task
