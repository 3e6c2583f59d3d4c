"""Many tools are found instead of listed: their schemas do not fill the prompt."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from rumi.agent.acting import Acting
from rumi.agent.breakers import TurnLimits
from rumi.agent.mcp.finding import MOST_BROUGHT, SHARE, FindTools, divided
from rumi.agent.mcp.messages import RemoteTool
from rumi.agent.mcp.tool import names_for
from rumi.agent.tool import Tool
from rumi.agent.turn import run_turn
from rumi.agent.turn_input import TurnInput
from rumi.models.chain import Chain
from rumi.models.fitting import request_tokens
from rumi.models.model import Message, ModelRequest, ToolCall
from rumi.platform.config.schema import Settings
from tests.agent.mcp.asking import Asking, bound
from tests.agent.mcp.world import fake, house


def tokens(tools: dict[str, Tool]) -> int:
    return request_tokens(ModelRequest((), tuple(tool.spec for tool in tools.values())))


@pytest.mark.bubblewrap
async def test_two_hundred_tools_cost_no_more_than_ten(tmp_path: Path) -> None:
    costs = {}
    for count in (10, 200):
        async with house(tmp_path / str(count), fake("many", str(count))) as here:
            tools = await here.tools(context_tokens=131_072)
            whole = tokens(await here.tools(context_tokens=10**9))
            costs[count] = tokens(tools)
            print(f"{count} tools: {whole} tokens of schemas, {costs[count]} in the prompt")
            assert (list(tools) == ["find_tools"]) is (count == 200)
    assert costs[200] <= costs[10]


@pytest.mark.bubblewrap
async def test_what_was_found_can_be_called_in_the_same_turn(tmp_path: Path) -> None:
    async with house(tmp_path, fake("many", "200")) as here:
        tools = await here.tools(context_tokens=131_072)
        name = "fake__record_117_lookup"
        seen: list[ModelRequest] = []

        class Scripted(Chain):
            """A model that looks for a tool, calls it, and answers with its result."""

            name = "scripted"

            def __init__(self) -> None:
                pass

            async def reply(self, request: ModelRequest, emit: object) -> object:  # type: ignore[override]
                from rumi.models.model import Reply

                seen.append(request)
                calls = {
                    1: ToolCall("1", "find_tools", '{"query": "record of department 117"}'),
                    2: ToolCall("2", name, '{"field_1": "x", "text": "found it"}'),
                }
                if len(seen) in calls:
                    return Reply("", (calls[len(seen)],), "tool_calls")
                return Reply(request.messages[-1].content)

        turn_input = TurnInput(
            instructions="",
            history=(Message("user", "look"),),
            model=Scripted(),
            tools=tuple(tools.values()),
            limits=TurnLimits(5, 2, 3, 30),
            language="en",
        )

        async def store(message: object) -> None:
            pass

        finished = await run_turn(turn_input, lambda event: None, store)
        assert "found it" in finished.answer
        assert [len(model_request.tools) for model_request in seen] == [1, 7, 7]
        assert name in [spec.name for spec in seen[1].tools]


async def test_a_tool_that_the_session_called_is_there_from_the_beginning() -> None:
    tools = [_tool(f"s__tool_{number}") for number in range(40)]
    finding = FindTools(tools, ("s__tool_7", "bash", "s__tool_7"))
    assert [tool.spec.name for tool in finding.brought] == ["s__tool_7"]
    for number in range(10):
        await finding.call({"query": f"tool {number} {number + 1} {number + 2}"})
        assert len(finding.brought) <= MOST_BROUGHT


async def test_words_that_fit_no_tool_find_none() -> None:
    finding = FindTools([_tool("mail__send_message")], ())
    assert "no tool fits" in (await finding.call({"query": "wheather"})).content
    assert "mail__send_message" in (await finding.call({"query": "sending messages"})).content
    assert not (await finding.call({})).ok


async def test_a_tool_behind_find_tools_that_is_called_by_name_works() -> None:
    tools = [_tool(f"s__tool_{number}") for number in range(40)]
    finding = FindTools(tools, ())
    asking = Asking()
    acting = Acting([finding], lambda event: None, asking.gate, "en")
    assert acting.tool("s__tool_33") is tools[33]
    assert tools[33] in acting.tools
    assert acting.tool("tool_33") is None  # what it returns is remembered under the tool's own name
    assert acting.tool("s__tool_99") is None
    call = ToolCall("1", "s__tool_12", "{}")
    ((_, _, result),) = await acting.run([call])
    assert "there is no tool" not in result.content


async def test_find_tools_gives_names_and_arguments() -> None:
    schema = {"type": "object", "properties": {"to": {}, "cc": {}}, "required": ["to"]}
    mail = _tool("mail__send", schema)
    finding = FindTools([mail, *(_tool(f"s__tool_{number}") for number in range(400))], ())
    assert "mail__send, s__tool_0, s__tool_1," in finding.spec.description
    assert len(finding.spec.description) < 2000
    assert "more." in finding.spec.description
    listed = (await finding.call({"query": " "})).content
    assert all(f"s__tool_{number}" in listed for number in range(400))
    assert finding.brought == ()
    assert "- mail__send(to, cc?): " in (await finding.call({"query": "send a mail"})).content
    both = (await finding.call({"query": "s__tool_7, tool_303"})).content
    assert {"s__tool_7", "s__tool_303"} <= {tool.spec.name for tool in finding.brought}
    assert "s__tool_303" in both


def test_small_servers_stay_in_view_beside_a_large_one() -> None:
    large = [_tool(f"large__tool_{number}") for number in range(500)]
    small = [[_tool(f"small{server}__tool_{number}") for number in range(3)] for server in range(3)]
    shown, behind = divided([small[0], large, *small[1:]], 32_000)
    assert list(shown) == [tool for tools in small for tool in tools]
    assert list(behind) == large
    assert divided([small[0], small[1]], 32_000) == ((*small[0], *small[1]), ())
    assert divided([large], 10**9) == (tuple(large), ())
    assert divided([small[0], small[1]], 100) == ((), (*small[0], *small[1]))
    assert divided([], 100) == ((), ())


@pytest.mark.parametrize("context_tokens", [2_000, 8_000, 32_000, 200_000])
def test_tools_in_view_take_no_more_than_their_share(context_tokens: int) -> None:
    servers = [[_tool(f"s{size}__tool_{number}") for number in range(size)] for size in (1, 30, 4, 120, 2)]
    shown, behind = divided(servers, context_tokens)
    assert tokens({tool.spec.name: tool for tool in shown}) <= context_tokens * SHARE + 10
    assert len(shown) + len(behind) == 157


def test_names_are_made_of_letters_that_models_take_and_are_unique() -> None:
    long = "x" * 80
    tools = ["read_file", "read file", "read/file", "ñandú", long, f"{long}y"]
    names = names_for("my-server", tools)
    assert names["read_file"] == "my-server__read_file"
    assert re.fullmatch("my-server__read_file_[0-9a-f]{12}", names["read/file"])
    assert len(set(names.values())) == 6
    assert max(map(len, names.values())) == 64
    assert all(re.fullmatch("[A-Za-z0-9_-]+", name) for name in names.values())


def test_no_tool_that_a_server_adds_takes_the_name_of_another_one() -> None:
    """A name depends on the tool alone: not on the order, and not on what else is there."""
    before = names_for("s", ["a.b", "c"])
    forged = before["a.b"].removeprefix("s__")  # a tool that is really called like that
    later = names_for("s", ["a/b", forged, "a b", "c", "a.b", "a_b"])
    assert before.items() <= later.items()
    assert len(set(later.values())) == 6


def test_no_two_servers_share_the_name_of_a_tool() -> None:
    """The first `__` ends the server's name, in every pair of names that the configuration takes."""
    parts = ["", "_", "__", "a", "_a", "a_", "a__a", "a_a", "-", "a-", "aa", ".", "a." + "b" * 70]
    servers = [f"{first}{rest}" for first in ("a", "b") for rest in parts if _is_taken(f"{first}{rest}")]
    assert "aa" in servers
    assert "a_" not in servers
    seen: dict[str, tuple[str, str]] = {}
    for server in servers:
        for tool, name in names_for(server, parts).items():
            assert seen.setdefault(name, (server, tool)) == (server, tool)


def _is_taken(server: str) -> bool:
    with suppress(ValueError):
        return Settings.model_validate({"mcp": {server: {"command": "x"}}}) is not None
    return False


def _tool(name: str, schema: Mapping[str, object] | None = None) -> Tool:
    tool = bound(RemoteTool("x", "", {"type": "object"}))
    tool.spec = type(tool.spec)(name, "", schema or {"type": "object"})
    return tool
