"""`/stop all`: turns, what waits for one, and tasks end; what begins more is paused; the rest is named."""

from pathlib import Path

import pytest
import trio
import trio.testing

from rumi.errors import RumiError
from rumi.journal import Incoming
from rumi.models import Emit, ModelRequest, Reply, ToolCall
from rumi.stopping import STOP_ALL_S
from tests.chats.house import house, reply_to
from tests.tasks.kinds import Looking


async def never(request: ModelRequest, emit: Emit) -> Reply:
    """The work of tasks and every other turn never ends; the others run a command that never does."""
    said = next(message.content for message in request.messages if message.role == "user")
    if said.startswith("run") and request.messages[-1].role == "user":
        return Reply("", (ToolCall("c1", "bash", '{"command": "sleep 1000000"}'),))
    await trio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize("words", ["/stop all", "/stop ALL", "/stop todo"])
async def test_it_stops_turns_what_waits_and_tasks_of_all_chats(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, words: str
) -> None:
    async with house(tmp_path, never, kinds={"web": Looking()}, max_queued=5) as home:
        for number in range(20):
            await home.inbox.accept(f"chat{number}", "run it" if number % 2 else "hello")
        await home.inbox.accept("chat3", "this waits")
        for _ in range(4):
            assert "has begun" in await home.ask("/research what?", "asker")
        await trio.sleep(5)
        began = trio.current_time()
        said = await home.ask(words, "chat1")
        assert said == "⏹ Stopped 20 turns and 4 tasks. No process is left."
        assert trio.current_time() - began < 2
        assert not any(home.sandboxes.running.values())
        assert not home.tasks.at_work
        await trio.sleep(1)
        assert {task.state for task in await home.tasks.listed()} == {"stopped"}
        assert await home.open_chats() == ()
        assert await home.ask("/stop all") == "⏹ Stopped 0 turns and 0 tasks. No process is left."


async def test_two_who_ask_at_once_do_not_wait_for_each_other(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, never) as home:
        await home.inbox.accept("busy", "hello")
        await trio.sleep(1)
        began, said = trio.current_time(), []

        async def ask(chat: str) -> None:
            said.append(await home.ask("/stop all", chat))

        async with trio.open_nursery() as nursery:
            for chat in ("one", "two", "busy"):
                nursery.start_soon(ask, chat)
        assert all(each.endswith("No process is left.") for each in said)
        assert trio.current_time() - began < 2


async def test_what_begins_work_by_itself_is_paused_first(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    order: list[str] = []

    async def schedules() -> int:
        await trio.lowlevel.checkpoint()
        order.append("paused")
        return 3

    async def broken() -> int:
        raise RumiError("No.")

    async with house(tmp_path, never, pauses={"schedules": schedules, "bots": broken}) as home:
        assert await home.ask("/stop all") == (
            "⏹ Stopped 0 turns and 0 tasks. No process is left.\n"
            "Paused 3 schedules; /schedules lists and resumes them."
        )
    assert order == ["paused"]


async def test_what_does_not_end_in_time_is_named(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stubborn(request: ModelRequest, emit: Emit) -> Reply:
        with trio.CancelScope(shield=True):
            await trio.sleep(STOP_ALL_S + 5)
        return Reply("late")

    async with house(tmp_path, stubborn) as home:
        await home.inbox.accept("slow", "hello")
        await trio.sleep(1)
        began = trio.current_time()
        said = await home.ask("/stop all")
        assert said == ("⚠️ Not ended yet: slow. It is still being stopped; look at /status or rumi status.")
        assert trio.current_time() - began == pytest.approx(STOP_ALL_S, abs=1)
        with trio.fail_after(60):
            await home.services.pending.all_told()


async def test_only_an_admin_may_stop_everything(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, never) as home:
        await home.inbox.accept("busy", "hello")
        await trio.sleep(1)
        for admin, expected in ((False, "❌ Only an admin"), (True, "⏹ Stopped 1 turn")):
            with home.services.hub.listening("tg7") as events:
                (new,) = await home.inbox.accept_all(
                    [Incoming(chat="tg7", text="/stop all", language="en", admin=admin)]
                )
                assert new
                number = max(home.services.pending.untold["tg7"])
                assert (await reply_to(events, number)).startswith(expected)
            assert home.inbox.works("busy") is not admin
