"""A DNS server on loopback, over UDP and TCP, whose answers are scripted and may change at each query."""

import ipaddress
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Iterable
from types import TracebackType

from dnslib import AAAA, QTYPE, RCODE, RR, A, DNSRecord

Answer = Iterable[str] | None
Script = Callable[[str], Answer]
"""Addresses for one question, which was for "A" or "AAAA"; those of the other kind are left out."""


def always(*addresses: str) -> Script:
    """The same addresses at each query."""
    return lambda kind: addresses


def never() -> Script:
    """No answer at all."""
    return lambda kind: None


def in_turn(*answers: Iterable[str]) -> Script:
    """Another answer at each query (of a kind); after the last comes the first."""
    turns = {kind: itertools.cycle(answers) for kind in ("A", "AAAA")}
    return lambda kind: next(turns[kind])


class DnsServer:
    """Answers for the names it is given; others do not exist. Threads, so that it answers while others block.

    A script is run once for each question; `None` is no answer. `asked` has every question, in order:
    its name, and "A" or "AAAA".
    """

    def __init__(
        self, names: dict[str, Script] | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.names = dict(names or {})
        self.asked: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._tcp, self._udp = _bound_to_one_port(host, port)
        self.host, self.port = self._udp.getsockname()[:2]
        self._threads = [
            threading.Thread(target=run, daemon=True) for run in (self._serve_udp, self._serve_tcp)
        ]

    def __enter__(self) -> "DnsServer":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _wake(self._udp)
        self._tcp.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()
        self._udp.close()
        self._tcp.close()

    def answer(self, packet: bytes) -> bytes | None:
        """What the server says to a query; None where it says nothing."""
        query = DNSRecord.parse(packet)
        name = str(query.q.qname).removesuffix(".").lower()
        kind = QTYPE[query.q.qtype]
        with self._lock:
            self.asked.append((name, kind))
            script = self.names.get(name)
            addresses = script(kind) if script is not None else ()
        if addresses is None:
            return None
        reply = query.reply()
        if script is None:
            reply.header.rcode = RCODE.NXDOMAIN
        for address in addresses:
            ours = "AAAA" if ":" in address else "A"
            if ours == kind:
                data = AAAA(tuple(ipaddress.IPv6Address(address).packed)) if kind == "AAAA" else A(address)
                reply.add_answer(RR(query.q.qname, query.q.qtype, rdata=data, ttl=0))
        return bytes(reply.pack())

    def _serve_udp(self) -> None:
        while True:
            packet, sender = self._udp.recvfrom(65535)
            if not packet:
                return
            if (reply := self.answer(packet)) is not None:
                self._udp.sendto(reply, sender)

    def _serve_tcp(self) -> None:
        while True:
            try:
                connection, _ = self._tcp.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                while len(length := stream.read(2)) == 2:
                    reply = self.answer(stream.read(struct.unpack("!H", length)[0]))
                    if reply is None:
                        break
                    connection.sendall(struct.pack("!H", len(reply)) + reply)


def _bound_to_one_port(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        tcp = socket.create_server((host, port), family=family)
        udp = socket.socket(family, socket.SOCK_DGRAM)
        try:
            udp.bind((host, tcp.getsockname()[1]))
        except OSError:  # taken for UDP: another one
            tcp.close()
            udp.close()
            if port:
                raise
        else:
            return tcp, udp


def _wake(udp: socket.socket) -> None:
    """An empty packet to itself ends its loop."""
    with socket.socket(udp.family, socket.SOCK_DGRAM) as waking:
        waking.sendto(b"", udp.getsockname())
