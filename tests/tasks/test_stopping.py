"""`/stop all`: turns, what waits, tasks and bots end; what begins more is paused; the rest is named."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import trio
import trio.testing

from actors import ActorRef
from rumi.agent.tool import ToolResult
from rumi.app.stop_all import STOP_ALL_S
from rumi.errors import RumiError
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall, ToolSpec
from rumi.platform.config.schema import SchedulesSection
from rumi.platform.texts.bots import bot_resume
from rumi.store.journal.records import Incoming, Reason, ScheduleRecord, TaskRecord
from rumi.store.journal.schedules import fire_schedules
from rumi.store.journal.transaction import JournalMessage
from rumi.tasks.kinds import Finished, NextIteration, TaskContext, TaskWork
from rumi.tasks.schedules.when import Every
from rumi.texts import Language
from tests.chats.house import House, house, reply_to
from tests.fakes.tools import Unasked
from tests.tasks.kinds import Looking, is_task, looks
from tests.tasks.schedules.month import Wall

NOW = 1_800_000_000.0


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
        assert {task.state for task in await home.tasks.listed(None)} == {"stopped"}
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
        assert all(text.endswith("No process is left.") for text in said)
        assert trio.current_time() - began < 2


async def test_what_stands_behind_it_in_its_chat_does_not_keep_it_waiting(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, never) as home:
        await home.inbox.accept("busy", "hello")
        await trio.sleep(1)
        began = trio.current_time()
        with home.services.hub.listening("one") as one, home.services.hub.listening("two") as two:
            numbers = await home.inbox.accept("one", "/stop all"), await home.inbox.accept("two", "/stop all")
            behind = [await home.inbox.accept("one", text) for text in ("/status", "/stop all")]
            assert "No process is left." in await reply_to(one, numbers[0])
            assert "No process is left." in await reply_to(two, numbers[1])
            assert "No process is left." in await reply_to(one, behind[1])
        assert trio.current_time() - began < 2


async def test_all_schedules_are_paused_until_each_is_resumed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    running: list[House] = []
    pauses = {"schedules": lambda: running[0].schedules.pause_all()}
    async with house(
        tmp_path, never, now=Wall(NOW), schedule_limits=SchedulesSection(), pauses=pauses
    ) as home:
        running.append(home)
        for kind in ("turn", "text"):
            schedule = ScheduleRecord("local", "cli", kind, "tea", zone="UTC")
            await home.schedules.add(schedule, Every("* * * * *"))
        await trio.sleep(61)
        assert home.inbox.chats.works("cli")
        assert await home.ask("/stop all", "other") == (
            "⏹ Stopped 1 turn and 0 tasks. No process is left.\n"
            "Paused 2 schedules; /schedules lists and resumes them."
        )
        await trio.sleep(600)
        assert await home.open_chats() == ()
        assert {listed_schedule.state for listed_schedule in await home.schedules.listed(None)} == {"paused"}
        await home.ask("/schedules resume 1")
        await trio.sleep(61)
        assert home.inbox.chats.works("cli")
        await home.ask("/stop all", "other")


async def test_a_fire_that_is_stored_just_before_the_pause_is_stopped_too(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    running: list[House] = []

    class LateJournal:
        """The journal, whose answer to a fire comes late."""

        def __init__(self, journal: ActorRef[JournalMessage]) -> None:
            self._journal = journal

        async def ask(self, request: Any) -> Any:
            done = await self._journal.ask(request)
            if request.step is fire_schedules:
                await trio.sleep(0.2)
            return done

    async def pause() -> int:
        nursery.start_soon(running[0].schedules.run, 1, None)
        await trio.sleep(0.1)
        return await running[0].schedules.pause_all()

    pauses, limits = {"schedules": pause}, SchedulesSection()
    async with house(tmp_path, never, now=Wall(NOW), schedule_limits=limits, pauses=pauses) as home:
        running.append(home)
        late = cast(Any, LateJournal(home.schedules.services.journal))
        home.schedules.services = replace(home.schedules.services, journal=late)
        await home.schedules.add(
            ScheduleRecord("local", "cli", "turn", "tea", zone="UTC"), Every("0 0 1 1 *")
        )
        async with trio.open_nursery() as nursery:
            said = await home.ask("/stop all", "other")
        assert said.startswith("⏹ Stopped 1 turn and 0 tasks.")
        assert not home.inbox.chats.works("cli")


async def test_a_task_that_a_turn_begins_while_it_is_stopped_is_stopped_too(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    running: list[House] = []

    class Begins(Unasked):
        """Begins a task when it is cancelled, as a write that cannot be called back does."""

        spec = ToolSpec("begin", "Begin.", {})

        async def call(self, arguments: Mapping[str, object]) -> ToolResult:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await running[0].tasks.begin(TaskRecord("web", "local", "what?", "cli"))
            raise AssertionError

    async def begins(request: ModelRequest, emit: Emit) -> Reply:
        if is_task(request):
            await trio.sleep_forever()
        return Reply("", (ToolCall("c1", "begin", "{}"),))

    async with house(tmp_path, begins, kinds={"web": Looking()}, tools_for=lambda view: (Begins(),)) as home:
        running.append(home)
        await home.inbox.accept("cli", "hello")
        await trio.sleep(1)
        assert await home.ask("/stop all", "other") == "⏹ Stopped 1 turn and 1 task. No process is left."
        assert [task.state for task in await home.tasks.listed(None)] == ["stopped"]


@pytest.mark.parametrize("language", ["en", "es"])
async def test_the_session_of_a_bot_that_sleeps_ends_as_stopped_and_can_go_on(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, language: Language
) -> None:
    wall = Wall(NOW)

    class Sleeping(Looking):
        """A bot that sleeps for a day after its first iteration."""

        @asynccontextmanager
        async def open(self, context: TaskContext) -> AsyncIterator[TaskWork]:
            async def finish(answer: str, reason: Reason) -> NextIteration | Finished:
                await trio.lowlevel.checkpoint()
                return Finished("done") if context.iterations else NextIteration("first", wall() + 86_400)

            async with super().open(context) as work:
                yield replace(work, finish=finish)

    async with house(tmp_path, looks(0), now=wall, kinds={"bot": Sleeping()}) as home:
        await home.tasks.begin(TaskRecord("bot", "local", "Tend it.", "cli", bot="garden"))
        await trio.sleep(10)
        assert [task.state for task in await home.tasks.listed(None)] == ["sleeping"]
        said = await home.everything.stop(language)
        assert said.splitlines()[1:] == [f"🤖 {bot_resume(language, 'garden', 1)}"]
        (stopped,) = await home.tasks.listed(None)
        assert stopped.state == "stopped"
        await trio.sleep(2 * 86_400)
        assert len(await home.tasks.iterations(1)) == 1
        await home.tasks.reopen(stopped)
        await trio.sleep(10)
        assert [task.state for task in await home.tasks.listed(None)] == ["succeeded"]


async def test_what_cannot_be_paused_is_named_and_keeps_no_turn_going(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def broken() -> int:
        raise RumiError("No.")

    async with house(tmp_path, never, pauses={"schedules": broken}) as home:
        assert await home.ask("/stop all") == (
            "⏹ Stopped 0 turns and 0 tasks. No process is left.\n"
            "⚠️ The schedules could not be paused. Send /stop all again."
        )

    async def waits() -> int:
        await trio.sleep_forever()
        raise AssertionError

    async with house(tmp_path, never, pauses={"schedules": waits}) as home:
        await home.inbox.accept("busy", "hello")
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(home.everything.stop, "es")
            await trio.sleep(1)
            assert not home.inbox.chats.works("busy")
            nursery.cancel_scope.cancel()
        said = await home.everything.stop("es")
        assert said.splitlines()[1] == (
            "⚠️ No pude pausar los recordatorios y horarios. Envía /stop all otra vez."
        )


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
            await home.services.pending.all_replied()


async def test_only_an_admin_may_stop_everything(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, never) as home:
        await home.inbox.accept("busy", "hello")
        await trio.sleep(1)
        for admin, expected in ((False, "Nothing is running."), (True, "⏹ Stopped 1 turn")):
            with home.services.hub.listening("tg7") as events:
                (new,) = await home.inbox.accept_all(
                    [Incoming(chat="tg7", text="/stop all", language="en", admin=admin)]
                )
                assert new
                number = max(home.services.pending.unreplied["tg7"])
                assert (await reply_to(events, number)).startswith(expected)
            assert home.inbox.chats.works("busy") is not admin
