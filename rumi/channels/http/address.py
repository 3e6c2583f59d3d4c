"""Where a server listens, and under which names it may be asked for."""

import errno
import ipaddress
import socket
from dataclasses import dataclass

from rumi.errors import RumiError, UsageError

BACKLOG = 256

STUCK_MS = 5000
"""How long a connection may take none of the bytes that wait for it; then the kernel ends it."""


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A listening socket. It is open before anything else starts, and stays when the server is restarted."""

    name: str
    """The host as the operator wrote it."""
    listener: socket.socket

    @property
    def port(self) -> int:
        """Return the port; if 0 was asked for, the one that was free."""
        return int(self.listener.getsockname()[1])

    @property
    def loopback(self) -> bool:
        """Return True if only this machine can reach it."""
        return is_loopback(self.listener.getsockname()[0])

    @property
    def url(self) -> str:
        """Return where a client finds it, without a slash at the end; never a host for every address."""
        address = ipaddress.ip_address(self.listener.getsockname()[0].partition("%")[0])
        return f"http://{authority('localhost' if address.is_unspecified else self.name, self.port)}"

    def is_own(self, host: str, reached: str) -> bool:
        """Return True if a request's Host header names this page.

        That is the host of the command line, the address that the connection `reached`, or localhost where
        that is this machine's own. A page at every address may be reached through a forwarded port (of a
        container, of ssh), for which the browser names its own machine.

        A name of somebody else's that was made to lead here (DNS rebinding) is none of these.
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
    """Return host and port as a browser writes them."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == 80 else f"{shown}:{port}"


def plain(address: str) -> str:
    """Return an IP address as a browser writes it: without a zone, and an IPv4 address not as an IPv6 one."""
    return address.partition("%")[0].removeprefix("::ffff:")


def is_loopback(address: str) -> bool:
    """Return True if an IP address is this machine's own."""
    try:
        return ipaddress.ip_address(plain(address)).is_loopback
    except ValueError:
        return False


def listen(where: str, option: str) -> BoundSocket:
    """Listen at `HOST:PORT`; an IPv6 address stands in brackets, port 0 is any that is free.

    `option` is the command's option for this address, for the advice of an error.

    Raises:
        UsageError: no such address, or the port is taken.
    """
    host, _, digits = where.rpartition(":")
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    port = int(digits) if digits.isascii() and digits.isdigit() else 65536
    if not name or port > 65535 or (":" in name and name == host):
        raise UsageError(f"{where!r} is not HOST:PORT.", f"For example: {option} 127.0.0.1:8080")
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(
            f"{name!r} is not an address of this machine.", f"For example: {option} 127.0.0.1:8080"
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
            f"Something else listens at {where} already.", f"Choose another port with {option}."
        )
    if error.errno == errno.EACCES:
        return UsageError(f"This user may not listen at {where}.", "Choose a port above 1023.")
    return UsageError(f"Rumi cannot listen at {where}: {error.strerror}.", "Choose another address.")
