"""Servers of HTTP: the sockets, the server itself (hypercorn, on trio), and the listener for machines.

The listener takes what other servers deliver, and tells of the process's health and its metrics.
"""

from rumi.channels.http.address import STUCK_MS, Bound, is_loopback, listen
from rumi.channels.http.listener import Listener, Taker, open_listener

__all__ = ["STUCK_MS", "Bound", "Listener", "Taker", "is_loopback", "listen", "open_listener"]
