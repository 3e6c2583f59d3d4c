"""The control socket: what other processes of the same user ask the one that holds the home.

Its clients import what they need when they first ask for it: a script's `rumi status --json` should not wait
for libraries that it has no use for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from rumi.control.paths import socket_path

if TYPE_CHECKING:
    from rumi.control.client import ControlClient, connect
    from rumi.control.server import Call, ControlServer, Stream
    from rumi.control.stacks import dump_on_signal
    from rumi.control.streams import NotRunning, open_stream
    from rumi.control.wire import Wire, WireClosed

__all__ = [
    "Call",
    "ControlClient",
    "ControlServer",
    "NotRunning",
    "Stream",
    "Wire",
    "WireClosed",
    "connect",
    "dump_on_signal",
    "open_stream",
    "socket_path",
]

_PLACES = {
    "Call": "server",
    "ControlServer": "server",
    "Stream": "server",
    "Wire": "wire",
    "WireClosed": "wire",
    "ControlClient": "client",
    "NotRunning": "streams",
    "connect": "client",
    "open_stream": "streams",
    "dump_on_signal": "stacks",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"rumi.control.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
