"""Runs or follows a task for a program on the control socket.

`{"stream": "task", "do": "run", …}` runs one, as the call `begin` of tasks describes it, without a chat; with
`"do": "follow"` it follows the one of that `id`. It sends `{"step": …}` as the task works, and at its end
`{"ended": {…}}`, or `{"error": …}`. A task that runs for a program is stopped when the program leaves.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import suppress

import trio

from rumi.chat_ids import task_key
from rumi.chats import Hub, Replied
from rumi.control import Wire, WireClosed
from rumi.errors import RumiError, answer_of
from rumi.journal import TaskRecord
from rumi.tasks import Tasks, as_json, id_of, task_of


class TaskStream:
    """Serves readers: `serve` is the stream `task` of the control socket."""

    def __init__(self, tasks: Tasks, hub: Hub) -> None:
        self._tasks = tasks
        self._hub = hub

    async def serve(self, request: Mapping[str, object], wire: Wire) -> None:
        """Run or follow a task until it has ended, or the reader goes."""
        steps, told = trio.open_memory_channel[str](math.inf)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until_it_goes, wire, nursery.cancel_scope)
            nursery.start_soon(_send_steps, told, wire)
            try:
                if request.get("do") == "follow":
                    done = await self._follow(id_of(request), steps.send_nowait)
                else:
                    done = await self._tasks.run(self._tasks.checked(task_of(request)), steps.send_nowait)
            except RumiError as error:
                last = answer_of(error)
            else:
                last = {"ended": as_json(done)}
            steps.close()
            while told.statistics().current_buffer_used:  # noqa: ASYNC110  # the steps go first
                await trio.sleep(0.01)
            with suppress(WireClosed):
                await wire.send(last)
            nursery.cancel_scope.cancel()

    async def _follow(self, id: int, step: Callable[[str], None]) -> TaskRecord:
        """Return the task when it has ended."""
        with self._hub.listening(task_key(id)) as events:
            task = await self._tasks.show(id)
            while not task.ended:
                if said := self._tasks.step_of(id):
                    step(said)
                if isinstance((await events.receive()).what, Replied):
                    task = await self._tasks.show(id)
        return task


async def _send_steps(told: "trio.MemoryReceiveChannel[str]", wire: Wire) -> None:
    try:
        async for step in told:
            await wire.send({"step": step})
    except WireClosed:
        return


async def _until_it_goes(wire: Wire, scope: trio.CancelScope) -> None:
    """Wait until the reader is gone; what it sends is ignored."""
    try:
        while True:
            await wire.receive()
    except WireClosed:
        scope.cancel()
