"""A real HTTP server on loopback that speaks Groq's chat completions, as strictly as Groq does.

Used by tests in process (`async with serve_groq(script) as server`) and as a program for whole-program
tests and benchmarks: `python -m tests.fakes.groq_server --port 0 --script tool` prints its address first.
It answers `/openai/v1/chat/completions` (Groq) and `/v1/chat/completions` (the servers that copy OpenAI).
"""

import argparse
import json
import signal
import struct
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

import h11
import trio

from tests.fakes.groq_replies import (
    Answer,
    Behaviour,
    Body,
    Drop,
    Fail,
    Hang,
    Raw,
    Script,
    answered_calls,
    chooser,
    last_user_text,
    reply_chunks,
    scripts,
)
from tests.fakes.groq_rules import BadRequestError, check_request

__all__ = [
    "KEY",
    "Answer",
    "Behaviour",
    "Body",
    "Drop",
    "Fail",
    "GroqServer",
    "Hang",
    "Raw",
    "Recorded",
    "Script",
    "answered_calls",
    "last_user_text",
    "scripts",
    "serve_groq",
]

KEY = "gsk_test_0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Recorded:
    """A request as it came. `body` is None where it was no JSON."""

    method: str
    path: str
    headers: dict[str, str]
    body: Body | None
    time: float


class GroqServer:
    """`requests` is what came so far, `open` the number of connections, `connections` how many there were,
    `left` how many clients went away early."""

    def __init__(self, script: Script, *, key: str | None = KEY, models: Iterable[str] | None = None) -> None:
        self.key = key
        self.models = None if models is None else frozenset(models)
        self.requests: list[Recorded] = []
        self.open = 0
        self.left = 0
        self.connections = 0
        self.port = 0
        self._choose = chooser(script)
        self._ids = count(1)
        self._changed = trio.Event()

    @property
    def base_url(self) -> str:
        """The root, for `GROQ_BASE_URL`."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        """The base URL of a custom server."""
        return f"{self.base_url}/v1"

    async def wait_idle(self) -> None:
        """Wait until no connection is open."""
        while self.open:
            await self._changed.wait()

    async def wait_requests(self, number: int) -> None:
        """Wait until so many requests have come."""
        while len(self.requests) < number:
            await self._changed.wait()

    async def serve(self, *, port: int = 0, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._connection, listeners)

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.open += 1
        self.connections += 1
        try:
            await _Connection(stream, self).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError, _ClientLeftError):
            self.left += 1
        finally:
            self.open -= 1
            self._signal()
            with trio.move_on_after(1, shield=True):
                await stream.aclose()

    def record(self, request: Recorded) -> None:
        self.requests.append(request)
        self._signal()

    def _signal(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def behaviour(self, request: Recorded) -> Behaviour:
        """What the script says, unless the request is one that Groq would refuse."""
        if request.path not in {"/openai/v1/chat/completions", "/v1/chat/completions"}:
            return Fail(404, f"Unknown request URL: POST {request.path}", "unknown_url")
        if request.method != "POST":
            return Fail(405, "method not allowed")
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return Fail(401, "Invalid API Key", "invalid_api_key")
        if self.key is None and "authorization" in request.headers:
            return Fail(400, "an authorization header that nobody asked for")
        if request.headers.get("content-type") != "application/json":
            return Fail(415, "content type must be application/json")
        try:
            check_request(request.body, groq=request.path.startswith("/openai"))
        except BadRequestError as error:
            return Fail(400, str(error), "invalid_request_error")
        assert request.body is not None
        if self.models is not None and request.body["model"] not in self.models:
            text = f"The model `{request.body['model']}` does not exist or you do not have access to it."
            return Fail(404, text, "model_not_found")
        return self._choose(request.body)

    def next_id(self) -> str:
        return f"chatcmpl-{next(self._ids)}"


class _ClientLeftError(Exception):
    """The client went away."""


class _Connection:
    def __init__(self, stream: trio.SocketStream, server: GroqServer) -> None:
        self._stream = stream
        self._server = server
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        while True:
            request = await self._request()
            if request is None:
                return
            self._server.record(request)
            await self._behave(self._server.behaviour(request), request)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _request(self) -> Recorded | None:
        head: h11.Request | None = None
        data = b""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                data += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return None
        assert head is not None
        body: Body | None
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        return Recorded(head.method.decode(), head.target.decode(), headers, body, trio.current_time())

    async def _behave(self, behaviour: Behaviour, request: Recorded) -> None:
        match behaviour:
            case Answer():
                await self._answer(behaviour, request)
            case Fail():
                await self._fail(behaviour)
            case Raw():
                await self._raw(behaviour)
            case Hang():
                await self._until_client_leaves()
            case Drop():
                self._reset()

    async def _answer(self, answer: Answer, request: Recorded) -> None:
        await self._head(200, {"content-type": "text/event-stream", **answer.headers})
        groq = request.path.startswith("/openai")
        assert request.body is not None
        usage = groq or bool((request.body.get("stream_options") or {}).get("include_usage"))
        chunks = reply_chunks(answer, self._server.next_id(), request.body["model"], groq=groq, usage=usage)
        for number, chunk in enumerate(chunks):
            if answer.cut_after == number:
                await self._stream.aclose()
                return
            if answer.hang_after == number:
                await self._until_client_leaves()
            if answer.pause_s:
                await self._pause(answer.pause_s)
            await self._data(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await self._data(b"data: [DONE]\n\n")
        await self._send(h11.EndOfMessage())

    async def _fail(self, fail: Fail) -> None:
        body = fail.body
        if body is None:
            body = {
                "error": {"message": fail.message, "type": "invalid_request_error", "code": fail.code or None}
            }
        text = body if isinstance(body, str) else json.dumps(body)
        kind = "text/html" if isinstance(body, str) else "application/json"
        await self._head(fail.status, {"content-type": kind, **fail.headers})
        await self._data(text.encode())
        await self._send(h11.EndOfMessage())

    async def _raw(self, raw: Raw) -> None:
        await self._head(200, {"content-type": raw.content_type})
        step = raw.step or len(raw.data) or 1
        for start in range(0, len(raw.data), step):
            if raw.pause_s:
                await self._pause(raw.pause_s)
            await self._data(raw.data[start : start + step])
        if raw.cut:
            await self._stream.aclose()
        else:
            await self._send(h11.EndOfMessage())

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        await self._send(h11.Response(status_code=status, headers=list(headers.items())))

    async def _data(self, data: bytes) -> None:
        await self._send(h11.Data(data=data))

    async def _send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        if (data := self._http.send(event)) is not None:
            await self._stream.send_all(data)

    async def _pause(self, seconds: float) -> None:
        """Sleep, but notice at once when the client goes away."""
        with trio.move_on_after(seconds):
            await self._until_client_leaves()

    async def _until_client_leaves(self) -> None:
        while await self._stream.receive_some(4096):
            pass
        raise _ClientLeftError

    def _reset(self) -> None:
        # SO_LINGER with a time of 0 makes the close a RST.
        self._stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._stream.socket.close()
        raise _ClientLeftError


@asynccontextmanager
async def serve_groq(
    script: Script, *, key: str | None = KEY, models: Iterable[str] | None = None
) -> AsyncIterator[GroqServer]:
    """Serve until the block is left. `key=None`: no key is asked for, and none may be sent."""
    server = GroqServer(script, key=key, models=models)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        yield server
        nursery.cancel_scope.cancel()


async def _main(arguments: argparse.Namespace) -> None:
    script = scripts(arguments.pause)[arguments.script]
    server = GroqServer(script, key=arguments.key or None)
    async with trio.open_nursery() as nursery:
        await nursery.start(lambda **status: server.serve(port=arguments.port, **status))
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            print(server.base_url, flush=True)
            await anext(signals)
        nursery.cancel_scope.cancel()


def main() -> None:
    """Serve until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description="A Groq on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", choices=sorted(scripts()), default="ok")
    parser.add_argument("--key", default=KEY, help="the key to ask for; empty for none")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between chunks of 'slow'")
    with suppress(KeyboardInterrupt):
        trio.run(_main, parser.parse_args())


if __name__ == "__main__":
    main()
