"""A bot whose Telegram is in memory, with what guards it in front as in the program."""

import json
from typing import Any

from telegram import Bot

from rumi.channels.telegram.api.guarded import Guarded
from tests.fakes.bot_api import BotApi
from tests.fakes.telegram_request import InMemoryRequest


class _InBytes(InMemoryRequest):
    """Answers as they come from a network."""

    __slots__ = ()

    async def do_request(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        code, payload = await super().do_request(*args, **kwargs)
        body = getattr(payload, "body", None)
        return code, payload if body is None else json.dumps(body).encode()


class GuardedMemory(Guarded, _InBytes):
    __slots__ = ()


def bot_of(api: BotApi) -> Bot:
    """A bot of this Telegram, ready for calls."""
    return Bot(api.token, request=GuardedMemory(api), get_updates_request=GuardedMemory(api, seed=1))
