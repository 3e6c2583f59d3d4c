"""How processes on several machines reach each other's control: over TCP, after both have proved a secret.

The server sends 32 random bytes. The client answers with 32 of its own and the HMAC-SHA256 of both. The
server compares it in constant time, and answers with an HMAC of its own. So the secret never crosses the
network, an answer is of no use a second time, and neither side says anything before the other one has proved
that it knows the secret. What follows is the protocol of the control socket, in plain text: the network has
to be private.
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
"""Characters of a secret: who listens on the network can try shorter ones."""

PROVE_S: Final = 5.0
"""How long both sides may take to prove the secret."""

CONNECT_S: Final = 3.0

DEAD_S: Final = 8

_CONTEXT: Final = b"rumi workers 1 "


class NotProved(Exception):
    """The other side has not proved that it knows the secret."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Where another process listens, and the key that both derive from the same secret."""

    host: str
    port: int
    key: bytes

    def __repr__(self) -> str:
        return f"Peer({self.host}:{self.port})"


def key_of(secret: str) -> bytes:
    """Return the key that proofs are made with."""
    return hmac.digest(secret.encode("utf-8", "surrogateescape"), _CONTEXT + b"key", "sha256")


def peer_of(address: str, key: bytes) -> Peer:
    """Return the peer at `HOST:PORT`.

    Raises:
        ConfigError: It is not such an address.
    """
    with suppress(ValueError):
        parts = urlsplit(f"//{address}")
        if parts.hostname and parts.port and parts.netloc == address and "@" not in address:
            return Peer(parts.hostname, parts.port, key)
    raise ConfigError(f"{address} is not an address of a worker.", "Write [store] address as HOST:PORT.")


def is_private(host: str) -> bool:
    """Return True for an IP address that is not reached from the internet."""
    return not ipaddress.ip_address(host.partition("%")[0]).is_global


async def listeners_of(peer: Peer) -> list[trio.SocketListener]:
    """Listen at the peer's address, which is this process's own.

    Raises:
        OSError: Nothing can listen there.
        ConfigError: The address is one of the internet, or stands for all addresses.
    """
    found = await trio.open_tcp_listeners(peer.port, host=peer.host)
    for listener in found:
        bound = listener.socket.getsockname()[0]
        if not is_private(bound) or ipaddress.ip_address(bound.partition("%")[0]).is_unspecified:
            for opened in found:
                await opened.aclose()
            raise ConfigError(
                f"{peer.host}:{peer.port} is not an address of a private network.",
                "Give one that only the other workers reach.",
            )
    return found


async def dial(peer: Peer) -> trio.SocketStream:
    """Connect to a peer, and prove the secret to each other.

    Raises:
        OSError: It is not there.
        NotProved: It does not know the secret, or does not take this one.
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
        await trio.aclose_forcefully(stream)
        if isinstance(error, trio.BrokenResourceError | trio.TooSlowError):
            raise NotProved from None
        raise
    _notice_a_dead_peer(stream)
    return stream


async def admit(stream: trio.SocketStream, key: bytes) -> None:
    """Return when a client has proved that it knows the secret.

    Raises:
        NotProved: It does not. Nothing was answered.
        trio.TooSlowError: It has not in time.
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
    """Have the connection end about `DEAD_S` after the other machine has gone without a word."""
    for option, value in (("TCP_KEEPIDLE", 2), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_S * 1000)


def _proof(key: bytes, side: bytes, of_server: bytes, of_client: bytes) -> bytes:
    return hmac.digest(key, _CONTEXT + side + of_server + of_client, "sha256")


async def _read(stream: trio.SocketStream, count: int) -> bytes:
    """Return exactly so many bytes, and leave what follows them."""
    got = b""
    while len(got) < count:
        part = await stream.receive_some(count - len(got))
        if not part:
            raise NotProved
        got += part
    return got
