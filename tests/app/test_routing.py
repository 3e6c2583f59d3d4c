"""Which chat a request of the control socket is about."""

from pathlib import Path

from rumi.app.routing import partition_key_lookup
from rumi.store.journal.records import TaskRecord
from rumi.store.journal.tasks import add_task
from tests.chats.house import house


async def test_a_request_is_about_the_chat_that_it_names_or_that_its_task_has(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        ask = home.services.journal.ask
        of_chat = await ask(add_task(TaskRecord("web", "local", "why?", "kitchen")))
        of_owner = await ask(add_task(TaskRecord("web", "local", "why?", "")))
        place_of = partition_key_lookup(ask)
        assert await place_of("stop", {"chat": "cli"}) == "cli"
        assert await place_of("window", {"chat": "den"}) == "den"
        assert await place_of("tasks", {"do": "stop", "id": of_chat.id}) == "kitchen"
        assert await place_of("task", {"do": "follow", "id": of_owner.id}) == "local"
        assert await place_of("tasks", {"do": "begin", "chat": "den"}) == "den"
        assert await place_of("task", {"do": "run"}) == "local"
        assert await place_of("task", {"do": "bot", "session": of_chat.id}) == "kitchen"
        assert await place_of("task", {"do": "bot"}) == "local"
        assert await place_of("schedules", {"do": "add"}) == "cli"
        assert await place_of("memory", {"do": "extract", "owner": "tg7"}) == "tg7"


async def test_what_any_worker_answers_is_about_no_chat(tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        place_of = partition_key_lookup(home.services.journal.ask)
        assert await place_of("status", {}) is None
        assert await place_of("stop", {"all": True}) is None
        assert await place_of("tasks", {"do": "list"}) is None
        assert await place_of("tasks", {"do": "stop", "id": 99}) is None
        assert await place_of("schedules", {"do": "pause", "id": "x"}) is None
