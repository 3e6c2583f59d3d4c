"""The limits of a chat's turns: those of the channel that each message came through."""

import json
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.chats.hub import reply_to
from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.platform.chat_ids import TELEGRAM
from rumi.store.journal.inbox import accept_messages, open_messages
from rumi.store.journal.records import Incoming
from tests.chats.house import House, house, limited

LIMITS = limited(
    max_turns=3, timeout_s=20, max_turns_telegram=2, max_turns_terminal=5, turn_timeout_s_terminal=50
)


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
        assert await said(home, channel, chat=chat) == f"so far\n\n⚠️ Reached the maximum of {most} turns."


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


async def test_the_journal_keeps_the_channel_of_a_message(tmp_path: Path, autojump_clock: MockClock) -> None:
    async with house(tmp_path, restless) as home:
        journal = home.services.journal
        await journal.ask(accept_messages((Incoming(chat="other", text="go", channel="terminal"),)))
        (found,) = await journal.ask(open_messages("other", 0))
        assert found.channel == "terminal"
