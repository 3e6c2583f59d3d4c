"""`rumi models`, the option `--model`, and models of other providers in a chat, as programs."""

import json
from pathlib import Path

import pytest

from tests.cli.program import Program, serving
from tests.fakes.anthropic_server import ANTHROPIC_KEY

CONFIG = """\
[model]
default = "claude"
fallbacks = ["custom:gone"]
aliases = {claude = "anthropic:claude-haiku-4-5", off = "offline"}

[model.keys]
anthropic = "!echo %s"

[model.custom.gone]
base_url = "http://127.0.0.1:9/v1"
model = "m"
"""


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    program = Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})
    program.home.mkdir(mode=0o700)
    (program.home / "config.toml").write_text(CONFIG % ANTHROPIC_KEY)
    return program


def test_models_are_listed_with_keys_context_prices_and_pictures(rumi: Program) -> None:
    rows = {row["model"]: row for row in json.loads(rumi.run("models", "list", "--json").stdout)}
    assert rows["anthropic:claude-haiku-4-5"] == {
        "model": "anthropic:claude-haiku-4-5",
        "used_as": ["default", "alias claude"],
        "key": "command",
        "context": 200_000,
        "usd_per_million": [1.0, 5.0, 0.1],
        "pictures": True,
    }
    assert rows["openai:gpt-5"]["key"] == "OPENAI_API_KEY missing"
    assert (rows["custom:gone"]["key"], rows["custom:gone"]["usd_per_million"]) == ("not needed", None)
    assert rows["offline"]["used_as"] == ["alias off"]
    shown = rumi.run("models", "list").stdout.splitlines()
    assert shown[1].split()[:4] == ["anthropic:claude-haiku-4-5", "default,", "alias", "claude"]


def test_models_are_tried_out_and_what_failed_says_what_to_do(rumi: Program) -> None:
    with serving("anthropic_server") as address:
        rumi.env["ANTHROPIC_BASE_URL"] = address
        told = rumi.run("models", "test", code=4).stdout
        assert "✓ anthropic:claude-haiku-4-5 answered in" in told
        assert "✓ offline answered in" in told
        assert "✗ custom:gone: cannot connect to http://127.0.0.1:9" in told
        assert "Check the network, and the server's address." in told
        one = json.loads(rumi.run("models", "test", "claude", "--json").stdout)
        assert [(answer["model"], answer["ok"]) for answer in one] == [("claude", True)]
    missing = rumi.run("models", "test", "openai:gpt-5", code=4).stdout
    assert "needs OPENAI_API_KEY. Set it in the environment or in .env" in missing
    assert (
        "Unknown model 'bard:1'. Allowed are groq:NAME" in rumi.run("models", "test", "bard:1", code=2).stderr
    )


def test_the_shell_completes_names_of_models(rumi: Program) -> None:
    rumi.env |= {"_RUMI_COMPLETE": "bash_complete", "COMP_WORDS": "rumi chat --model an", "COMP_CWORD": "3"}
    assert "plain,anthropic:claude-opus-5\n" in rumi.run().stdout
    rumi.env["COMP_WORDS"] = "rumi chat --model cl"
    assert rumi.run().stdout == "plain,claude\n"


def test_a_model_that_this_run_names_needs_its_own_key(rumi: Program) -> None:
    done = rumi.run("chat", "--model", "openai:gpt-5", "-p", "hi", code=2)
    assert done.stderr.startswith("rumi: The model 'openai:gpt-5' needs OPENAI_API_KEY.")


def test_a_command_that_prints_no_key_is_exit_2(rumi: Program) -> None:
    (rumi.home / "config.toml").write_text((CONFIG % "x").replace("!echo x", "!exit 7"))
    said = rumi.run("chat", "-p", "hi", code=2).stderr
    assert "The command of model.keys.anthropic ended with exit code 7." in said


@pytest.mark.bubblewrap
def test_claude_answers_in_a_chat_and_its_key_is_nowhere(bubblewrap: Program) -> None:
    bubblewrap.home.mkdir(mode=0o700, exist_ok=True)
    keys = bubblewrap.home / "password"
    keys.write_text(ANTHROPIC_KEY)
    (bubblewrap.home / "config.toml").write_text((CONFIG % "x").replace("!echo x", f"!cat {keys}"))
    with serving("anthropic_server", "--script", "ok") as address:
        bubblewrap.env["ANTHROPIC_BASE_URL"] = address
        events = bubblewrap.events("-p", "hello")
        assert events[-1]["answer"] == "hola"
        assert events[-1]["usage"]["prompt_tokens"] > 0
        usage = json.loads(bubblewrap.run("usage", "--json").stdout)
        assert usage["rows"][0]["model"] == "anthropic:claude-haiku-4-5"
        assert usage["rows"][0]["usd"] > 0
    everything = bubblewrap.run("config", "show").stdout
    for path in (bubblewrap.home / "logs").iterdir():
        everything += path.read_text()
    everything += (bubblewrap.home / "state.db").read_bytes().decode("latin-1")
    assert ANTHROPIC_KEY not in everything


@pytest.mark.bubblewrap
def test_a_window_chooses_a_model_by_its_alias(bubblewrap: Program) -> None:
    bubblewrap.home.mkdir(mode=0o700, exist_ok=True)
    (bubblewrap.home / "config.toml").write_text(CONFIG % ANTHROPIC_KEY)
    with serving("anthropic_server", "--script", "ok") as address:
        bubblewrap.env["ANTHROPIC_BASE_URL"] = address
        lines = "hello\n/model off\nrun echo moved\n/model claude\nhello\n/model nonsense\n"
        done = bubblewrap.run("chat", text=lines, code=None)
    said = done.stdout + done.stderr
    assert said.count("hola") == 2
    assert "From this window's next message on: offline" in said
    assert "From this window's next message on: anthropic:claude-haiku-4-5" in said
    assert "Unknown model 'nonsense'." in said
