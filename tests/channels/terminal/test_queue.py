"""Messages that wait for a turn, in front of the real chat: what is said, counted, and taken back."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from rumi.channels.terminal.once import once
from rumi.channels.terminal.plain import PlainView, converse
from rumi.channels.terminal.session import TerminalSession
from rumi.channels.terminal.words import Reader
from tests.channels.terminal.scripted import Page, Typist, signals
from tests.chats.house import House, house
from tests.chats.test_queue import by_words

READER = Reader("en")
NOTICE = "⏳ Queued (1 of 5). It comes after this turn; /queue shows and drops what waits.\n"


@asynccontextmanager
async def at_work(path: Path) -> AsyncIterator[House]:
    """A chat in which somebody else's turn runs for ten seconds."""
    async with house(path, by_words, max_queued=5) as home:
        await home.inbox.accept("cli", "theirs")
        await trio.sleep(1)
        yield home


def seat(home: House, *, alone: bool) -> tuple[TerminalSession, Page, Page]:
    output, errors = Page(), Page()
    return (
        TerminalSession(home.chat(), PlainView(output, errors, READER), READER, alone=alone),
        output,
        errors,
    )


async def test_a_single_turn_waits_for_the_one_that_runs_and_succeeds(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with at_work(tmp_path) as home:
        session, output, errors = seat(home, alone=True)
        assert await once(session, "mine", signals(), reader=READER) == 0
        assert (output.text, errors.text) == ("you said mine\n", NOTICE)


async def test_a_signal_takes_back_what_waits_and_stops_no_turn_of_others(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with at_work(tmp_path) as home:
        session, output, _ = seat(home, alone=True)
        code = await once(session, "mine", signals((2, signal.SIGINT)), reader=READER)
        assert (code, output.text, session.sent) == (130, "", 1)
        await home.inbox.chats.withdraw("cli", [2])  # as its window does when it has gone
        replies = {reply.messages: reply.text async for reply in replied(home, 2)}
        assert replies == {(1,): "you said theirs", (2,): "⏹ Stopped."}


async def replied(home: House, count: int) -> AsyncIterator[object]:
    await home.services.pending.all_replied()
    replies = await home.chat().undelivered()
    assert len(replies) == count
    for reply in replies:
        yield reply


async def test_what_was_dropped_by_somebody_else_is_a_failure_of_a_single_turn(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with at_work(tmp_path) as home, trio.open_nursery() as nursery:
        session, output, _ = seat(home, alone=True)

        async def drop() -> None:
            await trio.sleep(2)
            await home.inbox.accept("cli", "/queue drop all")

        nursery.start_soon(drop)
        assert await once(session, "mine", signals(), reader=READER) == 1
        assert output.text == "1 queued message was dropped.\n"


async def test_the_terminal_counts_what_waits_also_of_others(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with at_work(tmp_path) as home, trio.open_nursery() as nursery:
        session, output, errors = seat(home, alone=False)
        await nursery.start(session.run)
        await session.say("mine")
        await home.inbox.accept("cli", "5")
        await wait_all_tasks_blocked()
        assert (session.queued, errors.text) == (2, f"(in another window) › theirs\n{NOTICE}")
        late, _, _ = seat(home, alone=False)
        await nursery.start(late.run)
        await wait_all_tasks_blocked()
        assert late.queued == 2
        await trio.sleep(11)
        assert session.queued == late.queued == 1
        await home.inbox.accept("cli", "/queue drop all")
        await home.inbox.accept("cli", "/stop")
        await wait_all_tasks_blocked()
        assert session.queued == late.queued == 0
        assert output.text.endswith("⏹ Stopped.\n")
        assert not session.busy
        nursery.cancel_scope.cancel()


async def test_lines_of_a_pipe_still_wait_for_their_own_turns(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    async with at_work(tmp_path) as home:
        session, output, errors = seat(home, alone=True)
        lines = Typist((0, "a"), (0, "b"))
        assert await converse(session, lines, signals(), reader=READER) == 0
        assert (output.text, errors.text) == ("you said a\nyou said b\n", NOTICE)
