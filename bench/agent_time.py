"""Tasks of `bench.agent` that take time: waiting, servers, work in the background, and up to 40 calls."""

from pathlib import Path

import trio

from bench.agent_model import Lost, Script, View
from bench.agent_task import Tasks, answers, holds

TIME, LONG = Tasks("time"), Tasks("long")

SLOW_TESTS = 33
BUILD_S = 75
SLOW = """\
import time

for number in range({n}):
    time.sleep(1)
    print("test", number, "passed", flush=True)
print("{n} passed")
"""
CHAIN = 37
REVIEWED = 33
FETCH = (
    "import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}{path}', timeout=5).read().decode())"
)
API = """\
import json
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"sum": 2 - 3 if self.path == "/sum" else None}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    print("listening", flush=True)
    HTTPServer(("127.0.0.1", 8765), Handler).serve_forever()
"""
TEST_API = """\
import json
import threading
import unittest
import urllib.request
from http.server import HTTPServer

from api import Handler


class TestApi(unittest.TestCase):
    def test_the_sum_is_five(self):
        server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/sum"
        self.assertEqual(json.load(urllib.request.urlopen(url, timeout=5)), {"sum": 5})
        server.shutdown()
"""


async def scan(folder: Path) -> None:
    """The user's scanner puts a file into the folder after a while."""
    await trio.sleep(8)
    inbox = trio.Path(folder) / "inbox"
    await (inbox / ".scan").write_text("contract no. 4711\n")
    await (inbox / ".scan").chmod(0o644)
    await (inbox / ".scan").rename(inbox / "scan.txt")


@TIME.task(
    "Run check.py, which takes some seconds. Did all pass?",
    answers("4 passed"),
    files={"check.py": SLOW.format(n=4)},
)
def four_seconds(m: View) -> Script:
    seen = yield from m.run("timeout 60 python3 check.py | tail -n 1")
    return seen.fill("Yes: {n}.", n=r"(\d+ passed)")


@TIME.task(
    "I scan a contract to inbox now. Wait for it, and tell me its number.",
    answers("4711"),
    files={"inbox/old.txt": "old\n"},
    meanwhile=scan,
)
def wait_for_a_file(m: View) -> Script:
    for _ in range(15):
        seen = yield from m.run("sleep 1; ls inbox")
        if seen.has("scan.txt"):
            break
    seen = yield from m.run("cat inbox/scan.txt")
    return seen.fill("It is {n}.", n=r"no\. (\d+)")


@TIME.task(
    "Run the slow tests of suite.py, which take more than half a minute.",
    answers(f"{SLOW_TESTS} passed"),
    files={"suite.py": SLOW.format(n=SLOW_TESTS)},
    waits=True,
)
def tests_of_half_a_minute(m: View) -> Script:
    seen = yield from m.run("python3 suite.py", takes_s=SLOW_TESTS + 5)
    return seen.fill("{n}.", n=r"^(\d+ passed)")


@TIME.task(
    "Build everything with build.py, which takes more than a minute, and tell me the result.",
    answers(f"{BUILD_S} passed"),
    files={"build.py": SLOW.format(n=BUILD_S)},
    waits=True,
)
def a_build_of_more_than_a_minute(m: View) -> Script:
    build = yield from m.background("python3 build.py", "build.log")
    for _ in range(BUILD_S // 10):
        yield from m.run("sleep 12; date")
        seen = yield m.output(build, "build.log")
        if seen.has(r"^\d+ passed"):
            break
        if not build and not seen.has("test"):
            raise Lost("the build does not go on")
    return seen.fill("{n}.", n=r"^(\d+ passed)")


@TIME.task(
    "Serve the folder site on port 8000, check that its page comes, then stop the server.",
    answers("Welcome to the shop"),
    lambda done: done.used("bash_stop") == 1,
    files={"site/index.html": "<h1>Welcome to the shop</h1>\n"},
)
def a_server_in_the_background(m: View) -> Script:
    server = yield from m.background("python3 -m http.server 8000 --directory site", "server.log")
    seen = yield from m.run("sleep 1; curl -sf http://127.0.0.1:8000/ || cat server.log")
    for _ in range(5):
        if seen.has("Welcome"):
            break
        code = FETCH.format(port=8000, path="/")
        seen = yield from m.run(f'sleep 1; python3 -c "{code}" 2>&1 | tail -n 3')
    page = seen.find("<h1>(.*)</h1>")
    yield m.stop(server, "http.server")
    return f"It says: {page}. The server is stopped."


@TIME.task(
    "A test of my API fails. Fix the API.",
    lambda done: "2 + 3" in done.text("api.py"),
    files={"api.py": API, "test_api.py": TEST_API},
)
def tests_that_start_a_server(m: View) -> Script:
    seen = yield from m.run("timeout 60 python3 -m unittest test_api 2>&1 | tail -n 20")
    seen.find(r"'sum': -1\} != \{'sum': 5")
    yield m.edit("api.py", "2 - 3", "2 + 3")
    seen = yield from m.run("timeout 60 python3 -m unittest test_api 2>&1 | tail -n 20")
    seen.find("^OK$")
    return "The API adds now."


@TIME.task(
    "Start api.py, ask it for /sum, fix it to give 5, start it again and ask it again.",
    answers("5"),
    lambda done: "2 + 3" in done.text("api.py"),
    files={"api.py": API},
)
def a_server_that_is_restarted(m: View) -> Script:
    found = ""
    for expected in ("-1", "5"):
        server = yield from m.background("python3 api.py", "api.log")
        code = FETCH.format(port=8765, path="/sum")
        seen = yield from m.run(
            f'for i in 1 2 3 4 5 6; do python3 -c "{code}" 2>/dev/null && break; sleep 0.5; done'
        )
        found = seen.find(rf'"sum": ({expected})\b')
        yield m.stop(server, "api.py")
        if expected == "-1":
            yield m.edit("api.py", "2 - 3", "2 + 3")
    return f"It gives {found} now."


@TIME.task(
    "Let crunch.py run, and count the lines of its input meanwhile.",
    answers("500 lines", "6 passed"),
    files={"crunch.py": SLOW.format(n=6), "input.txt": "x\n" * 500},
)
def two_commands_at_once(m: View) -> Script:
    job = yield from m.background("python3 crunch.py", "crunch.log")
    seen = yield from m.run("wc -l < input.txt")
    lines = seen.find(r"^(\d+)$")
    for _ in range(12):
        seen = yield m.output(job, "crunch.log", wait_s=4)
        if seen.has(r"^\d+ passed"):
            break
    return seen.fill(f"{lines} lines; {{n}}.", n=r"^(\d+ passed)")


@LONG.task(
    "Follow the notes from start.txt on: each names the next one. What does the last one say?",
    answers("42 steps north"),
    files={
        "start.txt": "go on with note01.txt\n",
        **{f"note{n:02}.txt": f"go on with note{n + 1:02}.txt\n" for n in range(1, CHAIN)},
        f"note{CHAIN}.txt": "the treasure is 42 steps north\n",
    },
)
def a_chain_of_38_notes(m: View) -> Script:
    name = "start.txt"
    while True:
        seen = yield from m.run(f"cat {name}")
        if seen.has("treasure"):
            return seen.fill("It says: {what}.", what=r"the treasure is (.+)$")
        name = seen.find(r"go on with (\S+)")


@LONG.task(
    "Read each review in reviews, and write its number into good.txt or bad.txt by what it says.",
    lambda done: done.text("good.txt").split() == [f"{n:02}" for n in range(REVIEWED) if n % 4],
    lambda done: done.text("bad.txt").split() == [f"{n:02}" for n in range(REVIEWED) if not n % 4],
    files={
        f"reviews/{n:02}.txt": f"Number {n}. {'I would buy it again.' if n % 4 else 'Broken after a week.'}\n"
        for n in range(REVIEWED)
    },
)
def judge_33_reviews(m: View) -> Script:
    seen = yield from m.run("ls reviews | tail -n 1")
    last = int(seen.find(r"(\d+)\.txt"))
    done = ""
    for number in range(last + 1):
        seen = yield from m.needs(f"{done}cat reviews/{number:02}.txt")
        kind = "bad" if seen.find("(again|Broken)") == "Broken" else "good"
        done = f"echo {number:02} >> {kind}.txt && "
    yield from m.needs(f"{done}wc -l good.txt bad.txt")
    return "They are judged."


@LONG.task(
    "Make a release: set app.py to version 1.1, note it in CHANGES, pack both into app.tar.gz. Keep a list.",
    holds("app.py", 'VERSION = "1.1"\n'),
    lambda done: done.runs("tar", "-tzf", "app.tar.gz").split() == ["app.py", "CHANGES"],
    lambda done: done.used("todo") >= 2,
    files={"app.py": 'VERSION = "1.0"\n', "CHANGES": "1.0: first\n"},
)
def a_release_with_a_list(m: View) -> Script:
    steps = ("set the version", "note the change", "pack")
    commands = (
        "sed -i 's/1.0/1.1/' app.py",
        "sed -i '1i 1.1: better' CHANGES",
        "tar -czf app.tar.gz app.py CHANGES && tar -tzf app.tar.gz",
    )
    for number, command in enumerate(commands):
        if m.offers("todo"):
            yield m.todo(steps, number)
        yield from m.needs(command)
    if m.offers("todo"):
        yield m.todo(steps, len(steps))
    return "The release is packed."
