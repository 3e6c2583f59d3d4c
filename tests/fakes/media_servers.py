"""Servers for recordings, speech and images, over real sockets on loopback.

`WhisperCpp` and `Piper` answer as the sources of whisper.cpp's `examples/server/server.cpp` and of Piper's
`http_server.py` do; `OpenAiSpeech` and `OpenAiImages` as OpenAI's reference documents. `MediaFake` answers
with what a test gives it.
"""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import h11
import trio

from tests.fakes.groq_audio import read_form

OPUS = b"OggS\0\2" + bytes(22) + b"OpusHead\1\1" + bytes(64)
MP3 = b"ID3\4" + bytes(400)
M4A = b"\0\0\0\x20ftypM4A " + bytes(64)
WAV = b"RIFF\x24\1\0\0WAVEfmt \x10\0\0\0\1\0\1\0" + bytes(300)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
JPEG = b"\xff\xd8\xff\xe0" + bytes(100)
PAGE = b"<!doctype html>\n<html><title>Router login</title></html>"


@dataclass(frozen=True, slots=True)
class MediaRequest:
    """A request as it came: `form` has the fields of a form, `json` the body of a JSON request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    form: dict[str, Any] = field(default_factory=dict)
    json: Any = None


@dataclass(frozen=True, slots=True)
class MediaAnswer:
    """An answer. It comes after `wait_s`; with `cut`, the connection ends in the middle of the body."""

    content: bytes = b""
    media_type: str = "application/json"
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    wait_s: float = 0.0
    cut: bool = False


Answering: TypeAlias = Callable[[MediaRequest], MediaAnswer]


def as_json(value: object, status: int = 200) -> MediaAnswer:
    return MediaAnswer(json.dumps(value).encode(), status=status)


NOT_FOUND = MediaAnswer(b"", "text/plain", 404)


class MediaFake:
    """A server that answers by `answer`. `requests` is what came, `left` how many clients went away early."""

    def __init__(self, answer: Answering) -> None:
        self.answer = answer
        self.requests: list[MediaRequest] = []
        self.open = 0
        self.left = 0
        self.port = 0
        self._changed = trio.Event()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def wait_requests(self, number: int) -> None:
        """Wait until so many requests have come."""
        while len(self.requests) < number:
            await self._changed.wait()

    async def wait_idle(self) -> None:
        """Wait until no connection is open."""
        while self.open:
            await self._changed.wait()

    async def serve(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        """Serve on a free port of loopback, or on the one that it had."""
        listeners = await trio.open_tcp_listeners(self.port, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self.handle, listeners)

    async def handle(self, stream: trio.SocketStream) -> None:
        self.open += 1
        try:
            with trio.CancelScope():
                await self._talk(stream)
        except (trio.BrokenResourceError, h11.RemoteProtocolError):
            self.left += 1
        finally:
            self.open -= 1
            self._notify()
            with trio.move_on_after(1, shield=True):
                await trio.aclose_forcefully(stream)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _talk(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        while (request := await _request(connection, stream)) is not None:
            self.requests.append(request)
            self._notify()
            answer = self.answer(request)
            if answer.wait_s and await _left_within(stream, answer.wait_s):
                self.left += 1
                return
            headers = [("content-type", answer.media_type), *answer.headers]
            headers.append(("content-length", str(len(answer.content) * (2 if answer.cut else 1))))
            await stream.send_all(
                connection.send(h11.Response(status_code=answer.status, headers=headers)) or b""
            )
            await stream.send_all(connection.send(h11.Data(data=answer.content)) or b"")
            if answer.cut:
                return
            await stream.send_all(connection.send(h11.EndOfMessage()) or b"")
            if connection.our_state is not h11.DONE:
                return
            connection.start_next_cycle()


async def _request(connection: h11.Connection, stream: trio.SocketStream) -> MediaRequest | None:
    head, body = None, b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(65_536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            headers = {name.decode().lower(): value.decode() for name, value in head.headers}
            kind = headers.get("content-type", "")
            form = (read_form(kind, body) or {}) if kind.startswith("multipart/") else {}
            parsed = json.loads(body) if kind.startswith("application/json") else None
            return MediaRequest(head.method.decode(), head.target.decode(), headers, body, form, parsed)
        else:
            return None


async def _left_within(stream: trio.SocketStream, seconds: float) -> bool:
    with trio.move_on_after(seconds):
        return not await stream.receive_some(1)
    return False


@asynccontextmanager
async def serving_media(fake: MediaFake) -> AsyncIterator[MediaFake]:
    """Serve on a free port of loopback until the block ends."""
    async with trio.open_nursery() as nursery:
        await nursery.start(fake.serve)
        yield fake
        nursery.cancel_scope.cancel()


class WhisperCpp(MediaFake):
    """whisper.cpp's server. Without `convert` it reads WAV, MP3 and FLAC, and no Opus.

    Each segment is a line of the text, the path is `/inference` unless started with another, and the answer
    to a path that it does not know has no body.
    """

    def __init__(self, *segments: str, path: str = "/inference", convert: bool = True) -> None:
        super().__init__(self._answer)
        self.segments = segments or (" Hello, this is a test.",)
        self.path = path
        self.convert = convert

    def _answer(self, request: MediaRequest) -> MediaAnswer:
        if (request.method, request.path) != ("POST", self.path):
            return NOT_FOUND
        audio = request.form.get("file")
        if audio is None:
            return as_json({"error": "no 'file' field in the request"}, 400)
        if self.convert and not audio.startswith((b"OggS", b"RIFF", b"ID3", b"\0\0\0")):
            return as_json({"error": "FFmpeg conversion failed."}, 500)
        if not self.convert and not audio.startswith((b"RIFF", b"ID3", b"fLaC")):
            return as_json({"error": "failed to read audio data"}, 400)
        text = "".join(f"{segment}\n" for segment in self.segments)
        match request.form.get("response_format", "json"):
            case "text":
                return MediaAnswer(text.encode(), "text/html; charset=utf-8")
            case "verbose_json":
                parts = [{"id": at, "text": part} for at, part in enumerate(self.segments)]
                return as_json({"task": "transcribe", "text": text, "segments": parts})
            case _:
                return as_json({"text": text})


class Piper(MediaFake):
    """Piper's server: 1.2 takes plain text at `/`, 1.3 JSON at `/`, and 1.4 JSON at `/synthesize`.

    Flask sends the WAV file as `text/html`, and every exception as a web page with the status 500.
    """

    def __init__(self, version: Literal["1.2", "1.3", "1.4"] = "1.4") -> None:
        super().__init__(self._answer)
        self.version = version
        self.spoken: list[str] = []

    def _answer(self, request: MediaRequest) -> MediaAnswer:
        path = "/synthesize" if self.version == "1.4" else "/"
        if request.path != path:
            known = request.path == "/"  # a page for people, in version 1.4
            return MediaAnswer(PAGE, "text/html; charset=utf-8", 405 if known else 404)
        try:
            text = request.body.decode() if self.version == "1.2" else json.loads(request.body)["text"]
        except (ValueError, KeyError, TypeError):
            return MediaAnswer(PAGE, "text/html; charset=utf-8", 500)
        if not text.strip():
            return MediaAnswer(PAGE, "text/html; charset=utf-8", 500)
        self.spoken.append(text)
        return MediaAnswer(WAV, "text/html; charset=utf-8")


class OpenAiSpeech(MediaFake):
    """OpenAI's `/v1/audio/speech`. `formats` are the formats that the server can make."""

    SOUNDS: Mapping[str, bytes] = {"opus": OPUS, "mp3": MP3, "aac": b"\xff\xf1", "wav": WAV}

    def __init__(self, *formats: str, key: str = "") -> None:
        super().__init__(self._answer)
        self.formats = formats or ("opus", "mp3", "wav")
        self.key = key
        self.spoken: list[str] = []

    def _answer(self, request: MediaRequest) -> MediaAnswer:
        if (request.method, request.path) != ("POST", "/v1/audio/speech"):
            return as_json({"detail": "Not Found"}, 404)
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return as_json({"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}, 401)
        body = request.json
        if not {"model", "input", "voice"} <= set(body) or len(body["input"]) > 4096:
            return as_json({"error": {"message": "bad request"}}, 400)
        format = body.get("response_format", "mp3")
        if format not in self.formats:
            return as_json({"detail": [{"loc": ["body"], "msg": f"unsupported format {format}"}]}, 422)
        self.spoken.append(body["input"])
        return MediaAnswer(self.SOUNDS[format], f"audio/{format}")


class OpenAiImages(MediaFake):
    """OpenAI's `/v1/images/generations`.

    `kind` says how an image comes: as base64; as a `url` at this server, as LocalAI does it; or as base64
    from a server that refuses `response_format`, as OpenAI's newer models do.
    """

    def __init__(self, kind: Literal["b64", "url", "strict"] = "b64", picture: bytes = PNG) -> None:
        super().__init__(self._answer)
        self.kind = kind
        self.picture = picture

    def _answer(self, request: MediaRequest) -> MediaAnswer:
        if request.method == "GET" and request.path == "/generated-images/b64.png":
            return MediaAnswer(self.picture, "image/png")
        if (request.method, request.path) != ("POST", "/v1/images/generations"):
            return NOT_FOUND
        if self.kind == "strict" and "response_format" in request.json:
            message = "Unknown parameter: 'response_format'."
            return as_json({"error": {"message": message, "type": "invalid_request_error"}}, 400)
        if self.kind == "url":
            url = f"{self.root}/generated-images/b64.png"
            return as_json({"created": 1, "data": [{"embedding": None, "index": 0, "url": url}]})
        return as_json({"created": 1, "data": [{"b64_json": b64encode(self.picture).decode()}]})
