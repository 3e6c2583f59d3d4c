"""When servers start, how long turns wait for them, and what people learn about those that do not start."""

import time
from contextlib import suppress
from pathlib import Path

import pytest
import trio

from rumi.agent.mcp.failures import ServerFailed
from rumi.agent.mcp.paths import HOME
from rumi.agent.mcp.server import KnownServer
from rumi.agent.mcp.servers import WAIT_S, is_likely, try_once
from tests.agent.mcp.world import fake, house, until

pytestmark = pytest.mark.bubblewrap


async def test_tools_that_were_accepted_are_offered_before_the_server_runs(tmp_path: Path) -> None:
    await try_once(fake(), tmp_path, accept=False)
    async with house(tmp_path, fake()) as here:
        assert await here.servers.ready("hello", "cli") == ()
        tools = await here.tools(named=False)
        assert "fake__echo" in tools
        assert here.servers.report()[0]["state"] == "stopped"
        assert len(here.saved("starts")) == 1  # that of the test
        result = await tools["fake__echo"].call({"text": "now"})
        assert "now" in result.content
        assert len(here.saved("starts")) == 2


@pytest.mark.parametrize("text", ["use tool fake__echo", "ask FAKE, please", "echo this", "the fake-one"])
async def test_a_message_that_names_a_server_starts_it_without_a_wait(tmp_path: Path, text: str) -> None:
    await try_once(fake(), tmp_path, accept=False)
    async with house(tmp_path, fake()) as here:
        await here.servers.ready(text, "cli")
        assert here.servers.report()[0]["state"] == "starting"
        await until(lambda: here.servers.report()[0]["state"] == "ready")


@pytest.mark.parametrize("text", ["hello", "echoes of a fakery", "What time is it?", ""])
def test_other_messages_start_no_server(text: str) -> None:
    assert not is_likely(KnownServer(fake()), text)


async def test_a_call_is_refused_if_the_description_has_changed_since(tmp_path: Path) -> None:
    settings = fake("changes")
    await try_once(settings, tmp_path, accept=False)
    async with house(tmp_path, settings) as here:
        tools = await here.tools(named=False)
        assert "evil" not in tools["fake__echo"].spec.description
        result = await tools["fake__echo"].call({"text": "x"})
        assert not result.ok
        assert "rumi mcp test fake --accept" in result.content
        assert here.saved("calls") == []


async def test_a_call_of_a_server_that_no_longer_starts_is_told_as_not_made(tmp_path: Path) -> None:
    await try_once(fake(), tmp_path, accept=False)
    async with house(tmp_path, fake(env={"MCP_FAKE_HOME": f"{HOME}/gone"})) as here:
        result = await (await here.tools(named=False))["fake__change"].call({"text": "x"})
        assert not result.ok
        assert "The server fake did not start." in result.content
        assert "effect" not in result.content
        assert "gone" not in result.content  # the server's own words
        (note,) = await here.servers.ready("hello", "cli")
        assert "The server fake did not start, so its tools are missing." in note


@pytest.mark.long
async def test_a_new_server_that_hangs_costs_a_turn_a_few_seconds_and_is_named(tmp_path: Path) -> None:
    async with house(tmp_path, fake("silence", start_timeout_s=10.0)) as here:
        begun = time.monotonic()
        (note,) = await here.servers.ready("hello", "cli")
        assert WAIT_S - 0.5 < time.monotonic() - begun < WAIT_S + 1.9
        assert note == "The server fake is still starting; its tools are here from your next message on."
        begun = time.monotonic()
        assert await here.servers.ready("hello", "cli") == ()  # said once in each chat
        assert time.monotonic() - begun < 1
        assert len(await here.servers.ready("hello", "7")) == 1
        await until(lambda: here.servers.report()[0]["state"] == "failed")
        (note,) = await here.servers.ready("hello", "cli")
        assert "The server fake did not start, so its tools are missing." in note
        assert "not ready within 10 s" in note


async def test_a_server_that_ended_in_a_call_is_not_told_as_not_started(tmp_path: Path) -> None:
    async with house(tmp_path, fake()) as here:
        assert not (await here.call("fake__die")).ok
        assert await here.servers.ready("hello", "cli") == ()
        assert "fake__echo" in await here.tools(named=False)


async def test_a_server_that_does_not_start_is_named_once_in_each_chat(tmp_path: Path) -> None:
    async with house(tmp_path, fake("exits")) as here:
        (note,) = await here.servers.ready("hello", "cli")
        assert note.startswith(
            "The server fake did not start, so its tools are missing. The server has ended."
        )
        assert "rumi mcp test fake" in note
        assert "locked" not in note  # the server's own words are for the command line
        assert await here.servers.ready("hello", "cli") == ()
        assert len(await here.servers.ready("hello", "7")) == 1


async def test_one_server_that_does_not_start_leaves_the_others(tmp_path: Path) -> None:
    servers = fake("exits", name="broken"), fake(name="fine"), fake(name="gone", command="no-such-thing")
    async with house(tmp_path, *servers) as here:
        notes = await here.servers.ready("hello", "cli")
        assert ["broken" in note or "gone" in note for note in notes] == [True, True]
        assert {name.partition("__")[0] for name in await here.tools()} >= {"fine"}


async def test_servers_start_at_the_same_time(tmp_path: Path) -> None:
    slow = [fake("silence", name=f"slow{number}", start_timeout_s=1.0) for number in range(4)]
    async with house(tmp_path, *slow) as here:
        with trio.fail_after(4):
            assert len(await here.servers.ready("hello", "cli")) <= 4


async def test_an_open_server_ends_in_order_in_every_run(tmp_path: Path) -> None:
    """A process that has been reaped already must not be signalled again."""
    for kind in ("honest", "exits", "stubborn"):
        for sandbox in (False, True):
            settings = fake(kind, sandbox=sandbox, env={} if sandbox else {"MCP_FAKE_HOME": str(tmp_path)})
            with suppress(ServerFailed):
                assert (await try_once(settings, tmp_path, accept=False)).tools
