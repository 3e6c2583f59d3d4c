"""The control socket: what other processes of the same user ask the one that holds the home.

Its clients import what they need when they first ask for it: a script's `rumi status --json` should not wait
for libraries that it has no use for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rumi.control.client import (
        OTHER_VERSION,
        ControlClient,
        NoAnswer,
        NotRunning,
        OtherVersion,
        WentAway,
        connect,
    )
    from rumi.control.paths import socket_path
    from rumi.control.peers import Peer, key_of, peer_of
    from rumi.control.server import Call, ControlServer, Stream
    from rumi.control.stacks import dump_on_signal
    from rumi.control.wire import Wire, WireClosed, when_closed

__all__ = [
    "OTHER_VERSION",
    "Call",
    "ControlClient",
    "ControlServer",
    "NoAnswer",
    "NotRunning",
    "OtherVersion",
    "Peer",
    "Stream",
    "WentAway",
    "Wire",
    "WireClosed",
    "connect",
    "dump_on_signal",
    "key_of",
    "peer_of",
    "socket_path",
    "when_closed",
]

_PLACES = {
    "Call": "server",
    "Stream": "server",
    "ControlServer": "server",
    "Wire": "wire",
    "WireClosed": "wire",
    "when_closed": "wire",
    "ControlClient": "client",
    "NoAnswer": "client",
    "NotRunning": "client",
    "OTHER_VERSION": "client",
    "OtherVersion": "client",
    "WentAway": "client",
    "connect": "client",
    "dump_on_signal": "stacks",
    "socket_path": "paths",
    "Peer": "peers",
    "key_of": "peers",
    "peer_of": "peers",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"rumi.control.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
