"""Telegram's Bot API over real HTTP on loopback.

In process: `async with serve_telegram(api) as server`. By hand,
`python -m tests.fakes.telegram_server --port 0` prints its address, then what the bot does; a line on its
standard input says what somebody writes: `123 hello`, `123@-100777/5 hello`.
"""

import argparse
import signal
import struct
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import h11
import trio

from tests.fakes.bot_api import TOKEN, Answer, BotApi
from tests.fakes.bot_api_chats import EPOCH
from tests.fakes.telegram_by_hand import Console
from tests.fakes.telegram_exchange import ConnectionLost, download, exchange
from tests.fakes.telegram_http import Request, understood
from tests.fakes.telegram_webhook import deliver

__all__ = ["TOKEN", "TelegramServer", "serve_telegram"]


class TelegramServer:
    """`open` is the number of connections, `connections` how many there were, `left` how many clients went
    away while they waited for an answer."""

    def __init__(self, api: BotApi, *others: BotApi) -> None:
        """`others` are further bots: each has a token of its own."""
        self.api = api
        self.apis = (api, *others)
        self.port = 0
        self.open = 0
        self.connections = 0
        self.left = 0
        self._changed = trio.Event()

    @property
    def root(self) -> str:
        """For `TELEGRAM_BASE_URL`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """For a `telegram.Bot`."""
        return f"{self.root}/bot"

    @property
    def base_file_url(self) -> str:
        """For a `telegram.Bot`."""
        return f"{self.root}/file/bot"

    async def wait_idle(self) -> None:
        """Wait until no connection is open."""
        while self.open:
            await self._changed.wait()

    async def serve(self, *, port: int = 0, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        async with trio.open_nursery() as nursery:
            for api in self.apis:
                nursery.start_soon(deliver, api)
            await trio.serve_listeners(self._connection, listeners)

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.open += 1
        self.connections += 1
        try:
            await _Connection(stream, self.apis).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError, _ClientLeftError):
            self.left += 1
        except h11.RemoteProtocolError:  # in the middle of a request
            self.left += 1
        except ConnectionLost:
            _reset(stream)
        finally:
            self.open -= 1
            self._changed.set()
            self._changed = trio.Event()
            with trio.move_on_after(1, shield=True):
                await stream.aclose()


class _ClientLeftError(Exception):
    """The client went away."""


class _Connection:
    def __init__(self, stream: trio.SocketStream, apis: tuple[BotApi, ...]) -> None:
        self._stream = stream
        self._apis = apis
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        while True:
            came = await self._request()
            if came is None:
                return
            await self._send(await self._while_connected(*came))
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> tuple[Request | None] | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._stream.receive_some(262144))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return None
        assert head is not None
        kind = next((value for name, value in head.headers if name == b"content-type"), b"")
        return (understood(head.target.decode(), kind.decode("latin-1"), bytes(body)),)

    async def _while_connected(self, request: Request | None) -> Answer:
        """The answer; given up at once when the client goes away."""
        answer: Answer | None = None
        lost = False
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                with suppress(trio.BrokenResourceError):
                    while data := await self._stream.receive_some(65536):
                        self._http.receive_data(data)
                nursery.cancel_scope.cancel()

            async def work() -> None:
                nonlocal answer, lost
                try:
                    answer = await self._answer(request)
                except ConnectionLost:
                    lost = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            nursery.start_soon(work)
        if lost:
            raise ConnectionLost
        if answer is None:
            raise _ClientLeftError
        return answer

    async def _answer(self, request: Request | None) -> Answer:
        not_found = {"ok": False, "error_code": 404, "description": "Not Found"}
        if request is None:
            return Answer(404, not_found)
        api = next((one for one in self._apis if one.token == request.token), self._apis[0])
        wrong = api.wrong_token(request.token)
        if wrong is not None:
            return wrong
        if request.download:
            return await download(api, request.method)
        return await exchange(api, request.method, request.params, request.files)

    async def _send(self, answer: Answer) -> None:
        body = answer.bytes()
        headers = [("content-type", answer.media_type), ("content-length", str(len(body)))]
        data = self._http.send(h11.Response(status_code=answer.status, headers=headers)) or b""
        data += self._http.send(h11.Data(data=body)) or b""
        await self._stream.send_all(data + (self._http.send(h11.EndOfMessage()) or b""))


def _reset(stream: trio.SocketStream) -> None:
    # SO_LINGER with a time of 0 makes the close a RST.
    stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


@asynccontextmanager
async def serve_telegram(api: BotApi | None = None) -> AsyncIterator[TelegramServer]:
    """Serve until the block is left; `api` goes on living."""
    server = TelegramServer(api or BotApi(trio.current_time))
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        yield server
        nursery.cancel_scope.cancel()


async def _main(arguments: argparse.Namespace) -> None:
    api = BotApi(lambda: time.time() - EPOCH, token=arguments.token)
    server = TelegramServer(api)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda **status: server.serve(port=arguments.port, **status))
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            print(server.root, flush=True)
            nursery.start_soon(Console(api, sys.stdin, sys.stdout).run)
            await anext(signals)
        nursery.cancel_scope.cancel()


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="A Telegram on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token", default=TOKEN)
    with suppress(KeyboardInterrupt):
        trio.run(_main, parser.parse_args())


if __name__ == "__main__":
    main()
