"""Runs or follows a task for a program on the control socket.

`{"stream": "task", "do": "run", …}` runs one, as the call `begin` of tasks describes it, without a chat; with
`"do": "follow"` it follows the one of that `id`, and with `"do": "bot"` it runs a session of the bot `name`,
as the calls `begin` and `resume` of bots describe it. It sends `{"began": …}` with the number of a session,
`{"step": …}` as the task works, and at its end `{"ended": {…}}`, or `{"error": …}`. A task that runs for a
program is stopped when the program leaves.
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
"""Returns the session of a bot that a request asks for, stored or not."""


class TaskStream:
    """Serves readers: `serve` is the stream `task` of the control socket."""

    def __init__(self, tasks: Tasks, hub: Hub, session: MakeSession) -> None:
        self._tasks = tasks
        self._session = session
        self._hub = hub

    async def serve(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Run or follow a task until it has ended, or the reader goes."""
        messages, received = trio.open_memory_channel[Mapping[str, object]](math.inf)
        async with trio.open_nursery() as nursery:
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
        """Run or follow the task; put its steps and its end into the channel, and close it."""

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
        """Return the task when it has ended."""
        with self._hub.listening(task_key(id)) as events:
            task = await self._tasks.show(id, caller.scope)
            while not task.ended:
                if said := self._tasks.step_of(id):
                    step(said)
                if isinstance((await events.receive()).what, Replied):
                    task = await self._tasks.show(id, caller.scope)
        return task
