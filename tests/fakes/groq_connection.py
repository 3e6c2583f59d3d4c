"""One connection to the fake Groq: requests read from it, and answers as the script wants them."""

import json
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

import h11
import trio

from tests.fakes.groq_audio import read_form
from tests.fakes.groq_replies import (
    Answer,
    Behaviour,
    Body,
    Drop,
    Fail,
    Hang,
    Raw,
    Transcript,
    reply_chunks,
    whole_reply,
)


@dataclass(frozen=True)
class Recorded:
    """A request as it came. `body` is None where it was neither JSON nor a form."""

    method: str
    path: str
    headers: dict[str, str]
    body: Body | None
    time: float


class ClientLeftError(Exception):
    """The client went away."""


class Server(Protocol):
    """What decides over the answers."""

    def record(self, request: Recorded) -> None: ...

    def behaviour(self, request: Recorded) -> Behaviour: ...

    def next_id(self) -> str: ...

    def spoke(self, request: Recorded) -> None: ...

    @property
    def cuts_kept(self) -> Literal["no", "close", "reset"]: ...


class Connection:
    def __init__(self, stream: trio.SocketStream, server: Server) -> None:
        self._stream = stream
        self._server = server
        self._http = h11.Connection(h11.SERVER)

    async def run(self) -> None:
        served = 0
        while True:
            request = await self._request()
            if request is None:
                return None
            if served and self._server.cuts_kept != "no":
                # Our close of the kept connection has crossed this request, which is never answered.
                return self._reset() if self._server.cuts_kept == "reset" else None
            served += 1
            self._server.record(request)
            await self._behave(self._server.behaviour(request), request)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return None
            self._http.start_next_cycle()

    async def _request(self) -> Recorded | None:
        head: h11.Request | None = None
        data = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._stream.receive_some(65536))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                data += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return None
        assert head is not None
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        body = read_form(headers.get("content-type", ""), bytes(data))
        if body is None:
            with suppress(ValueError):
                body = json.loads(data)
        return Recorded(head.method.decode(), head.target.decode(), headers, body, trio.current_time())

    async def _behave(self, behaviour: Behaviour, request: Recorded) -> None:
        match behaviour:
            case Answer():
                await self._answer(behaviour, request)
            case Transcript():
                await self._transcript(behaviour)
            case Fail():
                await self._fail(behaviour)
            case Raw():
                await self._raw(behaviour)
            case Hang():
                await self._until_client_leaves()
            case Drop():
                self._reset()

    async def _answer(self, answer: Answer, request: Recorded) -> None:
        await self._pause(answer.begin_s)
        assert request.body is not None
        if request.body.get("stream") is False:
            whole = whole_reply(answer, self._server.next_id(), request.body["model"])
            await self._raw(Raw(json.dumps(whole).encode(), "application/json", answer.pause_s))
            return
        await self._head(200, {"content-type": "text/event-stream", **answer.headers})
        groq = request.path.startswith("/openai")
        usage = groq or bool((request.body.get("stream_options") or {}).get("include_usage"))
        chunks = reply_chunks(answer, self._server.next_id(), request.body["model"], groq=groq, usage=usage)
        silent = True
        for number, chunk in enumerate(chunks):
            if answer.cut_after == number:
                await self._stream.aclose()
                return
            if answer.hang_after == number:
                await self._until_client_leaves()
            if answer.pause_s:
                await self._pause(answer.pause_s)
            if silent and any(choice["delta"].get("content") for choice in chunk["choices"]):
                silent = False
                self._server.spoke(request)
            await self._data(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        await self._data(b"data: [DONE]\n\n")
        await self._send(h11.EndOfMessage())

    async def _transcript(self, transcript: Transcript) -> None:
        if transcript.pause_s:
            await self._pause(transcript.pause_s)
        await self._head(200, {"content-type": "application/json"})
        await self._data(json.dumps({"text": transcript.text, "x_groq": {"id": "req_fake"}}).encode())
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
        raise ClientLeftError

    def _reset(self) -> None:
        # SO_LINGER with a time of 0 makes the close a RST.
        self._stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._stream.socket.close()
        raise ClientLeftError
