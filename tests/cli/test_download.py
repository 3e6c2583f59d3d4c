"""`web_fetch` with `save` in the whole program: files arrive in the sandbox, and a kill leaves nothing."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from tests.cli.program import BOUND_S, Program

CSV = "city,people\nAçores,236440\n".encode() * 20_000


class Site(BaseHTTPRequestHandler):
    asked: ClassVar[Counter[str]] = Counter()
    begun = threading.Event()
    ends = threading.Event()

    def do_GET(self) -> None:
        self.asked[self.path] += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/csv")
        self.send_header("Content-Length", str(len(CSV)))
        self.send_header("ETag", '"one"')
        self.end_headers()
        if self.path == "/slow.csv" and self.asked[self.path] == 1:
            self.wfile.write(CSV[:300_000])
            self.begun.set()
            self.ends.wait(BOUND_S)
            return
        self.wfile.write(CSV)

    def log_message(self, *_: object) -> None:
        """Nothing to say."""


@pytest.fixture
def site() -> Iterator[str]:
    Site.asked.clear()
    Site.begun.clear()
    Site.ends.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"127.0.0.1:{server.server_port}"
        Site.ends.set()
        server.shutdown()
        serving.join()


@pytest.mark.bubblewrap
@pytest.mark.long
def test_a_downloaded_file_is_the_sandbox_users_and_a_kill_leaves_nothing(
    bubblewrap: Program, site: str
) -> None:
    program = Program(bubblewrap.home, {**bubblewrap.env, "RUMI_FETCH__ALLOW": f'["{site}"]'})
    workspace = program.home / "workspace" / "cli"
    said = program.run(
        "chat", "-p", f"download http://{site}/cities.csv as data/; then run wc -c data/cities.csv"
    )
    assert f"{len(CSV):,} bytes · text/csv · 40,000 line ends" in said.stdout
    assert f"{len(CSV)} data/cities.csv" in said.stdout
    # The sandbox's user may change it, and an undo removes it again.
    assert "done" in program.run("chat", "-p", "run sh -c 'echo x >> data/cities.csv && echo done'").stdout
    program.run("undo", "cli")
    assert (workspace / "data/cities.csv").read_bytes() == CSV

    client = program.start("chat", "-p", f"download http://{site}/slow.csv as data/new/slow.csv")
    assert Site.begun.wait(BOUND_S)
    time.sleep(0.5)
    program.kill(client)
    names = sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*"))
    assert [name for name in names if not name.startswith(".")] == ["data", "data/cities.csv"]
    said = program.run("chat", "-p", "run ls -A data")
    assert "slow" not in said.stdout.replace("/slow.csv", "")
    assert Site.asked == {"/cities.csv": 1, "/slow.csv": 1}
    assert not [path for path in (program.home / "run").iterdir() if path.name.startswith("tmp")]
