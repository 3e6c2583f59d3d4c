"""The control socket: who may connect, what it answers, and that bad clients harm nobody."""

import json
import logging
import os
import signal
import socket
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from trio.testing import MockClock
from trio_websocket import wrap_server_stream

from actors import ChildSpec, PendingAsk, Supervisor
from rumi.channels.attach import wire
from rumi.channels.attach.connection import CONNECT_S, ControlClient, NoAnswer, NotRunning, connect
from rumi.channels.attach.one_call import ask, line
from rumi.channels.attach.wire import MAX_MESSAGE_BYTES, Wire, WireClosed
from rumi.channels.control.server import ControlServer
from rumi.channels.control.stacks import dump_on_signal
from rumi.errors import RumiError
from rumi.platform.caller import TERMINAL, Caller
from rumi.platform.home import socket_path


async def echo(caller: Caller, request: Mapping[str, object]) -> object:
    await trio.lowlevel.checkpoint()
    return request["word"]


async def fail(caller: Caller, request: Mapping[str, object]) -> object:
    await trio.lowlevel.checkpoint()
    raise RumiError("It did not work.", "Try again.")


async def break_down(caller: Caller, request: Mapping[str, object]) -> object:
    await trio.lowlevel.checkpoint()
    raise ValueError("a fault of ours")


async def long(caller: Caller, request: Mapping[str, object]) -> object:
    await trio.lowlevel.checkpoint()
    return "x" * int(str(request["bytes"]))


async def count(caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
    for number in range(int(str(request["to"]))):
        await wire.send({"number": number})
    if request.get("stay", True):
        await trio.sleep_forever()


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[Supervisor]:
    root = Supervisor("root")
    calls = {"echo": echo, "fail": fail, "break": break_down, "long": long}
    root.add(ChildSpec("control", lambda: ControlServer(path, calls, {"count": count})))
    async with root.running():
        yield root


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / "control.sock"


async def test_a_call_is_answered(path: Path) -> None:
    async with serving(path), connect(path, TERMINAL) as client:
        assert await client.call("echo", word="hóla") == "hóla"
        assert await client.call("echo", word=[1, {"a": None}]) == [1, {"a": None}]


async def test_an_error_of_the_other_side_can_be_caught_around_the_connection(path: Path) -> None:
    async with serving(path):
        with pytest.raises(RumiError, match="It did not work"):
            async with connect(path, TERMINAL) as client:
                await client.call("fail")


async def test_who_is_halted_is_not_waited_for_without_end(tmp_path: Path, autojump_clock: MockClock) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "deaf.sock"))
        deaf.listen()
        with pytest.raises(RumiError, match="did not answer"):
            async with connect(tmp_path / "deaf.sock", TERMINAL):
                raise AssertionError("nobody greeted")


async def test_our_errors_reach_the_client_as_they_are(path: Path) -> None:
    async with serving(path), connect(path, TERMINAL) as client:
        with pytest.raises(RumiError, match=r"It did not work\. Try again\."):
            await client.call("fail")
        with pytest.raises(RumiError, match="unknown request"):
            await client.call("launch")


async def test_the_socket_is_its_owners_alone_and_goes_with_the_server(path: Path) -> None:
    async with serving(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not path.exists()


async def test_a_stale_socket_is_replaced(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    path.touch()
    async with serving(path), connect(path, TERMINAL) as client:
        assert await client.call("echo", word=1) == 1


async def test_where_nothing_listens_the_client_is_told_so(path: Path) -> None:
    with pytest.raises(NotRunning):
        async with connect(path, TERMINAL):
            pass


async def test_a_client_that_talks_nonsense_or_leaves_harms_nobody(path: Path) -> None:
    async with serving(path) as root:
        for garbage in (b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(200)):
            stream = await trio.open_unix_socket(path)
            await stream.send_all(garbage)
            await stream.aclose()
        async with connect(path, TERMINAL) as client:
            assert await client.call("echo", word="still here") == "still here"
        assert root.status().children[0].restarts == 0


async def test_a_call_that_breaks_down_is_its_callers_news_alone(path: Path) -> None:
    async with serving(path) as root, connect(path, TERMINAL) as client, connect(path, TERMINAL) as other:
        with pytest.raises(RumiError, match="log says why"):
            await client.call("break")
        assert await other.call("echo", word=1) == 1
        assert await client.call("echo", word=2) == 2
        assert root.status().children[0].restarts == 0


async def test_many_clients_are_served_at_once(path: Path) -> None:
    async with serving(path), trio.open_nursery() as nursery:

        async def one(number: int) -> None:
            async with connect(path, TERMINAL) as client:
                assert await client.call("echo", word=number) == number

        for number in range(30):
            nursery.start_soon(one, number)


async def test_a_line_is_answered_without_a_handshake(path: Path) -> None:
    async with serving(path):
        answer = await trio.to_thread.run_sync(ask, path, line(TERMINAL, "echo", word="hóla"))
        assert json.loads(answer) == {"ok": True, "result": "hóla"}
        answer = await trio.to_thread.run_sync(ask, path, b"{nonsense")
        assert "unknown request" in json.loads(answer)["error"]


async def test_a_line_that_asks_for_a_stream_is_told_what_to_use(path: Path) -> None:
    async with serving(path):
        answer = await trio.to_thread.run_sync(ask, path, b'{"stream": "count"}')
        assert json.loads(answer)["ok"] is False
        assert "Open the stream over a WebSocket" in json.loads(answer)["error"]


async def test_a_peer_that_leaves_during_the_handshake_is_not_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as leaving:
        leaving.bind(str(tmp_path / "leaving.sock"))
        leaving.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, lambda: leaving.accept()[0].close())
            with trio.fail_after(CONNECT_S / 2), pytest.raises(NotRunning):
                async with connect(tmp_path / "leaving.sock", TERMINAL):
                    raise AssertionError("nobody greeted")


async def test_a_receive_that_is_cancelled_loses_nothing(path: Path) -> None:
    async with serving(path), connect(path, TERMINAL) as client:
        wire = await client.stream("count", to=500)
        got: list[object] = []
        while len(got) < 500:
            with trio.move_on_after(0.0002):
                while True:
                    got.append((await wire.receive())["number"])
        assert got == list(range(500))


async def test_what_a_peer_said_before_it_left_arrives_also_after_a_send(path: Path) -> None:
    async with trio.open_nursery() as nursery:
        async with serving(path):
            client = await nursery.start(_connected, path)
            wire = await client.stream("count", to=10)
            await trio.testing.wait_all_tasks_blocked(0.05)
        await wire.send({"to": "nobody"})
        assert [(await wire.receive())["number"] for _ in range(10)] == list(range(10))
        with pytest.raises(WireClosed):
            await wire.receive()
        nursery.cancel_scope.cancel()


async def _connected(path: Path, *, task_status: trio.TaskStatus[ControlClient]) -> None:
    async with connect(path, TERMINAL) as client:
        task_status.started(client)
        await trio.sleep_forever()


async def test_a_clients_message_is_bounded_and_an_answer_may_be_longer(path: Path) -> None:
    async with serving(path), connect(path, TERMINAL) as other:
        async with connect(path, TERMINAL) as client:
            with pytest.raises(NoAnswer):
                await client.call("echo", word="x" * MAX_MESSAGE_BYTES)
        assert await other.call("echo", word=1) == 1
        async with connect(path, TERMINAL) as client:
            assert len(await client.call("long", bytes=20_000_000)) == 20_000_000


async def test_others_are_answered_while_a_long_answer_is_on_its_way(path: Path) -> None:
    async with (
        serving(path),
        connect(path, TERMINAL) as client,
        connect(path, TERMINAL) as other,
        trio.open_nursery() as nursery,
    ):
        arrived = trio.Event()

        async def take() -> None:
            assert len(await client.call("long", bytes=50_000_000)) == 50_000_000
            arrived.set()

        nursery.start_soon(take)
        answered = 0
        while not arrived.is_set():
            await other.call("echo", word=1)
            answered += 1
        assert answered > 50


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: rumi\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
)


STREAM = b'{"stream":"count","to":0,"stay":false,"caller":{"channel":"test","owner":"local","rights":"all"}}'


def frame(opcode: int, data: bytes) -> bytes:
    """A client's frame; a mask of zeros leaves the data as it is."""
    return bytes([0x80 | opcode, 0x80 | len(data)]) + bytes(4) + data


@pytest.mark.parametrize("last", [b"", frame(9, b"a ping after the close")])
async def test_a_client_that_does_not_answer_a_close_is_let_go(
    path: Path, monkeypatch: pytest.MonkeyPatch, last: bytes
) -> None:
    monkeypatch.setattr(wire, "CLOSE_S", 0.2)
    async with serving(path) as root, await trio.open_unix_socket(path) as stream:
        await stream.send_all(UPGRADE)
        greeting = bytes(await stream.receive_some())
        assert greeting.startswith(b"HTTP/1.1 101")
        assert b"permessage-deflate" not in greeting, "nothing is compressed on one machine"
        await stream.send_all(frame(1, STREAM))
        assert bytes(await stream.receive_some())[:1] == b"\x88", "a close"
        await stream.send_all(last)
        with trio.fail_after(30):
            assert await stream.receive_some() == b""
        async with connect(path, TERMINAL) as client:
            assert await client.call("echo", word=1) == 1
        assert root.status().children[0].restarts == 0


async def test_a_server_that_does_not_answer_a_close_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "CLOSE_S", 0.2)
    listener = trio.socket.socket(socket.AF_UNIX)
    await listener.bind(str(tmp_path / "stuck.sock"))
    listener.listen()
    async with trio.open_nursery() as nursery:

        async def greet_and_get_stuck() -> None:
            accepted, _ = await listener.accept()
            async with trio.SocketStream(accepted) as stream:
                async with trio.open_nursery() as reading:
                    await (await wrap_server_stream(reading, stream)).accept()
                    reading.cancel_scope.cancel()
                await trio.sleep_forever()

        nursery.start_soon(greet_and_get_stuck)
        with trio.fail_after(30):
            async with connect(tmp_path / "stuck.sock", TERMINAL):
                pass
        nursery.cancel_scope.cancel()
    listener.close()


async def test_a_signal_writes_the_status_and_every_tasks_stack_into_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rumi.channels.control.stacks")
    root = Supervisor("root")
    dumps = partial(dump_on_signal, lambda: {"version": 2}, lambda: ())
    root.add(ChildSpec("control", lambda: ControlServer(path, {}, beside=dumps)))
    async with root.running():
        await trio.testing.wait_all_tasks_blocked()
        os.kill(os.getpid(), signal.SIGUSR1)
        with trio.fail_after(30):
            while not caplog.messages:  # noqa: ASYNC110  # the log has no event
                await trio.sleep(0.01)
    written = json.loads(caplog.messages[0].removeprefix("asked by SIGUSR1: "))
    assert written["status"] == {"version": 2}
    assert any("control/server.py" in frame for task in written["tasks"] for frame in task["stack"])
    assert any("test_a_signal_writes_the_status" in task["task"]
               for task in written["tasks"])  # fmt: skip


async def test_another_signal_writes_who_asks_whom_into_the_log(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "rumi.channels.control.stacks")
    root = Supervisor("root")
    asks = (PendingAsk("a", "b", "Get", "handled"), PendingAsk("b", "a", "Put", "queued"))
    dumps = partial(dump_on_signal, dict, lambda: asks)
    root.add(ChildSpec("control", lambda: ControlServer(path, {}, beside=dumps)))
    async with root.running():
        await trio.testing.wait_all_tasks_blocked()
        os.kill(os.getpid(), signal.SIGUSR2)
        with trio.fail_after(30):
            while not caplog.messages:  # noqa: ASYNC110  # the log has no event
                await trio.sleep(0.01)
    assert json.loads(caplog.messages[0].removeprefix("asked by SIGUSR2: ")) == {
        "asks": ["a asks b: Get (handled)", "b asks a: Put (queued)"],
        "circles": [["a", "b"]],
    }


def test_a_path_that_is_too_long_moves_to_the_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert socket_path(Path("/home/me/.rumi/run"), "abc") == Path("/home/me/.rumi/run/control.sock")
    assert socket_path(Path("/" + "x" * 100), "abc") == tmp_path / "rumi-abc.sock"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    assert f"rumi-{os.getuid()}" in str(socket_path(Path("/" + "x" * 100), "abc"))


def test_the_dump_is_plain_data() -> None:
    root = Supervisor("root")
    root.add(ChildSpec("control", lambda: ControlServer(Path("x"), {})))
    from rumi.app.status import node

    assert json.loads(json.dumps(node(root.status(), 0.0)))["children"][0]["id"] == "control"
