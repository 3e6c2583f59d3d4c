"""A real HTTP server on loopback that speaks Groq's chat completions and transcriptions, as strictly as Groq.

Used by tests in process (`async with serve_groq(script) as server`) and as a program for whole-program
tests and benchmarks: `python -m tests.fakes.groq_server --port 0 --script tool` prints its address first.
It answers `/openai/v1/chat/completions` (Groq) and `/v1/chat/completions` (the servers that copy OpenAI),
`/openai/v1/audio/transcriptions`, and `/v1/models` with the models that it has.
"""

import argparse
import json
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count
from typing import Any, Literal

import h11
import trio

from tests.fakes.groq_audio import TooLargeError, check_recording
from tests.fakes.groq_connection import ClientLeftError, Connection, Recorded
from tests.fakes.groq_plan import Plan, tool_use_failed
from tests.fakes.groq_replies import (
    Answer,
    Behaviour,
    Body,
    Drop,
    Fail,
    Hang,
    Raw,
    Script,
    Transcript,
    answered_calls,
    chooser,
    last_user_text,
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
    "Plan",
    "Raw",
    "Recorded",
    "Script",
    "Transcript",
    "answered_calls",
    "last_user_text",
    "scripts",
    "serve_groq",
    "tool_use_failed",
]

CHAT = ("/openai/v1/chat/completions", "/v1/chat/completions")
AUDIO = "/openai/v1/audio/transcriptions"
SAID = Transcript("hola")
KEY = "gsk_test_0123456789abcdefghijklmnopqrstuvwxyz"


class GroqServer:
    """`requests` is what came so far, `open` the number of connections, `connections` how many there were,
    `left` how many clients went away early. `spoken` has each request whose answer has begun with words, and
    the wall clock's time of its first words. `audio` is for recordings what `script` is for chats. `plan` is
    what the key's organisation may use; `cuts_kept`, how it ends connections that it was to keep."""

    def __init__(
        self,
        script: Script,
        *,
        key: str | None = KEY,
        models: Iterable[str] | None = None,
        audio: Script = SAID,
        plan: Plan | None = None,
        cuts_kept: Literal["no", "close", "reset"] = "no",
    ) -> None:
        self.plan = plan
        self.cuts_kept = cuts_kept
        self.key = key
        self.models = None if models is None else frozenset(models)
        self.requests: list[Recorded] = []
        self.spoken: list[tuple[Recorded, float]] = []
        self.open = 0
        self.left = 0
        self.connections = 0
        self.port = 0
        self._choose = chooser(script)
        self._choose_audio = chooser(audio)
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
            await Connection(stream, self).run()
        except (trio.BrokenResourceError, trio.ClosedResourceError, ClientLeftError):
            self.left += 1
        except h11.RemoteProtocolError:  # in the middle of a request
            self.left += 1
        finally:
            self.open -= 1
            self._signal()
            with trio.move_on_after(1, shield=True):
                await stream.aclose()

    def record(self, request: Recorded) -> None:
        self.requests.append(request)
        self._signal()

    def spoke(self, request: Recorded) -> None:
        self.spoken.append((request, time.time()))

    def _signal(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def behaviour(self, request: Recorded) -> Behaviour:
        """What the script says, unless the request is one that Groq would refuse."""
        if (request.method, request.path) == ("GET", "/v1/models"):
            listed = {"object": "list", "data": [{"id": name} for name in sorted(self.models or ())]}
            return Raw(json.dumps(listed).encode(), "application/json")
        if request.path not in (*CHAT, AUDIO):
            return Fail(404, f"Unknown request URL: POST {request.path}", "unknown_url")
        if request.method != "POST":
            return Fail(405, "method not allowed")
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return Fail(401, "Invalid API Key", "invalid_api_key")
        if self.key is None and "authorization" in request.headers:
            return Fail(400, "an authorization header that nobody asked for")
        try:
            return self._heard(request) if request.path == AUDIO else self._asked(request)
        except BadRequestError as error:
            return Fail(400, str(error), "invalid_request_error")

    def _asked(self, request: Recorded) -> Behaviour:
        if request.headers.get("content-type") != "application/json":
            return Fail(415, "content type must be application/json")
        check_request(request.body, groq=request.path.startswith("/openai"))
        assert request.body is not None
        if self.models is not None and request.body["model"] not in self.models:
            text = f"The model `{request.body['model']}` does not exist or you do not have access to it."
            return Fail(404, text, "model_not_found")
        if self.plan is not None and (refusal := self.plan.refusal(request.body)) is not None:
            return refusal
        behaviour = self._choose(request.body)
        if isinstance(behaviour, Answer) and request.path.startswith("/openai"):
            behaviour = _validated(behaviour, request.body)
        if self.plan is not None and isinstance(behaviour, Answer | Fail):
            behaviour = replace(behaviour, headers={**self.plan.headers(), **behaviour.headers})
        return behaviour

    def _heard(self, request: Recorded) -> Behaviour:
        if request.body is None:
            return Fail(400, "request Content-Type isn't multipart/form-data", "invalid_request_error")
        try:
            check_recording(request.body)
        except TooLargeError:
            return Fail(413, "Request Entity Too Large", "request_too_large")
        return self._choose_audio(request.body)

    def next_id(self) -> str:
        return f"chatcmpl-{next(self._ids)}"


def _validated(answer: Answer, body: Body) -> Behaviour:
    """Groq looks whether a called tool is there, unless it was told not to; without tools, none may be."""
    if answer.calls and not body.get("tools"):
        name, arguments = answer.calls[0]
        wrote = f'{{"name": {json.dumps(name)}, "arguments": {arguments}}}'
        return tool_use_failed(wrote, "Tool choice is none, but model called a tool")
    tools = {tool["function"]["name"] for tool in body.get("tools", ())}
    unknown = next((call for call in answer.calls if call[0] not in tools), None)
    if unknown is None or body.get("disable_tool_validation"):
        return answer
    name, arguments = unknown
    text = f"tool call validation failed: attempted to call tool '{name}' which was not in request.tools"
    return tool_use_failed(f'{{"name": {json.dumps(name)}, "arguments": {arguments}}}', text)


@asynccontextmanager
async def serve_groq(
    script: Script,
    *,
    key: str | None = KEY,
    models: Iterable[str] | None = None,
    audio: Script = SAID,
    plan: Plan | None = None,
    cuts_kept: Literal["no", "close", "reset"] = "no",
) -> AsyncIterator[GroqServer]:
    """Serve until the block is left. `key=None`: no key is asked for, and none may be sent."""
    server = GroqServer(script, key=key, models=models, audio=audio, plan=plan, cuts_kept=cuts_kept)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        yield server
        nursery.cancel_scope.cancel()


def run_as_program(make: Callable[[Script], GroqServer]) -> None:
    """Serve with one of the scripts at a port until SIGINT or SIGTERM; the address is printed first."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", choices=sorted(scripts()), default="ok")
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        trio.run(_serve, make(scripts()[arguments.script]), arguments)


async def _main(arguments: argparse.Namespace) -> None:
    script = scripts(arguments.pause)[arguments.script]
    said = Transcript(arguments.said)
    plan = Plan(arguments.plan, minute_s=arguments.minute) if arguments.plan else None
    await _serve(GroqServer(script, key=arguments.key or None, audio=said, plan=plan), arguments)


async def _serve(server: GroqServer, arguments: argparse.Namespace) -> None:
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
    parser.add_argument("--plan", type=int, default=0, help="tokens a minute; 0 for no limit")
    parser.add_argument("--minute", type=float, default=60.0, help="seconds in a minute of that limit")
    parser.add_argument("--script", choices=sorted(scripts()), default="ok")
    parser.add_argument("--key", default=KEY, help="the key to ask for; empty for none")
    parser.add_argument("--said", default=SAID.text, help="what is said in every recording")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between chunks of 'slow'")
    with suppress(KeyboardInterrupt):
        trio.run(_main, parser.parse_args())


if __name__ == "__main__":
    main()
