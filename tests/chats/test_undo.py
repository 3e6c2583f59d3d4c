"""Taking turns back: what is as before, what is not, who may, and what a kill in the middle leaves."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import trio

from rumi.memory.messages import NewFact
from rumi.memory.rows import facts_of, remember_fact
from rumi.store.journal.records import Incoming
from tests.chats.house import reply_to
from tests.chats.undoing import state, undoing
from tests.tasks.schedules.test_schedules import next_reply

ROOT = Path(__file__).parent.parent.parent


async def test_a_turn_that_changed_everything_is_taken_back_completely(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with undoing(tmp_path) as house:
        await house.ask("first")
        before = state(tmp_path)
        await house.ask("second")
        after = state(tmp_path)
        assert all(before[name] != after[name] for name in before)
        said = await house.ask("/undo")
        assert state(tmp_path) == before
        assert "second" in said
        assert "- the files" in said
        assert "city" in said
        assert "dog" in said
        assert "the schedules: 1, 2" in said
        assert "`send_file two`" in said
        assert "cli" in house.sandboxes.stops
        assert await house.ask("third") == "heard third"


async def test_a_second_undo_goes_one_turn_further_back_and_a_restart_changes_nothing(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with undoing(tmp_path) as house:
        await house.ask("hello")
        start = state(tmp_path)
        await house.ask("first")
        await house.ask("second")
        await house.ask("/undo")
    async with undoing(tmp_path) as house:
        assert "first" in await house.ask("/undo")
        assert state(tmp_path) == start
        assert "hello" in await house.ask("/undo")
        assert await house.ask("/undo") == "There is nothing to undo."


async def test_no_more_turns_in_a_row_than_configured(tmp_path: Path, autojump_clock: object) -> None:
    async with undoing(tmp_path) as house:
        for number in range(7):
            await house.ask(f"say {number}")
        for number in (6, 5, 4, 3, 2):
            assert f"say {number}" in await house.ask("/undo")
        assert "5 turns in a row" in await house.ask("/undo")


async def test_the_model_no_longer_sees_the_turn_and_it_stays_stored(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with undoing(tmp_path) as house:
        await house.ask("hello")
        await house.ask("forget that I said banana")
        await house.ask("/undo")
        await house.ask("and now")
        request = house.services.context.model_for("cli", "en", "").requests[-1]  # type: ignore[attr-defined]
        assert not [m for m in request.messages if "banana" in m.content]
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        found = db.execute("SELECT undone FROM history WHERE message LIKE '%banana%'").fetchall()
    assert found
    assert set(found) == {(1,)}


async def test_a_fact_that_something_else_changed_since_stays_and_is_listed(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with undoing(tmp_path) as house:
        await house.ask("first")
        await house.ask("second")
        memory = house.services.context.memory
        assert memory is not None
        await memory(remember_fact("local", NewFact("dog", "Rex")))
        said = await house.ask("/undo")
        assert "facts changed since: dog" in said
        assert {fact.value for fact in await memory(facts_of("local"))} == {"Toby", "Rex", "Rosario"}


async def test_an_undo_during_a_turn_says_to_stop_it_first(tmp_path: Path, autojump_clock: object) -> None:
    class Slow(Exception):
        pass

    async with undoing(tmp_path) as house:
        await house.ask("first")
        model = house.services.context.model_for("cli", "en", "")

        async def slow(request: object, emit: object) -> object:
            await trio.sleep(100)
            raise Slow

        model.answer = slow  # type: ignore[attr-defined]
        with house.services.hub.listening("cli") as events:
            running = await house.inbox.accept("cli", "second")
            undo = await house.inbox.accept("cli", "/undo")
            assert "/stop" in await reply_to(events, undo)
            await house.inbox.accept("cli", "/stop")
            await reply_to(events, running)
        assert "second" in await house.ask("/undo")


async def test_in_a_group_only_who_asked_or_an_admin_takes_a_turn_back(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with undoing(tmp_path) as house:

        async def say(text: str, user: int, admin: bool = False) -> str:
            with house.services.hub.listening("tg-5") as events:
                await house.inbox.accept_all((Incoming(chat="tg-5", text=text, user=user, admin=admin),))
                return await next_reply(events)

        await say("hello", 1)
        assert "Somebody else" in await say("/undo", 2)
        assert "hello" in await say("/undo", 2, admin=True)
        await say("again", 1)
        assert "again" in await say("/undo", 1)


async def test_a_reset_forgets_what_could_be_restored(tmp_path: Path, autojump_clock: object) -> None:
    async with undoing(tmp_path) as house:
        await house.ask("first")
        assert (tmp_path / "undo" / "cli").exists()
        await house.ask("/reset")
        assert not (tmp_path / "undo" / "cli").exists()
        assert await house.ask("/undo") == "There is nothing to undo."


@pytest.mark.long
def test_a_kill_at_any_step_of_an_undo_leaves_all_as_before_or_as_after(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.chats.killed_undo", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    befores, afters = map(int, done.stdout.split()[-2:])
    assert befores > 10
    assert afters > 10
    shutil.rmtree(tmp_path, ignore_errors=True)
