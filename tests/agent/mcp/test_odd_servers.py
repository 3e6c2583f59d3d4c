"""Servers as they are: odd results, lines, lists and handshakes cost one part, and are told."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rumi.agent.mcp.handshake import VERSIONS, handshake
from rumi.agent.mcp.lines import MOST_NOISE, RAW, Lines
from rumi.agent.mcp.listing import MOST_PAGES, list_all, listed
from rumi.agent.mcp.messages import Listing, McpError, ServerRefused
from rumi.agent.mcp.outcomes import MOST_PARTS, outcome_of
from rumi.agent.mcp.results import result_of
from rumi.agent.mcp.servers import try_once
from rumi.agent.mcp.tool import names_for
from tests.agent.mcp.odd_results import FAILED, GOOD, LINES, ONCE, RESULTS, text
from tests.agent.mcp.odd_tools import OBJECT, STRANGE_KEYS, USABLE, WITHHELD, holding
from tests.agent.mcp.world import House, fake, house, until
from tests.conftest import ROOT
from tests.fakes.strict_schemas import JUDGES

ODD = ROOT / "tests" / "fakes" / "odd_mcp_server.py"


def plain(said: str) -> str:
    return said


async def save(body: bytes, name: str) -> str:
    return name


async def read(result: object) -> str:
    """Return what a model reads of a result."""
    outcome = outcome_of({"result": result}, plain)
    return (await result_of("s", outcome, _never, save, trusted=True)).content


async def _never(*_: object) -> Any:
    raise AssertionError


@pytest.mark.parametrize("kind", RESULTS)
async def test_of_an_odd_result_the_model_reads_what_there_is(kind: str) -> None:
    result, shown = RESULTS[kind]
    said = await read(result)
    for words in shown:
        assert words in said


@pytest.mark.parametrize("kind", ONCE)
async def test_structured_content_that_a_text_says_is_not_shown_twice(kind: str) -> None:
    texts, structured = ONCE[kind]
    said = await read({"content": list(map(text, texts)), "structuredContent": structured})
    assert said.count("ALPHA") == 1


@pytest.mark.parametrize("kind", FAILED)
def test_is_error_of_any_type_is_understood(kind: str) -> None:
    value, failed = FAILED[kind]
    outcome = outcome_of({"result": {"content": [text("x")], "isError": value}}, plain)
    assert outcome.failed is failed
    assert outcome_of({"result": {"error": "x"}}, plain).failed


def test_a_result_of_a_million_parts_is_bounded() -> None:
    outcome = outcome_of({"result": {"content": ["x"] * 1_000_000}}, plain)
    assert len(outcome.parts) == MOST_PARTS + 1
    assert outcome.parts[-1].text == "(more parts, not shown)"


def test_secrets_are_hidden_in_every_part_of_a_result() -> None:
    raw = {"result": {"content": [{"type": "x", "y": {"z": "SECRET"}}], "structuredContent": {"a": "SECRET"}}}
    outcome = outcome_of({**raw, "error": "SECRET"}, lambda said: said.replace("SECRET", "•"))
    assert len(outcome.parts) == 3
    assert not any("SECRET" in part.text for part in outcome.parts)


def lines_of(*methods: str) -> Lines:
    """Return the lines of a connection with open requests 1, 2, …"""
    lines = Lines()
    for id_, method in enumerate(methods, 1):
        lines.sent({"jsonrpc": "2.0", "id": id_, "method": method})
    return lines


def heard(lines: Lines, line: str) -> list[dict[str, Any]]:
    return lines.read(line.replace("$ID", "1").encode("utf-8", "surrogateescape"))


@pytest.mark.parametrize("kind", LINES)
async def test_a_line_for_an_open_call_ends_it_at_once_with_what_is_known(kind: str) -> None:
    wanted, shown = LINES[kind]
    lines, said = lines_of("tools/call"), ""
    for line in wanted:
        for message in heard(lines, line):
            assert message["jsonrpc"] == "2.0"
            if "error" in message:
                said += f"refused {message['error']['message']}"
                assert isinstance(message["error"]["code"], int)
            elif "result" in message:
                assert message["id"] == 1
                outcome = outcome_of(message["result"]["_meta"][RAW], plain)
                said += (await result_of("s", outcome, _never, save, trusted=True)).content
    for words in shown:
        assert words in said


@pytest.mark.parametrize("indent", [0, 1, 2, "\t", None])
def test_an_answer_over_many_lines_is_read_whole(indent: int | str | None) -> None:
    blocks = [{"type": "text", "text": "FINE {"}, {"type": "text", "text": "}"}, {}]
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": blocks, "more": {"x": [], "y": {}}}}
    printed = json.dumps(answer, indent=indent)
    if indent is None:  # printed by hand
        printed = '{\n "id": 1,\n "result": {"content": [\n' + ",\n".join(map(json.dumps, blocks)) + "\n]}\n}"
    lines = lines_of("tools/call")
    noise = ["{", "a: 1", "}", "{ b"]  # an object of JavaScript
    found = [message for line in [*noise, *printed.split("\n")] for message in heard(lines, line)]
    assert [message["result"]["_meta"][RAW]["result"]["content"] for message in found] == [blocks]


def test_a_bracket_that_is_never_closed_holds_back_no_message() -> None:
    lines = lines_of("tools/call")
    printed = ["{", " state: [", '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}']
    assert [message["id"] for line in printed for message in heard(lines, line)] == [1]


def test_a_line_that_ends_a_call_ends_only_that_call() -> None:
    lines = lines_of("tools/call", "tools/call")
    (message,) = heard(lines, '{"jsonrpc":"2.0","id":2,"result":{"content":[{"text":"half')
    assert message["id"] == 2
    assert heard(lines, '{"jsonrpc":"2.0","id":2,"result":') == []
    assert heard(lines, '{"jsonrpc":"2.0","id":null,"error":{"code":1}}')[0]["id"] == 1
    assert heard(lines_of("x", "y"), '{"jsonrpc":"2.0","id":null,"error":{"code":1}}') == []


def test_an_id_inside_of_a_broken_result_is_not_the_id_of_its_call() -> None:
    lines = lines_of("tools/call", "tools/call")
    assert heard(lines, '{"jsonrpc":"2.0","result":{"rows":[{"id":1,"name":"half') == []
    assert heard(lines, GOOD)


def test_a_cancelled_call_is_not_answered_later() -> None:
    lines = lines_of("tools/call")
    lines.sent({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert heard(lines, GOOD) == []


def test_a_broken_answer_to_another_request_is_an_error() -> None:
    (message,) = heard(lines_of("tools/list"), '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"na')
    assert message["error"]["message"] == "The answer is not valid JSON."


def test_a_thousand_lines_of_noise_are_skipped_and_one_more_is_too_many() -> None:
    lines = Lines()
    for _ in range(2):
        for _ in range(MOST_NOISE):
            assert heard(lines, "noise {x}") == []
        heard(lines, '{"jsonrpc":"2.0","method":"notifications/message"}')
    for _ in range(MOST_NOISE):
        heard(lines, "[noise")
    with pytest.raises(McpError, match="lines that are not messages"):
        heard(lines, "noise")


def test_framing_of_language_servers_is_named_at_once() -> None:
    with pytest.raises(McpError, match="frames its messages with Content-Length") as caught:
        heard(Lines(), "Content-Length: 120\r")
    assert "one message per line" in caught.value.advice


@pytest.mark.parametrize(
    "bomb", ['"\\' * 500_000, "{" * 500_000, '{"id":' * 200_000, '{"a":"\\"' * 200_000, "[{" * 300_000]
)
def test_a_long_broken_line_is_read_in_linear_time(bomb: str) -> None:
    lines = lines_of("tools/call")
    began = time.process_time()
    heard(lines, bomb)
    heard(lines, '{"jsonrpc":"2.0","x":"' + bomb)
    assert time.process_time() - began < 5  # quadratic, it would take hours


def test_open_requests_are_bounded() -> None:
    lines = lines_of(*["tools/call"] * 10_000)
    assert heard(lines, GOOD) == []
    assert len(lines.read(GOOD.replace("$ID", "9999").encode())) == 1


# lists of tools


def tool(name: Any = "odd", schema: Any = OBJECT, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "About", "inputSchema": schema, **more}


@pytest.mark.parametrize("kind", WITHHELD)
def test_an_odd_definition_withholds_its_tool_only(kind: str) -> None:
    listing = listed([tool("a"), tool("odd", WITHHELD[kind]), tool("b")], plain)
    assert [tool.name for tool in listing.tools] == ["a", "b"]
    assert list(listing.unusable) == ["odd"]
    assert str(listing.unusable["odd"]).startswith("Its ")


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        (None, "#2"),
        ("text", "#2"),
        ({}, "#2"),
        ({"description": "no name"}, "#2"),
        (tool(None), "#2"),
        (tool(""), "#2"),
        (tool(["x"]), "#2"),
        (tool("x\ud800"), "#2"),
        (tool("n" * 500), "n" * 40 + "…"),
        (tool("a", holding(other={})), "a (2)"),
    ],
)
def test_a_definition_without_a_usable_name_is_named_by_its_place(entry: Any, named: str) -> None:
    listing = listed([tool("a"), entry, tool("b")], plain)
    assert [tool.name for tool in listing.tools] == ["a", "b"]
    assert list(listing.unusable) == [named]


@pytest.mark.parametrize(
    "more",
    [
        {"description": None},
        {"description": 7},
        {"description": ["a", "b"]},
        {"description": {"en": "x"}},
        {"description": "half \ud800"},
        {"title": 3, "icons": "x", "_meta": 1, "execution": None},
        {"outputSchema": {"$ref": "#/nowhere"}},
        {"outputSchema": "none"},
        {"annotations": None},
        {"annotations": []},
        {"annotations": {"readOnlyHint": "true", "openWorldHint": 0, "destructiveHint": "no", "title": 4}},
        {"inputSchema": None, "input_schema": OBJECT},
        {"inputSchema": None, "parameters": OBJECT},
    ],
)
def test_odd_fields_of_a_definition_cost_nothing(more: dict[str, Any]) -> None:
    (found,) = listed([tool(**more)], plain).tools
    assert isinstance(found.description, str)
    assert (found.read_only, found.open_world, found.destructive) == (False, True, None)
    json.dumps([found.description, found.parameters], ensure_ascii=False).encode()


def test_the_same_definition_twice_is_one_tool() -> None:
    listing = listed([tool("a"), tool("a")], plain)
    assert (len(listing.tools), listing.unusable) == (1, {})


@pytest.mark.parametrize("name", ["a.b", "a/b", "a b", "ñandú", "日本", "x" * 200, 7, "a__b", "-x", "tool\n"])
def test_any_name_becomes_one_that_providers_take(name: Any) -> None:
    (found,) = listed([tool(name)], plain).tools
    sent = names_for("s", [found.name])[found.name]
    for judge in JUDGES.values():
        assert judge(sent, OBJECT) is None


@pytest.mark.parametrize("tools", [[tool("a"), tool("b")], {"a": tool("a"), "b": {"inputSchema": {}}}])
def test_tools_come_as_a_list_or_by_name(tools: Any) -> None:
    assert [tool.name for tool in listed(tools, plain).tools] == ["a", "b"]


async def pages(answers: Callable[[str | None], Any]) -> tuple[Listing, list[str | None]]:
    asked: list[str | None] = []

    async def ask(cursor: str | None) -> object:
        asked.append(cursor)
        return answers(cursor)

    return await list_all(ask, plain), asked


def _refusing(cursor: str | None) -> Any:
    if cursor is not None:
        raise ServerRefused("no such cursor")
    return {"tools": [tool("a")], "nextCursor": "2"}


@pytest.mark.parametrize(
    ("answers", "names", "note"),
    [
        (lambda cursor: {"tools": [tool("a")], "nextCursor": "same"}, ["a"], "repeats itself"),
        (lambda cursor: {"tools": [tool("a")], "nextCursor": f"{cursor}x"}, ["a"], "repeats itself"),
        (lambda cursor: {"tools": [tool("a")], "nextCursor": ""}, ["a"], ""),
        (
            lambda cursor: {"tools": [tool("ab"[cursor == "2"])], "nextCursor": None if cursor else 2},
            ["a", "b"],
            "",
        ),
        (
            lambda cursor: {
                "tools": [tool("b" if cursor == "" else "a")],
                **({} if cursor == "" else {"nextCursor": ""}),
            },
            ["a", "b"],
            "",
        ),
        (_refusing, ["a"], "refused a later page"),
        (lambda cursor: {"tools": None}, [], "no list of tools"),
        (lambda cursor: {}, [], "no list of tools"),
        (lambda cursor: None, [], "no list of tools"),
        (lambda cursor: [tool("a")], ["a"], ""),
        (
            lambda cursor: {"tools": [tool(f"t{n}") for n in range(1500)]},
            [f"t{n}" for n in range(1000)],
            "1500 tools",
        ),
    ],
)
async def test_a_list_of_tools_always_ends(answers: Any, names: list[str], note: str) -> None:
    listing, asked = await pages(answers)
    assert [tool.name for tool in listing.tools] == names
    assert len(asked) <= 3
    assert note in " ".join(map(str, listing.notes))
    assert bool(note) is bool(listing.notes)


async def test_a_list_of_endless_pages_is_cut_and_said() -> None:
    listing, asked = await pages(lambda cursor: {"tools": [tool(f"t{cursor}")], "nextCursor": f"{cursor}x"})
    assert len(asked) == len(listing.tools) == MOST_PAGES
    assert "does not end" in str(listing.notes[0])


async def test_a_refused_first_page_is_an_error() -> None:
    def refuses(cursor: str | None) -> Any:
        raise ServerRefused("not now")

    with pytest.raises(ServerRefused):
        await pages(refuses)


@pytest.mark.parametrize(
    ("given", "version"),
    [
        ({"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}}, "2025-06-18"),
        ({"protocolVersion": "2024-10-07", "capabilities": {"tools": True}}, VERSIONS[0]),
        ({"protocolVersion": "2099-01-01", "capabilities": {"tools": None, "logging": {}}}, VERSIONS[-1]),
        ({"protocolVersion": "1.0", "capabilities": ["tools"]}, VERSIONS[0]),
        ({"protocolVersion": 2, "serverInfo": {"name": "x"}}, VERSIONS[0]),
        ({"serverInfo": "x", "instructions": 7}, VERSIONS[0]),
        ({"serverInfo": {"name": None, "version": 2}, "capabilities": {"tools": {"x": {}}}}, VERSIONS[0]),
        (None, VERSIONS[0]),
        ("hello", VERSIONS[0]),
    ],
)
def test_an_odd_handshake_is_completed(given: Any, version: str) -> None:
    import mcp_types

    found = mcp_types.InitializeResult.model_validate(handshake(given))
    assert found.protocol_version == version
    assert found.server_info.name


# through the whole stack


def odd(tmp_path: Path, **script: Any) -> Any:
    """Return the settings of a server that answers with these lines."""
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "s.json").write_text(json.dumps(script))
    words = (str(ODD), str(tmp_path / "x" / "s.json"))
    return fake(name="odd", args=words, paths=(str(ODD.parent), str(tmp_path / "x")), timeout_s=20.0)


def _answer(result: object) -> list[str]:
    return [f'{{"jsonrpc":"2.0","id":$ID,"result":{json.dumps(result)}}}']


@pytest.mark.bubblewrap
async def test_no_odd_answer_of_a_real_process_hangs_a_call_or_ends_its_server(tmp_path: Path) -> None:
    calls = {f"result {kind}": _answer(result) for kind, (result, _) in RESULTS.items()}
    calls |= {f"line {kind}": lines for kind, (lines, _) in LINES.items()}
    settings = odd(tmp_path, calls=calls, list=[_answer({"tools": list(map(tool, calls))})])
    shown = {f"result {kind}": words for kind, (_, words) in RESULTS.items()}
    shown |= {f"line {kind}": words for kind, (_, words) in LINES.items()}
    async with house(tmp_path / "home", settings) as here:
        tools = await here.tools(context_tokens=10**9)
        names = names_for("odd", list(shown))
        for name, words in shown.items():
            result = await tools[names[name]].call({})
            assert all(word in result.content for word in words), (name, result.content[:1000])
            assert "was not called" not in result.content
        (report,) = here.servers.report()
        assert (report["state"], report["calls"]) == ("ready", len(shown))

        def answers() -> dict[str, Any]:
            asked = (tmp_path / "home" / "mcp" / "odd" / "asked").read_text().splitlines()
            return {one["id"]: one for one in map(json.loads, asked) if "method" not in one}

        await until(lambda: len(answers()) == 4)
        assert answers()["p"]["result"] == {}
        assert [answers()[id_]["error"]["code"] for id_ in ("r", "1.5", "u")] == [-32601] * 3


@pytest.mark.bubblewrap
async def test_all_odd_definitions_of_a_real_process_are_used_or_named(tmp_path: Path) -> None:
    usable = {kind: schema for kind, (schema, _) in USABLE.items()}
    tools = [tool(kind, schema) for kind, schema in {**usable, **WITHHELD}.items()]
    init = ['{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"3","capabilities":{"tools":true}}}']
    pages = [_answer({"tools": [*tools, None], "nextCursor": "same"})]
    settings = odd(tmp_path, first=["noise"] * 999, init=init, list=pages)
    async with house(tmp_path / "home", settings) as here:
        found = await here.tools(context_tokens=10**9)
        assert len(found) == len(usable) + 1  # and `declare_changes`
        for name, one in found.items():
            for judge in JUDGES.values():
                assert judge(name, one.spec.parameters) is None or judge.__name__ in ("gemini", "llamacpp")
        await _names_what_is_withheld(here)


async def _names_what_is_withheld(here: House) -> None:
    (report,) = here.servers.report()
    unusable: Any = report["unusable"]
    assert set(unusable) == {*WITHHELD, f"#{len(USABLE) + len(WITHHELD) + 1}"}
    assert "repeats itself" in str(report["notes"])


@pytest.mark.bubblewrap
async def test_renamed_arguments_reach_the_server_under_their_own_names(tmp_path: Path) -> None:
    schema = holding(**{key: {"type": "string"} for key in STRANGE_KEYS})
    settings = odd(tmp_path, list=[_answer({"tools": [tool("find", schema)]})], calls={"find": [GOOD]})
    async with house(tmp_path / "home", settings) as here:
        found = (await here.tools())["odd__find"]
        names: Any = found.spec.parameters["properties"]
        assert (await found.call(dict.fromkeys(names, "v"))).ok
        asked = (tmp_path / "home" / "mcp" / "odd" / "asked").read_text().splitlines()
        assert set(json.loads(asked[-1])["params"]["arguments"]) == set(STRANGE_KEYS)


@pytest.mark.bubblewrap
async def test_try_once_names_what_is_unusable(tmp_path: Path) -> None:
    settings = odd(tmp_path, list=[_answer({"tools": [tool("good"), tool("bad", WITHHELD["an array"])]})])
    (tmp_path / "home").mkdir()
    known = await try_once(settings, tmp_path / "home", accept=False)
    assert [tool.name for tool in known.tools] == ["good"]
    assert str(known.unusable["bad"]) == "Its arguments are not an object, but: array."
