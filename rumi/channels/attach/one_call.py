"""One call to the daemon, made with only the standard library, so that a script's command starts fast."""

import os
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rumi.platform.caller import Caller

TIMEOUT_S = 10.0

STATUS: Final = b'{"call": "status", "caller": {"channel": "terminal", "owner": "local", "rights": "all"}}'
"""The encoded status call. Scripts make this call often, and it needs no `json` import."""


def line(caller: "Caller", call: str, /, **fields: object) -> bytes:
    """Return a call of the caller, encoded as one line for `ask`."""
    import json

    return json.dumps({"call": call, "caller": caller.to_json(), **fields}).encode()


def ask(path: str | os.PathLike[str], request: bytes, timeout_s: float = TIMEOUT_S) -> bytes:
    """Send one call, a line of JSON that begins with `{`; return the line of the response.

    The response is empty if the process ended before it answered.

    Raises:
        OSError: no process listens on the socket, or the process did not answer in time.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect(os.fspath(path))
        connection.sendall(request + b"\n")
        parts = []
        while part := connection.recv(1 << 20):
            parts.append(part)
    return b"".join(parts)
