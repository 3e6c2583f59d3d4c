"""`rumi mcp add --json` with READMEs, and `rumi mcp allow`."""

import importlib.metadata
import json
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.agent.mcp.world import FAKE
from tests.cli.program import Program

pytestmark = pytest.mark.bubblewrap

BIN = Path(sys.executable).parent
REACHING = FAKE.with_name("reaching_mcp_server.py")


def config(program: Program) -> dict[str, Any]:
    return tomllib.loads((program.home / "config.toml").read_text())["mcp"]  # type: ignore[no-any-return]


def readme(*packages: str) -> str:
    """Return the READMEs of packages as they stand."""
    return "\n".join(str(importlib.metadata.metadata(package).json["description"]) for package in packages)


def weather(*words: str) -> dict[str, object]:
    """Return a server of a README that needs a folder, a host and a variable."""
    return {
        "command": sys.executable,
        "args": [str(REACHING), *words],
        "env": {"WEATHER_URL": "https://api.weather.test/v1", "WEATHER_API_KEY": "<YOUR_API_KEY>"},
        "alwaysAllow": ["get"],
    }


@pytest.mark.long
def test_three_readmes_are_added_as_they_stand(bubblewrap: Program, tmp_path: Path) -> None:
    third = (
        f'## Usage\n\n```jsonc\n// your editor\n"mcpServers": {{"weather": {json.dumps(weather())},}}\n```\n'
    )
    for program in ("mcp-server-time", "mcp-server-git"):  # uvx is not there
        (tmp_path / program).symlink_to(BIN / program)
    bubblewrap.env["PATH"] = f"{tmp_path}:/usr/bin:/bin"
    text = f"{readme('mcp-server-time', 'mcp-server-git')}\n{third}"
    added = bubblewrap.run("mcp", "add", "-", text=text)
    assert [*config(bubblewrap)] == ["time", "git", "weather"]
    for said in (
        "time works: tools: 2.",
        "git works: tools: 12.",
        "weather does not start yet. The server weather names",
        "The text has other ways to start it, which were left out: docker run",
        "alwaysAllow was left out: Rumi asks by its own rules.",
        "It needs the variable WEATHER_API_KEY: rumi config set WEATHER_API_KEY -",
        "It names api.weather.test:443. To allow that: rumi mcp allow weather api.weather.test:443",
    ):
        assert said in added.stdout
    assert f"To give it to the server: rumi mcp allow weather --path {REACHING.parent}" in added.stderr
    bubblewrap.run("mcp", "allow", "weather", "api.weather.test:443", "--path", str(REACHING.parent))
    bubblewrap.run("config", "set", "WEATHER_API_KEY", "-", text="4f9Zq81LmPq")
    assert "weather works: tools: 3." in bubblewrap.run("mcp", "test", "weather").stdout
    listed = bubblewrap.run("mcp", "list").stdout
    assert listed.count("sandbox") == 3


def test_a_server_that_cannot_be_added_does_not_stop_the_others(bubblewrap: Program, tmp_path: Path) -> None:
    block = {
        "mcpServers": {
            "box": {"command": "docker", "args": ["run", "-i", "x/y"]},
            "gone": {"command": "not-there-at-all"},
            "off": {"command": "sleep", "disabled": True},
            "secret": {"command": "sleep", "args": ["0"], "env": {"A_TOKEN": "4f9Zq81LmPq"}},
        }
    }
    file = tmp_path / "block.json"
    file.write_text(json.dumps(block))
    done = bubblewrap.run("mcp", "add", "--json", str(file), code=2)
    assert [*config(bubblewrap)] == ["secret"]
    assert "box was not added." in done.stderr
    assert "The command not-there-at-all is not there." in done.stderr
    assert "The block says that it is disabled." in done.stderr
    assert "Not added: box, gone, off" in done.stderr
    assert "secret does not start yet. The server has ended" in done.stdout
    assert "MCP_SECRET_A_TOKEN=4f9Zq81LmPq" in (bubblewrap.home / ".env").read_text()
    assert config(bubblewrap)["secret"]["env"] == {"A_TOKEN": "${MCP_SECRET_A_TOKEN}"}
    assert "4f9Zq" not in done.stdout + done.stderr + (bubblewrap.home / "config.toml").read_text()


def test_a_yes_to_all_allows_no_address_of_the_own_network(bubblewrap: Program) -> None:
    server = {
        "name": "weather",
        "command": sys.executable,
        "args": ["-c", STARTS.replace("https://models.example.org", "http://192.168.1.1:8080")],
        "env": {"ROUTER": "http://localhost:8123"},
    }
    added = bubblewrap.run("mcp", "add", "--json", "-", "--yes", text=json.dumps(server))
    assert "It names 127.0.0.1:8123. To allow that: rumi mcp allow weather 127.0.0.1:8123" in added.stdout
    assert "To allow that: rumi mcp allow weather 192.168.1.1:8080" in added.stdout
    assert "hosts" not in config(bubblewrap)["weather"]


def test_a_block_neither_gets_nor_replaces_a_secret_or_a_folder_of_the_user(
    bubblewrap: Program, tmp_path: Path
) -> None:
    bubblewrap.env |= {"CLOUD": "3xY77aPqLm0", "GROQ_API_KEY": "own-key-of-rumi"}
    bubblewrap.home.mkdir()
    (bubblewrap.home / ".env").write_text("MINE=8kQw21ZzTr4\nMCP_ONE_MISTRAL_API_KEY=other\n")
    mine = tmp_path / "it's mine"
    mine.mkdir()
    taking = {
        "command": "true",
        "args": [str(mine / "x")],
        "env": {
            "A": "${CLOUD}",
            "B": "x$MINE';id;'",
            "C": "{{ GROQ_API_KEY }}",
            "D": "${env:OPENAI_API_KEY}",  # it is not set yet
            "MISTRAL_API_KEY": "4f9Zq81LmPq",
            "GROQ_API_KEY": "9aBcD31xYzQ",
            "E": "$GROQ_API_KEY",
        },
    }
    far = {"url": "http://127.0.0.1:1/mcp", "headers": {"X-Data": "Bearer ${MINE}", "X-Plain": "y"}}
    block = json.dumps({"mcpServers": {"one": taking, "fa r": far, "fa-r": {"command": "cat"}}})
    added = bubblewrap.run("mcp", "add", "--json", "-", "--yes", text=block, code=2)
    kept = config(bubblewrap)
    assert kept["one"]["env"] == {
        "MISTRAL_API_KEY": "${MCP_ONE_MISTRAL_API_KEY_2}",
        **dict.fromkeys(("GROQ_API_KEY", "C", "E"), "${MCP_ONE_GROQ_API_KEY}"),  # the block's own
    }
    assert kept["fa-r"] == {"url": "http://127.0.0.1:1/mcp", "headers": {"X-Plain": "y"}}
    assert "fa-r was not added. There is a server fa-r already." in added.stderr
    assert (bubblewrap.home / ".env").read_text() == (
        "MINE=8kQw21ZzTr4\nMCP_ONE_MISTRAL_API_KEY=other\n"
        "MCP_ONE_MISTRAL_API_KEY_2=4f9Zq81LmPq\nMCP_ONE_GROQ_API_KEY=9aBcD31xYzQ\n"
    )
    for written in (
        '[mcp.one.env] "A" = "$CLOUD"',
        """[mcp.one.env] "B" = "x$MINE';id;'\"""",
        '[mcp.fa-r.headers] "X-Data" = "Bearer $MINE"',
    ):
        assert f"write into config.toml: {written}\n" in added.stdout
    assert f"rumi mcp allow one --path {shlex.quote(str(mine))}\n" in added.stderr


@pytest.mark.long
def test_what_a_server_asks_for_at_its_start_is_named_and_allowed(bubblewrap: Program) -> None:
    server = {"name": "weather", "command": sys.executable, "args": ["-c", STARTS]}
    added = bubblewrap.run("mcp", "add", "--json", "-", text=json.dumps(server))
    assert "It asked for models.example.org:443. To allow that: rumi mcp allow weather" in added.stdout
    bubblewrap.run("mcp", "remove", "weather", "--files")
    added = bubblewrap.run("mcp", "add", "--json", "-", "--yes", text=json.dumps(server))
    assert "It may reach models.example.org:443." in added.stdout
    assert config(bubblewrap)["weather"]["hosts"] == ["models.example.org:443"]
    shown = bubblewrap.run("mcp", "list").stdout.split()
    assert shown == ["weather", "not", "running", "-", "sandbox,", "models.example.org:443"]


STARTS = "import urllib.request; urllib.request.urlopen('https://models.example.org/x', timeout=5)"


def test_hosts_are_allowed_one_by_one(bubblewrap: Program) -> None:
    bubblewrap.run("mcp", "add", "weather", "--host", "api.example.org:443", "--", sys.executable)
    allowed = bubblewrap.run(
        "mcp", "allow", "weather", "https://b.example.org/x", "http://localhost:8123", "-h", code=None
    )
    assert allowed.returncode == 0
    done = bubblewrap.run("mcp", "allow", "weather", "https://b.example.org/x", "localhost:8123")
    hosts = ["api.example.org:443", "b.example.org:443", "127.0.0.1:8123"]
    assert config(bubblewrap)["weather"]["hosts"] == hosts
    assert done.stdout == f"weather may reach: {', '.join(hosts)}\n"
    for wrong in ("*.example.org:443", "api.example.org", "api.example.org:0", "a b:1"):
        assert (
            "This is not a host with a port."
            in bubblewrap.run("mcp", "allow", "weather", wrong, code=None).stderr
        )
    assert "Example: rumi mcp allow weather" in bubblewrap.run("mcp", "allow", "weather", code=2).stderr
    bubblewrap.run("mcp", "allow", "weather", "--network")
    assert bubblewrap.run("mcp", "list").stdout.split()[-2:] == ["sandbox,", "network"]
    bubblewrap.run("mcp", "add", "far", "--url", "http://127.0.0.1:1/mcp")
    assert "has no sandbox" in bubblewrap.run("mcp", "allow", "far", "a.example:1", code=2).stderr
    refused = bubblewrap.run("config", "set", "mcp.weather.hosts", '["*.example.org:443"]', code=None)
    assert "one host and its port, such as api.example.org:443" in refused.stderr
