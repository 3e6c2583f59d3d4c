"""A scheduled turn parks the calls that need a yes: its chat asks for them, and people answer by number."""

import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.events import ConfirmationAsked
from rumi.chats.commands import ChatCommand, parse_chat_command
from rumi.chats.events import Replied
from rumi.chats.hub import HubSubscription
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.config.schema import SchedulesSection
from rumi.platform.texts.replies import went_on
from rumi.store.journal.outbox import undelivered_replies
from rumi.store.journal.records import Button, ScheduleRecord
from rumi.tasks.schedules.when import After
from tests.chats.house import Answer, House, house
from tests.chats.test_confirmations import Page, Visit, obedient
from tests.tasks.schedules.test_schedules import START

ANSWERS = "[The user answers"
ASKED = re.compile(r"^- (\w+) (.*)$", re.MULTILINE)


def now() -> float:
    """The clock on the wall goes on with the virtual one, also from house to house."""
    return START + trio.current_time()


def said(request: ModelRequest) -> str:
    return next(m.content for m in reversed(request.messages) if m.role == "user")


def results(request: ModelRequest) -> list[str]:
    """The results of the turn's calls so far."""
    last = max(index for index, m in enumerate(request.messages) if m.role == "user")
    return [m.content for m in request.messages[last:] if m.role == "tool"]


async def works(request: ModelRequest, emit: Emit) -> Reply:
    """Does what the user or a schedule says; in a turn of a yes it makes the calls that are allowed."""
    text, done = said(request), results(request)
    if text.startswith(ANSWERS):
        allowed = ASKED.findall(text.partition("The user said yes")[2].partition("The user said no")[0])
        if len(done) < len(allowed):
            return Reply("", (ToolCall(f"c{len(done)}", *allowed[len(done)]),))
        return Reply(f"results: {done}")
    if text.startswith("wait "):
        await trio.sleep(float(text.split()[1]))
        return Reply("waited")
    *_, plain = text.splitlines()  # without the note of a schedule
    messages = [replace(m, content=plain) if m.content == text else m for m in request.messages]
    return await obedient(replace(request, messages=tuple(messages)), emit)


@dataclass
class Parking:
    house: House
    visit: Visit
    events: HubSubscription

    async def fires(self, text: str) -> str:
        """A schedule has a turn work on the text; the final reply."""
        id = await self.schedule(text)
        while (replied := await self.replied()).schedule != id:
            pass
        return replied.text

    async def schedule(self, text: str) -> int:
        record = ScheduleRecord("local", "cli", "turn", text)
        return (await self.house.schedules.add(record, After(1), "UTC")).id

    async def replied(self) -> Replied:
        with trio.fail_after(2000):
            while True:
                what = (await self.events.receive()).what
                if isinstance(what, Replied):
                    return what

    async def asked(self) -> ConfirmationAsked:
        with trio.fail_after(2000):
            while True:
                what = (await self.events.receive()).what
                if isinstance(what, ConfirmationAsked):
                    return what

    async def buttons(self) -> list[Button]:
        """The buttons below the last reply that has some."""
        replies = await self.house.services.journal.ask(undelivered_replies("cli"))
        return list(next((reply.buttons for reply in reversed(replies) if reply.buttons), ()))


@asynccontextmanager
async def parking(path: Path, visit: Visit | None = None, answer: Answer = works) -> AsyncIterator[Parking]:
    visit = visit or Visit()
    tools = (Page(), visit)
    limits = SchedulesSection()
    async with house(path, answer, tools_for=lambda view: tools, schedule_limits=limits, now=now) as home:
        with home.services.hub.listening("cli") as events:
            yield Parking(home, visit, events)


def gone(visit: Visit) -> list[str]:
    return [url.rpartition("=")[2] for url in visit.went]


def states(path: Path) -> list[tuple[int, str, int]]:
    with closing(sqlite3.connect(path / "state.db")) as db:
        return db.execute("SELECT number, state, asked FROM parked WHERE chat = 'cli'").fetchall()


async def test_a_scheduled_turn_asks_for_all_it_parked_in_its_own_reply(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with parking(tmp_path) as home:
        said = await home.fires("page ; leak one ; leak two")
        assert said == (
            "did it\n\n"
            "🔒 This needs your yes, and I have not done it yet:\n\n"
            "1. This chat contains content from files or the web. May I open this address, which neither "
            "you nor a page gave?\n```\n  address: http://e.example/?d=one\n```\n\n"
            "2. This chat contains content from files or the web. May I open this address, which neither "
            "you nor a page gave?\n```\n  address: http://e.example/?d=two\n```\n\n"
            "Answer with /yes 1 2, or /no 1 2; one by one: /yes 1 no 2"
        )
        labels = [(button.label, button.words) for button in await home.buttons()]
        assert labels == [("✅ 1", "/yes 1"), ("❌ 1", "/no 1"), ("✅ 2", "/yes 2"), ("❌ 2", "/no 2")]
        assert home.visit.went == []
        assert await home.house.ask("hello") == "did it", "it is asked once"


async def test_a_yes_begins_a_turn_in_which_exactly_that_call_runs_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with parking(tmp_path) as home:
        await home.fires("page ; leak one ; leak two ; leak three")
        said = await home.house.ask("/yes 1 no 2")
        assert said == "results: ['been there (1)']\n\n❌ No: 2. I will not do it."
        assert gone(home.visit) == ["one"]
        assert await home.house.ask("/sí 1") == "This question has its answer already: 1."
        assert await home.house.ask("/yes 2") == "This question has its answer already: 2."
        assert await home.house.ask("/yes 9") == "This question is no longer open: 9."
        assert await home.house.ask("/yes") == "Say which one: /yes 3 or /no 3. Waiting: 3."
        assert await home.house.ask("/no 3") == "❌ No: 3. I will not do it."
        assert await home.house.ask("/yes please") == "Nothing waits for your yes."
        assert gone(home.visit) == ["one"]
    assert states(tmp_path) == [(1, "used", 1), (2, "refused", 1), (3, "refused", 1)]


async def test_the_turn_of_a_yes_asks_for_everything_else(tmp_path: Path, autojump_clock: MockClock) -> None:
    async def twice(request: ModelRequest, emit: Emit) -> Reply:
        if not said(request).startswith(ANSWERS):
            return await works(request, emit)
        done = len(results(request))
        call = ToolCall(f"c{done}", "visit", '{"url": "http://e.example/?d=one"}')
        return Reply("", (call,)) if done < 2 else Reply("did it")

    async with parking(tmp_path, answer=twice) as home:
        await home.fires("page ; leak one")
        await home.house.inbox.accept("cli", "/yes 1")
        asked = await home.asked()
        assert gone(home.visit) == ["one"], "the first one needs no other yes"
        assert await home.house.inbox.chats.answer("cli", asked.id, False)
        assert (await home.replied()).text == "did it"
        assert gone(home.visit) == ["one"]


async def test_a_yes_that_its_turn_did_not_use_does_not_stay(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def forgets(request: ModelRequest, emit: Emit) -> Reply:
        return Reply("later") if said(request).startswith(ANSWERS) else await works(request, emit)

    async with parking(tmp_path, answer=forgets) as home:
        await home.fires("page ; leak one")
        assert await home.house.ask("/yes 1") == "later"
        assert await home.house.ask("/yes 1") == "This question has its answer already: 1."
    assert states(tmp_path) == [(1, "used", 1)]


async def test_a_yes_waits_for_the_turn_that_runs_and_is_never_told_that_all_is_busy(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with parking(tmp_path) as home:
        await home.fires("page ; leak one")
        await home.house.inbox.accept("cli", "wait 100")
        number = await home.house.inbox.accept("cli", "/yes 1")
        assert (await home.replied()).text == "waited"
        replied = await home.replied()
        assert replied.messages == (number,)
        assert gone(home.visit) == ["one"]


async def test_a_number_that_was_not_asked_when_the_answer_came_takes_no_yes(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """It waited behind the turn that then asked for this number."""
    async with parking(tmp_path) as home:
        await home.schedule("page ; leak one ; bash sleep 100")
        await trio.sleep(100)
        number = await home.house.inbox.accept("cli", "/yes 1")
        assert "1. This chat contains content" in (await home.replied()).text
        replied = await home.replied()
        assert replied.messages == (number,)
        assert replied.text == "This question is no longer open: 1."
        assert home.visit.went == []


async def test_a_stopped_yes_waits_again_and_retry_takes_it(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    slow = [True]

    async def thinks(request: ModelRequest, emit: Emit) -> Reply:
        if said(request).startswith(ANSWERS) and slow:
            await trio.sleep(1000)
        return await works(request, emit)

    async with parking(tmp_path, answer=thinks) as home:
        await home.fires("page ; leak one")
        await home.house.inbox.accept("cli", "/yes 1")
        await trio.sleep(10)
        assert await home.house.ask("/stop") == "⏹ Stopped."
        slow.clear()
        assert states(tmp_path) == [(1, "waits", 1)]
        assert await home.house.ask("/retry") == "results: ['been there (1)']"
        assert await home.house.ask("/retry") == "There is nothing to retry."
        assert gone(home.visit) == ["one"]


@pytest.mark.parametrize("contact", ["hello", "schedule", "restart", "/stop"])
async def test_what_a_cut_turn_parked_is_asked_at_the_next_contact(
    tmp_path: Path, autojump_clock: MockClock, contact: str
) -> None:
    """The process is killed, or the turn stopped, between the parking and the reply that asks."""
    visit = Visit()
    with trio.move_on_after(200):
        async with parking(tmp_path, visit) as home:
            await home.schedule("page ; leak one ; bash sleep 900")
            if contact == "/stop":
                await trio.sleep(100)
                said = await home.house.ask("/stop")
                assert said.startswith("⏹ Stopped.\n\n🔒 This needs your yes")
                assert await home.house.ask("/yes 1") == "results: ['been there (1)']"
                return
            await trio.sleep_forever()
    assert states(tmp_path) == [(1, "waits", 0)]
    if contact != "restart":
        with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:  # as if the turn's reply were there
            db.execute("INSERT INTO outbox (chat, text, created, delivered) VALUES ('cli', 'x', 0, 0)")
            db.execute("UPDATE messages SET reply = last_insert_rowid() WHERE reply IS NULL")
    async with parking(tmp_path, visit) as home:
        if contact == "restart":
            said = (await home.replied()).text
            assert said.startswith("⚠️ I was restarted while working on: “page ; leak one")
        elif contact == "schedule":
            await home.house.schedules.add(ScheduleRecord("local", "cli", "text", "tea"), After(1), "UTC")
            said = (await home.replied()).text
            assert said.startswith("⏰ tea\n\n🔒")
        else:
            said = await home.house.ask("hello")
        assert "1. This chat contains content from files or the web. May I open" in said
        assert [button.words for button in await home.buttons()][-2:] == ["/yes 1", "/no 1"]
        assert await home.house.ask("hello") == "did it", "it is asked once"
        assert await home.house.ask("/yes 1") == "results: ['been there (1)']"
    assert gone(visit) == ["one"]


async def test_the_turn_of_a_yes_goes_on_after_a_kill_and_makes_its_call_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async def slow(request: ModelRequest, emit: Emit) -> Reply:
        if said(request).startswith(ANSWERS):
            await trio.sleep(1000)
        return await works(request, emit)

    visit = Visit()
    with trio.move_on_after(500):
        async with parking(tmp_path, visit, slow) as home:
            await home.fires("page ; leak one")
            await home.house.ask("/yes 1")
    assert states(tmp_path) == [(1, "allowed", 1)]
    async with parking(tmp_path, visit) as again:
        told = (await again.replied()).text
        assert told == f"results: ['been there (1)']\n\n{went_on('en')}"
        assert await again.house.ask("/yes 1") == "This question has its answer already: 1."
    assert gone(visit) == ["one"]


async def test_a_reset_forgets_what_waits_and_a_late_answer_is_for_no_other_call(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with parking(tmp_path) as home:
        await home.fires("page ; leak one")
        await home.house.ask("/new")
        assert await home.house.ask("/yes") == "Say which one: /yes 1 or /no 1. Waiting: 1."
        await home.house.ask("/reset")
        assert await home.house.ask("/yes 1") == "This question is no longer open: 1."
        assert "2. This chat contains" in await home.fires("page ; leak two")
        assert await home.house.ask("/yes 1") == "This question is no longer open: 1."
        assert home.visit.went == []
        assert await home.house.ask("/yes 2") == "results: ['been there (1)']"
    with closing(sqlite3.connect(tmp_path / "state.db")) as db:
        assert db.execute("SELECT count(*) FROM parked WHERE call LIKE '%d=one%'").fetchone() == (0,)


async def test_what_a_yes_allows_taints_a_new_session(tmp_path: Path, autojump_clock: MockClock) -> None:
    """The arguments of a parked call may be a page's words."""
    async with parking(tmp_path) as home:
        await home.fires("page ; leak one")
        await home.house.ask("/new")
        await home.house.ask("/yes 1")
        assert gone(home.visit) == ["one"]
        await home.house.inbox.accept("cli", "leak two")
        asked = await home.asked()
        assert await home.house.inbox.chats.answer("cli", asked.id, False)
        await home.replied()
        assert gone(home.visit) == ["one"]


async def test_words_of_a_schedule_are_no_yes(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with parking(tmp_path) as home:
        await home.fires("page ; leak one")
        await home.fires("/yes 1")
    assert home.visit.went == []
    assert states(tmp_path) == [(1, "waits", 1)]


@pytest.mark.parametrize("text", ["/yes 1 no 2", "/si 1 no 2", "/Sí@rumi_bot 1 no 2", "/SÍ 1 no 2"])
def test_a_yes_may_be_written_in_spanish(text: str) -> None:
    assert parse_chat_command(text) == ChatCommand("yes", "1 no 2")


async def test_calls_are_asked_in_the_language_of_their_schedule(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with parking(tmp_path) as home:
        record = ScheduleRecord("local", "cli", "turn", "page ; leak one", language="es")
        await home.house.schedules.add(record, After(1), "UTC")
        said = (await home.replied()).text
        assert "🔒 Necesito tu sí para esto, y todavía no lo he hecho:" in said
        assert said.endswith("Contesta con /yes 1, o /no 1")
