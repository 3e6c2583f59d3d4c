"""Telegram and Groq on loopback, for whole programs: both live in a thread with an event loop of its own.

What happens there goes on while a test waits for a process; what a test does there is done in that thread.
"""

import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol, TypeVar

import trio

from tests.cli.telegram_model import think
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_api_world import Person
from tests.fakes.groq_server import KEY, GroqServer, Transcript
from tests.fakes.telegram_server import TelegramServer

T = TypeVar("T")

FIRST_PERSON = 1001


class Server(Protocol):
    """Listens until it is cancelled, and may be started again."""

    async def serve(self, *, task_status: Any = ...) -> None: ...


class World:
    """Servers that can go away and come back: a Telegram, a Groq, and what else a test brings.

    `api` is what there is on that Telegram, for the first bot; `others` are what there is for further ones.
    """

    def __init__(
        self,
        *others: BotApi,
        token: str = TOKEN,
        key: str = KEY,
        said: str = "",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`said` is what all voice messages say; `now`, how long ago Telegram's dates began."""
        self.api = BotApi(now, token=token)
        self.telegram = TelegramServer(self.api, *others)
        self.groq = GroqServer(think, key=key, audio=Transcript(said))
        self._people = count(FIRST_PERSON)
        self._ready = threading.Event()
        self._scopes: dict[Server, trio.CancelScope] = {}
        self._thread = threading.Thread(target=trio.run, args=(self._serve,), daemon=True)

    def __enter__(self) -> "World":
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._end.cancel)
        self._thread.join(10)
        assert not self._thread.is_alive()

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as self._nursery:
            self._end = self._nursery.cancel_scope
            await self._come(self.telegram)
            await self._come(self.groq)
            self._ready.set()
            await trio.sleep_forever()

    async def _come(self, server: Server) -> None:
        await self._nursery.start(self._until_it_goes, server)

    async def _until_it_goes(self, server: Server, task_status: trio.TaskStatus[None]) -> None:
        with trio.CancelScope() as scope:
            self._scopes[server] = scope
            if isinstance(server, TelegramServer | GroqServer) and server.port:
                await server.serve(port=server.port, task_status=task_status)
            await server.serve(task_status=task_status)

    def come(self, server: Server) -> None:
        """It listens, where it did before."""
        trio.from_thread.run(self._come, server, trio_token=self._token)

    def leave(self, server: Server) -> None:
        """Nobody listens there any more, and its connections end."""
        self.do(self._scopes[server].cancel)

    # What tests do there

    def do(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Do something where the servers live, so that nothing else happens meanwhile."""
        return trio.from_thread.run_sync(lambda: work(*arguments, **named), trio_token=self._token)

    def until(self, condition: Callable[[], T], bound_s: float = 90.0, what: object = None) -> T:
        """Wait until something holds there; what it returned."""
        end = time.monotonic() + bound_s
        while not (found := self.do(condition)):
            assert time.monotonic() < end, f"it never came to that: {what() if callable(what) else what}"
            time.sleep(0.02)
        return found

    def person(self, **about: Any) -> Person:
        """Somebody new, with a number that the bot's configuration allows."""
        return self.do(self.api.user, next(self._people), **about)
