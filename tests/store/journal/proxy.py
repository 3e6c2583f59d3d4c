"""A proxy before a PostgreSQL server that cuts a connection at its commit."""

import socket
import threading
from contextlib import suppress
from typing import Literal

COMMITTED = b"COMMIT\0"
LAST_BEFORE = b"UPDATE 1\0"
"""The answer to what a worker writes last in a transaction."""


class Proxy:
    """Listens on a port of the loopback. `cut` decides what happens to the next commit.

    `before`: the server never gets it. `after`: the server does it, and its answer is lost.
    """

    def __init__(self, port: int) -> None:
        self.server = port
        self.cut: Literal["", "before", "after"] = ""
        self.cuts = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            if self._closed:
                client.close()
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.server))
            except OSError:
                client.close()
                continue
            self._open += [client, server]
            for work in (self._to_server, self._to_client):
                thread = threading.Thread(target=work, args=(client, server))
                self._threads.append(thread)
                thread.start()

    _closed = False

    def _to_server(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                if self.cut == "dropping":
                    break
                server.sendall(data)
        self._end(client, server)

    def _to_client(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                if self.cut == "after" and COMMITTED in data:
                    self.cut, self.cuts = "", self.cuts + 1
                    break
                if self.cut == "before" and LAST_BEFORE in data:
                    self.cuts += 1
                    self.cut = "dropping"  # type: ignore[assignment]
                client.sendall(data)
        self._end(client, server)

    def _end(self, *sockets: socket.socket) -> None:
        if self.cut == "dropping":
            self.cut = ""
        for connection in sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def end_connections(self) -> None:
        """End all connections, as a server does that crashes."""
        self._end(*self._open)

    def close(self) -> None:
        self._closed = True
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port)).close()
        self._listener.close()
        self.end_connections()
        for thread in self._threads:
            thread.join(5)
        for connection in self._open:
            connection.close()
