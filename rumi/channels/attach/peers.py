"""Control connections over TCP between workers on several machines, which prove a shared secret.

Workers are processes that share a database. Each side of a connection proves that it knows the secret.

The server sends a nonce of 32 random bytes. The client answers with its own nonce and the HMAC-SHA256 of both
nonces. The server compares the HMAC in constant time, and answers with its own. So the secret never crosses
the network, a recorded proof cannot be replayed, and neither side sends a request or response before the
other side has proved that it knows the secret. The protocol of the control socket follows, in plain text: the
network has to be private.
"""

import hmac
import ipaddress
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import trio

from rumi.errors import ConfigError

NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
LEAST_SECRET: Final = 16
"""Minimum length of the shared secret, in characters: an eavesdropper could guess a shorter one offline."""

PROVE_S: Final = 5.0
"""Maximum time in seconds in which both sides prove that they know the secret."""

CONNECT_S: Final = 3.0

DEAD_S: Final = 8
"""If the other machine disappears, the connection is closed after this number of seconds."""

_CONTEXT: Final = b"rumi workers 1 "


class NotProved(Exception):
    """The other side has not proved that it knows the shared secret."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The TCP address of another process, and the key that both processes derive from the shared secret."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:  # without the key, which must not get into logs
        return f"Peer({self.host}:{self.port})"


def key_of(secret: str) -> bytes:
    """Return the key, derived from the secret, with which a process proves that it knows the secret."""
    return hmac.digest(secret.encode("utf-8", "surrogateescape"), _CONTEXT + b"key", "sha256")


def peer_of(address: str, key: bytes) -> Peer:
    """Return the peer at `HOST:PORT`.

    Raises:
        ConfigError: `address` does not have the form `HOST:PORT`.
    """
    with suppress(ValueError):
        parts = urlsplit(f"//{address}")
        if parts.hostname and parts.port and parts.netloc == address and "@" not in address:
            return Peer(parts.hostname, parts.port, key)
    raise ConfigError(
        "{address} is not an address of a worker.", "Write [store] address as HOST:PORT.", address=address
    )


def is_private(host: str) -> bool:
    """Return True for an IP address that is unreachable from the internet."""
    return not ipaddress.ip_address(host.partition("%")[0]).is_global


async def listeners_of(peer: Peer) -> list[trio.SocketListener]:
    """Listen for other processes at the address in `peer`, which in this call is this process's own address.

    Raises:
        OSError: This process cannot listen there.
        ConfigError: The address is public, or the unspecified address, which stands for all addresses.
    """
    found = await trio.open_tcp_listeners(peer.port, host=peer.host)
    for listener in found:
        bound = listener.socket.getsockname()[0]
        if not is_private(bound) or ipaddress.ip_address(bound.partition("%")[0]).is_unspecified:
            for opened in found:
                await opened.aclose()
            raise ConfigError(
                "{host}:{port} is not an address of a private network.",
                "Give one that only the other workers reach.",
                host=peer.host,
                port=peer.port,
            )
    return found


async def dial(peer: Peer) -> trio.SocketStream:
    """Connect to a peer. Both sides prove to each other that they know the secret.

    Raises:
        OSError: The peer is unreachable.
        NotProved: The peer has another secret.
    """
    with trio.move_on_after(CONNECT_S) as patience:
        stream = await trio.open_tcp_stream(peer.host, peer.port)
    if patience.cancelled_caught:
        raise OSError("no connection in time")
    try:
        with trio.fail_after(PROVE_S):
            theirs = await _read(stream, NONCE_BYTES)
            mine = secrets.token_bytes(NONCE_BYTES)
            await stream.send_all(mine + _proof(peer.key, b"client", theirs, mine))
            proof = await _read(stream, PROOF_BYTES)
        if not hmac.compare_digest(proof, _proof(peer.key, b"server", theirs, mine)):
            raise NotProved
    except BaseException as error:
        # Forcefully: a graceful close would wait, which a cancelled task must not do.
        await trio.aclose_forcefully(stream)
        if isinstance(error, trio.BrokenResourceError | trio.TooSlowError):
            raise NotProved from None
        raise
    _notice_a_dead_peer(stream)
    return stream


async def admit(stream: trio.SocketStream, key: bytes) -> None:
    """Wait until a client has proved that it knows the secret; then prove the same to the client.

    Raises:
        NotProved: The client has another secret. It has received only the nonce.
        trio.TooSlowError: The client has not proved the secret in time.
    """
    with trio.fail_after(PROVE_S):
        mine = secrets.token_bytes(NONCE_BYTES)
        await stream.send_all(mine)
        theirs = await _read(stream, NONCE_BYTES)
        proof = await _read(stream, PROOF_BYTES)
        if not hmac.compare_digest(proof, _proof(key, b"client", mine, theirs)):
            raise NotProved
        await stream.send_all(_proof(key, b"server", mine, theirs))
    _notice_a_dead_peer(stream)


def _notice_a_dead_peer(stream: trio.SocketStream) -> None:
    """Configure TCP so that the connection breaks about `DEAD_S` seconds after the other machine disappears.

    On an idle connection TCP keepalive detects this; with unacknowledged data, the TCP user timeout does.
    """
    for option, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_S * 1000)


def _proof(key: bytes, side: bytes, of_server: bytes, of_client: bytes) -> bytes:
    # With `side`, so that a stranger cannot send one side's proof back as that of the other side.
    return hmac.digest(key, _CONTEXT + side + of_server + of_client, "sha256")


async def _read(stream: trio.SocketStream, count: int) -> bytes:
    """Return the next `count` bytes of the stream; read no bytes after them."""
    got = b""
    while len(got) < count:
        part = await stream.receive_some(count - len(got))
        if not part:
            raise NotProved
        got += part
    return got
