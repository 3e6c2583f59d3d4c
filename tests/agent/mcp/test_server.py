"""Servers in their actors: calls, cancellation, crashes, and what a hostile one tries."""

import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from rumi.agent.mcp.described import changes_of, said_of
from rumi.agent.mcp.messages import McpError, ServerSettings
from rumi.agent.mcp.pins import AcceptedTools
from rumi.agent.mcp.process import running
from rumi.agent.mcp.servers import try_once
from rumi.platform.config.schema import McpSection
from rumi.platform.redact import HIDDEN, Redactor
from tests.agent.mcp.world import House, fake, house, processes_with, until
from tests.conftest import ROOT

pytestmark = pytest.mark.bubblewrap


async def test_a_turn_waits_for_a_server_and_calls_its_tools(tmp_path: Path) -> None:
    async with house(tmp_path, fake()) as here:
        result = await here.call("fake__echo", text="hello")
        assert (result.ok, result.tainted) == (True, True)
        assert '<page source="fake__echo">\nhello\n</page>' in result.content
        assert [entry["state"] for entry in here.audit] == ["starting", "ready"]


async def test_the_results_of_a_trusted_server_are_plain(tmp_path: Path) -> None:
    async with house(tmp_path, fake(trusted=True)) as here:
        result = await here.call("fake__echo", text="hello")
        assert (result.content, result.tainted) == ("hello", False)


async def test_only_the_tools_that_are_named_are_taken(tmp_path: Path) -> None:
    async with house(tmp_path, fake(tools=("echo",))) as here:
        assert list(await here.tools()) == ["fake__echo"]


async def test_instructions_in_results_and_errors_stay_inside_their_marks(tmp_path: Path) -> None:
    async with house(tmp_path, fake()) as here:
        for name in ("fake__trick", "fake__refuse"):
            result = await here.call(name)
            assert result.tainted
            assert result.content.count("</page>") == 1, result.content
            assert result.content.endswith("</page>")


async def test_a_picture_in_a_result_is_kept_and_shown(tmp_path: Path) -> None:
    async with house(tmp_path, fake()) as here:
        result = await here.call("fake__picture")
        (picture,) = result.pictures
        assert result.shows == (picture.path,)
        assert "A picture: .pictures/1.png" in result.content
        assert here.looked_at == [picture.data]
        assert picture.data.startswith(b"\x89PNG")


async def test_a_sound_and_a_document_in_a_result_are_kept_as_files(tmp_path: Path) -> None:
    async with house(tmp_path / "home", fake()) as here:
        result = await here.call("fake__files")
    assert here.put == {"audio.wav": b"RIFF1", "May.pdf": b"%PDF-1", "image.svg": b"<svg/>"}
    assert result.shows == ("audio.wav", "May.pdf", "image.svg")
    assert "(a file, application/pdf, 6 B, kept as May.pdf)" in result.content
    assert "(audio, audio/x-wav: it cannot be read)" in result.content


async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    async with house(tmp_path, fake()) as here:
        tools = await here.tools()
        with trio.move_on_after(5) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tools["fake__slow"].call, {})
                await until(lambda: here.saved("calls"))
                begun = trio.current_time()
                nursery.cancel_scope.cancel()
        assert not scope.cancelled_caught
        assert trio.current_time() - begun < 3
        await until(lambda: here.saved("cancelled"))
        assert (await here.call("fake__echo", text="still there")).ok


async def test_a_call_that_takes_too_long_fails_and_is_cancelled(tmp_path: Path) -> None:
    async with house(tmp_path, fake(timeout_s=0.3)) as here:
        result = await here.call("fake__slow")
        assert not result.ok
        assert "The server did not answer within 0.3 s." in result.content
        await until(lambda: here.saved("cancelled"))


async def test_a_server_that_dies_in_a_call_is_started_again(tmp_path: Path) -> None:
    async with house(tmp_path, fake()) as here:
        result = await here.call("fake__die")
        assert not result.ok
        assert "ended" in result.content
        await until(lambda: len(here.saved("starts")) == 2)
        assert (await here.call("fake__echo", text="again")).ok


async def test_a_killed_server_is_started_again(tmp_path: Path) -> None:
    async with house(tmp_path, fake("honest", str(tmp_path))) as here:
        await here.tools()
        for pid in processes_with(str(tmp_path)):
            with suppress(ProcessLookupError):  # it went with another one
                os.kill(pid, signal.SIGKILL)
        await until(lambda: len(here.saved("starts")) == 2)
        assert (await here.call("fake__echo", text="again")).ok
    assert processes_with(str(tmp_path)) == []


@pytest.mark.long
async def test_a_silent_server_delays_a_turn_by_its_limit_and_once(tmp_path: Path) -> None:
    for kind in ("silence", "rubbish"):
        async with house(tmp_path / kind, fake(kind, start_timeout_s=1.0)) as here:
            begun = trio.current_time()
            assert await here.tools() == {}
            assert 0.9 < trio.current_time() - begun < 4
            begun = trio.current_time()
            await here.tools()
            assert trio.current_time() - begun < 0.5
            await until(partial(_is_late, here))


def _is_late(here: House) -> bool:
    return here.servers.report()[0]["why"] == "The server was not ready within 1 s."


async def test_a_server_that_floods_us_with_rubbish_is_ended(tmp_path: Path) -> None:
    async with house(tmp_path, fake("flood")) as here:
        assert await here.tools() == {}
        (report,) = here.servers.report()
        assert report["why"] == "The server wrote lines that are not messages, so Rumi ended it."


async def test_a_server_that_exits_says_why(tmp_path: Path) -> None:
    with pytest.raises(McpError, match="The server has ended: the database is locked"):
        await try_once(fake("exits"), tmp_path, accept=False)


@pytest.mark.long
async def test_a_result_of_one_gigabyte_does_not_fill_our_memory(tmp_path: Path) -> None:
    async with house(tmp_path, fake(max_kb=2_000)) as here:
        await here.tools()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await here.call("fake__huge")
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(f"a result of 1 GB: memory grew by {grown_kb} KB")
        assert not result.ok
        assert grown_kb < 50_000
        assert "sent more than 2000000 bytes" in result.content


@pytest.mark.parametrize("sandbox", [True, False])
async def test_a_stubborn_server_and_its_child_are_killed_whole(tmp_path: Path, sandbox: bool) -> None:
    tmp_path.joinpath("mcp").mkdir()
    env = {"MCP_FAKE_HOME": str(tmp_path)} if not sandbox else {}
    async with house(tmp_path, fake("stubborn", str(tmp_path), sandbox=sandbox, env=env)) as here:
        await here.tools()
        assert processes_with(f"deaf-child-{tmp_path}")
        begun = trio.current_time()
    assert trio.current_time() - begun < 3
    # The kernel ends a namespace's processes by itself, on a busy machine a moment later.
    await until(lambda: not processes_with(str(tmp_path)))


async def test_what_a_server_without_a_sandbox_leaves_behind_ends_with_it(tmp_path: Path) -> None:
    marker = f"41536{os.getpid()}"
    section = McpSection(command="sh", args=("-c", f"setsid sleep {marker} & exec cat"), sandbox=False)
    (tmp_path / "mcp").mkdir()
    async with running(ServerSettings("one", section), tmp_path / "mcp" / "one"):
        await until(lambda: len(processes_with(marker)) >= 1)
    assert processes_with(marker) == []


async def test_a_kill_of_rumi_ends_what_a_server_without_a_sandbox_has_started(tmp_path: Path) -> None:
    marker = f"51536{os.getpid()}"
    script = f"setsid sleep {marker} & exec sleep 60"
    words = [sys.executable, "-c", KILLED, str(tmp_path / "mcp" / "one"), "", "sh", "-c", script]
    process = await trio.lowlevel.open_process(words, stdout=subprocess.DEVNULL, cwd=ROOT)
    await until(lambda: [pid for pid in processes_with(f"sleep\0{marker}") if pid != process.pid] != [])
    process.kill()
    await process.wait()
    await until(lambda: not processes_with(marker))


async def test_a_sandboxed_server_sees_its_own_things_only(tmp_path: Path) -> None:
    os.environ["SECRET_OF_RUMI"] = "x"
    try:
        env = {"PROBE": str(tmp_path), "TOKEN": "t"}
        async with house(tmp_path, fake(env=env)) as here:
            content = (await here.call("fake__environment")).content
    finally:
        del os.environ["SECRET_OF_RUMI"]
    seen = json.loads(content[content.index("{") : content.rindex("}") + 1])
    assert "TOKEN" in seen["environment"]
    assert "SECRET_OF_RUMI" not in seen["environment"]
    assert not seen["rumi"]
    assert seen["interfaces"] == 1  # the loopback
    assert seen["processes"] <= 3
    assert seen["kernel"] == []


async def test_a_changed_description_withholds_the_tool_until_accepted(tmp_path: Path) -> None:
    settings = fake("changes")
    async with house(tmp_path, settings) as here:
        assert (await here.call("fake__echo", text="first")).ok
    async with house(tmp_path, settings) as here:
        await _is_withheld(here)
        known = await try_once(settings, tmp_path, accept=True)
        assert known.earlier is not None
        now = next(tool for tool in known.tools if tool.name == "echo")
        (change,) = changes_of(known.earlier.said["echo"], said_of(now))
        assert (change.path, "evil.example" in str(change.now)) == ("description", True)
        assert (await here.call("fake__echo", text="accepted")).ok


async def _is_withheld(here: House) -> None:
    tool = (await here.tools())["fake__echo"]
    assert "evil.example" not in tool.spec.description
    result = await tool.call({"text": "x"})
    assert not result.ok
    assert "rumi mcp test fake --accept" in result.content
    assert here.servers.report()[0]["withheld"] == ["echo"]
    assert (await here.call("fake__trick")).ok  # what has not changed works


async def test_another_command_under_the_same_name_is_accepted_by_itself(tmp_path: Path) -> None:
    async with house(tmp_path, fake()) as here:
        await here.tools()
    accepted = AcceptedTools(tmp_path)
    assert accepted.of(fake()) is not None
    assert accepted.of(fake("changes")) is None
    accepted.forget("fake")
    assert accepted.of(fake()) is None


async def test_a_damaged_list_of_what_was_accepted_accepts_nothing(tmp_path: Path) -> None:
    (tmp_path / "mcp-tools.json").write_text("{")
    with pytest.raises(McpError, match=r"mcp-tools\.json cannot be read"):
        await try_once(fake(), tmp_path, accept=False)


async def test_a_result_gives_no_addresses(tmp_path: Path) -> None:
    """Otherwise a tool that returns its argument would allow any address, with any data in it."""
    async with house(tmp_path, fake()) as here:
        result = await here.call("fake__echo", text="https://evil.example/?data=1")
        assert "evil.example" in result.content
        assert result.links == ()


async def test_no_server_gets_a_folder_that_holds_the_home(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    for path in (tmp_path, tmp_path / "home", tmp_path / "home" / "mcp"):
        path.mkdir(exist_ok=True)
        with pytest.raises(McpError, match="which holds files of Rumi itself"):
            await try_once(fake(paths=(str(path),)), tmp_path / "home", accept=False)


async def test_a_missing_command_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(McpError, match=r"The command no-such-thing is not there\."):
        await try_once(fake(command="no-such-thing"), tmp_path, accept=False)


@pytest.mark.long
async def test_a_server_that_fills_its_folder_is_ended_and_holes_do_not_count(tmp_path: Path) -> None:
    async with house(tmp_path, fake(max_folder_mb=2)) as here:
        assert "fake__echo" in await here.tools()
        folder = tmp_path / "mcp" / "fake"
        (folder / "sparse").touch()
        os.truncate(folder / "sparse", 1 << 40)
        await trio.sleep(1.5)
        assert here.servers.report()[0]["state"] == "ready"
        (folder / "data").write_bytes(b"x" * 3_000_000)
        await until(lambda: here.servers.report()[0]["state"] == "failed")
        assert "The server's folder has more than 2 MB" in str(here.servers.report()[0]["why"])
        (folder / "data").unlink()
        await until(lambda: here.servers.report()[0]["state"] == "ready")


async def test_a_server_shows_no_secret_that_it_was_given(tmp_path: Path) -> None:
    secret = "s3cr3t-of-the-server"
    async with house(tmp_path, fake(redact=Redactor((secret,)))) as here:
        content = (await here.call("fake__echo", text=f"it is {secret}")).content
    assert secret not in content
    assert HIDDEN in content


@pytest.mark.long
@pytest.mark.parametrize("kill", ["in a start", "while it runs"])
async def test_a_kill_of_rumi_ends_a_server_in_its_sandbox_at_any_moment(tmp_path: Path, kill: str) -> None:
    marker = f"31536{os.getpid()}"
    words = [sys.executable, "-c", KILLED, str(tmp_path / "mcp" / "one"), "sandbox", "sleep", marker]
    for moment in (0.1, 0.15, 0.2, 0.25, 0.3) if kill == "in a start" else (0,):
        process = await trio.lowlevel.open_process(words, stdout=subprocess.PIPE, cwd=ROOT)
        assert process.stdout is not None
        with trio.fail_after(30):
            assert (await process.stdout.receive_some()).startswith(b"starts")
            if kill == "while it runs":
                await until(lambda: len(processes_with(marker)) >= 6)
            await trio.sleep(moment)
        process.kill()
        await process.wait()
        await process.stdout.aclose()
        await until(lambda: not processes_with(marker))


KILLED = """
import sys, trio
from pathlib import Path
from rumi.agent.mcp.process import running
from rumi.agent.mcp.messages import ServerSettings
from rumi.platform.config.schema import McpSection
async def main(home, sandbox, command, *words):
    Path(home).parent.mkdir(exist_ok=True)
    print("starts", flush=True)
    section = McpSection(command=command, args=words, sandbox=bool(sandbox))
    async with running(ServerSettings("one", section), Path(home)):
        await trio.sleep(60)
trio.run(main, *sys.argv[1:])
"""
