"""Where the whole program connects to while somebody's URLs are fetched: every address is recorded."""

import json
import sys
from pathlib import Path

import pytest
import trio

from tests.cli.program import BOUND_S, Program
from tests.fakes.web_server import WebServer, gives, gzip_bomb, redirects, serving, streams

WATCHED = """
import json, sys

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        if isinstance(address, tuple):  # not a Unix socket's path
            with open({log!r}, "a") as log:
                log.write(json.dumps([event, *address[:2]]) + "\\n")

sys.addaudithook(watch)
from rumi.cli import main
sys.argv = ["rumi", *sys.argv[1:]]
main()
"""

FORBIDDEN = (
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://①②⑦.0.0.1/",
    "http://[::ffff:169.254.169.254]/",
    "http://localhost/",
    "http://203.0.113.1:22/",
)


class Watched:
    """`rumi` on a home of its own, and the addresses that it connected to."""

    def __init__(self, folder: Path, **env: str) -> None:
        self._log = folder / "connected"
        self._program = Program(folder / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap", **env})

    async def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        """Run it to its end: standard output and standard error."""
        with trio.fail_after(BOUND_S):
            done = await trio.run_process(
                [sys.executable, "-c", WATCHED.format(log=str(self._log)), *words],
                env={**self._program.environment(), "RUMI_MODEL__DEFAULT": "offline"},
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code, f"exit {done.returncode}\n{out}\n{err}"
        return out, err

    def connected(self) -> list[tuple[str, str, int]]:
        if not self._log.exists():
            return []
        return [tuple(json.loads(line)) for line in self._log.read_text().splitlines()]


def allowing(server: WebServer, folder: Path, **env: str) -> Watched:
    return Watched(folder, RUMI_FETCH__ALLOW=json.dumps([server.endpoint]), **env)


@pytest.mark.parametrize("url", FORBIDDEN)
async def test_a_forbidden_address_is_never_connected_to(url: str, tmp_path: Path) -> None:
    rumi = Watched(tmp_path)
    _, said = await rumi.run("fetch", url, code=1)
    assert said.startswith("rumi: not fetched: ")
    assert rumi.connected() == []


async def test_a_page_takes_one_connection_to_the_one_address_that_is_allowed(tmp_path: Path) -> None:
    async with serving({"/": gives("<h1>Here</h1>")}) as server:
        rumi = allowing(server, tmp_path)
        shown, _ = await rumi.run("fetch", server.url())
    assert "# Here" in shown
    assert rumi.connected() == [("socket.connect", "127.0.0.1", server.port)]


async def test_a_redirect_to_the_inside_is_not_connected_to(tmp_path: Path) -> None:
    async with serving() as other:
        paths = {"/": redirects("/on"), "/on": redirects(other.url("/secret"))}
        async with serving(paths) as server:
            rumi = allowing(server, tmp_path)
            _, said = await rumi.run("fetch", server.url(), code=1)
        assert rumi.connected() == [("socket.connect", "127.0.0.1", server.port)] * 2
        assert other.connections == 0
    assert "After a redirect to 127.0.0.1: " in said


@pytest.mark.long
@pytest.mark.bubblewrap
async def test_the_tool_connects_to_no_other_address_in_a_chat(tmp_path: Path) -> None:
    async with serving({"/": gives("<h1>Here</h1>")}) as server:
        rumi = allowing(server, tmp_path)
        steps = "; then ".join(f"fetch {url}" for url in (server.url(), *FORBIDDEN[:2]))
        said, _ = await rumi.run("chat", "-p", steps)
    assert "Here" in said
    assert "127.0.0.1 is not public" in said
    assert rumi.connected() == [("socket.connect", "127.0.0.1", server.port)]


async def test_a_bomb_ends_with_what_fits_and_the_home_is_free(tmp_path: Path) -> None:
    bomb = streams(lambda: gzip_bomb(10 << 30), headers={"Content-Encoding": "gzip"})
    async with serving({"/": bomb}) as server:
        rumi = allowing(server, tmp_path, RUMI_FETCH__MAX_BYTES="20000")
        shown, _ = await rumi.run("fetch", server.url())
    assert "cut: only the first 20,000 bytes of the page were read" in shown
    assert not (tmp_path / "home" / "run" / "control.sock").exists()


async def test_limits_are_the_configurations(tmp_path: Path) -> None:
    async with serving({"/": redirects("/on"), "/on": gives("x")}) as server:
        rumi = allowing(server, tmp_path, RUMI_FETCH__MAX_REDIRECTS="0")
        _, said = await rumi.run("fetch", server.url(), code=1)
    assert "127.0.0.1 redirects once more after 0 redirects." in said
