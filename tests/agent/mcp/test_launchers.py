"""Launchers of READMEs: run where they can be, otherwise what to install in one sentence."""

import json
from pathlib import Path

import pytest

from rumi.agent.mcp import launchers
from rumi.agent.mcp.bwrap import installation
from rumi.agent.mcp.launchers import started
from rumi.agent.mcp.messages import McpError
from rumi.platform.config.schema import McpSection


def program(folder: Path, name: str) -> Path:
    """Make a program."""
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of programs."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(launchers, "_NODE_MODULES", (str(tmp_path / "node_modules"),))
    return tmp_path


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("uvx mcp-server-git --repository /srv/x", ["mcp-server-git", "--repository", "/srv/x"]),
        ("uvx mcp-server-git@latest", ["mcp-server-git"]),
        ("uvx --python 3.12 --from git+https://example.org/x mcp-server-git", ["mcp-server-git"]),
        ("uv tool run mcp-server-git -v", ["mcp-server-git", "-v"]),
        ("pipx run mcp-server-git", ["mcp-server-git"]),
        ("python -m mcp_server_git", ["python3", "-m", "mcp_server_git"]),
    ],
)
def test_an_installed_package_runs_without_its_launcher(bin: Path, line: str, runs: list[str]) -> None:
    for name in ("mcp-server-git", "python3"):
        program(bin, name)
    command, *words = line.split()
    path, arguments = started(McpSection(command=command, args=tuple(words)))
    assert [path.name, *arguments] == runs
    launcher = program(bin, command)
    assert started(McpSection(command=command, args=tuple(words))) == (launcher, tuple(words))


@pytest.mark.parametrize("declared", ["dist/index.js", {"mcp-server-files": "dist/index.js"}])
def test_an_installed_package_of_node_runs_without_npx(bin: Path, declared: object) -> None:
    package = bin / "node_modules" / "@modelcontextprotocol" / "server-filesystem"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"bin": declared}))
    program(package / "dist", "index.js")
    words = ("-y", "@modelcontextprotocol/server-filesystem@1.2.3", "/srv/x")
    path, arguments = started(McpSection(command="npx", args=words))
    assert (path, arguments) == (package / "dist" / "index.js", ("/srv/x",))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "uvx mcp-server-git",
            "Install uv (pip install uv), or the server itself (pip install mcp-server-git)",
        ),
        ("uv run server.py", "Install uv (pip install uv)."),
        ("pipx run mcp-server-git", "Install uv (pip install uv), or the server itself"),
        ("npx -y @modelcontextprotocol/server-memory", "Install Node.js, which brings npx"),
        ("node /srv/index.js", "Install Node.js, which brings node"),
        ("bunx some-server", "Install bunx, or Node.js and use npx."),
        ("deno run x.ts", "Install deno, or Node.js and use npx."),
        ("no-such-server", "Install it, or correct config.toml."),
    ],
)
def test_a_missing_launcher_is_named_with_what_to_install(bin: Path, line: str, said: str) -> None:
    command, *words = line.split()
    with pytest.raises(McpError, match=f"The command {command} is not there") as refused:
        started(McpSection(command=command, args=tuple(words)))
    assert said in str(refused.value)


def test_a_shim_is_shown_with_the_versions_that_it_chooses_from(tmp_path: Path) -> None:
    shim = tmp_path / ".pyenv" / "shims" / "mcp-server-time"
    shim.parent.mkdir(parents=True)
    shim.write_text("#!/bin/sh\nexec pyenv exec mcp-server-time\n")
    assert installation(shim, tmp_path / "home") == [tmp_path / ".pyenv"]


@pytest.mark.parametrize("engine", ["docker", "podman", "/usr/bin/docker", "nerdctl"])
def test_a_container_is_refused_in_the_sandbox_and_runs_without(bin: Path, engine: str) -> None:
    words = ("run", "-i", "--rm", "mcp/time")
    with pytest.raises(McpError, match="cannot start a container inside of a server's sandbox") as refused:
        started(McpSection(command=engine, args=words))
    assert "sandbox = false" in str(refused.value)
    with pytest.raises(McpError, match="is not there") as missing:
        started(McpSection(command="docker", args=words, sandbox=False))
    assert "Install docker" in str(missing.value)
    assert started(McpSection(command=str(program(bin, "docker")), args=words, sandbox=False))[1] == words
