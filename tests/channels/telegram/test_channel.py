"""The room as a whole: how it winds down."""

from pathlib import Path
from typing import Any, cast

import trio
from trio.testing import MockClock

from actors import Actor, ChildSpec, Request, Supervisor, answers
from rumi.app.shutdown import wind_down
from rumi.channels.telegram.channel import Telegram
from rumi.channels.telegram.messages import PollerMessage, SenderMessage, StopPolling
from rumi.channels.telegram.receiving.reading import Who
from rumi.sandbox.chat_files import ChatFiles
from tests.channels.telegram.sending import bot_in_memory
from tests.fakes.bot_api import BotApi


class Failing(Actor[PollerMessage]):
    """A poller whose last batch cannot be stored."""

    @answers(StopPolling)
    async def stop_polling(self, message: StopPolling) -> None:
        raise RuntimeError


class RecordingSender(Actor[SenderMessage]):
    """A sender that notes what it is asked."""

    def __init__(self, steps: list[str]) -> None:
        self._steps = steps

    @answers(Request)
    async def note(self, message: Request[Any]) -> Any:
        self._steps.append(type(message).__name__)


class Turns:
    """An inbox whose turns end at once, and lessons that do not end."""

    def __init__(self, steps: list[str]) -> None:
        self._steps = steps

    async def wind_down(self, patience_s: float, then_s: float) -> None:
        await trio.lowlevel.checkpoint()
        self._steps.append("wind down")

    async def request_extraction(self) -> bool:
        await trio.lowlevel.checkpoint()
        self._steps.append("ask to learn")
        return True

    async def extract_now(self) -> None:
        self._steps.append("learn")
        await trio.sleep_forever()


async def test_turns_end_in_order_and_replies_go_out_also_when_the_poller_fails_at_the_end(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    steps: list[str] = []
    bot = bot_in_memory(BotApi(trio.current_time))
    telegram = Telegram()
    telegram.connect(bot, Who(frozenset()), cast(Any, None), ChatFiles(tmp_path), voice=False)
    root = Supervisor("rumi")
    telegram._sender = root.add(ChildSpec("sender", lambda: RecordingSender(steps)))
    telegram._receiver = root.add(ChildSpec("poller", Failing))
    async with root.running():
        turns: Any = Turns(steps)
        await wind_down((telegram,), turns, turns)
    assert steps == ["wind down", "Flush", "ask to learn", "learn"]
    assert trio.current_time() < 60
