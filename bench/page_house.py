"""The page for benchmarks: `rumi web serve` in a process of its own, a scripted model in this one, Chromium.

The model runs in a thread with an event loop of its own, so that its clock and its pauses do not depend on
what the benchmark waits for in the browser.
"""

import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from rumi.agent.prompts.message_entries import without_note
from rumi.sandbox.processes import descendants
from tests.fakes.groq_server import KEY, Answer, Behaviour, Body, GroqServer, last_user_text

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).resolve().parent.parent
BOUND_S = 60.0

CHARS = 4
"""Characters in a chunk of a model that sends words."""

RATE = 200
"""Chunks that the model sends each second."""

LONG_CHARS = 30_000

CONFIG = """\
language = "en"
[sandbox]
backend = "bubblewrap"
[session]
history_messages = 8
"""

OBSERVER = """
window.bench = {token: "", enter: 0, bubble: 0, word: 0, live: 0};
const now = () => performance.timeOrigin + performance.now();
// The time at which a frame with the change has been drawn.
const drawn = (name) => {
  bench[name] = -1;
  requestAnimationFrame(() => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => (bench[name] = now());
    channel.port2.postMessage(0);
  });
};
const has = (selector, text) =>
  [...document.querySelectorAll(selector)].slice(-3).some((element) => element.textContent.includes(text));
addEventListener("keydown", (event) => event.key === "Enter" && (bench.enter = now()), true);
new MutationObserver(() => {
  if (!bench.live && document.body?.dataset.state === "live" && document.querySelector("#message")) {
    bench.live = performance.now();
  }
  if (!bench.token) return;
  if (!bench.bubble && has(".entry.you", bench.token)) drawn("bubble");
  if (!bench.word && has(".entry.answer", `${bench.token}!`)) drawn("word");
}).observe(document, {
  subtree: true, childList: true, characterData: true, attributes: true, attributeFilter: ["data-state"],
});
"""
"""Notes in `bench` when Enter was pressed, and when the bubble and the first word were on the screen."""


def code_text(chars: int) -> str:
    """Return Markdown with one block of code."""
    lines = "".join(
        f"def step_{n}(value: int) -> int:\n    return value * {n} + {n * 7 % 31}  # of {n}\n\n"
        for n in range(chars // 60)
    )
    return f"```python\n{lines[: chars - 20]}\n```\n"


def table_text(chars: int) -> str:
    """Return Markdown with one table."""
    rows = "".join(f"| {n} | part {n * 17 % 101} | {n * 7919 % 1000} g |\n" for n in range(chars // 20))
    return "| number | name | weight |\n|---|---|---|\n" + rows[: chars - 46]


def prose_text(chars: int) -> str:
    """Return Markdown with headings, paragraphs and lists."""
    parts = "".join(
        f"## Part {n}\n\nThe **first** measurement of day {n} came to {n * 31 % 97}, which is more than "
        f"on the day before, and *less* than expected. See `part_{n}` for the reasons.\n\n"
        f"- a reason that was found\n- another one, which was not\n\n"
        for n in range(chars // 200)
    )
    return parts[:chars]


TEXTS = {"code": code_text(22_000), "table": table_text(5_000), "prose": prose_text(8_000)}


def model(body: Body) -> Behaviour:
    """`stream NAME` sends that text by words, `long TOKEN` 30 KB at once, `say TOKEN` a short answer."""
    word, _, rest = without_note(last_user_text(body)).partition(" ")
    if word == "stream":
        text = TEXTS[rest]
        return Answer(text, pieces=len(text) // CHARS, pause_s=1 / RATE)
    if word == "long":
        parts = code_text(LONG_CHARS // 3), table_text(LONG_CHARS // 3), prose_text(LONG_CHARS // 3)
        return Answer("\n".join(parts) + f"\n\n{rest}!", pieces=60)
    if word == "say":
        return Answer(f"{rest}! and a few words more", pieces=6, pause_s=0.01)
    return Answer("ok")


class Model:
    """The scripted model's server, in a thread."""

    def __init__(self) -> None:
        self.server = GroqServer(model)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: trio.run(self._serve), daemon=True)
        self._thread.start()
        assert self._ready.wait(BOUND_S)

    async def _serve(self) -> None:
        self._token, self._end = trio.lowlevel.current_trio_token(), trio.Event()
        async with trio.open_nursery() as nursery:
            await nursery.start(self.server.serve)
            self._ready.set()
            await self._end.wait()
            nursery.cancel_scope.cancel()

    def close(self) -> None:
        """End the server."""
        trio.from_thread.run_sync(self._end.set, trio_token=self._token)
        self._thread.join(BOUND_S)

    def asked(self, text: str) -> list[float]:
        """Return when the answers to this message have begun, in seconds since 1970."""
        return [
            at
            for request, at in list(self.server.spoken)
            if without_note(last_user_text(request.body or {"messages": []})) == text
        ]


@dataclass
class House:
    """A Rumi that serves its page, and a browser whose contexts are logged in to it."""

    model: Model
    browser: "Browser"
    rumi: "subprocess.Popen[bytes]"
    home: Path
    url: str
    state: Any = None
    _contexts: list["BrowserContext"] = field(default_factory=list)

    def context(self) -> "BrowserContext":
        """Return a fresh profile of the browser with a session."""
        context = self.browser.new_context(
            storage_state=self.state,
            viewport={"width": 1280, "height": 800},
            service_workers="block",
            bypass_csp=True,  # the benchmark's own expressions are evaluated as text
        )
        context.add_init_script(OBSERVER)
        return context

    def open(self, context: "BrowserContext", chat: str) -> "Page":
        """Open a window with this chat, and wait until it is connected."""
        page = context.new_page()
        page.goto(f"{self.url}/?chat={chat}")
        live(page)
        return page

    # What the operating system has counted

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def wire(self) -> dict[str, int]:
        """Return the bytes that the program has sent on each open connection of the page so far."""
        command = ["ss", "-tinHO", "state", "established", f"( sport = :{self.port} )"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True)
        found = {}
        for line in listed.stdout.splitlines():
            sent = re.search(r"bytes_sent:(\d+)", line)
            found[line.split()[3]] = int(sent[1]) if sent else 0
        return found

    def wire_since(self, before: Mapping[str, int]) -> int:
        """Return the bytes that were sent since then, on the connections that are still open."""
        return sum(count - before.get(peer, 0) for peer, count in self.wire().items())

    def window_mb(self) -> float:
        """Return the private memory of all processes of the browser that show windows."""
        return sum(
            kb_of(Path(f"/proc/{process}/smaps_rollup"), "Private_Dirty") / 1024
            for process in descendants(os.getpid())
            if b"--type=renderer" in Path(f"/proc/{process}/cmdline").read_bytes()
        )

    def cpu_s(self) -> float:
        """Return the CPU time that the program has used, in seconds."""
        fields = Path(f"/proc/{self.rumi.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_mb(self) -> float:
        """Return the program's resident memory."""
        return kb_of(Path(f"/proc/{self.rumi.pid}/status"), "VmRSS") / 1024

    def stored(self, text: str) -> int:
        """Return how many messages with this text the journal has."""
        with closing(sqlite3.connect(f"file:{self.home / 'state.db'}?mode=ro", uri=True)) as db:
            (count,) = db.execute("SELECT count(*) FROM messages WHERE text = ?", (text,)).fetchone()
        return int(count)


def kb_of(file: Path, name: str) -> int:
    """Return a figure of a file of the kernel's, in KB."""
    return int(file.read_text().partition(f"{name}:")[2].split()[0])


def live(page: "Page") -> None:
    """Wait until a window is connected."""
    page.wait_for_function("document.body.dataset.state === 'live' && document.querySelector('#message')")


def say(page: "Page", text: str, token: str) -> None:
    """Type a message and press Enter; the observer waits for the token."""
    page.evaluate("token => Object.assign(bench, {token, enter: 0, bubble: 0, word: 0})", token)
    page.fill("#message", text)
    page.press("#message", "Enter")


def spoken(page: "Page") -> dict[str, float]:
    """Wait until the first word of the answer is on the screen; return the times in milliseconds."""
    page.wait_for_function("bench.bubble > 0 && bench.word > 0", polling=30, timeout=BOUND_S * 1000)
    found: dict[str, float] = page.evaluate("bench")
    return found


def finished(page: "Page") -> None:
    """Wait until the last answer of a window is complete."""
    page.wait_for_function(
        """() => { const all = document.querySelectorAll(".entry.answer");
        return all.length && all[all.length - 1].classList.contains("done"); }""",
        polling=100,
        timeout=2 * BOUND_S * 1000,
    )


def until(holds: Callable[[], object], bound_s: float = BOUND_S) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + bound_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)


class Socket:
    """Counts what a window receives on its socket, in bytes of text before compression."""

    def __init__(self, page: "Page") -> None:
        self.bytes = 0
        self.messages = 0
        session = page.context.new_cdp_session(page)
        session.on("Network.webSocketFrameReceived", self._received)
        session.send("Network.enable")

    def _received(self, event: dict[str, Any]) -> None:
        self.bytes += len(event["response"]["payloadData"].encode())
        self.messages += 1


@contextmanager
def house(arguments: Sequence[str] = ()) -> Iterator[House]:
    """Start everything; end it afterwards, also if the benchmark fails."""
    from playwright.sync_api import sync_playwright

    model = Model()
    with tempfile.TemporaryDirectory(prefix="rumi-bench-") as folder, sync_playwright() as playwright:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text(CONFIG)
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {
            "LANG": "C.UTF-8",
            "RUMI_HOME": str(home),
            "GROQ_API_KEY": KEY,
            "GROQ_BASE_URL": model.server.base_url,
        }
        said = Path(folder) / "said"
        with said.open("w") as out:
            command = [sys.executable, "-m", "rumi", "web", "serve", "127.0.0.1:0", *arguments]
            rumi = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--enable-precise-memory-info", "--js-flags=--expose-gc"],
        )
        try:
            until(lambda: "/login?code=" in said.read_text() or rumi.poll() is not None)
            assert rumi.poll() is None, said.read_text()
            link = next(word for word in said.read_text().split() if "/login?code=" in word)
            first = browser.new_context()
            window = first.new_page()
            window.goto(link)
            live(window)
            found = House(model, browser, rumi, home, link.partition("/login?")[0], first.storage_state())
            first.close()
            yield found
        except BaseException:
            print(said.read_text()[-2000:], file=sys.stderr)
            raise
        finally:
            browser.close()
            rumi.send_signal(signal.SIGCONT)
            rumi.terminate()
            rumi.wait(BOUND_S)
            model.close()
