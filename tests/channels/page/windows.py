"""A window of the page without a browser: its socket, read and written by a test's own thread."""

import json
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import httpx
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, RejectConnection, Request, TextMessage


class Refused(Exception):
    """The server has refused the handshake."""


def read_message(text: str) -> dict[str, Any]:
    """Return a message of the server as an object with a type."""
    if text.startswith("+"):
        return {"type": "+", "text": text[1:]}
    message = json.loads(text)
    return {"type": "closed", "blocks": message} if isinstance(message, list) else dict(message)


class Window:
    """A socket of the page with a client's session. `entries` is the state that a browser would show."""

    def __init__(self, client: httpx.Client, chat: str = "cli", *, epoch: str = "", mark: int = 0) -> None:
        url = client.base_url
        self.entries: dict[str, dict[str, Any]] = {}
        self.received = 0
        """Number of bytes of the messages that were received."""
        self.epoch, self.mark = epoch, mark
        self._growing: dict[str, Any] = {}
        self._wire = socket.create_connection((url.host, url.port), 10)
        self._protocol = WSConnection(ConnectionType.CLIENT)
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in client.cookies.jar)
        headers = [(b"Origin", f"http://{url.netloc.decode()}".encode()), (b"Cookie", cookies.encode())]
        target = f"/socket?{httpx.QueryParams({'chat': chat})}"
        self._send(Request(host=url.netloc.decode(), target=target, extra_headers=headers))
        self._messages = self._read()
        self._text = ""
        if not isinstance(found := next(self._messages), AcceptConnection):
            raise Refused(found)
        self.send(type="resume", epoch=epoch, mark=mark)

    def __enter__(self) -> "Window":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire.close()

    def send(self, **message: object) -> None:
        """Send a message to the server."""
        self._send(TextMessage(data=json.dumps(message)))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the messages of the server until it closes the socket, and apply them to `entries`."""
        for event in self._messages:
            if isinstance(event, TextMessage):
                self._text += event.data
                if not event.message_finished:
                    continue
                text, self._text = self._text, ""
                self.received += len(text.encode())
                message = read_message(text)
                self._apply(message)
                yield message
            elif isinstance(event, CloseConnection):
                return

    def until(self, type: str) -> dict[str, Any]:
        """Return the next message of this type."""
        return next(message for message in self if message["type"] == type)

    def until_done(self, id: str) -> dict[str, Any]:
        """Return an entry as soon as it is done."""
        for _ in self:
            if self.entries.get(id, {}).get("state") == "done":
                return self.entries[id]
        raise AssertionError(f"{id} was not done: {list(self.entries)}")

    def _apply(self, message: dict[str, Any]) -> None:
        match message:
            case {"type": "begin", "epoch": epoch}:
                self.epoch = epoch
            case {"type": "mark", "mark": mark}:
                self.mark = mark
            case {"type": "entry", "entry": entry}:
                self.entries[entry["id"]] = entry
            case {"type": "head", "id": id}:
                known = self.entries[id]
                known |= {key: value for key, value in message.items() if key not in ("type", "order")}
                parts = {part["n"]: part for part in known["parts"]}
                known["parts"] = [parts[n] for n in message["order"] if n in parts]
            case {"type": "part", "id": id, "part": part}:
                parts = {known["n"]: known for known in self.entries[id]["parts"]} | {part["n"]: part}
                self.entries[id]["parts"] = list(parts.values())
            case {"type": "grow", "id": id, "n": n}:
                self._growing = next(part for part in self.entries[id]["parts"] if part["n"] == n)
            case {"type": "+", "text": text}:
                self._growing["raw"] += text
            case {"type": "closed", "blocks": blocks}:
                self._growing["blocks"] = [*self._growing["blocks"], *blocks]
            case {"type": "gone", "ids": ids}:
                for id in ids:
                    self.entries.pop(id, None)
            case _:
                pass

    def _send(self, event: Any) -> None:
        self._wire.sendall(self._protocol.send(event))

    def _read(self) -> Iterator[Any]:
        while True:
            data = self._wire.recv(65536)
            self._protocol.receive_data(data or None)
            for event in self._protocol.events():
                if isinstance(event, Ping):
                    self._send(event.response())
                    continue
                yield event
                if isinstance(event, RejectConnection | CloseConnection):
                    return
