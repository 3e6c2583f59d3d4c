"""`rumi fetch URL`: what the assistant would get, and in what words it says no."""

import json
import signal
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.cli.program import BOUND_S, Program

PAGE = b"""<!doctype html><title>Rivers</title><nav>Home</nav><main><h1>Rivers</h1>
<p>The Guadalquivir is 657 km long. <a href="/ebro">The Ebro</a> is longer.\x1b]0;title\x07</p></main>"""


class Site(BaseHTTPRequestHandler):
    waiting = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/slow":
            self.waiting.set()
            self.rfile.read(1)
            return
        if self.path in ("/inside", "/moved"):
            self.send_response(302)
            self.send_header("Location", "http://10.0.0.1/" if self.path == "/inside" else "/large")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path == "/large":
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", "900000")
            self.end_headers()
            for _ in range(9):
                self.wfile.write(b"word " * 20_000)
                time.sleep(0.2)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: object) -> None:
        """Nothing to say."""


@pytest.fixture
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def test_a_page_is_shown_as_the_model_gets_it(tmp_path: Path, site: str) -> None:
    rumi = Program(tmp_path / "home", {"RUMI_FETCH__ALLOW": f'["{site}"]'})
    shown = rumi.run("fetch", f"http://{site}/").stdout
    assert "status 200" in shown
    assert "The Guadalquivir is 657 km long." in shown
    assert f"http://{site}/ebro" in shown
    assert "\x1b" not in shown


def test_an_inner_address_is_refused_with_the_reason_and_an_exit_code(tmp_path: Path, site: str) -> None:
    rumi = Program(tmp_path / "home")
    refused = rumi.run("fetch", "http://127.0.0.1/", code=1)
    assert refused.stdout == ""
    assert "127.0.0.1 is not public: loopback." in refused.stderr
    assert f"Port {site.partition(':')[2]} " in rumi.run("fetch", f"http://{site}/", code=1).stderr
    assert "not a valid URL" in rumi.run("fetch", "example.com", code=1).stderr


def test_what_a_redirect_led_to_is_told_in_one_line(tmp_path: Path, site: str) -> None:
    rumi = Program(tmp_path / "home", {"RUMI_FETCH__ALLOW": f'["{site}"]'})
    told = rumi.run("fetch", f"http://{site}/inside", code=1).stderr
    assert told.startswith(
        "rumi: not fetched: After a redirect to 10.0.0.1: 10.0.0.1 is not public: private."
    )
    assert told.count("\n") == 1


def test_an_interrupt_ends_a_fetch_that_nobody_answers(tmp_path: Path, site: str) -> None:
    rumi = Program(tmp_path / "home", {"RUMI_FETCH__ALLOW": f'["{site}"]', "RUMI_FETCH__TIMEOUT_S": "60"})
    process = rumi.start("fetch", f"http://{site}/slow")
    assert Site.waiting.wait(BOUND_S)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=BOUND_S) == ("", "")
    assert process.returncode == 130


@pytest.mark.long
@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("language", "first", "word"),
    [("en", "redirected to 127.0.0.1", "received"), ("es", "redirigido a 127.0.0.1", "llegaron")],
)
def test_a_slow_page_shows_its_steps_in_the_language_of_the_turn(
    tmp_path: Path, site: str, language: str, first: str, word: str
) -> None:
    env = {"RUMI_SANDBOX__BACKEND": "bubblewrap", "RUMI_LANGUAGE": language}
    rumi = Program(tmp_path / "home", {"RUMI_FETCH__ALLOW": f'["{site}"]', **env})
    done = rumi.run("chat", "--json", "-p", f"fetch http://{site}/moved")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    steps = [event for event in told if event["event"] == "tool_progress"]
    [result] = [event for event in told if event["event"] == "tool_result"]
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    assert {step["id"] for step in steps} == {result["id"]}
    assert result["steps"] == len(steps)
    assert 4 <= len(steps) <= 12
    assert steps[0]["text"] == first
    assert steps[3]["text"].startswith(word)
    assert "900.0 KB" in steps[3]["text"]
