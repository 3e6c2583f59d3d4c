"""`rumi mcp serve`, and `/mcp` below the page, with the official client of the protocol."""

import json
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from tests.cli.program import BOUND_S, RUMI, Program
from tests.cli.test_chat import wait_for

if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.bubblewrap

TOKEN = "a token of more than sixteen characters"
TOOLS = ["ask", "research_web", "research_repo", "tasks", "recall", "remember"]


@asynccontextmanager
async def served(program: Program, *words: str) -> AsyncIterator["Client"]:
    """Yield a client of `rumi mcp serve`."""
    from mcp import Client, StdioServerParameters

    command = StdioServerParameters(command=RUMI, args=["mcp", "serve", *words], env=program.environment())
    async with Client(command) as client:
        yield client


async def asked(client: "Client", tool: str, **arguments: object) -> str:
    """Return what a tool answers, or its error behind `error: `."""
    done = await client.call_tool(tool, arguments)
    text = "".join(content.text for content in done.content if content.type == "text")
    return f"error: {text}" if done.is_error else text


async def run(program: Program, *words: str) -> str:
    done = await trio.to_thread.run_sync(partial(program.run, *words, code=None))
    return done.stdout + done.stderr


@pytest.mark.long
async def test_a_program_asks_and_what_needs_a_yes_is_refused(bubblewrap: Program) -> None:
    steps: list[str] = []

    async def note(count: float, total: float | None, step: str | None) -> None:
        steps.append(step or "")

    async with served(bubblewrap) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        request = {"text": "run echo lighthouse; then remember colour = blue"}
        done = await client.call_tool("ask", request, progress_callback=note)
        text = "".join(content.text for content in done.content if content.type == "text")
        assert "lighthouse" in text
        assert "nobody is here to say yes" in text
        assert steps[0] == 'bash {"command": "echo lighthouse"}'
        assert "needs a yes" in await asked(client, "remember", key="colour", value="blue")
        assert "colour" not in await run(bubblewrap, "memory", "list")
        assert json.loads(await asked(client, "tasks")) == []
        found = json.loads(await asked(client, "recall", query="lighthouse"))
        assert "lighthouse" in found["passages"][0]["answered"]
        assert "error: " in await asked(client, "recall", query="hola", since="someday")


@pytest.mark.long
async def test_what_a_program_says_is_no_command_and_no_yes(bubblewrap: Program) -> None:
    async with served(bubblewrap) as client:
        for text in ("/reset files", "/stop all", "/status", "yes"):
            assert "a demo, not a language model" in await asked(client, "ask", text=text)
        assert "error: " in await asked(client, "ask", text=" ")
        assert "error: " in await asked(client, "ask", text="hola", chat="../cli")
        chats = json.loads(await run(bubblewrap, "chats", "list", "--json"))
        assert [chat["chat"] for chat in chats] == ["mcp"]
        await asked(client, "ask", text="run ls", chat="b")
        chats = json.loads(await run(bubblewrap, "chats", "list", "--json"))
        assert {chat["chat"] for chat in chats} == {"mcp", "mcp-b"}


@pytest.mark.long
async def test_a_trusted_program_speaks_for_the_user(bubblewrap: Program) -> None:
    async with served(bubblewrap, "--trusted") as client:
        assert "error" not in await asked(client, "remember", key="colour", value="blue")
        await asked(client, "ask", text="remember town = Bruma")
        facts = await run(bubblewrap, "memory", "list")
        assert "blue" in facts
        assert "Bruma" in facts


@pytest.mark.long
async def test_a_cancelled_call_stops_its_turn(bubblewrap: Program) -> None:
    async with served(bubblewrap) as client:
        begun = trio.Event()

        async def note(count: float, total: float | None, step: str | None) -> None:
            begun.set()

        async with trio.open_nursery() as nursery:
            request = {"text": "run sleep 25"}
            nursery.start_soon(partial(client.call_tool, progress_callback=note), "ask", request)
            await begun.wait()
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(wait_for, lambda: "stopped" in map(_end, bubblewrap.audit()))
        assert "again" in await asked(client, "ask", text="run echo again")


@pytest.mark.long
async def test_a_client_that_is_gone_leaves_no_process(bubblewrap: Program) -> None:
    async with served(bubblewrap) as client:
        await asked(client, "ask", text="run echo hola")
        holder = bubblewrap.serving()
    await trio.to_thread.run_sync(wait_for, lambda: not _lives(holder))


def _end(line: dict[str, object]) -> object:
    return line.get("stopped_reason")


def _lives(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def page(program: Program) -> Iterator[str]:
    """Yield the address of the page of a running program."""
    process = program.start("web", "127.0.0.1:0")
    try:
        wait_for(lambda: program.run("status", "--json", code=None).returncode == 0)
        assert process.stderr is not None
        yield (
            next(line for line in process.stderr if "/login?code=" in line).split()[-1].partition("/login")[0]
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=BOUND_S)
    assert process.returncode == 0


def status_of(url: str, **headers: str) -> int:
    """Return the HTTP status of a program's first request."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), sent)
    try:
        with urllib.request.urlopen(request, timeout=BOUND_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


async def test_programs_come_over_http_with_the_token_only(bubblewrap: Program) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    bubblewrap.env["MCP_TOKEN"] = TOKEN
    with page(bubblewrap) as url:
        there, bearer = f"{url}/mcp", f"Bearer {TOKEN}"
        assert await trio.to_thread.run_sync(status_of, there) == 401
        wrong = partial(status_of, there, authorization=f"{bearer}x")
        assert await trio.to_thread.run_sync(wrong) == 401
        other_site = partial(status_of, there, authorization=bearer, origin="http://evil.example")
        assert await trio.to_thread.run_sync(other_site) == 403
        other_host = partial(status_of, there, authorization=bearer, host="evil.example")
        assert await trio.to_thread.run_sync(other_host) == 403
        async with (
            httpx2.AsyncClient(headers={"authorization": bearer}) as http,
            Client(streamable_http_client(there, http_client=http)) as client,
        ):
            assert "hola" in await asked(client, "ask", text="run echo hola")
            assert "needs a yes" in await asked(client, "remember", key="colour", value="blue")


async def plant_a_task_of_another(program: Program) -> None:
    """Store a task of a Telegram user, which is the first one, in the home of the program."""
    from rumi.platform.home import Home
    from rumi.store.journal.actor import open_journal
    from rumi.store.journal.records import TaskRecord
    from rumi.store.journal.tasks import add_task, end_task

    async with open_journal(Home(program.home).make().state_db) as ask:
        await ask(add_task(TaskRecord("web", "tg7", "where is Zembla?", attached=True)))
        await ask(end_task(1, "succeeded", "Zembla is there"))
        await ask(add_task(TaskRecord("web", "local", "where is Xanadu?", attached=True)))
        await ask(end_task(2, "succeeded", "Xanadu is there"))


async def check_tasks(client: "Client") -> None:
    listed = await asked(client, "tasks")
    assert [chat["id"] for chat in json.loads(listed)] == [2]
    assert "Xanadu is there" in await asked(client, "tasks", id=2)
    assert "Unknown task 1" in await asked(client, "tasks", id=1)
    assert "Zembla" not in listed


@pytest.mark.long
async def test_a_program_sees_no_task_of_another_owner(bubblewrap: Program) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    bubblewrap.env["MCP_TOKEN"] = TOKEN
    await plant_a_task_of_another(bubblewrap)
    async with served(bubblewrap) as client:
        await check_tasks(client)
    with page(bubblewrap) as url:
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            await check_tasks(client)
    everything = json.loads(await run(bubblewrap, "tasks", "list", "--json"))
    assert {row["owner"] for row in everything} == {"local", "tg7"}, "the owner at the terminal sees all"


def test_without_a_token_there_is_no_endpoint(bubblewrap: Program) -> None:
    with page(bubblewrap) as url:
        assert status_of(f"{url}/mcp", authorization="Bearer ") in (403, 404)


def test_a_short_token_is_refused_and_not_shown(bubblewrap: Program) -> None:
    bubblewrap.env["MCP_TOKEN"] = "short-secret"
    said = bubblewrap.run("web", "127.0.0.1:0", code=2).stderr
    assert "MCP_TOKEN" in said
    assert "short-secret" not in said
