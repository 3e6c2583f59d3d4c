"""`rumi serve` and `rumi web`: what a server runs, also without a Telegram token."""

import signal
import subprocess
import urllib.error
import urllib.request

import pytest

from tests.cli.program import BOUND_S, Program
from tests.cli.test_chat import wait_for

pytestmark = pytest.mark.bubblewrap


def until_it_serves(program: Program, process: "subprocess.Popen[str]") -> None:
    wait_for(lambda: program.run("status", "--json", code=None).returncode == 0 or process.poll() is not None)
    assert process.poll() is None, process.communicate()


def ended(process: "subprocess.Popen[str]") -> str:
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0, said
    return said


def test_serve_without_a_token_serves_terminals_until_a_signal(bubblewrap: Program) -> None:
    process = bubblewrap.start("serve")
    try:
        until_it_serves(bubblewrap, process)
        done = bubblewrap.run("chat", "-p", "run echo hola")
        assert "hola" in done.stdout
        assert process.poll() is None  # although no window is left, and linger_s is 0
        assert "held by rumi serve" in bubblewrap.run("serve", code=2).stderr
    finally:
        said = ended(process)
    assert "Serving terminals" in said


def test_web_serves_the_page_alone_and_prints_its_link(bubblewrap: Program) -> None:
    bubblewrap.env["TELEGRAM_TOKEN"] = "1:wrong"  # which would end a bot
    process = bubblewrap.start("web", "127.0.0.1:0")
    try:
        until_it_serves(bubblewrap, process)
        assert process.stderr is not None
        link = next(line for line in process.stderr if "/login?code=" in line)
        address = link.split("http://")[1].split("/login")[0]
        with pytest.raises(urllib.error.HTTPError, match=r"401|403"):
            urllib.request.urlopen(f"http://{address}/", timeout=BOUND_S)
    finally:
        ended(process)


def test_a_place_that_is_taken_or_no_place_is_one_sentence_and_exit_2(bubblewrap: Program) -> None:
    assert "nowhere" in bubblewrap.run("web", "nowhere", code=2).stderr


def test_the_page_alone_needs_no_docker_because_only_its_owner_uses_it(bubblewrap: Program) -> None:
    del bubblewrap.env["RUMI_SANDBOX__BACKEND"]
    bubblewrap.env["DOCKER_HOST"] = "unix:///nonexistent"
    process = bubblewrap.start("web", "127.0.0.1:0")
    try:
        until_it_serves(bubblewrap, process)
        assert "bubblewrap" in bubblewrap.run("status").stdout
    finally:
        ended(process)
