"""A Bot API that only hands out files, and does that as badly as a test wants."""

import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio

TOKEN = "7000000009:AAcanary-token_0123456789abcdefghijklm"
Answer = Callable[[trio.SocketStream], Awaitable[None]]


def located(path: object = "documents/file_1.pdf", **fields: object) -> Answer:
    """An answer to getFile."""
    file = {"file_id": "REF", "file_unique_id": "u", "file_path": path, **fields}
    return replying(200, json.dumps({"ok": True, "result": file}).encode())


def refusing(status: int, description: str, **parameters: object) -> Answer:
    """An error of the Bot API's."""
    body = {"ok": False, "error_code": status, "description": description}
    if parameters:
        body["parameters"] = parameters
    return replying(status, json.dumps(body).encode())


def replying(status: int, body: bytes = b"", length: int | None = None, *headers: str) -> Answer:
    """A whole answer; or, with a `length` that is longer, one that is cut off."""

    async def answer(stream: trio.SocketStream) -> None:
        size = len(body) if length is None else length
        await stream.send_all(head(status, f"Content-Length: {size}", *headers))
        await stream.send_all(body)

    return answer


def head(status: int, *headers: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", "Connection: close", *headers, "", ""]).encode()


async def reset(stream: trio.SocketStream) -> None:
    """The connection is gone at once."""
    stream.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))


async def hang(stream: trio.SocketStream) -> None:
    """Nothing at all, until the client leaves."""
    await stream.receive_some(1)


def dripping(length: int, pause_s: float) -> Answer:
    """A byte at a time."""

    async def answer(stream: trio.SocketStream) -> None:
        await stream.send_all(head(200, f"Content-Length: {length}"))
        for _ in range(length):
            await stream.send_all(b"x")
            await trio.sleep(pause_s)

    return answer


async def endless(stream: trio.SocketStream) -> None:
    """Chunks without an end, which say nothing of their number."""
    await stream.send_all(head(200, "Transfer-Encoding: chunked"))
    while True:
        await stream.send_all(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")


def unframed(body: bytes) -> Answer:
    """A body that ends when the connection does."""

    async def answer(stream: trio.SocketStream) -> None:
        await stream.send_all(head(200) + body)

    return answer


@dataclass
class FileServer:
    """`locations` and `files` answer getFile and downloads; the last answer of each is given again.

    `requests` is what came, `open` how many connections there are.
    """

    locations: list[Answer]
    files: list[Answer]
    port: int = 0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    open: int = 0
    _changed: trio.Event = field(default_factory=trio.Event)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def downloads(self) -> list[str]:
        """The paths that were fetched, without the token."""
        before = f"GET /file/bot{TOKEN}/"
        return [line.removeprefix(before) for line, _ in self.requests if line.startswith(before)]

    @property
    def locates(self) -> int:
        return sum(line.startswith(f"POST /bot{TOKEN}/getFile") for line, _ in self.requests)

    async def wait_downloads(self, number: int) -> None:
        while len(self.downloads) < number:
            await self._changed.wait()

    async def wait_idle(self) -> None:
        while self.open:
            await self._changed.wait()

    async def serve(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._connection, listeners)

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.open += 1
        try:
            await self._exchange(stream)
        except trio.BrokenResourceError:
            pass
        finally:
            self.open -= 1
            self._signal()
            with trio.move_on_after(1, shield=True):
                await stream.aclose()

    async def _exchange(self, stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := await stream.receive_some(65536)):
                return
            data += more
        top, _, body = data.partition(b"\r\n\r\n")
        line, *rest = top.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (header.split(": ", 1) for header in rest)}
        while len(body) < int(headers.get("content-length", 0)):
            body += await stream.receive_some(65536)
        self.requests.append((line.removesuffix(" HTTP/1.1"), headers))
        self._signal()
        answers = self.locations if "/getFile" in line else self.files
        await (answers.pop(0) if len(answers) > 1 else answers[0])(stream)

    def _signal(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


@asynccontextmanager
async def serve_files(
    files: Answer | Iterable[Answer], locations: Answer | Iterable[Answer] | None = None
) -> AsyncIterator[FileServer]:
    """Serve until the block is left."""

    def several(answers: Answer | Iterable[Answer]) -> list[Answer]:
        return [answers] if callable(answers) else list(answers)

    server = FileServer(several(locations or located()), several(files))
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        yield server
        nursery.cancel_scope.cancel()
