"""Maps a control request to the chat or owner that decides which worker handles it."""

from collections.abc import Awaitable, Callable, Mapping

from rumi.app.control_calls import DECLARED
from rumi.platform.calls import lookup
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.schedules import load_schedule
from rumi.store.journal.tasks import list_tasks, load_task


def partition_key_lookup(ask: AskJournal) -> Callable[[str, Mapping[str, object]], Awaitable[str | None]]:
    """Return a function that maps a request to its partition key, or to None if any worker can handle it.

    The partition key is the chat or owner that the request concerns. A task's key is its chat, or its owner
    if the task has no chat. The function does not validate the request: the worker that handles the request
    does so.
    """

    async def of_task(id: object) -> str | None:
        loaded = await ask(load_task(id)) if type(id) is int else None
        return None if loaded is None else loaded[0].partition_key

    async def of_schedule(id: object) -> str | None:
        loaded = await ask(load_schedule(id)) if type(id) is int else None
        return None if loaded is None else loaded.chat

    async def of_session(bot: object) -> str | None:
        latest = await ask(list_tasks(None, 1, bot=str(bot))) if bot else ()
        return latest[0].partition_key if latest else None

    async def of_value(value: object) -> str | None:
        return str(value or "") or None

    rows = {"": of_value, "task": of_task, "schedule": of_schedule, "bot": of_session}

    async def partition_key_of(name: str, request: Mapping[str, object]) -> str | None:
        declared = lookup(DECLARED, name, request)
        if declared is None or declared.key is None:
            return None
        key = declared.key
        return await rows[key.of](request.get(key.field)) or key.default

    return partition_key_of
