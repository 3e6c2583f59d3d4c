"""ddgs in its process: what it finds, and that nothing of it is left, whatever ends it."""

import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trustme

from rumi.web.messages import FetchError, SearchResult
from rumi.web.search import duck
from rumi.web.search.duck import Duck
from rumi.web.search.provider import SearchQuery
from tests.fakes.search_servers import Asked, Give, SearchServer, serve_engines

ASTRAY = """import os
from rumi.sandbox.confined.child import ParentProcess, framed
parent = ParentProcess({})
parent.ready()
"""
"""How a process begins that takes a request, and then goes its own way."""
QUERY = SearchQuery("bread", 5, "general")
ROOT = Path(__file__).resolve().parents[2]
MOJEEK = b"""
    <ul class="results">
    <li><h2><a href="https://example.org/a%2Fb?x=%26">A &amp; <b>B</b></a></h2>
        <p class="s">Bread at home</p></li>
    <li><h2><a href="https://example.org/two">Two</a></h2><p class="s">More bread</p></li>
    </ul>
"""
NEWS = {
    "results": [{"date": 1763546400, "title": "Bread", "url": "https://example.org/n", "excerpt": "is up"}]
}


def engine(host: str, give: Give) -> Callable[[Asked], Give]:
    """All that can be asked is this engine; the others know nothing."""
    return lambda asked: give if asked.host == host else Give(status=404)


@asynccontextmanager
async def engines(answering: Callable[[Asked], Give]) -> AsyncIterator[tuple[SearchServer, str]]:
    ca = trustme.CA()
    with ca.cert_pem.tempfile() as ca_file:
        async with serve_engines(answering, ca) as server:
            yield server, ca_file


def processes(parent: int) -> list[int]:
    """The children that search for a process."""
    listed = Path(f"/proc/{parent}/task").glob("*/children")
    children = [int(pid) for file in listed for pid in file.read_text().split()]
    return [pid for pid in children if b"ddgs_process" in Path(f"/proc/{pid}/cmdline").read_bytes()]


async def test_an_engines_page_becomes_results_with_their_addresses_as_they_were() -> None:
    async with engines(engine("www.mojeek.com", Give(MOJEEK))) as (server, ca_file):
        results = await Duck(timeout_s=10, proxy=server.url, ca_file=ca_file).search(QUERY)
    assert set(results) == {
        SearchResult("A & B", "https://example.org/a%2Fb?x=%26", "Bread at home"),
        SearchResult("Two", "https://example.org/two", "More bread"),
    }


async def test_news_have_dates() -> None:
    def answering(asked: Asked) -> Give:
        if asked.host != "duckduckgo.com":
            return Give(status=404)
        return Give(NEWS) if asked.target.startswith("/news.js") else Give(b'vqd="4-123"')

    async with engines(answering) as (server, ca_file):
        results = await Duck(timeout_s=10, proxy=server.url, ca_file=ca_file).search(
            SearchQuery("bread", 5, "news")
        )
    assert results == (SearchResult("Bread", "https://example.org/n", "is up", "2025-11-19T10:00:00+00:00"),)


async def test_proxy_and_certificates_of_the_environment_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engines(engine("www.mojeek.com", Give(MOJEEK))) as (server, ca_file):
        monkeypatch.setenv("HTTPS_PROXY", server.url)
        monkeypatch.setenv("SSL_CERT_FILE", ca_file)
        assert len(await Duck(timeout_s=10).search(QUERY)) == 2


async def test_engines_that_answer_without_results_have_found_nothing() -> None:
    async with engines(engine("www.mojeek.com", Give(b"<p>nothing"))) as (server, ca_file):
        assert await Duck(timeout_s=10, proxy=server.url, ca_file=ca_file).search(QUERY) == ()


@pytest.mark.parametrize("body", [b"<p>go away", b""])
async def test_engines_that_say_no_are_a_clear_failure(body: bytes) -> None:
    async with engines(lambda _: Give(body, status=403)) as (server, ca_file):
        with pytest.raises(FetchError, match="The search engines turned ddgs away") as raised:
            await Duck(timeout_s=10, proxy=server.url, ca_file=ca_file).search(QUERY)
    assert raised.value.answered


async def test_an_engine_leads_nobody_elsewhere() -> None:
    away = Give(status=302, headers={"location": "https://inside.example/"})
    async with engines(lambda asked: Give(MOJEEK) if asked.host == "inside.example" else away) as (
        server,
        ca_file,
    ):
        with pytest.raises(FetchError):
            await Duck(timeout_s=10, proxy=server.url, ca_file=ca_file).search(QUERY)
    assert server.asked
    assert "inside.example" not in {asked.host for asked in server.asked}


async def test_an_engine_with_another_certificate_is_not_believed() -> None:
    async with engines(engine("www.mojeek.com", Give(MOJEEK))) as (server, _):
        with trustme.CA().cert_pem.tempfile() as other:
            with pytest.raises(FetchError, match="ddgs could reach no search engine"):
                await Duck(timeout_s=10, proxy=server.url, ca_file=other).search(QUERY)
    assert server.asked == []


async def test_no_way_out_is_told_at_once() -> None:
    with trio.fail_after(30):
        with pytest.raises(FetchError, match=r"ddgs could reach no search engine\.") as raised:
            await Duck(timeout_s=10, proxy="http://127.0.0.1:9").search(QUERY)
    assert not raised.value.answered


async def test_silent_engines_are_given_up_in_time_and_the_process_is_gone() -> None:
    async with engines(lambda _: Give(hangs=True)) as (server, ca_file):
        with trio.fail_after(30):
            with pytest.raises(FetchError, match="ddgs did not answer in 1 s"):
                await Duck(timeout_s=1, proxy=server.url, ca_file=ca_file).search(QUERY)
            assert processes(os.getpid()) == []
            await server.wait_idle()


async def test_an_endless_page_of_an_engine_ends_its_process_and_nothing_else() -> None:
    async with engines(lambda _: Give(b"<p>bread</p>" * 5000, times=100_000)) as (server, ca_file):
        with trio.fail_after(10):  # before its 6 GB are through
            with pytest.raises(FetchError, match="ddgs ended without an answer"):
                await Duck(timeout_s=60, proxy=server.url, ca_file=ca_file).search(QUERY)
            assert processes(os.getpid()) == []


async def test_a_cancelled_search_has_no_process_left() -> None:
    async with engines(lambda _: Give(hangs=True)) as (server, ca_file):
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Duck(timeout_s=60, proxy=server.url, ca_file=ca_file).search, QUERY)
                await server.wait_asked()
                assert len(processes(os.getpid())) == 1
                nursery.cancel_scope.cancel()
            assert processes(os.getpid()) == []
            await server.wait_idle()


async def test_many_searches_share_a_few_processes() -> None:
    most = 0
    async with engines(lambda _: Give(hangs=True)) as (server, ca_file):
        ddgs = Duck(timeout_s=60, proxy=server.url, ca_file=ca_file)
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ddgs.search, QUERY)
            await server.wait_asked(duck._AT_ONCE)
            most = len(processes(os.getpid()))
            nursery.cancel_scope.cancel()
    assert most == duck._AT_ONCE
    assert processes(os.getpid()) == []


async def test_a_killed_program_leaves_no_search_behind() -> None:
    program = textwrap.dedent("""
        import sys, trio
        from rumi.web.search.duck import Duck
        from rumi.web.search.provider import SearchQuery
        duck = Duck(timeout_s=60, proxy=sys.argv[1], ca_file=sys.argv[2])
        trio.run(duck.search, SearchQuery("bread", 5, "general"))
    """)
    async with engines(lambda _: Give(hangs=True)) as (server, ca_file):
        with trio.fail_after(10):
            command = [sys.executable, "-c", program, server.url, ca_file]
            asking = await trio.lowlevel.open_process(command, cwd=ROOT, stderr=subprocess.DEVNULL)
            await server.wait_asked()
            (searching,) = processes(asking.pid)
            asking.kill()
            await asking.wait()
            await server.wait_idle()  # its sockets are closed
            while _alive(searching):  # noqa: ASYNC110 -- another program's process has no event
                await trio.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("raise SystemExit(3)", "ddgs ended without an answer"),
        ("parent.hear(); os.write(parent.answers, framed(b'junk'))", "ddgs ended without an answer"),
        ("parent.hear(); parent.send([])", "ddgs ended without an answer"),
        ("parent.hear(); parent.send({})", "ddgs does not answer"),
        ("parent.hear()\nwhile True: parent.send('x' * 2_000_000)", "ddgs ended without an answer"),
        ("os.kill(os.getpid(), 11)", "ddgs ended without an answer"),
    ],
)
async def test_a_process_that_goes_astray_is_a_clear_failure(
    program: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ddgs_process.py").write_text(ASTRAY + program)
    monkeypatch.setattr(duck, "_PROGRAM", tmp_path / "ddgs_process.py")
    with trio.fail_after(30):
        with pytest.raises(FetchError, match=words):
            await Duck(timeout_s=10).search(QUERY)
    assert processes(os.getpid()) == []


async def test_the_process_has_no_secret_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "environment"
    program = f"import shutil; parent.hear(); shutil.copyfile('/proc/self/environ', {str(seen)!r})"
    (tmp_path / "ddgs_process.py").write_text(ASTRAY + program)
    monkeypatch.setattr(duck, "_PROGRAM", tmp_path / "ddgs_process.py")
    monkeypatch.setenv("TAVILY_API_KEY", "canary-0123456789")
    with pytest.raises(FetchError):
        await Duck(timeout_s=10).search(QUERY)
    assert seen.read_bytes().split(b"\0") == [b"LANG=C.UTF-8", b"LC_ALL=C.UTF-8", b""]


async def test_no_more_processes_can_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(FetchError, match="ddgs could not be started: No such file or directory"):
        await Duck(timeout_s=10).search(QUERY)
