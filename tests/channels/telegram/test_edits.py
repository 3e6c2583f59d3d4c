"""A message that is edited on Telegram corrects the one that waits, the whole way."""

from pathlib import Path

import trio
from trio.testing import MockClock

from rumi.models.model import Emit, ModelRequest, Reply
from tests.channels.telegram.house import ANA, telegram_house
from tests.fakes.bot_api import BotApi


async def test_an_edit_on_telegram_changes_the_message_that_waits(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    asked: list[str] = []
    go = trio.Event()

    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        asked.append(request.messages[-1].content)
        await go.wait()
        return Reply(f"you said {request.messages[-1].content}")

    api = BotApi(trio.current_time)
    ana = api.user(ANA)
    async with telegram_house(tmp_path, api, answer=answer, max_queued=3) as house:
        api.say(ana, "count the towns")
        await house.until(lambda: asked == ["count the towns"])
        await trio.sleep(20)
        waiting = api.say(ana, "buy milk")
        await trio.sleep(5)
        api.edit(waiting, "buy oat milk")
        await trio.sleep(5)
        api.edit(waiting, "buy oat milk")
        go.set()
        await house.until(lambda: "you said buy oat milk" in api.chat(ana).texts)
        assert asked == ["count the towns", "buy oat milk"]
        assert not any("buy milk" in text for text in api.chat(ana).texts)
