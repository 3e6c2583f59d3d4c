"""A reverse proxy on loopback like those with TLS: it keeps the browser's Host, and says whom it forwards."""

import socket
import threading
from contextlib import suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any


class ReverseProxy(ThreadingTCPServer):
    """Passes each connection's request on to a port, with `host` as its Host; upgrades go both ways."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int, host: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.port, self.host = port, host
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Forwarding(BaseRequestHandler):
    server: ReverseProxy

    def handle(self) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (more := self.request.recv(65536)):
                return
            head += more
        head, _, body = head.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        upgrade = b"upgrade: websocket" in head.lower()
        dropped = (b"host:", b"x-forwarded-for:", *(() if upgrade else (b"connection:",)))
        kept = [line for line in lines if not line.lower().startswith(dropped)]
        kept += [f"Host: {self.server.host}".encode(), b"X-Forwarded-For: 203.0.113.9"]
        kept += [] if upgrade else [b"Connection: close"]
        with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
            upstream.sendall(b"\r\n".join([first, *kept]) + b"\r\n\r\n" + body)
            threading.Thread(target=_pump, args=(self.request, upstream), daemon=True).start()
            _pump(upstream, self.request)


def _pump(source: Any, target: Any) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
