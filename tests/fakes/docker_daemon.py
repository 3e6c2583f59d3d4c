"""A Docker daemon of dicts behind a real Unix socket, with switches for what goes wrong.

It knows what the sandbox's engine asks for, and nothing of running programs but what a test scripts.
"""

import json
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

Answer = tuple[int, object]


@dataclass
class Request:
    method: str
    path: str
    body: Any


@dataclass
class FakeDaemon:
    """`hanging` holds beginnings of "METHOD /path" that are taken and never answered until `wake`."""

    address: str
    api_version: str = "1.41"
    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)
    scripted: dict[str, list[Answer]] = field(default_factory=dict)
    """Answers to give before any other, by the beginning of "METHOD /path"."""
    log: list[str] = field(default_factory=list)
    awake: trio.Event = field(default_factory=trio.Event)
    stream: Callable[[trio.SocketStream], Any] | None = None
    """What happens on an upgraded connection."""
    exec_state: dict[str, Any] = field(
        default_factory=lambda: {"Running": False, "ExitCode": 0, "Pid": 4, "ID": "e1"}
    )

    def wake(self) -> None:
        self.hanging.clear()
        self.awake.set()
        self.awake = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                request = await _read(stream)
            except trio.BrokenResourceError:
                return
            if request is None:
                return
            line = f"{request.method} {request.path}"
            self.log.append(line)
            while any(line.startswith(start) for start in self.hanging):
                await self.awake.wait()
            try:
                await self._answer(stream, request, line)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return  # whoever asked has gone; what was asked is done all the same

    async def _answer(self, stream: trio.SocketStream, request: Request, line: str) -> None:
        for start, answers in self.scripted.items():
            if line.startswith(start) and answers:
                return await _reply(stream, *answers.pop(0), self.api_version)
        if re.fullmatch(r"POST /exec/\w+/start", line):
            head = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
            await stream.send_all(head)
            if self.stream is not None:
                await self.stream(stream)
            return None
        return await _reply(stream, *self._known(request, line), self.api_version)

    def _known(self, request: Request, line: str) -> Answer:
        if request.path == "/_ping":
            return 200, "OK"
        if match := re.fullmatch(r"POST /containers/create\?name=([\w-]+)", line):
            name = match[1]
            if name in self.containers:
                return 409, {"message": f'Conflict. The container name "/{name}" is already in use.'}
            self.containers[name] = {
                "Id": f"id{len(self.log)}",
                "Labels": request.body["Labels"],
                "Running": False,
            }
            return 201, {"Id": self.containers[name]["Id"], "Warnings": []}
        if match := re.fullmatch(r"DELETE /containers/([\w-]+)\?.*", line):
            if self._find(match[1]) is None:
                return 404, {"message": f"No such container: {match[1]}"}
            self.containers = {k: v for k, v in self.containers.items() if match[1] not in (k, v["Id"])}
            return 204, None
        if re.fullmatch(r"GET /images/[^/]+/json", line):
            return 200, {"Id": "image", "Config": {"Labels": {}}}
        if request.path.startswith("/containers/json"):
            return 200, [
                {"Names": [f"/{name}"], "Id": entry["Id"], "Labels": entry["Labels"], "State": "running"}
                for name, entry in self.containers.items()
            ]
        if match := re.fullmatch(r"\w+ /containers/(\w+)/(\w+)(\?.*)?", line):
            entry = self._find(match[1])
            if entry is None:
                return 404, {"message": f"No such container: {match[1]}"}
            if match[2] in ("start", "kill"):
                entry["Running"] = match[2] == "start"
                return 204, None
            if match[2] == "exec":
                return 201, {"Id": "e1"}
            if match[2] == "wait":
                return 200, {"StatusCode": 137}
            return 200, {"State": {"Running": entry["Running"], "Pid": 1, "ExitCode": 0, "Error": ""}}
        if re.fullmatch(r"GET /exec/\w+/json", line):
            return 200, self.exec_state
        return 404, {"message": f"page not found: {line}"}

    def _find(self, name_or_id: str) -> dict[str, Any] | None:
        found = (entry for name, entry in self.containers.items() if name_or_id in (name, entry["Id"]))
        return next(found, None)


async def _read(stream: trio.SocketStream) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = await stream.receive_some()
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while length and len(body) < int(length[1]):
        body += await stream.receive_some()
    return Request(method, re.sub(r"^/v[\d.]+", "", target), json.loads(body) if body else None)


async def _reply(stream: trio.SocketStream, status: int, body: object, version: str) -> None:
    content = b"" if body is None else body.encode() if isinstance(body, str) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nApi-Version: {version}\r\nContent-Length: {len(content)}\r\n\r\n"
    await stream.send_all(head.encode() + content)


@asynccontextmanager
async def fake_daemon(folder: Path) -> AsyncIterator[FakeDaemon]:
    """A daemon that listens in the folder until the block ends."""
    path = folder / "docker.sock"
    listener = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    await listener.bind(str(path))
    listener.listen(1024)
    daemon = FakeDaemon(f"unix://{path}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, daemon.serve, [trio.SocketListener(listener)])
        yield daemon
        nursery.cancel_scope.cancel()
