"""The control over TCP: who is let in, what strangers learn, and what a peer may not do."""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from actors import ChildSpec, Supervisor
from rumi.app.forwarding import Forwarding
from rumi.channels.attach.connection import NotRunning, connect
from rumi.channels.attach.peers import (
    NONCE_BYTES,
    PROOF_BYTES,
    Peer,
    is_private,
    key_of,
    listeners_of,
    peer_of,
)
from rumi.channels.attach.wire import Wire, WireClosed
from rumi.channels.control.server import ControlServer
from rumi.errors import ConfigError, RumiError
from rumi.platform.caller import PROGRAM, TERMINAL, WORKER, Caller
from rumi.store.journal.leases import Member
from tests.postgres import free_port

KEY = key_of("a long secret of the workers")


async def echo(caller: Caller, request: Mapping[str, object]) -> object:
    await trio.lowlevel.checkpoint()
    return dict(request)


async def say_it_again(caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
    with suppress(WireClosed):
        while True:
            await wire.send(await wire.receive())


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Peer]:
    peer = peer_of(f"127.0.0.1:{free_port()}", KEY)
    path = folder / "run" / "control.sock"
    root = Supervisor("test")
    root.add(
        ChildSpec(
            "control",
            lambda: ControlServer(
                path, {"echo": echo, "end": echo}, {"again": say_it_again}, peer=peer, own=("end",)
            ),
        )
    )
    async with root.running():
        yield peer


async def test_a_peer_that_proves_the_secret_makes_calls_and_has_streams(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        async with connect(peer, TERMINAL) as client:
            assert (await client.call("echo", word="hi"))["word"] == "hi"
        async with connect(peer, TERMINAL) as client:
            wire = await client.stream("again")
            await wire.send({"n": 1})
            assert await wire.receive() == {"n": 1}


async def test_a_peers_request_is_marked_and_a_local_one_never_is(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        async with connect(peer, TERMINAL) as client:
            assert (await client.call("echo", passed=False))["passed"] is True
        async with connect(tmp_path / "run" / "control.sock", TERMINAL) as client:
            assert "passed" not in await client.call("echo", passed=True)


async def test_a_peer_cannot_make_the_calls_of_the_homes_owner(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        async with connect(peer, TERMINAL) as client:
            with pytest.raises(RumiError, match="unknown request"):
                await client.call("end")
        async with connect(tmp_path / "run" / "control.sock", TERMINAL) as client:
            await client.call("end")


async def test_who_has_another_secret_is_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        with pytest.raises(NotRunning):
            async with connect(Peer(peer.host, peer.port, key_of("another long secret")), TERMINAL):
                pass


async def test_a_stranger_gets_random_bytes_and_then_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer, AsyncExitStack() as stack:
        stream = await stack.enter_async_context(await trio.open_tcp_stream(peer.host, peer.port))
        request = b'{"call":"echo"}\n'
        await stream.send_all(request + secrets.token_bytes(NONCE_BYTES + PROOF_BYTES - len(request)))
        got = b""
        with suppress(trio.BrokenResourceError):
            while part := await stream.receive_some():
                got += part
        assert len(got) == NONCE_BYTES


async def test_a_recorded_proof_is_of_no_use_a_second_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as peer:
        recorded = b""
        relay = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        port = relay.socket.getsockname()[1]

        async def listen_in(stream: trio.SocketStream) -> None:
            nonlocal recorded
            async with await trio.open_tcp_stream(peer.host, peer.port) as server:
                await stream.send_all(await server.receive_some(NONCE_BYTES))
                recorded = bytes(await stream.receive_some(NONCE_BYTES + PROOF_BYTES))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, listen_in, [relay])
            with pytest.raises(NotRunning):
                async with connect(Peer("127.0.0.1", port, KEY), TERMINAL):
                    pass
            nursery.cancel_scope.cancel()
        assert len(recorded) == NONCE_BYTES + PROOF_BYTES
        async with await trio.open_tcp_stream(peer.host, peer.port) as stream:
            await stream.receive_some(NONCE_BYTES)
            await stream.send_all(recorded)
            with suppress(trio.BrokenResourceError):
                assert await stream.receive_some() == b""


async def test_a_silent_stranger_is_disconnected(tmp_path: Path, autojump_clock: object) -> None:
    async with serving(tmp_path) as peer:
        async with await trio.open_tcp_stream(peer.host, peer.port) as stream:
            assert len(await stream.receive_some(NONCE_BYTES)) == NONCE_BYTES
            with suppress(trio.BrokenResourceError):
                assert await stream.receive_some() == b""


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":1", "host:0", "host:99999", "a@host:1", "host:1/x"]
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="HOST:PORT"):
        peer_of(address, KEY)


def test_the_key_is_shown_nowhere() -> None:
    assert "key" not in repr(peer_of("localhost:1", KEY))
    assert peer_of("[::1]:7", KEY).host == "::1"


@pytest.mark.parametrize(
    ("host", "private"), [("10.0.0.1", True), ("127.0.0.1", True), ("fd00::1", True), ("8.8.8.8", False)]
)
def test_only_addresses_of_private_networks_are_private(host: str, private: bool) -> None:
    assert is_private(host) is private


async def test_nothing_listens_at_all_addresses_at_once() -> None:
    with pytest.raises(ConfigError, match="private network"):
        await listeners_of(Peer("0.0.0.0", free_port(), KEY))


async def who(caller: Caller, request: Mapping[str, object]) -> object:
    await trio.lowlevel.checkpoint()
    return caller.to_json()


@asynccontextmanager
async def knowing(folder: Path) -> AsyncIterator[Peer]:
    """A worker that answers who calls."""
    peer = peer_of(f"127.0.0.1:{free_port()}", KEY)
    path = folder / "run" / "control.sock"
    root = Supervisor("test")
    root.add(ChildSpec("control", lambda: ControlServer(path, {"who": who}, peer=peer)))
    async with root.running():
        yield peer


async def test_what_a_worker_passes_on_keeps_its_caller(tmp_path: Path) -> None:
    async with knowing(tmp_path) as peer:
        passing = Forwarding(
            cast(Any, None), cast(Any, None), cast(Any, None), KEY, str.islower, cast(Any, None)
        )
        other = Member("b", "0.1.0", f"{peer.host}:{peer.port}", 0.0, 9.0, False, 1)
        for caller in (PROGRAM, Caller("telegram", "tg7", "own"), TERMINAL):
            assert await passing.call_worker(other, caller, "who", {}) == caller.to_json()


async def test_a_worker_of_an_earlier_version_passes_requests_on_without_callers(tmp_path: Path) -> None:
    async with knowing(tmp_path) as peer:
        async with connect(peer, TERMINAL) as client:
            await client._wire.send({"call": "who"})
            assert (await client._wire.receive())["result"] == WORKER.to_json()
        async with connect(tmp_path / "run" / "control.sock", TERMINAL) as client:
            await client._wire.send({"call": "who"})
            assert "names no caller" in str((await client._wire.receive())["error"])
