"""Connections to mail servers: opened by trio, used by blocking libraries in threads.

The name is resolved and the connection is made by trio, so both end at once on cancellation. A library then
works in a thread, on the open socket. On cancellation the socket is shut down, which wakes the thread.
"""

import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar

import trio

from rumi.platform.threads import Offload
from rumi.services.mail.errors import MailError, said

T = TypeVar("T")

Connect: TypeAlias = Callable[[str, int], Awaitable[trio.SocketStream]]
"""Opens a TCP connection to a host and a port. Raises OSError."""

_IMPLICIT: Final = (993, 465)
"""Ports whose connections begin with TLS (RFC 8314)."""


class MailLine:
    """A connection to one server. `secure` is False for a plain connection to this machine."""

    def __init__(self, host: str, port: int, sock: socket.socket, context: ssl.SSLContext) -> None:
        self.host = host
        self.port = port
        self.sock = sock
        self.context = context
        # A second descriptor of the same connection: it stays valid while a library replaces the first.
        self._cutter = sock.dup()
        self._cut = False

    @property
    def begins_with_tls(self) -> bool:
        """True if the connection begins with TLS, False if it must switch to it."""
        return self.port in _IMPLICIT

    @property
    def stays_here(self) -> bool:
        """True if the server is this machine, so that nobody else can listen."""
        return is_loopback(self.host)

    def wrap(self) -> ssl.SSLSocket:
        """Switch to TLS, in a thread.

        Raises:
            OSError: The handshake failed; `ssl.SSLError` for a certificate that is not valid.
        """
        wrapped = self.context.wrap_socket(
            self.sock, server_hostname=self.host, do_handshake_on_connect=False
        )
        self.sock = wrapped
        wrapped.do_handshake()
        return wrapped

    def cut(self) -> None:
        """Shut the connection down, which wakes a thread that waits for it."""
        self._cut = True
        with contextlib.suppress(OSError):
            self._cutter.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. No thread may use it any more."""
        self.cut()
        self._cutter.close()
        with contextlib.suppress(OSError):
            self.sock.close()

    async def run(self, offload: Offload, work: Callable[[], T]) -> T:
        """Run blocking work on this connection in a thread, and return its result.

        On cancellation, shut the connection down, and wait until the thread has noticed.
        """
        results: list[T] = []
        failed: Exception | None = None
        done = False

        async def watch() -> None:
            try:
                await trio.sleep_forever()
            finally:
                if not done:
                    self.cut()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            try:
                results.append(await offload(work))
            except Exception as error:  # noqa: BLE001 - raised again outside of the nursery
                failed = error
            done = True
            nursery.cancel_scope.cancel()
        if failed is not None:
            await trio.lowlevel.checkpoint_if_cancelled()  # then the error comes from the cut
            raise failed
        return results[0]


async def open_line(
    address: str, context: ssl.SSLContext, timeout_s: float, connect: Connect = trio.open_tcp_stream
) -> MailLine:
    """Connect to `host:port`. `timeout_s` bounds the connection, and each read and write afterwards.

    Raises:
        MailError: There is no connection within the time.
    """
    host, port = host_and_port(address)
    try:
        with trio.fail_after(timeout_s):
            stream = await connect(host, port)
    except trio.TooSlowError:
        raise timed_out(address) from None
    except OSError as error:
        raise unreachable(address, error) from None
    # From trio's socket to an ordinary one with a timeout, which the libraries in threads need.
    sock = socket.socket(fileno=stream.socket.detach())
    sock.settimeout(timeout_s)
    return MailLine(host, port, sock, context)


def host_and_port(address: str) -> tuple[str, int]:
    """Split `host:port`; the host has no brackets then."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    """Return True if a host, as it is configured, is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


def unreachable(address: str, error: object) -> MailError:
    """Return the error for a server to which there is no connection."""
    why = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return MailError(
        "unreachable",
        "The mail server {address} cannot be reached: {error}.",
        "Check the address and the network.",
        address=address,
        error=said(why),
    )


def timed_out(address: str) -> MailError:
    """Return the error for a server that does not answer in time."""
    return MailError(
        "timeout", "The mail server {address} did not answer in time.", "Try again later.", address=address
    )


def not_encrypted(address: str, why: object) -> MailError:
    """Return the error for a connection that cannot be encrypted, or whose certificate is not valid."""
    return MailError(
        "tls",
        "The connection to the mail server {address} cannot be encrypted: {why}.",
        "Check the port, and the server's certificate.",
        address=address,
        why=said(why),
    )


def tls_reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed."""
    return getattr(error, "verify_message", "") or error.reason or str(error)


def login_refused(address: str, words: str) -> MailError:
    """Return the error for a user and a password that a server does not accept."""
    return MailError(
        "login",
        "The mail server {address} does not accept the user or the password: {words}",
        "Many services need an app password. Set it again with: rumi setup",
        address=address,
        words=words,
    )
