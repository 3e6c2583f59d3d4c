"""Tasks: each ends once, its result comes once, a stop reaches it, and a restart goes on with it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio
import trio.testing

from rumi.chats.events import Replied
from rumi.errors import RumiError, UsageError
from rumi.models.model import Emit, ModelError, ModelRequest, Reply
from rumi.platform.config.schema import TasksSection
from rumi.store.journal.records import TaskRecord
from rumi.store.ownership import partition_of
from rumi.tasks.task import GoOn
from rumi.tasks.tasks import TIDY_S
from tests.chats.house import House, house
from tests.tasks.kinds import Looking, is_task, looks


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path / "state.db")) as db:
        return db.execute(query).fetchall()


async def next_reply(events: object) -> str:
    with trio.fail_after(5000):
        while True:
            what = (await events.receive()).what  # type: ignore[attr-defined]
            if isinstance(what, Replied):
                return what.text


async def ended(home: House, id: int) -> TaskRecord:
    with trio.fail_after(5000):
        while not (task := await home.tasks.show(id, None)).ended:  # noqa: ASYNC110  # it looks into a file
            await trio.sleep(0.1)
    return task


async def test_a_result_comes_once_behind_the_turn_that_runs(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def slowly(request: ModelRequest) -> Reply:
        await trio.sleep(30)
        return Reply("at last")

    async with house(tmp_path, looks(2, slowly), kinds={"web": Looking()}) as home:
        with home.services.hub.listening("cli") as events:
            assert "Task 1 has begun" in await home.ask("/research what is it?")
            assert "Task 1 has begun" in await next_reply(events)
            await home.inbox.accept("cli", "hello")
            assert await next_reply(events) == "at last"
            assert trio.current_time() >= 30
            told = await next_reply(events)
            assert told == "🔎 Task 1 (succeeded): what is it?\n\nwhat is it?: thing1 is blue"
        # The chat's next turn knows it, and has read things from outside by that.
        assert (await home.tasks.show(1, None)).spent.calls == 3
        assert (await home.tasks.show(1, None)).spent.prompt_tokens == 300
        assert await home.open_chats() == ()
    assert rows(tmp_path, "SELECT count(*) FROM outbox WHERE text LIKE '%is blue%'") == [(1,)]
    assert rows(tmp_path, "SELECT state, tainted FROM tasks") == [("succeeded", 1)]
    assert rows(tmp_path, "SELECT chat, tainted FROM history WHERE message LIKE '%Task 1 (succ%'") == [
        ("cli", 1)
    ]
    assert not rows(tmp_path, "SELECT 1 FROM sessions WHERE chat = 'task.1' AND fresh")


async def test_a_stop_of_a_task_ends_its_tools_and_says_so_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    kind = Looking(seconds=1e6)
    async with house(tmp_path, looks(), kinds={"web": kind}) as home:
        with home.services.hub.listening("cli") as events:
            await home.ask("/research forever?")
            await next_reply(events)
            await trio.testing.wait_all_tasks_blocked()
            assert kind.running == 1
            stopped = await home.ask("/stop")
            assert stopped == "Nothing is running.\n\nTask 1 continues; /stop 1 stops it."
            await next_reply(events)
            assert await home.ask("/stop 1", chat="tg7") == "❌ Unknown task 1. Look at the list of tasks."
            assert await home.ask("/stop 1") == "⏹ Stopping task 1."
            replies = {await next_reply(events), await next_reply(events)}
            assert "⏹ Task 1 (stopped): forever?" in replies
        assert (kind.running, kind.opened) == (0, 0)
        assert await home.ask("/stop 1") == "❌ Task 1 has ended already. Look at the list of tasks."
        assert await home.ask("/tasks") == "- 1 · web · stopped · forever?"
        assert await home.ask("/tasks", chat="tg7") == "There are no tasks."


async def test_the_same_command_begins_one_task(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, looks(), kinds={"web": Looking()}) as home:
        task = TaskRecord("web", "local", "why?", "cli", message=77)
        first, second = await home.tasks.begin(task), await home.tasks.begin(task)
        assert first.id == second.id == 1
        await ended(home, 1)
        assert (await home.tasks.begin(task)).state == "succeeded"


async def test_a_task_goes_on_that_was_looked_at_just_before_its_partition_was_taken_over(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    served, numbers = [True], frozenset({partition_of("cli")})
    kind = Looking(seconds=50)
    async with house(tmp_path, looks(), kinds={"web": kind}, serves=lambda place: served[0]) as home:
        assert "Task 1 has begun" in await home.ask("/research why?")
        await trio.testing.wait_all_tasks_blocked()
        assert kind.running == 1
        await home.tasks.hand_over(numbers, 0.0)
        served[0] = False
        await home.tasks.start(1, GoOn())  # as the restart of all actors does, behind a lease that was lost
        served[0] = True
        await home.tasks.take_over(numbers)
        assert (await ended(home, 1)).state == "succeeded"


async def test_an_attached_task_ends_with_who_waits_for_it(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    kind = Looking(seconds=50)
    async with house(tmp_path, looks(), kinds={"web": kind}) as home:
        steps: list[str] = []
        done = await home.tasks.run(TaskRecord("web", "local", "why?"), steps.append)
        assert (done.state, done.answer, steps) == (
            "succeeded",
            "why?: thing0 is blue",
            ["look {'at': 'thing0'}"],
        )
        with trio.move_on_after(20):
            await home.tasks.run(TaskRecord("web", "local", "and then?"), steps.append)
        assert (kind.running, kind.opened) == (0, 0)  # at once, and nothing of it goes on
        assert (await ended(home, 2)).state == "stopped"
        assert await home.open_chats() == ()


async def test_a_task_goes_on_where_its_process_ended_and_repeats_no_call(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    kind = Looking(seconds=10)
    async with house(tmp_path, looks(3), kinds={"web": kind}) as home:
        await home.ask("/research what?")
        await trio.sleep(15)  # in the second call
    assert kind.done == ["thing0", "thing1"]
    assert rows(tmp_path, "SELECT state FROM tasks") == [("running",)]
    async with house(tmp_path, looks(3), kinds={"web": kind}) as home:
        with home.services.hub.listening("cli") as events:
            assert (await next_reply(events)).endswith("what?: thing2 is blue")
        assert (await home.tasks.show(1, None)).spent.calls == 4
    assert kind.done == ["thing0", "thing1", "thing2"]
    asked = [entry for (entry,) in rows(tmp_path, "SELECT message FROM history WHERE chat = 'task.1'")]
    assert len(asked) == len(set(asked))


async def test_an_attached_task_of_an_earlier_process_is_interrupted(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        house(tmp_path, looks(), kinds={"web": Looking(seconds=1e5)}) as home,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(home.tasks.run, TaskRecord("web", "local", "why?"), str)
        await trio.testing.wait_all_tasks_blocked()
        with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:  # as a killed process leaves it
            db.execute(
                "CREATE TRIGGER killed BEFORE UPDATE OF ended ON tasks BEGIN SELECT raise(ignore); END"
            )
        nursery.cancel_scope.cancel()
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        db.execute("DROP TRIGGER killed")
    assert rows(tmp_path, "SELECT state FROM tasks") == [("running",)]
    async with house(tmp_path, looks(), kinds={"web": Looking()}) as home:
        assert (await home.tasks.show(1, None)).state == "interrupted"


async def test_a_limit_gives_what_was_found_and_is_no_success(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    for place, limits in enumerate(
        (
            TasksSection(max_turns=3),
            TasksSection(max_turns=100, max_tokens=250),
            TasksSection(max_turns=100, timeout_s=5),
        )
    ):
        path = tmp_path / str(place)
        path.mkdir()
        async with house(path, looks(1000), kinds={"web": Looking(2)}, tasks_section=limits) as home:
            done = await home.tasks.run(TaskRecord("web", "local", "why?"), str)
            assert done.state == "out_of_budget"
            assert done.spent.calls <= 5, place  # with the closing answer, for which it is asked twice
            assert "⚠️" in done.answer


async def test_a_model_that_fails_or_says_nothing_is_a_failure(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        if "nothing" in request.messages[-1].content:
            return Reply(" \n")
        raise ModelError("refused", "No.")

    async with house(tmp_path, answer, kinds={"web": Looking()}) as home:
        assert (await home.tasks.run(TaskRecord("web", "local", "why?"), str)).state == "failed"
        silent = await home.tasks.run(TaskRecord("web", "local", "nothing?"), str)
        assert (silent.state, silent.answer) == ("failed", "❌ The model gave no answer.")


async def test_a_task_that_crashes_goes_on_and_at_its_limit_it_has_failed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    crashes = 0

    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        nonlocal crashes
        await trio.lowlevel.checkpoint()
        if is_task(request) and (crashes < 2 or "always" in request.messages[-1].content):
            crashes += 1
            raise ZeroDivisionError
        return Reply("fine")

    async with house(tmp_path, answer, kinds={"web": Looking()}) as home:
        with home.services.hub.listening("cli") as events:
            await home.tasks.begin(TaskRecord("web", "local", "sometimes", "cli"))
            assert (await next_reply(events)).endswith("fine")
            await home.tasks.begin(TaskRecord("web", "local", "always", "cli"))
            assert "Something failed several times" in await next_reply(events)
        assert (await home.tasks.show(2, None)).state == "failed"
        with pytest.raises(RumiError, match="The task 3 failed"):
            await home.tasks.run(TaskRecord("web", "local", "always"), str)
        assert (await home.tasks.show(3, None)).state == "failed"


async def test_owners_share_the_places_and_too_many_are_refused(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    kind = Looking(seconds=10)
    limits = TasksSection(max_turns=9, max_running=4, per_owner=3)
    async with house(tmp_path, looks(), kinds={"web": kind}, tasks_section=limits, max_open=6) as home:
        for number in range(6):
            await home.tasks.begin(TaskRecord("web", "local", f"mine {number}", "cli"))
        with pytest.raises(RumiError, match="6 tasks have not ended yet"):
            await home.tasks.begin(TaskRecord("web", "local", "one more", "cli"))
        await home.tasks.begin(TaskRecord("web", "tg7", "theirs", "tg7"))
        await trio.testing.wait_all_tasks_blocked()
        await trio.sleep(1)
        assert kind.running == 4
        assert (await home.tasks.show(7, None)).state == "running"
        assert (await home.tasks.show(4, None)).state == "queued"
        with pytest.raises(UsageError, match="has not ended"):
            await home.tasks.delete(4, None)
        for id in range(1, 8):
            assert (await ended(home, id)).state == "succeeded"
        await home.tasks.delete(4, None)
        with pytest.raises(UsageError, match="Unknown task 4"):
            await home.tasks.show(4, None)
    assert not rows(tmp_path, "SELECT 1 FROM history WHERE chat = 'task.4'")


async def test_old_tasks_are_deleted(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    limits = TasksSection(max_turns=10, keep_days=1)
    begun = trio.current_time()

    def now() -> float:
        return 1e9 + trio.current_time() - begun

    async with house(tmp_path, looks(), kinds={"web": Looking()}, tasks_section=limits, now=now) as home:
        await home.tasks.run(TaskRecord("web", "local", "why?"), str)
        await trio.sleep(80_000)
        assert await home.tasks.listed("local")
        await trio.sleep(20_000)
        assert not await home.tasks.listed("local")


async def test_a_number_that_no_task_can_have_is_unknown(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, looks(), kinds={"web": Looking()}) as home:
        for number in (0, 2**63 - 1, 2**63, 10**18, 10**20, "9" * 4000, "٣"):
            assert (await home.ask(f"/stop {number}")).startswith("❌ Unknown task"), number
        assert await home.ask("/tasks") == "There are no tasks."


async def test_every_model_call_is_counted(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        return Reply("and so on", finish_reason="length")

    async with house(tmp_path, answer, kinds={"web": Looking()}) as home:
        assert (await home.tasks.run(TaskRecord("web", "local", "why?"), str)).spent.calls == 4


async def test_a_task_that_crashes_slowly_comes_to_the_end_of_its_budget(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    called = 0

    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        nonlocal called
        called += 1
        await trio.sleep(60)  # so that no limit of restarts is reached
        raise ZeroDivisionError

    limits = TasksSection(max_turns=5)
    async with house(tmp_path, answer, kinds={"web": Looking()}, tasks_section=limits) as home:
        await home.tasks.begin(TaskRecord("web", "cli", "why?", "cli"))
        done = await ended(home, 1)
        assert (done.state, done.spent.calls, called) == ("out_of_budget", 7, 7)


async def test_a_stop_reaches_a_task_behind_the_end_of_its_process(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    kind = Looking(seconds=1e5)
    async with house(tmp_path, looks(2), kinds={"web": kind}) as home:
        await home.ask("/research what?")
        await trio.sleep(5)
        with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:  # as a killed process leaves it
            db.execute(
                "CREATE TRIGGER killed BEFORE UPDATE OF ended ON tasks BEGIN SELECT raise(ignore); END"
            )
        assert await home.ask("/stop 1") == "⏹ Stopping task 1."
    with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
        db.execute("DROP TRIGGER killed")
        db.execute("DELETE FROM messages WHERE task = 1")
    assert rows(tmp_path, "SELECT state FROM tasks") == [("stopping",)]
    async with house(tmp_path, looks(2), kinds={"web": kind}) as home:
        with home.services.hub.listening("cli") as events:
            assert await next_reply(events) == "⏹ Task 1 (stopped): what?"
    assert kind.done == ["thing0"]


async def test_a_result_survives_stop_reset_and_a_crash_of_its_chat(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def forever(request: ModelRequest) -> Reply:
        await trio.sleep_forever()
        raise AssertionError

    async with house(tmp_path, looks(1, forever), kinds={"web": Looking()}) as home:
        with home.services.hub.listening("cli") as events:
            await home.ask("/research what?")
            await next_reply(events)
            await home.inbox.accept("cli", "hello")
            await ended(home, 1)
            await trio.sleep(10)  # the result waits behind the turn
            await home.inbox.accept("cli", "/reset")
            said = [await next_reply(events) for _ in range(3)]
        assert "⏹ Stopped." in said[0]
        assert sum("is blue" in text for text in said) == 1
        assert sum("reset" in text.lower() for text in said) == 1


async def test_whenever_who_waits_leaves_the_task_ends(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    kind = Looking(seconds=5)
    async with house(tmp_path, looks(), kinds={"web": kind}) as home:
        for steps in range(60):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(home.tasks.run, TaskRecord("web", "local", "why?"), str)
                    for _ in range(steps):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            assert (kind.running, kind.opened) == (0, 0)
        await trio.sleep(1)
        states = {task.state for task in await home.tasks.listed(None, limit=100)}
        assert states == {"stopped"}
        assert not home.tasks.at_work


async def test_a_command_about_tasks_that_a_crash_cut_short_is_done_once(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, looks(), kinds={"web": Looking()}) as home:
        await home.ask("hello")
        real = home.tasks.command

        async def crashing(*given: object) -> str:
            await real(*given)  # type: ignore[arg-type]
            home.tasks.command = real  # type: ignore[method-assign]
            raise ZeroDivisionError

        home.tasks.command = crashing  # type: ignore[method-assign]
        assert "Task 1 has begun" in await home.ask("/research what?")
        await ended(home, 1)
        assert [task.id for task in await home.tasks.listed(None)] == [1]


async def test_a_workspace_that_a_failing_disk_has_left_is_removed_later(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with house(tmp_path, looks(), kinds={"web": Looking()}) as home:
        await home.ask("/research what is it?")
        await ended(home, 1)
        await trio.testing.wait_all_tasks_blocked()
        left = tmp_path / "workspace" / "task.1"
        left.mkdir(parents=True)
        (left / "notes.md").write_text("left")
        await trio.sleep(TIDY_S + 60)
        assert not left.exists()
