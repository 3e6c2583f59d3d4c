"""Sessions of a chat: `/sessions` lists and reopens them, `/compact` and `/context` act on the open one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.chats.events import Replied
from rumi.models.model import Emit, ModelRequest, Reply
from tests.chats.house import echo, house


def prompts(home) -> list[list[str]]:
    """What each request's user messages say."""
    requests = home.services.context.model_for("cli", "en", "").requests
    return [[m.content for m in request.messages if m.role == "user"] for request in requests]


async def test_a_reopened_session_is_in_the_prompt_again_also_after_a_restart(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        await home.ask("one apple")
        said = await home.ask("/new")
        assert "Your earlier conversation is saved" in said
        assert "/sessions 1" in said
        await home.ask("two pears")
        said = await home.ask("/sessions 1")
        assert said.startswith("Reopened session 1: “one apple” (1 message).")
        assert "/sessions 2" in said, "the other one stays reopenable"
        await home.ask("three")
        assert prompts(home)[-1] == ["one apple", "three"]
    async with house(tmp_path) as home:
        await home.ask("four")
        assert prompts(home)[-1] == ["one apple", "three", "four"]
        await home.ask("/sessions 2")
        await home.ask("five")
        assert prompts(home)[-1] == ["two pears", "five"]


async def test_the_list_shows_time_words_and_count_of_each_session(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        assert await home.ask("/sessions") == "This chat has no sessions yet."
        await home.ask("one *apple*")
        await home.ask("and another")
        await home.ask("/new")
        assert "`1`" in await home.ask("/sessions")
        await home.ask("two pears")
        lines = [line for line in (await home.ask("/sessions")).splitlines() if line.startswith("- ")]
        assert len(lines) == 2
        assert lines[0].startswith("- `2`")
        assert lines[0].endswith("1 message · two pears · **this one**")
        assert lines[1].endswith("2 messages · one \\*apple\\*")


@pytest.mark.parametrize("wanted", ["7", "0", "x", "99999999999999999999", "-1", "1; drop", "3 4"])
async def test_a_session_that_is_not_there_changes_nothing(
    autojump_clock: MockClock, tmp_path: Path, wanted: str
) -> None:
    async with house(tmp_path) as home:
        await home.ask("one")
        assert "There is no session" in await home.ask(f"/sessions {wanted}")
        assert await home.ask("/sessions 1") == "Session 1 is already open."
        await home.ask("two")
        assert prompts(home)[-1] == ["one", "two"]


async def test_during_a_turn_reopening_is_refused_with_a_reason(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async def slow(request: ModelRequest, emit: Emit) -> Reply:
        if request.messages[-1].content == "wait":
            await trio.sleep(100)
        return await echo(request, emit)

    async with house(tmp_path, slow) as home:
        await home.ask("one")
        await home.ask("/new")
        number = await home.inbox.accept("cli", "wait")
        await trio.sleep(1)
        assert (await home.ask("/sessions 1")).startswith("⏳ Already working")
        assert (await home.ask("/compact")).startswith("⏳ Already working")
        assert "The next prompt takes about" in await home.ask("/context")
        assert number
        await home.ask("/stop")
        assert (await home.ask("/sessions 1")).startswith("Reopened")


async def test_a_reset_leaves_no_session_to_reopen(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.ask("one")
        await home.ask("/new")
        await home.ask("two")
        await home.ask("/reset")
        assert "There is no session 1" in await home.ask("/sessions 1")
        assert await home.ask("/sessions") == "This chat has no sessions yet."


async def test_every_window_learns_which_session_goes_on(autojump_clock: MockClock, tmp_path: Path) -> None:
    async with house(tmp_path) as home:
        await home.ask("one")
        await home.ask("/new")
        with home.services.hub.listening("cli") as events:
            await home.inbox.accept("cli", "/sessions 1")
            while not isinstance((event := await events.receive()).what, Replied):
                pass
        figures = event.what.figures
        assert figures is not None
        assert (figures.session, figures.begun) == (1, True)
        assert 0 < figures.tokens < figures.window


async def test_undo_after_reopening_takes_the_chats_last_turn_back(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        await home.ask("one")
        await home.ask("/new")
        await home.ask("two")
        await home.ask("/sessions 1")
        await home.ask("three")
        assert "“three”" in await home.ask("/undo")
        assert "“two”" in await home.ask("/undo"), "the turn before it, in whichever session it is"
        await home.ask("four")
        assert prompts(home)[-1] == ["one", "four"]


async def test_compacting_replaces_the_conversation_by_a_summary_of_what_is_asked_for(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    summary = f"## Goal\nfruit\n## Done\n{10 * 'named many fruits, one after another. '}\n## Open\nnone"
    asked: list[str] = []

    async def model(request: ModelRequest, emit: Emit) -> Reply:
        if "Write the summary" in request.messages[0].content:
            asked.append(request.messages[-1].content)
            return Reply(summary)
        return await echo(request, emit)

    async with house(tmp_path, model, thinks=True) as home:
        assert (await home.ask("/compact")).startswith("There is nothing to compact")
        await home.ask("apple " * 2000)
        await home.ask("pear " * 2000)
        await home.ask("last")
        said = await home.ask("/compact the colours")
        assert said.startswith("Compacted the conversation: about ")
        before, after = (
            int(n.replace(",", "")) for n in said.split("about ")[1].split(" tokens")[0].split(" → ")
        )
        assert after < before / 10
        assert "keep in particular: the colours" in asked[0]
        await home.ask("next")
        said_to = prompts(home)[-1]
        assert "named many fruits" in said_to[0]
        assert said_to[1:] == ["last", "next"], "the last exchange stays word for word"
    async with house(tmp_path, model, thinks=True) as home:
        await home.ask("again")
        assert "named many fruits" in prompts(home)[-1][0]
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        assert db.execute("SELECT count(*) FROM history WHERE message LIKE '%apple apple%'").fetchone() != (
            0,
        )


async def test_a_failed_or_stopped_compaction_changes_nothing(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async def model(request: ModelRequest, emit: Emit) -> Reply:
        if "Write the summary" in request.messages[0].content:
            await trio.sleep(10_000)
        return await echo(request, emit)

    async with house(tmp_path, model, thinks=True) as home:
        await home.ask("one")
        assert (await home.ask("/compact")).startswith("❌ Nothing was compacted:")
        number = await home.inbox.accept("cli", "/compact")
        await trio.sleep(1)
        assert number
        assert (await home.ask("/stop")).startswith("⏹")
        await home.ask("two")
        assert prompts(home)[-1] == ["one", "two"]


async def test_the_context_table_adds_up_and_fits_sixty_columns(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        await home.ask("one " * 500)
        said = await home.ask("/context")
        table = said.split("```")[1].strip("\n").splitlines()
        assert max(map(len, table)) <= 60
        numbers = [int(line.split("  ")[-2].strip().replace(",", "")) for line in table]
        window = int(said.split(" of ")[1].split(" tokens")[0].replace(",", ""))
        assert abs(sum(numbers) - window) <= 1
        assert any(line.startswith("messages") for line in table)


async def test_without_a_model_that_summarizes_compacting_says_what_it_does(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with house(tmp_path) as home:
        await home.ask("apple " * 2000)
        await home.ask("last")
        assert "The offline model writes no summaries" in await home.ask("/compact")
        await home.ask("next")
        assert prompts(home)[-1][1:] == ["last", "next"]
