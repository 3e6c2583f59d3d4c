"""Listening sockets of servers, and the host names under which a server may be addressed."""

import errno
import ipaddress
import socket
from dataclasses import dataclass

from rumi.errors import RumiError, UsageError
from rumi.texts import os_error

BACKLOG = 256

STUCK_MS = 5000
"""Milliseconds after which the kernel closes a connection whose peer does not acknowledge sent bytes."""


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A listening socket. It is opened before all else, and stays open when the server restarts."""

    name: str
    """Host name or address as the operator wrote it."""
    listener: socket.socket

    @property
    def port(self) -> int:
        """Return the port. If port 0 was requested, this is the port that the system chose."""
        return int(self.listener.getsockname()[1])

    @property
    def loopback(self) -> bool:
        """Return True if the socket accepts connections only from this machine."""
        return is_loopback(self.listener.getsockname()[0])

    @property
    def url(self) -> str:
        """Return the URL for clients, without a trailing slash.

        The URL never contains an unspecified address such as 0.0.0.0.
        """
        address = ipaddress.ip_address(self.listener.getsockname()[0].partition("%")[0])
        return f"http://{authority('localhost' if address.is_unspecified else self.name, self.port)}"

    def is_own(self, host: str, reached: str) -> bool:
        """Return True if a request's Host header names this server.

        The method accepts the host from the command line, the address that the connection `reached`, and
        localhost if the connection is local. A server on an unspecified address (all interfaces) may be
        reached through a forwarded port (of a container or of ssh). The browser's Host header then names
        the browser's machine, so localhost and 127.0.0.1 are accepted too.

        Foreign host names that were made to resolve to this machine (DNS rebinding) are not accepted.
        """
        names = {self.name.lower(), plain(reached)}
        if is_loopback(reached):
            names.add("localhost")
        elif ipaddress.ip_address(plain(self.listener.getsockname()[0])).is_unspecified:
            names |= {"localhost", "127.0.0.1"}
        return host.lower() in {authority(name, self.port) for name in names}

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()


def authority(host: str, port: int) -> str:
    """Return host and port as a browser writes them in a Host header."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == 80 else f"{shown}:{port}"


def plain(address: str) -> str:
    """Return an IP address as a browser writes it: without a zone, and IPv4-mapped IPv6 as plain IPv4."""
    return address.partition("%")[0].removeprefix("::ffff:")


def is_loopback(address: str) -> bool:
    """Return True if an IP address is a loopback address."""
    try:
        return ipaddress.ip_address(plain(address)).is_loopback
    except ValueError:
        return False


def listen(where: str, option: str) -> BoundSocket:
    """Listen at `HOST:PORT`. IPv6 addresses need brackets; port 0 means any free port.

    `option` is the command-line option that set this address; error messages name it.

    Raises:
        UsageError: The address does not exist, or the port is in use.
    """
    host, _, digits = where.rpartition(":")
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    port = int(digits) if digits.isascii() and digits.isdigit() else 65536
    if not name or port > 65535 or (":" in name and name == host):
        raise UsageError(
            "{where} is not HOST:PORT.",
            "For example: {option} 127.0.0.1:8080",
            where=f"{where!r}",
            option=option,
        )
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(
            "{name} is not an address of this machine.",
            "For example: {option} 127.0.0.1:8080",
            name=f"{name!r}",
            option=option,
        ) from None
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_MS)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _why(where, option, error) from None
    return BoundSocket(name, listener)


def _why(where: str, option: str, error: OSError) -> RumiError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(
            "Something else listens at {where} already.",
            "Choose another port with {option}.",
            where=where,
            option=option,
        )
    if error.errno == errno.EACCES:
        return UsageError("This user may not listen at {where}.", "Choose a port above 1023.", where=where)
    return UsageError(
        "Rumi cannot listen at {where}: {reason}.",
        "Choose another address.",
        where=where,
        reason=os_error(error),
    )
