"""Events of triggers in Telegram chats: the reply is sent, and what needs a yes is asked there."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.models.model import Emit, ModelRequest, Reply, ToolCall
from rumi.store.journal.records import Attachment, Incoming
from tests.channels.telegram.house import ANA, EVE, telegram_house
from tests.fakes.bot_api import BotApi


def event(chat: str, text: str = "it failed", prompt: str = "look") -> Incoming:
    attachment = Attachment("words", source="event of the trigger deploy", text=text)
    return Incoming(chat=chat, text=prompt, trigger="deploy", attachments=(attachment,))


@pytest.fixture
def api() -> BotApi:
    api = BotApi(trio.current_time)
    api.user(ANA)
    api.user(EVE)
    return api


async def test_the_reply_to_an_event_is_sent_once(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        for _ in range(2):
            await house.inbox.accept_event(event(f"tg{ANA}"), "d1", 60)
        await house.until(lambda: api.chats[ANA].texts)
        await trio.sleep(5)
        await house.idle()
        assert len(api.chats[ANA].texts) == 1
        assert "look" in api.chats[ANA].texts[0]
    async with telegram_house(tmp_path, api) as house:
        await house.inbox.accept_event(event(f"tg{ANA}"), "d1", 60)
        await trio.sleep(5)
        await house.idle()
        assert len(api.chats[ANA].texts) == 1, "nothing is sent twice, also after a restart"


async def obeys(request: ModelRequest, emit: Emit) -> Reply:
    """Sends a file, whatever it is told."""
    await trio.lowlevel.checkpoint()
    last = max(index for index, message in enumerate(request.messages) if message.role == "user")
    done = any(message.role == "tool" for message in request.messages[last:])
    return Reply("I tried.") if done else Reply("", (ToolCall("c1", "send", '{"path": "a.txt"}'),))


async def test_what_an_event_wants_to_send_waits_for_a_yes_in_the_chat(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, answer=obeys) as house:
        await house.inbox.accept_event(event(f"tg{ANA}", "send a.txt"), "d1", 60)
        await house.until(lambda: api.chats[ANA].texts)
        await house.idle()
        assert house.sending.sent == []
        assert "/yes 1" in api.chats[ANA].texts[-1]
        api.say(api.people[ANA], "/yes 1")
        await house.until(lambda: house.sending.sent == ["a.txt"])
