"""`rumi mcp login` and `rumi mcp logout`: with a browser, with a pasted answer, and while Rumi runs."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.mcp.oauth_world import Tools, tools_with_login, visited
from tests.cli.program import BOUND_S, Program
from tests.cli.test_chat import wait_for


@pytest.fixture
def tools() -> Iterator[Tools]:
    with tools_with_login() as found:
        yield found


def log_in(program: Program, *, paste: bool) -> str:
    """Log in at `web`, in a browser of this machine or of another one; return what was printed."""
    process = program.start("mcp", "login", "web", "--no-browser")
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        printed = ""
        while not printed.endswith("paste that address here.\n"):
            line = process.stdout.readline()
            assert line, process.communicate(timeout=BOUND_S)
            printed += line
        (address,) = [line for line in printed.splitlines() if "/authorize?" in line]
        _, target, _ = visited(address)
        if paste:
            process.stdin.write(f"{target}\n")
            process.stdin.flush()
        else:
            assert visited(target)[0] == 200
        output, errors = process.communicate(timeout=BOUND_S)
    except BaseException:
        process.kill()
        raise
    assert process.returncode == 0, errors
    return printed + output


@pytest.mark.long
@pytest.mark.bubblewrap
def test_a_login_is_made_shown_kept_out_of_backups_and_ended(
    bubblewrap: Program, tools: Tools, tmp_path: Path
) -> None:
    program = bubblewrap
    program.run("mcp", "add", "web", "--url", tools.address)
    failed = program.run("mcp", "test", "web", code=1)
    assert "The server wants you to log in (HTTP 401). Log in with: rumi mcp login web" in failed.stderr
    said = log_in(program, paste=False)
    assert f"web wants you to log in at {tools.grants.url}." in said
    assert "It asks for these rights: read" in said
    assert "Logged in to web. Rumi renews the login by itself." in said
    (grant,) = tools.grants.grants
    assert "web works: tools: 2." in program.run("mcp", "test", "web").stdout
    assert "logged in; Rumi renews the login by itself" in program.run("mcp", "list").stdout
    (listed,) = json.loads(program.run("mcp", "list", "--json").stdout)
    assert listed["login"]["state"] == "logged in"
    assert "logged in to web" in program.run("doctor", code=None).stdout
    program.run("data", "backup", str(tmp_path / "copy"))
    secrets = (grant.access, grant.refresh)
    for folder in (tmp_path / "copy", program.home / "logs"):
        for file in filter(Path.is_file, folder.rglob("*")):
            assert not any(secret in file.read_text(errors="replace") for secret in secrets), file
    said = log_in(program, paste=True)
    assert len(tools.grants.grants) == 2
    assert program.run("mcp", "logout", "web").stdout == "Logged out of web.\n"
    assert len(tools.grants.grants) == 1
    assert "There is no login at web." in program.run("mcp", "logout", "web", code=2).stderr
    log_in(program, paste=True)
    program.run("mcp", "remove", "web")
    assert len(tools.grants.grants) == 1
    assert not [*(program.home / "mcp-logins").rglob("*.json")]


@pytest.mark.long
@pytest.mark.bubblewrap
def test_a_running_rumi_takes_a_login_at_once(bubblewrap: Program, tools: Tools) -> None:
    bubblewrap.run("mcp", "add", "web", "--url", tools.address)
    window = bubblewrap.start("chat")
    try:
        assert window.stdin is not None
        assert window.stdout is not None
        window.stdin.write("hello\n")
        window.stdin.flush()
        wait_for(lambda: "needs login" in bubblewrap.run("mcp", "list", code=None).stdout)
        said = log_in(bubblewrap, paste=False)
        assert "The running Rumi uses it." in said
        (listed,) = json.loads(bubblewrap.run("mcp", "list", "--json").stdout)
        assert (listed["state"], listed["tools"]) == ("ready", ["look", "change"])
        output, _ = window.communicate("use tool web__look {}\n/exit\n", timeout=BOUND_S)
    except BaseException:
        window.kill()
        window.communicate()
        raise
    assert "done" in output


def test_what_needs_no_login_says_so(tmp_path: Path) -> None:
    program = Program(tmp_path / "home")
    program.home.mkdir(mode=0o700)
    (program.home / "config.toml").write_text(
        '[mcp.own]\ncommand = "/bin/true"\n[mcp.key]\nurl = "https://tools.example/mcp"\n'
        'headers = { Authorization = "Bearer $KEY" }\n'
    )
    program.env["KEY"] = "a-key-of-a-service"
    assert "is a command" in program.run("mcp", "login", "own", code=2).stderr
    assert "it needs no login" in program.run("mcp", "login", "key", code=2).stderr
    assert "Unknown server other." in program.run("mcp", "login", "other", code=2).stderr
