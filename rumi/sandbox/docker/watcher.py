"""The watcher: a separate process that removes Rumi's containers if Rumi is killed.

This is a program, not a module of Rumi: it runs as `python -I -S watcher.py ADDRESS PARENT OWNER` and imports
nothing of Rumi. Through a pipe, its standard input, Rumi writes the line `+NAME` before each request to
create a container and `-NAME` after the daemon's answer. A line with a full stop ends the watcher. If the
pipe closes without one, or Rumi ends, the watcher removes all containers with the label of OWNER, including
those that the daemon is still creating, and exits.

Without the watcher, containers with a connected first process would end by themselves, but containers that
were created and not started, or that run without Rumi's first process, would remain until the home's next
start.
"""

import _socket
import contextlib
import os
import select
import sys
import time

LANDS_S, LANDS_LEAST_S, TIMES_THE_LONGEST = 3.0, 1.0, 5
"""Maximum wait for a pending create while the daemon answers; the create may never have been sent. It is
`LANDS_S` if no create was answered before, otherwise `TIMES_THE_LONGEST` times the longest create, at least
`LANDS_LEAST_S`."""
ENDS_S = 0.5
"""Time for a running container to end and be removed by itself. If the daemon gets two removals of the same
container at once, it may continue to list it."""
LONGEST_S, LONGEST_PAUSE_S = 600.0, 0.3
ANSWER_S = 20.0


def call(address: str, method: str, path: str) -> bytes:
    """Call the daemon and return the body of its answer. Raise OSError, also for a damaged answer."""
    scheme, _, rest = address.partition("://")
    if scheme == "unix":
        connection = _socket.socket(_socket.AF_UNIX)
        where: object = rest
    else:
        host, _, port = rest.rstrip("/").rpartition(":")
        family, kind, protocol, _, where = _socket.getaddrinfo(host, port, 0, _socket.SOCK_STREAM)[0]
        connection = _socket.socket(family, kind, protocol)
    try:
        connection.settimeout(ANSWER_S)
        connection.connect(where)  # type: ignore[arg-type]
        # HTTP/1.0 has no chunked encoding: the body ends with the connection.
        connection.sendall(f"{method} {path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        answer = b""
        while data := connection.recv(65536):
            answer += data
    finally:
        connection.close()
    head, middle, body = answer.partition(b"\r\n\r\n")
    if not middle or head.split()[1][:1] == b"5":
        raise OSError(f"{method} {path}: {head[:100]!r}")
    return body


def listed(address: str, owner: str) -> dict[str, tuple[str, set[str]]]:
    """Return the state and the names of the owner's containers, by id. Raise OSError."""
    import json
    from urllib.parse import quote

    wanted = quote(json.dumps({"label": [f"rumi.owner={owner}"]}))
    try:
        entries = json.loads(call(address, "GET", f"/containers/json?all=true&filters={wanted}"))
        return {
            entry["Id"]: (entry["State"], {name.lstrip("/") for name in entry["Names"]}) for entry in entries
        }
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"no list of containers: {error}") from error


class Creates:
    """The requests to create a container that are not answered yet, and the longest time one has taken."""

    def __init__(self) -> None:
        self.under_way: dict[str, float] = {}
        self._longest_s = 0.0

    def hear(self, line: str) -> None:
        """Record that a create request is being sent (`+NAME`) or was answered (`-NAME`)."""
        if line[:1] == "+":
            self.under_way[line[1:]] = time.monotonic()
        elif (began := self.under_way.pop(line[1:], None)) is not None:
            self._longest_s = max(self._longest_s, time.monotonic() - began)

    @property
    def wait_s(self) -> float:
        """Return the maximum time to wait for pending creates, in seconds."""
        return max(LANDS_LEAST_S, TIMES_THE_LONGEST * self._longest_s) if self._longest_s else LANDS_S


def clean(address: str, owner: str, creates: Creates) -> None:
    """Remove the owner's containers until none is left and no pending create can still produce one."""
    pause, began = 0.01, time.monotonic()
    quiet_since = began
    while time.monotonic() - began < LONGEST_S:
        try:
            found = listed(address, owner)
            for container, (state, names) in found.items():
                for name in names:
                    creates.under_way.pop(name, None)
                if state == "created" or time.monotonic() - began > ENDS_S:
                    call(address, "DELETE", f"/containers/{container}?force=true&v=true")
        except OSError:
            quiet_since = time.monotonic()  # a daemon that hangs may still execute a create
        else:
            if not found and (not creates.under_way or time.monotonic() - quiet_since > creates.wait_s):
                return
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_S)


def listen(parent: int) -> Creates | None:
    """Wait until Rumi ends; return the pending creates, or None if Rumi tells this process to exit."""
    poll, text = select.poll(), b""
    poll.register(0, select.POLLIN)
    with contextlib.suppress(OSError):  # the parent has ended, and then the pipe is closed
        poll.register(os.pidfd_open(parent), select.POLLIN)
    creates = Creates()
    while True:
        ready = dict(poll.poll())
        data = os.read(0, 65536) if 0 in ready else b""
        *lines, text = (text + data).split(b"\n")
        if b"." in lines:
            return None
        for line in lines:
            creates.hear(line.decode())
        if not data:
            return creates


def main() -> None:
    """Wait until Rumi ends, then remove its containers."""
    address, parent, owner = sys.argv[1:]
    os.setsid()  # signals of the terminal to Rumi's process group must not end the watcher
    if (creates := listen(int(parent))) is not None:
        clean(address, owner, creates)


if __name__ == "__main__":
    main()
