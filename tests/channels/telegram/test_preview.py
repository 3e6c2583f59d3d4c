"""What a chat sees of a turn while it runs, and that the final reply is whole however that went."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio
from trio.testing import MockClock

from actors import ActorError
from rumi.agent.events import Thinking, ToolFinished, ToolOutput, ToolProgress, ToolStarted
from rumi.agent.tool import ToolResult
from rumi.channels.telegram.formatting.reply import MessagePart
from rumi.channels.telegram.formatting.spans import LIMIT_UNITS, units
from rumi.channels.telegram.sending import preview
from rumi.channels.telegram.sending.limits import SendLimits
from rumi.channels.telegram.sending.sketch import STEP_CHARS, TOOL_CHARS, sketch, tool_line
from rumi.chats.events import ChatEvent, TurnStarted, TurnState
from rumi.models.model import Discarded, TextDelta, ToolCall, Waiting
from rumi.store.journal.store import JournalError
from rumi.texts import Language
from tests.channels.telegram.sending import Turn, post_office, unmarked
from tests.chats.house import InlineOffload
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Broken, Error, Flood, Late, Reset, Silent, Slow
from tests.fakes.bot_api_world import Chat, Message

T = TypeVar("T")


@pytest.fixture
def api() -> BotApi:
    api = BotApi(trio.current_time, drafts=False)
    for number in (1, 2, 3):
        api.user(number)
    return api


@pytest.fixture
def drafting() -> BotApi:
    api = BotApi(trio.current_time)
    api.user(1)
    return api


class FailingDisk(InlineOffload):
    """A disk that fails so many times."""

    fails = 0

    async def __call__(self, work: Callable[[], T]) -> T:
        if self.fails:
            self.fails -= 1
            raise JournalError("the disk failed")
        return await super().__call__(work)


def versions(message: Message) -> list[str]:
    """What a message said, from the first to the last."""
    return [*(edit.text for edit in message.edits), message.text]


def typing(chat: Chat) -> list[float]:
    return [action.time for action in chat.actions]


# Growing in place


async def test_a_schedules_turn_shows_typing_and_then_its_reply_alone(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        number = await office.asked("tg1")
        office.publish("tg1", f"t{number}", TurnStarted("look", number, schedule=3))
        turn = Turn(office, "tg1", number, f"t{number}")
        turn.says("The page has " * 20)
        await trio.sleep(20)
        assert api.chats[1].said == [], "it may end silently, and a preview is a message"
        assert typing(api.chats[1])
        await turn.ends("something new")
        await office.all_sent(5)
    [message] = api.chats[1].said
    assert versions(message) == ["something new"]


async def test_a_quick_turn_has_no_preview(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("hel")
        await trio.sleep(0.8)
        await turn.ends("hello")
        await office.all_sent(5)
    [message] = api.chats[1].said
    assert versions(message) == ["hello"]


async def test_the_answer_grows_in_one_message_which_becomes_the_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        for word in range(20):
            turn.says(f"**word** {word} ")
            await trio.sleep(0.5)
        await turn.ends("**the** answer")
        await office.all_sent(5)
    [message] = api.chats[1].said
    first, *_, last = versions(message)
    assert first.startswith("word 0")
    assert last == "the answer"
    assert message.entities == [{"type": "bold", "offset": 0, "length": 3}]
    assert message.options["link_preview_options"] == {"is_disabled": True}
    assert 4 <= len(message.edits) <= 8
    at = [message.time, *(edit.time for edit in message.edits[:-1])]
    assert message.time > 1.0
    assert all(later - earlier >= 1.5 for earlier, later in pairwise(at))
    assert api.rates.refused == []


async def test_in_private_it_grows_as_a_draft_where_that_is_offered(
    tmp_path: Path, drafting: BotApi, autojump_clock: MockClock
) -> None:
    chat = drafting.chats[1]
    async with post_office(tmp_path, drafting) as office:
        turn = await office.begin("tg1")
        for word in range(10):
            turn.says(f"word {word} ")
            await trio.sleep(0.5)
        assert chat.texts == []
        assert chat.draft(trio.current_time()) is not None
        await turn.ends("the answer")
        await office.all_sent(5)
        assert chat.draft(trio.current_time()) is None
    assert chat.texts == ["the answer"]
    assert {draft.draft_id for draft in chat.drafts} == {turn.message}
    assert len(chat.drafts) >= 3


async def test_a_draft_is_shown_again_before_it_fades(
    tmp_path: Path, drafting: BotApi, autojump_clock: MockClock
) -> None:
    chat = drafting.chats[1]
    async with post_office(tmp_path, drafting) as office:
        turn = await office.begin("tg1")
        turn.tool(command="sleep 600")
        await trio.sleep(2)
        for _ in range(200):
            assert chat.draft(trio.current_time()) is not None
            await trio.sleep(0.5)
        await turn.ends("done")
        await office.all_sent(5)
    assert len(chat.drafts) < 8


@pytest.mark.parametrize("fault", [Error(400, "Bad Request: TEXTDRAFT_PEER_INVALID"), Error(404)])
async def test_a_server_that_refuses_drafts_is_asked_once(
    tmp_path: Path, drafting: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    drafting.user(2)
    drafting.user(3)
    drafting.faults.often(1.0, fault, "sendMessageDraft")
    async with post_office(tmp_path, drafting) as office:
        for chat in (1, 2, 3):
            turn = await office.begin(f"tg{chat}")
            turn.says("growing")
            await trio.sleep(8)
            assert drafting.chats[chat].texts == ["growing"]
            await turn.ends("grown")
            await office.all_sent(5)
    assert len(drafting.faults.injected) == 1
    assert [drafting.chats[chat].texts for chat in (1, 2, 3)] == [["grown"]] * 3


async def test_a_server_that_refuses_drafts_to_several_at_once_shows_all_of_them_the_other_way(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    api = BotApi(trio.current_time, drafts=False)
    async with post_office(tmp_path, api) as office:
        turns = []
        for chat in range(1, 9):
            api.user(chat)
            turns.append(await office.begin(f"tg{chat}"))
            turns[-1].says("growing")
        await trio.sleep(3)
        assert [api.chats[chat].texts for chat in range(1, 9)] == [["growing"]] * 8
        for turn in turns:
            await turn.ends("grown")
        await office.all_sent(5)
    assert [api.chats[chat].texts for chat in range(1, 9)] == [["grown"]] * 8


async def test_in_a_group_it_grows_more_slowly_as_an_answer_to_who_asked(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    group = api.group(-100, members=[api.people[1]])
    question = api.say(api.people[1], "@rumi_test_bot hi", group)
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg-100", origin=question.id)
        for word in range(200):
            turn.says(f"word {word} ")
            await trio.sleep(0.5)
        await turn.ends("grown")
        await office.all_sent(5)
    [message] = group.said
    assert message.reply_to is question
    assert message.text == "grown"
    at = [message.time, *(edit.time for edit in message.edits[:-1])]
    assert all(later - earlier >= 4 for earlier, later in pairwise(at))
    assert api.rates.refused == []


async def test_what_does_not_fit_follows_as_further_messages(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        for _ in range(40):
            turn.says("many words " * 30)
            await trio.sleep(0.3)
        await turn.ends("many words " * 1200)
        await office.all_sent(5_000)
    said = api.chats[1].said
    assert said[0].edits
    assert len(said) == 4
    assert " ".join(api.chats[1].texts).split() == ["many", "words"] * 1200
    assert all(units(text) <= LIMIT_UNITS for message in said for text in versions(message))


async def test_nothing_is_edited_where_nothing_has_changed(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("that is all")
        for _ in range(30):
            turn.publish(Waiting(1.0, "a limit"))
            await trio.sleep(1)
        await turn.ends("that is all")  # "message is not modified" is a success
        await office.all_sent(5)
    [message] = api.chats[1].said
    assert versions(message) == ["that is all"]


async def test_a_busy_reply_does_not_take_the_preview(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("working")
        await trio.sleep(3)
        await office.reply("tg1", "busy")
        await trio.sleep(3)
        await turn.ends("done")
        await office.all_sent(5)
    assert api.chats[1].texts == ["done", "busy"]


async def test_a_stop_shares_the_reply_with_its_turn(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("working")
        await trio.sleep(3)
        await turn.ends("stopped", await office.asked("tg1"))
        await office.all_sent(5)
    [message] = api.chats[1].said
    assert versions(message) == ["working", "stopped"]


async def test_turns_one_after_the_other_have_a_preview_each(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        for number in range(4):
            turn = await office.begin("tg1")
            turn.says(f"growing {number}")
            await trio.sleep(3)
            await turn.ends(f"grown {number}")
        await office.all_sent(30)
    assert [versions(message) for message in api.chats[1].said] == [
        [f"growing {number}", f"grown {number}"] for number in range(4)
    ]


# What it shows


async def test_it_says_which_tool_works_below_the_words(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1", language="es")
        turn.says("**Voy** a ver 👍")
        done = turn.tool(command="sleep 600")
        await trio.sleep(3)
        [message] = api.chats[1].said
        assert message.text == "Voy a ver 👍\n\n🔧 trabajando: bash: sleep 600"
        assert [entity["type"] for entity in message.entities] == ["bold", "code"]
        code = message.entities[1]
        raw = message.text.encode("utf-16-le")
        start, end = code["offset"] * 2, (code["offset"] + code["length"]) * 2
        assert raw[start:end].decode("utf-16-le") == "bash: sleep 600"
        done()
        turn.publish(Thinking(2))
        await trio.sleep(3)
        assert message.text == "💭 pensando…"
        turn.says("Ya está")
        await trio.sleep(3)
        assert message.text == "Ya está"
        await turn.ends("Listo")
        await office.all_sent(5)
    assert message.text == "Listo"


async def test_that_it_only_thinks_needs_no_message(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        await trio.sleep(30)
        assert api.chats[1].texts == []
        assert len(typing(api.chats[1])) >= 6
        await turn.ends("done")
        await office.all_sent(5)


def sketched(*happened: Any) -> str:
    state = TurnState()
    for what in (TurnStarted("hi"), *happened):
        state = state.apply(ChatEvent("tg1", "t1", 0.0, what))
    return sketch(state, "en").text


def test_words_that_are_void_are_taken_back() -> None:
    assert sketched(TextDelta("one "), TextDelta("two")) == "one two"
    assert sketched(TextDelta("wrong"), Discarded()) == "💭 thinking…"
    assert sketched(TextDelta("wrong"), Discarded(), TextDelta("right")) == "right"
    assert sketched(TextDelta("first"), Thinking(2), TextDelta("second")) == "second"


@pytest.mark.parametrize(
    ("tool", "english", "spanish"),
    [
        ("read_file", "📖 reading: a.txt", "📖 leyendo: a.txt"),
        ("edit_file", "✏️ editing: a.txt", "✏️ editando: a.txt"),
        ("write_file", "✏️ writing: a.txt", "✏️ escribiendo: a.txt"),
    ],
)
def test_a_file_tool_says_what_it_does_and_with_which_file(tool: str, english: str, spanish: str) -> None:
    call = ToolStarted(ToolCall("c", tool, "{}"), {"path": "a.txt", "content": "secret"})
    state = TurnState("t1").apply(ChatEvent("tg1", "t1", 0.0, call))
    assert (sketch(state, "en").text, sketch(state, "es").text) == (english, spanish)
    nothing = TurnState("t1").apply(ChatEvent("tg1", "t1", 0.0, ToolStarted(ToolCall("c", tool, "{}"))))
    assert sketch(nothing, "en").text == f"🔧 working: {tool}"


def test_what_is_too_long_ends_with_its_end_and_the_tool() -> None:
    call = ToolStarted(ToolCall("c", "bash", "{}"), {"command": "ls"})
    text = sketched(TextDelta("word " * 3000 + "👍" * 3000 + " the end"), call)
    assert units(text) <= LIMIT_UNITS
    assert text.endswith("the end\n\n🔧 working: bash: ls")


def test_a_call_that_shows_steps_has_the_last_one_below_it() -> None:
    calls = [ToolCall(id, "research", "{}") for id in "abcd"]
    begun = [ToolStarted(call, {"query": f"q{call.id}"}) for call in calls]
    steps = [ToolProgress("a", "one", 1), ToolProgress("a", "two\nlines", 2), ToolProgress("c", "x" * 200, 1)]
    short = f"{'x' * (STEP_CHARS - 1)}…"
    first = "🔧 working: research: qa\n↳ two lines"
    third = f"🔧 working: research: qc\n↳ {short}"
    last = "🔧 working: research: qd"
    assert sketched(TextDelta("Let me look."), *begun, *steps) == "\n".join(
        ["Let me look.", "", first, third, last]
    )
    steps += [ToolProgress("b", "b", 1), ToolProgress("d", "https://x.example/", 1)]
    assert sketched(*begun, *steps).splitlines()[::2] == [
        f"🔧 working: research: q{name}" for name in "bcd"
    ]  # fmt: skip
    ended = [ToolFinished(call, ToolResult(True, ""), 1) for call in calls[1:]]
    assert sketched(*begun, *steps, *ended) == first


def test_a_running_command_has_the_last_lines_of_its_output_below_it() -> None:
    begun = ToolStarted(ToolCall("c", "bash", "{}"), {"command": "make"})
    output = [
        ToolOutput("c", "one\ntwo\n"),
        ToolOutput("c", "three\n10 %\r50 %\r90 %"),
        ToolOutput("x", "no"),
    ]
    line = "🔧 working: bash: make"
    assert sketched(begun, *output) == f"{line}\n↳ two\n↳ three\n↳ 90 %"
    assert sketched(begun, ToolOutput("c", "\n\n")) == line


def test_nothing_in_a_step_is_a_link() -> None:
    state = TurnState()
    call = ToolCall("c", "research", "{}")
    for what in (TurnStarted("hi"), ToolStarted(call), ToolProgress("c", "👍 https://x.example/", 1)):
        state = state.apply(ChatEvent("tg1", "t1", 0.0, what))
    part = sketch(state, "en")
    code = part.entities[-1]
    assert code.type == "code"
    wide = part.text.encode("utf-16-le")
    assert (
        wide[2 * code.offset : 2 * (code.offset + code.length)].decode("utf-16-le") == "👍 https://x.example/"
    )


async def test_the_last_step_grows_in_place_and_is_gone_with_the_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        done = turn.tool("research", query="moss")
        for number in range(1, 41):
            turn.publish(ToolProgress("c1", f"page {number}", number))
            await trio.sleep(0.25)
        done()
        await turn.ends("Moss is green.")
        await office.all_sent(5)
    [message] = api.chats[1].said
    first, *between, last = versions(message)
    assert first.startswith("🔧 working: research: moss\n↳ page ")
    assert last == "Moss is green."
    assert 3 <= len(between) <= 8
    assert api.rates.refused == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"command": "ls -la"}, "bash: ls -la"),
        ({"command": "echo a\n  echo\tb"}, "bash: echo a echo b"),
        ({"command": "x" * 100}, f"bash: {'x' * (TOOL_CHARS - 7)}…"),
        ({"command": "\x1b[31mred\x1b[0m \u202eevil"}, "bash: red evil"),
        ({"command": 5}, "bash"),
        ({}, "bash"),
        ({"stdin": "secret", "url": "https://example.org"}, "bash: https://example.org"),
    ],
)
def test_a_call_is_told_on_one_short_line(arguments: dict[str, object], line: str) -> None:
    assert tool_line(ToolStarted(ToolCall("c", "bash", ""), arguments)) == line


# Typing


async def test_somebody_types_as_long_as_the_turn_runs(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        began = trio.current_time()
        await trio.sleep(20)
        await turn.ends("done")
        await office.all_sent(5)
        await trio.sleep(20)
    at = typing(api.chats[1])
    assert at[0] - began < 0.5
    assert len(at) == 5
    assert at[-1] - began < 20


async def test_typing_that_hangs_does_not_hold_up_the_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.often(1.0, Silent(), "sendChatAction")
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        await trio.sleep(1)
        await turn.ends("done")
        await office.all_sent(0.5)


async def test_a_turn_whose_end_was_missed_is_not_shown_for_ever(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("growing")
        await trio.sleep(4 * 3600)
        assert office.actor.activity() == ""
        assert typing(api.chats[1])[-1] < 4000
        await turn.ends("grown")
        await office.all_sent(5)
    assert api.chats[1].texts == ["grown"]


# When something goes wrong


async def test_a_preview_that_fails_costs_the_reply_nothing(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    for method in ("sendChatAction", "editMessageText", "sendMessage"):
        for fault in (Broken(), Error(400, "Bad Request: no reason"), Reset()):
            if method != "sendMessage" or not isinstance(fault, Error):
                api.faults.next(fault, method, chat=1)
    async with post_office(tmp_path, api) as office:
        for number in range(6):
            turn = await office.begin("tg1")
            for word in range(8):
                turn.says(f"word {word} ")
                await trio.sleep(0.6)
            await turn.ends(f"reply {number}")
            await office.all_sent(60)
        assert len(office.incarnations) == 1
    assert [unmarked(text) for text in api.chats[1].texts] == [f"reply {number}" for number in range(6)]


@pytest.mark.parametrize(
    "fault", [Late(25), Reset(), Reset(after=True), Silent(), Silent(after=True), Broken()]
)
async def test_an_edit_that_nobody_confirmed_cannot_overwrite_the_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("one ")
        await trio.sleep(2)
        api.faults.next(fault, "editMessageText")
        turn.says("two ")
        await trio.sleep(2)
        await turn.ends("the answer")
        await office.all_sent(30)
        await trio.sleep(60)
        api.catch_up()
    assert api.chats[1].texts == ["the answer"]


async def test_a_preview_that_may_not_become_the_reply_is_taken_away_when_that_succeeds(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Broken(), "deleteMessage", times=3)
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("one ")
        await trio.sleep(2)
        api.faults.next(Reset(), "editMessageText")
        turn.says("two ")
        await trio.sleep(2)
        await turn.ends("the answer")
        await trio.sleep(2)
        assert api.chats[1].texts == ["one", "the answer"]
        await trio.sleep(20)
    assert api.chats[1].texts == ["the answer"]


async def test_an_edit_that_a_crash_cut_off_cannot_overwrite_the_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async def crash() -> None:
        raise ValueError("on purpose")

    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("one ")
        await trio.sleep(2)
        api.faults.next(Late(8), "editMessageText")
        turn.says("two ")
        await trio.sleep(1.5)
        office.actor.start_soon(crash)
        await turn.ends("the answer")
        await office.all_sent(30)
        await trio.sleep(60)
        api.catch_up()
    assert api.chats[1].texts == ["the answer"]  # and the preview is gone


async def test_an_edit_that_a_failed_disk_cut_off_cannot_overwrite_the_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    disk = FailingDisk()
    async with post_office(tmp_path, api, offload=disk) as office:
        turn = await office.begin("tg1")
        turn.says("one ")
        await trio.sleep(2)
        api.faults.next(Late(50), "editMessageText")
        turn.says("two ")
        await trio.sleep(1)
        disk.fails = 1
        with pytest.raises(ActorError):  # and with the journal the sender: nothing can be noted
            await office.asked("tg1")
        await trio.sleep(5)
        await turn.ends("the answer")
        await office.all_sent(30)
        assert api.chats[1].texts == ["the answer"]
        await trio.sleep(60)
        api.catch_up()
    assert api.chats[1].texts == ["the answer"]


async def test_an_old_preview_that_cannot_be_deleted_becomes_the_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("one ")
        await trio.sleep(2)
    await trio.sleep(3 * 24 * 3600)  # Telegram lets nobody delete a message that is older than 48 hours
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "the answer", turn.message)
        await office.all_sent(30)
    assert api.chats[1].texts == ["the answer"]


async def test_a_reply_that_is_found_before_it_is_told_takes_its_preview_over(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        for word in range(6):
            turn.says(f"{word} ")
            await trio.sleep(0.5)
        await office.reply("tg1", "the answer", turn.message, published=False)
        await office.reply("tg1", "busy")
        for word in range(20):
            turn.says(f"{word} ")
            await trio.sleep(0.5)
        await office.all_sent(5)
    assert sorted(api.chats[1].texts) == ["busy", "the answer"]


async def test_what_nobody_confirmed_is_not_edited_by_a_later_process_either(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("one ")
        await trio.sleep(2)
        api.faults.next(Late(100), "editMessageText")
        turn.says("two ")
        await trio.sleep(15)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "restarted", turn.message)
        await office.all_sent(30)
        await trio.sleep(100)
        api.catch_up()
    assert api.chats[1].texts == ["restarted"]


async def test_a_later_process_deletes_the_preview_and_sends_its_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("growing")
        await trio.sleep(3)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "restarted", turn.message)
        await office.all_sent(5)
    assert api.chats[1].texts == ["restarted"]
    assert versions(api.chats[1].messages[-1]) == ["restarted"]


@pytest.mark.parametrize("fault", [Reset(after=True), Silent(after=True), Late(15)])
async def test_a_preview_that_may_be_there_is_not_sent_again(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        api.faults.next(fault, "sendMessage")
        for word in range(60):
            turn.says(f"word {word} ")
            await trio.sleep(0.5)
        await turn.ends("the answer")
        await office.all_sent(30)
    stray, answer = api.chats[1].texts
    assert stray.startswith("word 0")
    assert answer == "the answer"


async def test_a_preview_that_was_deleted_is_made_good_by_a_new_message(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("growing")
        await trio.sleep(3)
        api.chats[1].said[0].deleted = True
        turn.says(" and growing")
        await trio.sleep(3)
        await turn.ends("grown")
        await office.all_sent(5)
        turn = await office.begin("tg1")
        turn.says("growing")
        await trio.sleep(4)
        api.chats[1].said[-1].deleted = True
        await turn.ends("grown again")
        await office.all_sent(5)
    assert api.chats[1].texts == ["grown", "grown again"]


async def test_an_edit_under_way_is_awaited(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("one ")
        await trio.sleep(2)
        api.faults.next(Slow(4), "editMessageText")
        turn.says("two ")
        await trio.sleep(1.5)
        await turn.ends("the answer")
        await office.all_sent(10)
    [message] = api.chats[1].said
    assert versions(message) == ["one", "one two", "the answer"]


async def test_previews_stop_while_the_chat_has_to_wait(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("one ")
        await trio.sleep(2)
        api.faults.next(Flood(40), "editMessageText")
        for word in range(40):
            turn.says(f"{word} ")
            await trio.sleep(0.5)
        calls = [call for call in api.calls if call.time > 6]
        assert calls == []
        await turn.ends("the answer")
        await office.flush(5)  # which does not wait for a limit
        assert api.chats[1].texts != ["the answer"]
        await office.all_sent(60)
    assert api.chats[1].texts == ["the answer"]
    assert api.rates.refused == []


async def test_what_could_not_be_shown_now_is_not_formatted_either(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    formatted: list[float] = []

    def counted(state: TurnState, language: Language, *, plain: bool = False) -> MessagePart:
        formatted.append(trio.current_time())
        return sketch(state, language, plain=plain)

    monkeypatch.setattr(preview, "sketch", counted)
    limits = SendLimits()
    async with post_office(tmp_path, api, limits=limits) as office:
        limits.pause(1, 60)
        turn = await office.begin("tg1")
        for word in range(500):
            turn.says(f"word {word} ")
            await trio.sleep(0.1)
        assert not formatted
        await trio.sleep(15)
        assert formatted
        assert "word 499" in api.chats[1].said[0].text
        await turn.ends("the answer")
        await office.all_sent(10)
    assert api.chats[1].texts == ["the answer"]


async def test_formatting_that_a_preview_cannot_have_is_left_out(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        api.faults.next(Error(400, "Bad Request: can't parse entities: no"), "sendMessage")
        turn.says("**growing**")
        await trio.sleep(6)
        [message] = api.chats[1].said
        assert (message.text, message.entities) == ("growing", [])
        await turn.ends("**grown**")
        await office.all_sent(5)
    assert (message.text, bool(message.entities)) == ("grown", True)


async def test_who_leaves_during_a_turn_is_noticed_before_the_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("growing")
        await trio.sleep(3)
        api.block(api.people[1])
        turn.says(" and growing")
        await trio.sleep(10)
        assert office.ended == ["tg1"]
        await turn.ends("grown")
        await office.all_sent(5)


async def test_a_group_that_moves_during_a_turn_has_its_reply_at_the_new_number(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    group = api.group(-5, basic=True, members=[api.people[1]])
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg-5")
        turn.says("growing")
        await trio.sleep(3)
        new = api.migrate(group, -100)
        turn.says(" and growing")
        await trio.sleep(10)
        await turn.ends("grown")
        await office.all_sent(10)
    assert new.texts == ["grown"]


def test_the_todo_list_stands_in_the_preview_and_changes_in_place() -> None:
    def listed(*states: str) -> ToolStarted:
        items = [{"text": f"see http://x{n}.example", "state": state} for n, state in enumerate(states)]
        return ToolStarted(ToolCall("c", "todo", "{}"), {"items": items})

    first = "◐ see http://x0.example\n○ see http://x1.example"
    assert sketched(listed("doing", "open")) == f"{first}\n\n💭 thinking…"
    assert sketched(listed("doing", "open"), TextDelta("well")) == f"well\n\n{first}"
    bash = ToolStarted(ToolCall("d", "bash", "{}"), {"command": "make"})
    both = sketched(listed("doing", "open"), Thinking(2), bash)
    assert both.startswith(f"{first}\n\n🔧")
    assert sketched(listed("doing", "open"), listed("done", "done")).count("●") == 2
    state = TurnState("t1").apply(ChatEvent("tg1", "t1", 0.0, listed("doing", "open")))
    assert sketch_codes(state) == ["see http://x0.example", "see http://x1.example"]


def sketch_codes(state: TurnState) -> list[str]:
    """The parts of a preview in which nothing is a link."""
    part = sketch(state, "en")
    text = part.text.encode("utf-16-le")
    return [text[2 * e.offset : 2 * (e.offset + e.length)].decode("utf-16-le") for e in part.entities]
