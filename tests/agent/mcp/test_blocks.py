"""Servers in the JSON of READMEs, in the forms of different programs."""

import importlib.metadata
import json
import time

import pytest

from rumi.agent.mcp.blocks import BlockServer, name_of, read_block
from rumi.agent.mcp.hosts import named_hosts
from rumi.platform.config.schema import McpSection

PLAIN = {"command": "mcp-server-time", "args": ["--local-timezone=UTC"]}
REMOTE = {"type": "http", "url": "https://mcp.example.org/mcp"}


def only(text: str, name: str = "") -> BlockServer:
    (server,) = read_block(text, name)
    return server


def one(**server: object) -> BlockServer:
    return only(json.dumps({"mcpServers": {"s": server}}))


def is_valid(server: BlockServer) -> None:
    """The configuration takes the keys."""
    keys = {key: tuple(value) if isinstance(value, list) else value for key, value in server.keys.items()}
    McpSection.model_validate(keys)


def notes(server: BlockServer) -> str:
    return "\n".join(server.notes)


@pytest.mark.parametrize(
    "wrapped",
    [
        {"mcpServers": {"time": PLAIN}},
        {"servers": {"time": PLAIN}, "inputs": []},
        {"mcp": {"servers": {"time": PLAIN}}},
        {"mcp": {"time": {"type": "local", "command": ["mcp-server-time", "--local-timezone=UTC"]}}},
        {"context_servers": {"time": {"source": "custom", **PLAIN}}},
        {"context_servers": {"time": {"command": {"path": PLAIN["command"], "args": PLAIN["args"]}}}},
        {"amp.mcpServers": {"time": PLAIN}},
        {"projects": {"/home/me": {"mcpServers": {"time": PLAIN}}}},
        {"time": PLAIN},
        {"name": "time", **PLAIN},
        [{"name": "time", **PLAIN}],
        {"mcpServers": [{"name": "time", **PLAIN}]},
        {"mcpServers": {"time": {"command": "mcp-server-time --local-timezone=UTC"}}},
        {
            "mcpServers": {
                "time": {"command": "cmd", "args": ["/c", "mcp-server-time", "--local-timezone=UTC"]}
            }
        },
        {"mcpServers": {"time": {"command": "env", "args": ["mcp-server-time", "--local-timezone=UTC"]}}},
    ],
    ids=lambda wrapped: json.dumps(wrapped)[:40],
)
def test_a_server_is_found_in_each_wrapper(wrapped: object) -> None:
    server = only(json.dumps(wrapped))
    assert (server.name, server.keys) == ("time", PLAIN)


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"time": {"command": "x", /* why */ "args": [], }, }, } // end',
        '"mcpServers": {"time": {"command": "x"}}',
        '"time": {"command": "x"},',
        '\ufeff{“mcpServers”: {"time": {"command": "x"}}}',
        'Add this:\n\n```json\n{"mcpServers": {"time": {"command": "x"}}}\n```\n\nand restart {it}.',
        '> ```jsonc\n> "time": {"command": "x"}\n> ```',
        '~~~\n{"time": {"command": "x"}}\n~~~',
        'Put {"mcpServers": {"time": {"command": "x"}}} into the file.',
        '1. Open\n\n   ```json\n   {"mcpServers": {"time": {"command": "x"}}}\n   ```',
        '```sh\nuvx x\n```\n```json\n{"mcpServers": {"time": {"command": "x"}}}\n```\n```json\n{"a": 1}\n```',
    ],
)
def test_a_server_is_found_in_text_around_it(text: str) -> None:
    server = only(text)
    assert (server.name, server.keys["command"]) == ("time", "x")


@pytest.mark.parametrize(
    "text", ["", "no server", "{}", "[]", '{"a": {"b": 1}}', '{"command": 3}', "{" * 5000]
)
def test_a_text_without_a_server_has_none(text: str) -> None:
    assert read_block(text) == []


def test_a_server_without_a_name_takes_the_given_one_or_says_so() -> None:
    assert only(json.dumps(PLAIN), "time").name == "time"
    assert "has no name" in str(only(json.dumps(PLAIN)).trouble)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("io.github.someone/weather", "weather"),
        ("Redis MCP Server", "Redis-MCP-Server"),
        ("a__b_", "a_b"),
        ("x" * 40, "x" * 24),
        ("@scope/files", "files"),
        ("日本", ""),
    ],
)
def test_a_name_becomes_one_that_can_be_used(name: str, here: str) -> None:
    assert name_of(name) == here
    server = only(json.dumps({"mcpServers": {name: PLAIN}}))
    assert server.name == here
    assert (not here) == (server.trouble is not None)


@pytest.mark.parametrize(
    ("value", "stored", "missing"),
    [
        ("${API_KEY}", "$API_KEY", ["API_KEY"]),
        ("$OTHER_KEY", "$OTHER_KEY", ["OTHER_KEY"]),
        ("${env:API_KEY}", "$API_KEY", ["API_KEY"]),
        ("{{API_KEY}}", "$API_KEY", ["API_KEY"]),
        ("${API_KEY:-none}", "$API_KEY", ["API_KEY"]),
        ("${input:the-key}", "$API_KEY", ["API_KEY"]),
        ("${user_config.api_key}", "$API_KEY", ["API_KEY"]),
        ("<YOUR_API_KEY>", "$API_KEY", ["API_KEY"]),
        ("<your long-lived token>", "$API_KEY", ["API_KEY"]),
        ("YOUR_API_KEY", "$API_KEY", ["API_KEY"]),
        ("your-api-key-here", "$API_KEY", ["API_KEY"]),
        ("my-api-key", "$API_KEY", ["API_KEY"]),
        ("api_key", "$API_KEY", ["API_KEY"]),
        ("sk-xxxxxxxx", "$API_KEY", ["API_KEY"]),
        ("ghp_xxxxxxxxxxxx", "$API_KEY", ["API_KEY"]),
        ("...", "$API_KEY", ["API_KEY"]),
        ("REPLACE_ME", "$API_KEY", ["API_KEY"]),
        ("[insert key]", "$API_KEY", ["API_KEY"]),
        ("", "$API_KEY", ["API_KEY"]),
        (None, "$API_KEY", ["API_KEY"]),
    ],
)
def test_examples_and_references_become_variables_to_set(
    value: object, stored: str, missing: list[str]
) -> None:
    server = one(command="x", env={"API_KEY": value})
    assert server.keys["env"] == {"API_KEY": stored}
    assert [*server.missing] == missing
    assert not server.secrets


def test_a_real_secret_goes_into_env_and_nowhere_else() -> None:
    server = one(command="x", env={"API_KEY": "sk-4f9Zq81LmPq", "MODE": "fast", "DEBUG": True, "N": 3})
    assert server.keys["env"] == {"API_KEY": "$API_KEY", "MODE": "fast", "DEBUG": "true", "N": "3"}
    assert server.secrets == {"API_KEY": "sk-4f9Zq81LmPq"}
    assert not server.missing
    assert "4f9Zq" not in repr(server)
    remote = one(
        **REMOTE, headers={"Authorization": "Bearer 4f9Zq81LmPq", "X-API-Key": "<KEY>", "X-Mode": "a"}
    )
    assert remote.keys["headers"] == {
        "Authorization": "Bearer $S_AUTHORIZATION",
        "X-API-Key": "$S_X_API_KEY",
        "X-Mode": "a",
    }
    assert (remote.secrets, remote.missing) == ({"S_AUTHORIZATION": "4f9Zq81LmPq"}, ("S_X_API_KEY",))
    is_valid(server)
    is_valid(remote)


@pytest.mark.parametrize(
    ("server", "key", "value"),
    [
        ({"url": "https://mcp.example.org/mcp"}, "url", "https://mcp.example.org/mcp"),
        ({"serverUrl": "https://mcp.example.org/sse", "type": "sse"}, "url", "https://mcp.example.org/sse"),
        ({"httpUrl": "https://mcp.example.org/mcp"}, "url", "https://mcp.example.org/mcp"),
        (
            {"command": "npx", "args": ["-y", "mcp-remote@latest", "https://mcp.example.org/mcp"]},
            "url",
            "https://mcp.example.org/mcp",
        ),
        (
            {"command": "npx", "args": ["mcp-remote", "https://a.example", "--header", "X-Token: ${T}"]},
            "headers",
            {"X-Token": "$T"},
        ),
        ({"command": "x", "timeout": 30}, "timeout_s", 30),
        ({"command": "x", "timeout": 30000}, "timeout_s", 30),
        ({"command": "x", "includeTools": ["a", "b"]}, "tools", ["a", "b"]),
        ({"command": "x", "environment": {"A": "b"}}, "env", {"A": "b"}),
        ({"command": "x", "env": ["A=b=c"]}, "env", {"A": "b=c"}),
        ({"command": "x", "env": [{"name": "A", "value": "b"}]}, "env", {"A": "b"}),
        ({"command": "env", "args": ["A=b", "x"]}, "env", {"A": "b"}),
    ],
)
def test_keys_of_other_programs_are_taken_over(server: dict[str, object], key: str, value: object) -> None:
    assert one(**server).keys[key] == value


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"autoApprove": ["x"]}, "autoApprove was left out: Rumi asks by its own rules"),
        ({"alwaysAllow": ["x"]}, "alwaysAllow was left out"),
        ({"trust": True}, "trust was left out"),
        ({"envFile": "${workspaceFolder}/.env"}, "envFile was left out. Put its variables into .env"),
        ({"cwd": "/srv"}, "cwd was left out"),
        ({"icon": "x", "gallery": True}, "Left out: icon, gallery"),
        ({"excludeTools": ["x"]}, "Left out: excludeTools"),
        ({"args": ["/path/to/allowed/files"]}, "/path/to/allowed/files is only an example"),
        ({"args": ["/Users/username/Desktop"]}, "is only an example"),
        ({"args": ["${workspaceFolder}"]}, "is only an example"),
        ({"args": ["C:\\Users\\me"]}, "is only an example"),
        ({"args": ["--token", "<TOKEN>"]}, "<TOKEN> is only an example"),
        ({"env": {"FILE": "/path/to/memory.json"}}, "The variable FILE was left out"),
        ({"env": {"not a name": "x"}}, "not a name is not the name of a variable"),
    ],
)
def test_what_is_left_out_is_named(more: dict[str, object], said: str) -> None:
    server = one(command="x", **more)
    assert said in notes(server)
    is_valid(server)


@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
def test_a_disabled_server_is_not_added(off: dict[str, object]) -> None:
    assert "disabled" in str(one(command="x", **off).trouble)
    assert one(command="x", disabled=False).trouble is None


def test_an_address_that_is_an_example_is_not_added() -> None:
    assert one(url="<YOUR_REGION_ENDPOINT>").trouble is not None


def test_of_several_ways_the_one_without_container_and_example_is_taken() -> None:
    blocks = [
        {"mcpServers": {"git": {"command": "docker", "args": ["run", "-i", "mcp/git"]}}},
        {
            "mcpServers": {
                "git": {"command": "uvx", "args": ["mcp-server-git", "--repository", "/path/to/repo"]}
            }
        },
        {"servers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}},
        {"mcp-server-git": {"command": "python", "args": ["-m", "mcp_server_git"]}},
        {"command": "uvx", "args": ["mcp-server-git@latest"]},
    ]
    server = only("\n".join(f"```json\n{json.dumps(block)}\n```" for block in blocks))
    assert (server.name, server.keys["args"], server.trouble) == ("git", ["mcp-server-git"], None)
    assert "docker run -i mcp/git" in notes(server)
    both = {
        "mcpServers": {
            "a": {"command": "uvx", "args": ["files", "/a"]},
            "b": {"command": "uvx", "args": ["files", "/b"]},
        }
    }
    assert [one.name for one in read_block(json.dumps(both))] == ["a", "b"]


@pytest.mark.parametrize(
    ("package", "name", "command"),
    [("mcp-server-time", "time", "uvx"), ("mcp-server-git", "git", "uvx")],
)
def test_real_readmes_are_read_as_they_stand(package: str, name: str, command: str) -> None:
    readme = importlib.metadata.metadata(package).json["description"]
    server = only(str(readme))
    assert (server.name, server.keys) == (name, {"command": command, "args": [package]})


def test_the_hosts_of_addresses_are_found() -> None:
    words = [
        "http://localhost:8123",
        "--url=https://me:secret@API.example.org/v1",
        "postgresql://user:p@db.example.org/x",
        "redis://10.0.0.5:6380/0",
        "file:///srv/x",
        "plain",
        "https://<host>/",
        "wss://[::1]:9/x",
    ]
    assert named_hosts(words) == [
        "127.0.0.1:8123",
        "api.example.org:443",
        "db.example.org:5432",
        "10.0.0.5:6380",
        "[::1]:9",
    ]


@pytest.mark.parametrize("piece", ["```a\n", "/*", '"\\', "${A:-", "{", '{"a":'])
def test_a_hostile_text_is_read_in_linear_time(piece: str) -> None:
    began = time.process_time()
    block = json.dumps({"one": {"command": "x", "env": {"A": piece * 20_000}}})
    assert len(read_block(block)) == 1
    assert read_block(piece * 20_000) == []
    assert time.process_time() - began < 3
