"""What one process reaches the world through. Once the process is dead, nothing gets through any more."""

from collections.abc import Callable
from math import inf
from random import Random
from typing import Any, TypeVar, cast

import httpx
import trio
from telegram.error import NetworkError, RetryAfter, TelegramError, TimedOut
from telegram.request import RequestData

from rumi.channels.telegram.api.bot import wait_of
from rumi.channels.telegram.api.guarded import Guarded, _ApiResponse
from rumi.errors import RumiError
from rumi.memory.messages import MemoryUnavailable
from rumi.store.journal.records import Attachment
from rumi.store.journal.store import JournalError
from tests.fakes.bot_api import Answer, BotApi
from tests.fakes.telegram_request import InMemoryRequest, _Ready
from tests.simulation.world import World

T = TypeVar("T")

NO_ENTITIES = "Bad Request: can't parse entities: unsupported start tag"

UNHURRIED = frozenset({"deleteMessage", "getMe", "setMyCommands", "getFile", "answerCallbackQuery"})
"""What may be asked though Telegram wanted to be left alone in a chat."""


LONG_CHARS = 3000
"""A message with so many characters is one of several."""

HEARD_S = 6.0
"""How long a sender that ends may still wait for an answer, without caring much what it says."""


TRIED_AGAIN_S = 65.0
"""How long it may take until a call that failed is tried again."""


MOMENTS = (
    *("write", "written", "written", "asks sendMessage", "did sendMessage", "did sendMessage"),
    *("asks editMessageText", "did editMessageText", "asks getUpdates", "did getUpdates"),
    *("did deleteMessage", "did sendDocument", "did sendMessageDraft", "did a long one", "did a long one"),
)
"""When a process may die, besides at any time."""

MOMENTS_OF_QUESTIONS = (
    *("asked", "did a question", "did a question", "did a question", "answered"),
    *("did answerCallbackQuery", "did editMessageReplyMarkup"),
)
"""When it may die where people want much from outside."""


def draw_death(random: Random, curious: float) -> tuple[str, int]:
    """When a process dies; `curious` is how much people want from outside."""
    if random.random() < curious:
        return random.choice(MOMENTS_OF_QUESTIONS), random.choice((1, 1, 2, 3))
    return random.choice(MOMENTS), random.choice((1, 2, 3, 5, 8, 13, 25))


class Life:
    """Whether a process lives, and when it dies: at the `death`'s so-many-th moment of a kind.

    `end` is called, once, in the very step in which it dies.
    """

    def __init__(self, world: World, death: tuple[str, int] | None, end: Callable[[], None]) -> None:
        self.world = world
        self.dead = False
        self.died_at = inf
        """When it died, in seconds since 1970."""
        self.over_at = inf
        """When it was over, killed or ended in order, in seconds since 1970."""
        self._kind, self._left = death or ("", 0)
        self._end = end

    def moment(self, kind: str) -> None:
        """Something happens by which a process may be meant to die."""
        if kind == self._kind:
            self._left -= 1
            if self._left == 0:
                self.die(kind)

    def die(self, why: str) -> None:
        if not self.dead:
            self.dead, self.died_at = True, self.world.now()
            self.world.note("process", f"is killed: {why}")
            self.world.counts["kills"] += 1
            self._end()


class Disk:
    """Blocking work in place: slow at times, failing rarely or for a while, and not at all once dead.

    Like a thread it cannot be cancelled: whoever leaves waits for its end.
    """

    def __init__(self, life: Life) -> None:
        self._life = life
        self._world = life.world
        self._failed_at = float("-inf")

    async def __call__(self, work: Callable[[], T]) -> T:
        life, world = self._life, self._world
        done: T | None = None
        with trio.CancelScope(shield=True), world.waits.of():
            await trio.sleep(0 if world.calm else world.random.choice((0, 0, 0, 0.001, 0.01)))
            life.moment("write")
            if life.dead:
                raise JournalError("the process is dead")
            fails, written = self._fails()
            if written:
                done = work()
            if world.fails_behind == "now":
                fails, world.fails_behind = True, ""
                world.counts["disk"] += 1
                world.note("disk", "fails, after it wrote a reply")
            life.moment("written")
            await trio.sleep(0 if world.calm else world.random.choice((0, 0, 0, 0.001, 0.3)))
            if fails or life.dead:
                raise JournalError("the disk failed")
        return cast(T, done)

    def _fails(self) -> tuple[bool, bool]:
        """Whether it fails, and whether the work is done."""
        world, now = self._world, trio.current_time()
        if now < self._failed_at + 20 or not world.dice("disk", 0.004):
            return False, True
        self._failed_at = now
        written = world.random.random() < 0.3
        world.note("disk", f"fails, {'after' if written else 'before'} it wrote")
        return True, written


class MemoryDisk:
    """The same disk as the memory meets it, whose store says itself what has failed."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    async def __call__(self, work: Callable[[], T]) -> T:
        try:
            return await self._disk(work)
        except JournalError as error:
            raise MemoryUnavailable(str(error)) from error


class Line(Guarded, InMemoryRequest):
    """A process's line to Telegram, with the program's own guard in front of it.

    `typing` is told in which room somebody seems to be typing.
    """

    def __init__(
        self, life: Life, api: BotApi, latency: tuple[float, float], typing: Callable[[int, int | None], None]
    ) -> None:
        super().__init__(api, latency=latency, seed=life.world.random.getrandbits(32))
        self._life = life
        self._typing = typing
        self._on_the_way: set[RequestData] = set()
        self._left_alone: dict[object, tuple[float, float]] = {}

    async def do_request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        waits = self._life.world.waits
        data: RequestData = kwargs["request_data"]
        key = wait_key(data.parameters.get("chat_id"))
        try:
            with waits.of(key):
                return await self._request(url, *args, **kwargs)
        except TelegramError:
            waits.until(trio.current_time() + TRIED_AGAIN_S, key)
            raise

    async def _request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        life, method = self._life, _method(url)
        world = life.world
        data: RequestData = kwargs["request_data"]
        chat = data.parameters.get("chat_id")
        through = False
        try:
            await self._get_through(kwargs.get("read_timeout"))
            through = True
        finally:
            if not through and method == "deleteMessage":
                world.undeleted[chat] += 1
        asked_at, until = self._left_alone.get(chat, (0.0, 0.0))
        if asked_at < trio.current_time() < until - 1e-6 and method not in UNHURRIED:
            world.complain(f"{method} is asked in {chat}, where Telegram wanted to be left alone")
        self._on_the_way.add(data)
        try:
            return await super().do_request(url, *args, **kwargs)
        except RetryAfter as error:
            self._left_alone[chat] = (trio.current_time(), trio.current_time() + wait_of(error))
            raise
        except trio.Cancelled:
            if data in self._on_the_way and method != "getUpdates" and world.random.random() < 0.5:
                # Whoever sent it listens no more; it arrives all the same.
                world.note("telegram", f"{method} arrives though nobody waits for it", lambda: _short(data))
                self.api.handle(method, data.parameters)
            raise
        finally:
            self._on_the_way.discard(data)

    def sender_lost(self) -> None:
        """What it was told just before its end, it may not have heard."""
        heard = trio.current_time() - HEARD_S
        self._left_alone = {chat: told for chat, told in self._left_alone.items() if told[0] < heard}

    async def _get_through(self, limit_s: object) -> None:
        """Raises where nothing leaves this machine."""
        life, world = self._life, self._life.world
        if life.dead:
            raise NetworkError("the process is dead")
        if trio.current_time() < world.cut_until and world.cut_silently:
            await trio.sleep(limit_s if isinstance(limit_s, int | float) else 5.0)
            raise TimedOut
        if trio.current_time() < world.cut_until or world.dice("telegram", 0.01):
            await trio.lowlevel.checkpoint()
            raise NetworkError("httpx.ConnectError: ") from httpx.ConnectError("no route")

    async def _answer(self, url: str, data: RequestData | None) -> Answer:
        assert data is not None
        life, method = self._life, _method(url)
        self._on_the_way.discard(data)
        life.moment(f"asks {method}")
        if data.parameters.get("entities") and life.world.dice("telegram", 0.05):
            life.world.plain.add(data.parameters["chat_id"])
            return Answer(400, {"ok": False, "error_code": 400, "description": NO_ENTITIES})
        if method == "sendChatAction":
            self._typing(data.parameters["chat_id"], data.parameters.get("message_thread_id"))
        answer = await super()._answer(url, data)
        if method == "sendMessage" and answer.body is not None and answer.status == 200:
            sent = answer.body["result"]
            life.world.sent_by[sent["chat"]["id"], sent["message_id"]] = life
        if method == "deleteMessage" and answer.status == 403:
            life.world.undeleted[data.parameters["chat_id"]] += 1
        if method != "sendChatAction":
            life.world.note("telegram", f"{method} is {answer.status}", lambda: _short(data))
        life.moment(f"did {method}")
        if method == "sendMessage" and "reply_markup" in data.parameters:
            life.moment("did a question")
        if len(data.parameters.get("text", "")) > LONG_CHARS:
            life.moment("did a long one")
        return answer

    @staticmethod
    def parse_json_payload(payload: bytes) -> dict[str, Any]:
        if isinstance(payload, _Ready):
            return _ApiResponse(payload.body)
        return Guarded.parse_json_payload(payload)


def wait_key(number: object) -> str:
    """How the waits call what a chat of Telegram's reaches for, all topics of a group together."""
    return f"room {number}"


def _method(url: str) -> str:
    return url.rpartition("/")[2]


def _short(data: RequestData) -> str:
    """A request's parameters on one line."""
    return str({name: value for name, value in data.parameters.items() if name != "commands"})[:160]


class Files:
    """Brings what messages carry: a stand-in for downloads, which need sockets."""

    def __init__(self, life: Life, api: BotApi) -> None:
        self._life = life
        self._api = api

    async def bring(self, chat: str, attachment: Attachment) -> str:
        world = self._life.world
        with world.waits.of(chat):
            await trio.sleep(world.random.choice((0, 0.2, 5)))
        if world.dice("telegram", 0.1) or self._life.dead:
            raise RumiError("Telegram cannot be reached.")
        content = self._api.files[attachment.reference].content.decode()
        return f"[The user sent a file: /workspace/{attachment.name} that says {content}]"
