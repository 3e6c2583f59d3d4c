"""The control socket: what other processes of the same user ask the one that holds the home."""

from rumi.control.client import ControlClient, NotRunning, connect
from rumi.control.paths import socket_path
from rumi.control.server import Call, ControlServer

__all__ = ["Call", "ControlClient", "ControlServer", "NotRunning", "connect", "socket_path"]
