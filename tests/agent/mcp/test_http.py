"""Servers of tools over streamable HTTP."""

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.servers import try_once
from rumi.platform.config.schema import McpSection
from tests.agent.mcp.world import house, until
from tests.conftest import ROOT
from tests.fakes.mcp_http import ODD


@contextmanager
def served(kind: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    words = [sys.executable, "-m", "tests.fakes.mcp_http", kind]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def at(url: str, **headers: str) -> ServerSettings:
    return ServerSettings("web", McpSection(url=url, start_timeout_s=15.0, max_kb=2_000), headers=headers)


@pytest.mark.long
async def test_tools_of_a_server_over_http_are_called_and_cancelled(tmp_path: Path) -> None:
    with served("official") as (process, url):
        async with house(tmp_path, at(url)) as here:
            assert "hello" in (await here.call("web__echo", text="hello")).content
            tools = await here.tools()
            with trio.move_on_after(0.5):
                await tools["web__slow"].call({})
            assert process.stdout is not None
            heard = await trio.to_thread.run_sync(process.stdout.readline)
            assert heard == "cancelled\n"
            assert (await here.call("web__echo", text="again")).ok


@pytest.mark.long
async def test_a_server_over_http_that_dies_in_a_call_is_reached_again(tmp_path: Path) -> None:
    with served("official") as (process, url):
        async with house(tmp_path, at(url)) as here:
            tools = await here.tools()
            results = []

            async def slow() -> None:
                results.append(await tools["web__slow"].call({}))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(slow)
                await trio.sleep(0.3)
                process.send_signal(signal.SIGKILL)
            assert not results[0].ok
            assert not (await here.call("web__echo", text="x")).ok
            await until(lambda: here.servers.report()[0]["state"] == "failed")


async def test_nobody_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(McpError, match="The connection to the server failed"):
        await try_once(at("http://127.0.0.1:9/mcp"), tmp_path, accept=False)


# The client library leaves its generators of events as they are when it has the answer.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_odd_answers_over_http_end_their_calls_with_what_there_is(tmp_path: Path) -> None:
    with served("hostile") as (_, url):
        async with house(tmp_path, at(url, Authorization="Bearer secret")) as here:
            tools = await here.tools()
            for how in ("body", "event"):
                for number in range(len(ODD)):
                    result = await tools[f"web__{how}_{number}"].call({})
                    assert "PLAIN" in result.content, (how, ODD[number], result.content)
            assert here.servers.report()[0]["state"] == "ready"


async def test_a_large_or_packed_answer_over_http_does_not_fill_our_memory(tmp_path: Path) -> None:
    with served("hostile") as (_, url):
        async with house(tmp_path, at(url, Authorization="Bearer secret")) as here:
            assert (await here.call("web__fine")).ok
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for name in ("web__huge", "web__packed"):
                assert not (await here.call(name)).ok
                await until(lambda: here.servers.report()[0]["state"] == "ready")
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
            assert (await here.call("web__fine")).ok
