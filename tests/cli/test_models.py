"""`rumi chat` with a real server that speaks Groq's protocol: what works, what fails, no key shown."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.cli.program import BOUND_S, Program, serving

KEY = "gsk_0123456789abcdefghijKLMNOPQRSTUV"

pytestmark = pytest.mark.bubblewrap


def server(script: str, *more: str) -> AbstractContextManager[str]:
    """A model server in a process of its own; its address."""
    return serving("groq_server", "--port", "0", "--script", script, "--key", KEY, *more)


@pytest.fixture
def groq(bubblewrap: Program) -> Iterator[Callable[..., Program]]:
    """A program whose model is a server that behaves as it is told."""
    with_servers: list[object] = []

    def behave(script: str, *more: str, key: str = KEY) -> Program:
        context = server(script, *more)
        with_servers.append(context)
        address = context.__enter__()
        bubblewrap.env |= {"GROQ_API_KEY": key, "GROQ_BASE_URL": address}
        return bubblewrap

    yield behave
    for context in with_servers:
        context.__exit__(None, None, None)  # type: ignore[attr-defined]


def test_a_model_calls_a_tool_and_answers(groq: Callable[..., Program]) -> None:
    events = groq("tool").events("-p", "say hola")
    assert next(e["event"] for e in events) == "turn_started"
    (result,) = [e for e in events if e["event"] == "tool_result"]
    assert "hola" in result["content"]
    assert events[-1]["reason"] == "complete"
    assert events[-1]["usage"]["completion_tokens"] > 0


def test_a_long_result_on_a_free_key_ends_in_an_answer(groq: Callable[..., Program]) -> None:
    events = groq("page", "--plan", "8000", "--minute", "3").events("-p", "count to 10000")
    (result,) = [e for e in events if e["event"] == "tool_result"]
    assert 11_000 < len(result["content"]) <= 12_000
    assert events[-1]["reason"] == "complete"
    read = int(events[-1]["answer"].split()[3])
    assert 1000 < read < 13_000


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("404", "does not know"),
        ("500", "500"),  # one that is tried again, with its real pauses; tests/models has the others
        ("413", ""),
    ],
)
def test_failures_of_the_model_exit_4_with_one_clear_sentence(
    groq: Callable[..., Program], script: str, says: str
) -> None:
    done = groq(script).run("chat", "-p", "hello", code=4)
    assert "❌" in done.stderr + done.stdout
    assert says in done.stderr + done.stdout
    assert "/retry" in done.stderr + done.stdout


def test_a_wrong_key_is_told_and_shown_nowhere(groq: Callable[..., Program]) -> None:
    wrong = "gsk_wrongwrongwrongwrongwrongwrong0"
    program = groq("ok", key=wrong)
    done = program.run("chat", "--debug", "-p", "hello", code=4)
    assert "GROQ_API_KEY" in done.stderr + done.stdout
    everything = done.stdout + done.stderr
    for path in (program.home / "logs").iterdir():
        everything += path.read_text()
    everything += (program.home / "state.db").read_bytes().decode("latin-1")
    everything += program.run("config", "show").stdout
    assert wrong not in everything
    assert wrong[4:20] not in everything


@pytest.mark.long
def test_a_hung_server_ends_at_its_time(groq: Callable[..., Program]) -> None:
    program = groq("hang")
    program.env["RUMI_MODEL__TIMEOUT_S"] = "1"
    began = time.monotonic()
    done = program.run("chat", "-p", "hello", code=4)
    assert time.monotonic() - began < 30
    assert "1 s" in done.stderr + done.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "phase"), [("hang", "thinking"), ("slow", "answering"), ("429", "waiting")]
)
def test_an_interrupt_ends_the_turn_while_the_model(
    groq: Callable[..., Program], script: str, phase: str
) -> None:
    program = groq(script, "--pause", "1")
    chat = program.start("chat", "-p", "hello")
    for _ in range(100):
        if phase in program.run("status", code=None).stdout:
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"never came to {phase}")
    began = time.monotonic()
    chat.send_signal(signal.SIGINT)
    out, err = chat.communicate(timeout=BOUND_S)
    assert chat.returncode == 130, out + err
    assert time.monotonic() - began < 30
    assert "Stopped" in out + err


def test_a_server_of_ones_own_works_without_a_key(bubblewrap: Program, tmp_path: Path) -> None:
    with server("ok", "--key", "") as address:
        bubblewrap.home.mkdir(mode=0o700)
        (bubblewrap.home / "config.toml").write_text(
            f'[model]\ndefault = "custom:mine"\n'
            f'[model.custom.mine]\nbase_url = "{address}/v1"\nmodel = "openai/gpt-oss-120b"\n'
        )
        bubblewrap.run("chat", "-p", "hello")


def test_a_dotenv_in_the_working_folder_is_never_read(bubblewrap: Program, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("GROQ_API_KEY=gsk_someone_elses\n")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        done = bubblewrap.run("chat", "-p", "hello")
    finally:
        os.chdir(before)
    assert "No GROQ_API_KEY" in done.stderr


def test_a_model_that_this_run_names_and_that_has_no_key_is_exit_2(bubblewrap: Program) -> None:
    said = "rumi: The model 'groq:x' needs GROQ_API_KEY. Set it in the environment or in .env, or use"
    flag = bubblewrap.run("chat", "--model", "groq:x", "-p", "hi", code=2)
    assert (flag.stdout, flag.stderr.startswith(said)) == ("", True)
    bubblewrap.env["RUMI_MODEL__DEFAULT"] = "groq:x"
    assert bubblewrap.run("chat", "-p", "hi", code=2).stderr == flag.stderr
    del bubblewrap.env["RUMI_MODEL__DEFAULT"]
    (bubblewrap.home / "config.toml").write_text('[model]\ndefault = "groq:x"\n')
    kept = bubblewrap.run("chat", "-p", "run echo hola")
    assert "hola" in kept.stdout
    assert "No GROQ_API_KEY: the demo" in kept.stderr


@pytest.mark.long
def test_a_model_that_this_run_names_and_that_nobody_serves_is_exit_4(
    bubblewrap: Program, tmp_path: Path
) -> None:
    bubblewrap.home.mkdir(exist_ok=True)
    (bubblewrap.home / "config.toml").write_text(
        '[model.custom.own]\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
    )
    done = bubblewrap.run("chat", "--model", "custom:own", "-p", "hi", code=4)
    assert (done.stdout, "The model did not answer" in done.stderr) == ("", True)
