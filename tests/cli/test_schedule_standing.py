"""A real process: a standing approval covers its calls after a kill, and ends with a new text."""

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cli.program import Program
from tests.cli.telegram_world import World
from tests.cli.test_attach import running_chat
from tests.cli.test_chat import wait_for
from tests.fakes.groq_replies import Answer, Behaviour, Body, answered_calls, last_user_text

pytestmark = pytest.mark.long

ASKED = "SELECT count(*) FROM parked WHERE asked"
REPLIED = "SELECT count(*) FROM messages WHERE schedule AND reply IS NOT NULL"


class _Weather(ThreadingHTTPServer):
    """Serves a page and the weather; records what was opened, and can hold the weather back."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.opened: list[str] = []
        self.holds = threading.Event()
        self.goes_on = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Weather)
        self.server.opened.append(self.path)
        if self.path.startswith("/weather") and self.server.holds.is_set():
            self.server.goes_on.wait(20)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"Sunny")

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def weather() -> Iterator[_Weather]:
    with _Weather() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.goes_on.set()
            server.shutdown()
            thread.join()


def test_a_standing_yes_holds_after_a_kill_and_ends_with_a_new_text(bubblewrap: Program) -> None:
    days = iter(range(10, 99))

    def thinks(body: Body) -> Behaviour:
        text, done = last_user_text(body), answered_calls(body)
        if "<answers>" in text:
            (call,) = [line for line in text.splitlines() if line.startswith("- web_fetch ")]
            steps = [("web_fetch", call.removeprefix("- web_fetch "))]
        else:
            home = f"http://{host}/"
            steps = [
                ("web_fetch", json.dumps({"url": home})),
                ("web_fetch", json.dumps({"url": f"{home}weather?day={next(days)}"})),
            ]
        return Answer(calls=[steps[len(done)]]) if len(done) < len(steps) else Answer("Your briefing.")

    def counted(query: str) -> int:
        with closing(sqlite3.connect(bubblewrap.home / "state.db")) as db:
            return int(db.execute(query).fetchone()[0])

    def opened() -> int:
        return sum(path.startswith("/weather") for path in server.opened)

    with weather() as server, World() as world:
        host = f"127.0.0.1:{server.server_port}"
        world.do(setattr, world.groq, "_choose", thinks)
        bubblewrap.env |= {
            "GROQ_API_KEY": world.groq.key or "",
            "GROQ_BASE_URL": world.groq.base_url,
            "RUMI_MEMORY__EXTRACT": "false",
            "RUMI_FETCH__ALLOW": json.dumps([host]),
        }

        def run(replies: int) -> None:
            bubblewrap.run("schedule", "run", "1")
            wait_for(lambda: counted(REPLIED) == replies)

        with running_chat(bubblewrap):
            bubblewrap.run("schedule", "add", "every day 09:00", f"Brief me from http://{host}/", "--turn")
            run(1)
            assert (counted(ASKED), opened()) == (1, 0)
            said = bubblewrap.run("chat", "-p", "/yes 1 always").stdout
            assert f"\n  http://{host}/weather?day=1" in said
            assert "🔁 Schedule 1 may do this in each run without asking, until" in said
            assert opened() == 1
            run(2)
            assert (counted(ASKED), opened()) == (1, 2), "the second run does not ask"
            server.holds.set()
            bubblewrap.run("schedule", "run", "1")
            wait_for(lambda: opened() == 3)
            os.kill(json.loads(bubblewrap.run("status", "--json").stdout)["pid"], signal.SIGKILL)
        server.goes_on.set()
        with running_chat(bubblewrap):
            wait_for(lambda: counted(REPLIED) == 3)
            assert opened() == 3, "the killed run had its one use"
            assert counted(ASKED) == 2
            before = opened()
            run(4)
            assert opened() == before + 1, "the next run has one use again"
            said = bubblewrap.run("schedule", "edit", "1", f"Only the weather from http://{host}/").stdout
            assert "What it was allowed to do without asking has ended" in said
            run(5)
            assert opened() == before + 1
            said = bubblewrap.run("schedule", "approve", "1").stdout
            assert said.startswith("Schedule 1 asks for each call that needs a yes.")
