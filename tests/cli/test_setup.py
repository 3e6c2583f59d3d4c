"""`rumi setup` against servers of the tests, as a new user answers it."""

import socket
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import trio

from tests.channels.terminal.ptys import terminal
from tests.cli.program import RUMI, Program, serving
from tests.cli.test_models import KEY
from tests.cli.test_models import server as model_server
from tests.fakes.anthropic_server import ANTHROPIC_KEY
from tests.fakes.telegram_server import TOKEN

WRONG = "gsk_wrongwrongwrongwrongwrongwrong0"


@pytest.fixture
def rumi(tmp_path: Path) -> Program:
    return Program(tmp_path / "home", {"RUMI_SANDBOX__BACKEND": "bubblewrap"})


def answers(*lines: str) -> str:
    """The answers to the first questions; Enter for the last ones."""
    return "".join(f"{line}\n" for line in (*lines, *[""] * 6))


def telegram() -> AbstractContextManager[str]:
    return serving("telegram_server")


@pytest.mark.long
def test_a_wrong_key_is_asked_again_and_a_right_one_is_stored(rumi: Program) -> None:
    rumi.home.mkdir(mode=0o700)
    (rumi.home / "config.toml").write_text("# mine\n[log]\nkeep = 3 # few\n")
    (rumi.home / ".env").write_text("# keys\n")
    (rumi.home / ".env").chmod(0o600)
    with model_server("ok") as address, telegram() as bots:
        rumi.env |= {"GROQ_BASE_URL": address, "TELEGRAM_BASE_URL": bots}
        said = rumi.run(
            "setup",
            text=answers(
                "1", "1", WRONG, KEY, "1:wrong", TOKEN, "eleven", "11111111, 22222222", "y", "bubblewrap", ""
            ),
        ).stdout
        assert "refused the key" in said
        assert "✓ groq:openai/gpt-oss-120b answered" in said
        assert "✓ Telegram knows the bot as @" in said
        assert "These are numbers" in said
        del rumi.env["TELEGRAM_BASE_URL"]
        assert "offline" not in rumi.run("chat", "-p", "hello").stderr  # the key is in force
    assert (rumi.home / ".env").read_text() == f"# keys\nGROQ_API_KEY={KEY}\nTELEGRAM_TOKEN={TOKEN}\n"
    assert (rumi.home / "config.toml").read_text() == (
        "# mine\n[log]\nkeep = 3 # few\n\n[telegram]\nallowed_users = [11111111, 22222222]\n"
    )


def test_another_provider_is_stored_with_its_key_in_env(rumi: Program) -> None:
    with model_server("ok") as address:
        said = rumi.run("setup", text=answers("", "3", f"{address}/v1", KEY, "m-1", "", "")).stdout
    assert "✓ custom:server answered" in said
    assert (rumi.home / ".env").read_text() == f"SERVER_API_KEY={KEY}\n"
    assert (rumi.home / "config.toml").read_text() == (
        '[model]\ndefault = "custom:server"\n\n'
        f'[model.custom.server]\nbase_url = "{address}/v1"\nmodel = "m-1"\napi_key = "$SERVER_API_KEY"\n'
    )
    assert '"custom:server"' in rumi.run("config", "show").stdout


def test_a_known_provider_is_stored_with_its_key_in_env(rumi: Program) -> None:
    with serving("anthropic_server") as address:
        rumi.env["ANTHROPIC_BASE_URL"] = address
        lines = answers("", "2", "anthropic", ANTHROPIC_KEY, "claude-haiku-4-5", "", "")
        said = rumi.run("setup", text=lines).stdout
    assert "✓ anthropic:claude-haiku-4-5 answered" in said
    assert (rumi.home / ".env").read_text() == f"ANTHROPIC_API_KEY={ANTHROPIC_KEY}\n"
    assert (rumi.home / "config.toml").read_text() == '[model]\ndefault = "anthropic:claude-haiku-4-5"\n'


def test_a_server_that_does_not_answer_is_kept_if_wanted(rumi: Program) -> None:
    rumi.env["GROQ_BASE_URL"] = "http://127.0.0.1:9"
    said = rumi.run("setup", text=answers("", "1", KEY, "y", "", "")).stdout
    assert "cannot be reached" in said or "127.0.0.1:9" in said
    assert (rumi.home / ".env").read_text() == f"GROQ_API_KEY={KEY}\n"


def test_leaving_in_the_middle_writes_nothing(rumi: Program) -> None:
    rumi.run("setup", text="2\n5\n", code=130)
    assert not (rumi.home / "config.toml").exists()
    assert not (rumi.home / ".env").exists()


def test_a_second_run_keeps_everything_with_enter(rumi: Program) -> None:
    del rumi.env["RUMI_SANDBOX__BACKEND"]
    rumi.run("setup", text=answers("2", "5", "", "y", "2", ""))
    before = (rumi.home / "config.toml").read_text()
    assert before == 'language = "es"\n\n[model]\ndefault = "offline"\n\n[sandbox]\nbackend = "docker"\n'
    said = rumi.run("setup", text=answers("", "", "", "")).stdout
    assert "Esto prepara Rumi" in said
    assert "Nada cambió." in said
    assert "¿Dónde" not in said  # advanced
    assert (rumi.home / "config.toml").read_text() == before


def test_tools_and_policy_are_asked_for(rumi: Program) -> None:
    rumi.env["RUMI_SANDBOX__TOOLS"] = "work"
    rumi.run("setup", text="\n5\n\ny\n\n2\nopen\n\n\n\n\n")
    assert (rumi.home / "config.toml").read_text() == (
        '[model]\ndefault = "offline"\n\n[sandbox]\ntools = "core"\npolicy = "open"\n'
    )


@pytest.mark.long
@pytest.mark.browser
@pytest.mark.bubblewrap
def test_a_browser_is_tried_before_it_is_enabled(rumi: Program) -> None:
    said = rumi.run("setup", text="\n5\n\ny\n\n\n\nyes\n\n\n\n").stdout
    assert "Chrome/" in said
    assert "[browser]\nenabled = true\n" in (rumi.home / "config.toml").read_text()


def test_no_key_is_printed_or_left_in_a_log(rumi: Program) -> None:
    with model_server("ok") as address:
        rumi.env["GROQ_BASE_URL"] = address
        done = rumi.run("setup", text=answers("", "1", WRONG, KEY, "", ""))
    everything = done.stdout + done.stderr
    for path in (rumi.home / "logs").glob("*"):
        everything += path.read_text()
    assert WRONG not in everything
    assert KEY not in everything


def test_a_server_on_this_machine_is_offered(rumi: Program) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 11434)) == 0:
            pytest.skip("a server of this machine's own listens there")
    with serving("ollama_server", "--port", "11434"):
        said = rumi.run("setup", text=answers("", "", "qwen3", "", "")).stdout
    assert "ollama on this machine (http://127.0.0.1:11434/v1)" in said
    assert "✓ ollama:qwen3 answered" in said
    assert (rumi.home / "config.toml").read_text() == '[model]\ndefault = "ollama:qwen3"\n'
    assert not (rumi.home / ".env").exists()


@pytest.mark.parametrize("port", ["1234", "8000"])
def test_another_server_on_this_machine_becomes_a_custom_one(rumi: Program, port: str) -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", int(port))) == 0:
            pytest.skip("a server of this machine's own listens there")
    with serving("groq_server", "--port", port, "--script", "ok", "--key", ""):
        said = rumi.run("setup", text=answers("", "", "m-1", "", "")).stdout
    name = {"1234": "lmstudio", "8000": "vllm"}[port]
    assert f"✓ custom:{name} answered" in said
    assert (
        f'[model.custom.{name}]\nbase_url = "http://127.0.0.1:{port}/v1"'
        in (rumi.home / "config.toml").read_text()
    )


@pytest.mark.long
@pytest.mark.bubblewrap
async def test_the_first_screen_has_examples_and_the_second_one_sentence(rumi: Program) -> None:
    for first in (True, False):
        async with terminal(80, 30) as window:
            end = window.slave
            process = await trio.lowlevel.open_process(
                [RUMI],
                env={**rumi.environment(), "TERM": "xterm"},
                stdin=end,
                stdout=end,
                stderr=end,
                cwd=rumi.home.parent,  # no project, in which the chat would ask first
                start_new_session=True,
            )
            await window.see("›")
            await window.see("shows the keys")
            shown = " ".join(line.rstrip() for line in window.everything)
            assert "paste an API key here" in shown
            assert ("what is 15% of 80" in shown) is first
            assert ("https://console.groq.com/keys" in shown) is first
            assert shown.count("Files: ") == 1  # the line that each start prints
            await window.type("\x04")
            assert await process.wait() == 0


async def test_a_secret_typed_for_config_set_is_not_shown(rumi: Program) -> None:
    async with terminal(80, 30) as window:
        end = window.slave
        process = await trio.lowlevel.open_process(
            [RUMI, "config", "set", "GROQ_API_KEY", "-"],
            env={**rumi.environment(), "TERM": "xterm"},
            stdin=end,
            stdout=end,
            stderr=end,
            start_new_session=True,
        )
        await window.see("GROQ_API_KEY:")
        await window.type(f"{KEY}\r")
        await window.see("is set in")
        assert await process.wait() == 0
        assert KEY.encode() not in window.raw
    assert (rumi.home / ".env").read_text() == f"GROQ_API_KEY={KEY}\n"
