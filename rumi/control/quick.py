"""One question to the process that holds the home, with nothing but the standard library."""

import socket
from pathlib import Path

TIMEOUT_S = 10.0


def ask(path: Path, request: bytes, timeout_s: float = TIMEOUT_S) -> bytes:
    """Send one request, a line of JSON that begins with `{`; the line that answers it.

    It is empty where the process went away.

    Raises:
        OSError: nothing listens there, or it did not answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect(str(path))
        connection.sendall(request + b"\n")
        parts = []
        while part := connection.recv(1 << 20):
            parts.append(part)
    return b"".join(parts)
