"""Maps a control request to the chat or owner that decides which worker handles it."""

from collections.abc import Awaitable, Callable, Mapping

from rumi.platform.chat_ids import DEFAULT_CHAT, LOCAL
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
        latest = await ask(list_tasks(None, 1, bot=str(bot or ""))) if bot else ()
        return latest[0].partition_key if latest else None

    async def partition_key_of(name: str, request: Mapping[str, object]) -> str | None:
        chat = str(request.get("chat") or "")
        match name, request.get("do"):
            case ("stop" | "reset" | "undo" | "window" | "file" | "answer", _) | (
                "chats",
                "delete",
            ):
                return chat or None
            case ("tasks", "begin") | ("task", "run"):
                return chat or LOCAL
            case ("tasks", "stop" | "delete") | ("task", "follow"):
                return await of_task(request.get("id"))
            case "task", "bot":
                session = request.get("session")
                return LOCAL if session is None else await of_task(session) or LOCAL
            case "schedules", "add":
                return chat or DEFAULT_CHAT
            case "schedules", "pause" | "resume" | "run" | "delete":
                return await of_schedule(request.get("id"))
            case "bots", "begin":
                return chat or DEFAULT_CHAT
            case "bots", "resume" | "stop" | "wake":
                return await of_session(request.get("name"))
            case "memory", "extract":
                return str(request.get("owner") or LOCAL)
        return None

    return partition_key_of
