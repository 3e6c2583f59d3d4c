"""`rumi fetch URL`: what the assistant would get, and in what words it says no."""

import signal
import threading
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
        if self.path == "/inside":
            self.send_response(302)
            self.send_header("Location", "http://10.0.0.1/")
            self.send_header("Content-Length", "0")
            self.end_headers()
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
