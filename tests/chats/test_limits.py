"""The limits of a chat's turns: those of the channel that each message came through."""

import json
import re
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.fitting import CLOSING, GO_ON
from rumi.chats.hub import reply_to
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.chat_ids import TELEGRAM
from rumi.store.journal.inbox import accept_messages, load_chat, open_messages
from rumi.store.journal.outbox import undelivered_replies
from rumi.store.journal.records import Incoming
from tests.chats.house import FunctionModel, House, echo, house, limited

LIMITS = limited(
    max_turns=3, timeout_s=20, max_turns_telegram=2, max_turns_terminal=5, turn_timeout_s_terminal=50
)


HINT = "Send /continue to go on."


async def restless(request: ModelRequest, emit: Emit) -> Reply:
    """Works for ever, a second for each step; `hang` takes it for ever to begin with."""
    await trio.sleep(1e9 if any(message.content == "hang" for message in request.messages) else 1)
    step = sum(message.role == "assistant" for message in request.messages)
    command = json.dumps({"command": f"echo {step}"})
    return Reply("so far" if request.words_only else "", () if request.words_only else (
        ToolCall(f"c{step}", "bash", command),
    ))  # fmt: skip


async def said(home: House, channel: str, text: str = "go", chat: str = "cli") -> str:
    """Send a message through a channel and wait for its final reply."""
    with home.services.hub.listening(chat) as events:
        number = await home.inbox.accept(chat, text, channel=channel)
        return (await reply_to(events, number)).text


def channel_of(chat: str) -> str:
    return "telegram" if TELEGRAM.owns(chat) else "handed"


@pytest.mark.parametrize(
    ("chat", "channel", "most"),
    [("cli", "terminal", 5), ("cli", "page", 3), ("cli", "", 3), ("tg7", "", 2), ("tg7", "terminal", 5)],
)
async def test_a_turn_has_the_limits_of_the_channel_of_its_message(
    tmp_path: Path, autojump_clock: MockClock, chat: str, channel: str, most: int
) -> None:
    async with house(tmp_path, restless, agent=LIMITS, channel_of=channel_of) as home:
        assert (
            await said(home, channel, chat=chat) == f"so far\n\n⚠️ Reached the maximum of {most} turns. {HINT}"
        )


async def test_two_windows_on_one_chat_have_each_their_own_time(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, restless, agent=LIMITS) as home:
        for channel, seconds in (("terminal", 50), ("page", 20), ("terminal", 50)):
            began = trio.current_time()
            assert "ran out of time" in await said(home, channel, "hang")
            assert seconds <= trio.current_time() - began < seconds + 35


async def test_a_message_that_is_tried_again_has_the_limits_of_the_retry(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, restless, agent=LIMITS) as home:
        assert "maximum of 3" in await said(home, "page")
        assert "maximum of 5" in await said(home, "terminal", "/retry")


async def test_continue_goes_on_in_the_same_context(tmp_path: Path, autojump_clock: MockClock) -> None:
    model = FunctionModel(restless)
    async with house(tmp_path, model, agent=LIMITS) as home:
        assert "maximum of 3" in await said(home, "page", "count my files")
        before = model.requests[-1].messages
        assert "maximum of 3" in await said(home, "page", "/continue")
        messages = model.requests[-1].messages
        assert messages[: len(before)] == before
        asked = [message.content for message in messages if message.role == "user"]
        assert asked == ["count my files", CLOSING, GO_ON, CLOSING]


async def test_the_words_of_continue_are_not_the_users(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with house(tmp_path, restless, agent=LIMITS) as home:
        await said(home, "page")
        await said(home, "page", "/continue")
        record = await home.services.journal.ask(load_chat("cli", 100))
        stored = [entry.message for entry in record.history if entry.message.content == GO_ON]
        assert [message.role for message in stored] == ["system"]
        words = [entry.message.content for entry in record.history if entry.message.role == "user"]
        assert words == ["go"]


async def test_a_reply_at_a_limit_brings_one_button_that_says_continue(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, restless, agent=LIMITS) as home:
        await said(home, "page")
        (reply,) = await home.services.journal.ask(undelivered_replies("cli"))
        (button,) = reply.buttons
        assert (button.label, button.words) == ("Continue", "/continue")
        assert re.fullmatch("[0-9a-f]{16}", button.id)


async def test_continue_says_so_if_no_limit_ended_the_last_turn(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    nothing = "There is nothing to continue: the last turn did not reach a limit."
    async with house(tmp_path, echo, agent=LIMITS) as home:
        assert await home.ask("/continue") == nothing
        assert await home.ask("hello") == "you said hello"
        assert await home.ask("/continue") == nothing


async def test_an_interrupted_continue_can_be_retried(tmp_path: Path, autojump_clock: MockClock) -> None:
    hangs = False

    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        if hangs and request.messages[-1].content == GO_ON:
            await trio.sleep_forever()
        return await restless(request, emit)

    async with house(tmp_path, answer, agent=LIMITS) as home:
        assert "maximum of 3" in await said(home, "page")
        hangs = True
        with home.services.hub.listening("cli") as events:
            number = await home.inbox.accept("cli", "/continue")
            await trio.sleep(5)
            await home.inbox.accept("cli", "/stop")
            assert (await reply_to(events, number)).text == "⏹ Stopped."
        hangs = False
        assert "maximum of 3" in await said(home, "page", "/retry")
        record = await home.services.journal.ask(load_chat("cli", 100))
        said_by_user = [entry.message.content for entry in record.history if entry.message.role == "user"]
        assert said_by_user == ["go"]


async def test_a_turn_goes_on_by_itself_as_often_as_the_settings_say(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with house(tmp_path, restless, agent=LIMITS, continues=2) as home:
        assert await said(home, "page") == f"so far\n\n⚠️ Reached the maximum of 9 turns. {HINT}"
        began = trio.current_time()
        assert "ran out of time" in await said(home, "page", "hang")
        assert 60 <= trio.current_time() - began < 95


async def test_the_journal_keeps_the_channel_of_a_message(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with house(tmp_path, restless) as home:
        journal = home.services.journal
        await journal.ask(accept_messages((Incoming(chat="other", text="go", channel="terminal"),)))
        (found,) = await journal.ask(open_messages("other", 0))
        assert found.channel == "terminal"
