"""A real server in its sandbox that may reach some hosts, over real sockets."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from rumi.agent.mcp.failures import ServerFailed
from rumi.agent.mcp.messages import ServerSettings
from rumi.agent.mcp.servers import try_once
from tests.agent.mcp.world import FAKE, House, house, processes_with, until
from tests.agent.mcp.world import fake as made
from tests.conftest import ROOT

pytestmark = pytest.mark.bubblewrap

REACHING = FAKE.with_name("reaching_mcp_server.py")


def reaching(*hosts: str, network: bool = False) -> ServerSettings:
    """Return the settings of a server that reaches hosts."""
    return made(name="weather", command=sys.executable, args=(str(REACHING),), hosts=hosts, network=network)


@asynccontextmanager
async def site() -> AsyncIterator[int]:
    """Serve on a free port of this machine's loopback; every request gets the same answer."""

    async def serve(stream: trio.SocketStream) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nsunny")

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def said(rooms: House, tool: str, **arguments: object) -> str:
    return (await rooms.call(f"weather__{tool}", **arguments)).content


async def test_a_server_reaches_the_named_host_and_no_other(tmp_path: Path) -> None:
    async with site() as one, site() as other, house(tmp_path, reaching(f"localhost:{one}")) as rooms:
        for host in ("127.0.0.1", "localhost"):
            assert "sunny" in await said(rooms, "get", url=f"http://{host}:{one}/")
            assert "HTTP/1.1 200" in await said(rooms, "connect", host=host, port=one)
            assert "failed" in await said(rooms, "connect", host=host, port=other)
            assert "failed" in await said(rooms, "get", url=f"http://{host}:{other}/")
        seen = json.loads((await said(rooms, "environment")).split("\n")[2])
        assert seen["interfaces"] == ["all", "default", "lo"]
        assert seen["hosts"] == "127.0.0.1 localhost\n"


async def test_a_refusal_is_told_counted_and_logged(tmp_path: Path) -> None:
    async with house(tmp_path, reaching("api.example.org:443")) as rooms:
        for url in (
            "http://api.other.example/",
            "https://api.other.example/x",
            "https://api.example.org:8443",
        ):
            result = await rooms.call("weather__get", url=url)
            assert "rumi mcp allow weather" in result.content
            assert result.tainted
        assert "may not reach" in result.content
        assert result.content.endswith("rumi mcp allow weather api.example.org:8443")
        quiet = await rooms.call("weather__environment")
        assert "rumi mcp allow" not in quiet.content
        await rooms.call("weather__get", url="http://api.other.example/")
        (reported,) = rooms.servers.report()
        assert reported["refused"] == [
            {"host": "api.other.example:80", "times": 2},
            {"host": "api.other.example:443", "times": 1},
            {"host": "api.example.org:8443", "times": 1},
        ]
        logged = [line["refused"] for line in rooms.audit if "refused" in line]
        assert logged == ["api.other.example:80", "api.other.example:443", "api.example.org:8443"]
        assert "127.1.0.1 api.example.org" in await said(rooms, "environment")


async def test_a_server_without_hosts_says_what_it_asks_for(tmp_path: Path) -> None:
    async with house(tmp_path, reaching()) as rooms:
        result = await rooms.call("weather__get", url="https://api.example.org/")
        assert "rumi mcp allow weather api.example.org:443" in result.content
        plain = await said(rooms, "connect", host="smtp.example.org", port=443)  # by no proxy
        assert "failed: [Errno -2] Name or service not known" in plain
        assert "rumi mcp allow weather smtp.example.org:443" in plain


async def test_a_server_that_fails_for_want_of_a_host_names_it(tmp_path: Path) -> None:
    script = (
        "import urllib.request, sys\n"
        "try: urllib.request.urlopen('https://models.example.org/x', timeout=5)\n"
        "except OSError as error: sys.exit(f'Failed to fetch: {error}')"
    )
    with pytest.raises(ServerFailed) as failed:
        await try_once(made(command=sys.executable, args=("-c", script)), tmp_path, accept=False)
    assert failed.value.advice.endswith("rumi mcp allow fake models.example.org:443")
    variable = script.replace("Failed to fetch: {error}", "API_KEY is required")
    with pytest.raises(ServerFailed) as failed:
        await try_once(made(command=sys.executable, args=("-c", variable)), tmp_path, accept=False)
    assert "needs the variable API_KEY" in failed.value.advice


async def test_the_network_of_the_machine_wins_over_hosts(tmp_path: Path) -> None:
    async with site() as one, house(tmp_path, reaching("api.example.org:443", network=True)) as rooms:
        assert "sunny" in await said(rooms, "get", url=f"http://127.0.0.1:{one}/")


KILLED = """
import sys, trio
from pathlib import Path
from rumi.agent.mcp.messages import ServerSettings
from rumi.agent.mcp.process import running
from rumi.platform.config.schema import McpSection

async def main():
    section = McpSection(command="/bin/sleep", args=(sys.argv[2],), hosts=("api.example.org:443",))
    async with running(ServerSettings("one", section), Path(sys.argv[1]) / "mcp" / "one") as process:
        print("running", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def sleeps(seconds: str) -> bool:
    """True if the server itself runs, and not only the launcher, whose command line names it too."""
    lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in processes_with(seconds)]
    return f"/bin/sleep\0{seconds}\0".encode() in lines


def test_nothing_of_the_gateway_outlives_a_killed_rumi(tmp_path: Path) -> None:
    seconds = f"{os.getpid()}{id(tmp_path)}"[:14]  # no other run's
    rumi = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path), seconds], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    with rumi:
        assert rumi.stdout is not None
        assert rumi.stdout.readline() == "running\n"
        trio.run(until, partial(sleeps, seconds))
        os.kill(rumi.pid, signal.SIGKILL)
    trio.run(until, lambda: not processes_with(seconds))
