"""The page as a reader meets it: bytes, latency, memory, the first load, and a server that hangs.

    python -m bench.page [REPETITIONS]

The real program serves the page on loopback, Chromium shows it, and a scripted model streams by words: four
characters at a time, 200 times a second. Bytes on the wire are the kernel's figures of the program's
connections; those before compression are the browser's. Times on the screen are those of the frame that shows
the change; the model's clock is the same machine's. REPETITIONS (50) is the number of messages whose latency
is measured, and twice that of long answers. Takes about four minutes on a machine that does nothing else.
"""

import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from bench import page_house as house
from bench.page_house import TEXTS, House, Socket
from bench.rounds import percentile, row, spread

if TYPE_CHECKING:
    from playwright.sync_api import Page

REPETITIONS = 50
WINDOWS = 6
LOADS = 5
FROZEN_S = 30.0
LOOKS_S = (5.0, 26.0, 31.0)

SHOWN = """() => [
  document.body.dataset.state,
  document.querySelector("#banner")?.textContent || "no banner",
  [...document.querySelectorAll(".entry.you")].at(-1)?.innerText.replaceAll("\\n", " · "),
].join("; ")"""
"""What a reader sees of the connection, and of the last message."""


def streams(at: House) -> None:
    """Bytes of the three texts: one window each, then six windows on the code, then a reload."""
    context = at.context()
    pages = {name: at.open(context, f"bytes-{name}") for name in TEXTS}
    for name, page in pages.items():
        measured(at, f"{name}, one window", name, [page])
    crowd = [at.open(context, "bytes-six") for _ in range(WINDOWS)]
    measured(at, f"code, {WINDOWS} windows", "code", crowd)
    reload(at, crowd[0], len(TEXTS["code"].encode()))
    context.close()


def measured(at: House, title: str, name: str, pages: "list[Page]") -> None:
    """Stream a text into a chat that these windows show."""
    sockets = [Socket(page) for page in pages]
    wire, cpu = at.wire(), at.cpu_s()
    text = len(TEXTS[name].encode())
    house.say(pages[0], f"stream {name}", "stream")
    began = time.monotonic()
    for page in pages:
        house.finished(page)
    took = time.monotonic() - began
    bytes_sent, cpu = at.wire_since(wire), at.cpu_s() - cpu
    each = [socket.bytes / text for socket in sockets]
    row(f"{title}: messages", f"{spread(each)} times the {text:,} bytes")
    row(
        f"{title}: on the wire, a window",
        f"{bytes_sent / text / len(pages):.3g} times, all that was sent",
        "at most 3",
    )
    row(f"{title}: CPU of the program", f"{cpu:.2f} s in {took:.0f} s")


def reload(at: House, page: "Page", text: int) -> None:
    """Bytes of a window that is loaded again, with its text in the chat."""
    found = []
    for _ in range(LOADS):
        socket = Socket(page)
        page.reload()
        house.live(page)
        house.finished(page)
        found.append(socket.bytes / text)
    row("code, reload: messages", f"{spread(found)} times")


def latency(at: House, times: int) -> None:
    """Times from Enter to the bubble, and from the model's first words to the screen."""
    context = at.context()
    page, other = at.open(context, "quick"), at.open(context, "beside")
    timed(at, page, "alone", times)
    house.say(other, "stream code", "stream")
    timed(at, page, "beside a chat that streams", times)
    context.close()


def timed(at: House, page: "Page", title: str, times: int) -> None:
    bubbles, words, asked = [], [], []
    for number in range(times):
        token = f"{title[:3]}{number}x"
        house.say(page, f"say {token}", token)
        seen = house.spoken(page)
        (first,) = at.model.asked(f"say {token}")
        bubbles.append(seen["bubble"] - seen["enter"])
        words.append(seen["word"] - first * 1000)
        asked.append(first * 1000 - seen["enter"])
        house.finished(page)
    for name, values in (
        ("Enter to the bubble", bubbles),
        ("model's first word to the screen", words),
        ("Enter to the model's first word", asked),
    ):
        tail = f"p50 {percentile(values, 0.5):.0f}, p95 {percentile(values, 0.95):.0f} ms"
        row(f"{name}, {title}", f"{tail}; {spread(values, 'ms')}")


def memory(at: House, answers: int) -> None:
    """Memory of the window and of the program before and after long answers."""
    context = at.context()
    page = at.open(context, "memory")
    session = context.new_cdp_session(page)
    session.send("Performance.enable")

    def state(title: str) -> None:
        session.send("HeapProfiler.collectGarbage")
        figures = {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}
        entries = page.locator(".entry").count()
        heap = figures["JSHeapUsedSize"] / 1e6
        nodes, mb = int(figures["Nodes"]), at.window_mb()
        seen = f"window {mb:.0f} MB, scripts {heap:.1f} MB, {nodes:,} nodes, {entries} entries"
        row(title, f"{seen}; program {at.rss_mb():.0f} MB")

    state("memory before")
    cpu, seconds = at.cpu_s(), list[float]()
    for number in range(answers):
        began = time.monotonic()
        house.say(page, f"long n{number}x", f"n{number}x")
        house.spoken(page)
        house.finished(page)
        seconds.append(time.monotonic() - began)
        if number in (answers // 4, answers // 2):
            state(f"memory after {number + 1} answers of 30 KB")
    state(f"memory after {answers} answers of 30 KB")
    row("an answer of 30 KB, whole", spread(seconds, "s"))
    row("CPU of the program for each", f"{(at.cpu_s() - cpu) / answers:.2f} s")
    page.reload()
    house.live(page)
    house.finished(page)
    state("memory after a reload")
    context.close()


class Load:
    """What a window requests while it loads."""

    def __init__(self, page: "Page") -> None:
        self._kept = set[str]()  # from the browser's cache
        self.bytes = 0.0
        self.largest: dict[str, float] = {}
        self._urls: dict[str, str] = {}
        session = page.context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", self._asked)
        session.on("Network.requestServedFromCache", self._cached)
        session.on("Network.responseReceived", self._answered)
        session.on("Network.loadingFinished", self._finished)
        session.send("Network.enable")

    @property
    def requests(self) -> int:
        """Return the number of requests that the program has answered."""
        return len(self._urls.keys() - self._kept)

    def _cached(self, event: dict[str, Any]) -> None:
        self._kept.add(event["requestId"])

    def _answered(self, event: dict[str, Any]) -> None:
        if event["response"].get("fromDiskCache"):
            self._kept.add(event["requestId"])

    def _asked(self, event: dict[str, Any]) -> None:
        self._urls[event["requestId"]] = event["request"]["url"]

    def _finished(self, event: dict[str, Any]) -> None:
        self.bytes += event["encodedDataLength"]
        self.largest[self._urls.get(event["requestId"], "?")] = event["encodedDataLength"]


def load(at: House) -> None:
    """The first load of a fresh profile, and a load with a warm cache."""
    kinds: dict[str, list[tuple[Load, Socket, float]]] = {"first load": [], "warm cache": []}
    for _ in range(LOADS):
        context = at.context()
        for found in kinds.values():
            page = context.new_page()
            seen, socket = Load(page), Socket(page)
            page.goto(f"{at.url}/?chat=load")
            house.live(page)
            page.wait_for_load_state("networkidle")
            found.append((seen, socket, page.evaluate("bench.live")))
            page.close()
        context.close()
    for name, found in kinds.items():
        row(f"{name}: requests", spread([seen.requests for seen, _, _ in found]))
        row(f"{name}: bytes of requests", spread([seen.bytes / 1000 for seen, _, _ in found], "KB"))
        row(f"{name}: bytes of the socket", spread([socket.bytes / 1000 for _, socket, _ in found], "KB"))
        row(f"{name}: until one can type and is live", spread([ready for _, _, ready in found], "ms"))
    first = kinds["first load"][0][0]
    for url, size in sorted(first.largest.items(), key=lambda item: -item[1])[:5]:
        print(f"    {size / 1000:6.1f} KB  {url.removeprefix(at.url)}")


def frozen(at: House) -> None:
    """What a window shows while the program hangs, and that a message of that time is taken once."""
    context = at.context()
    page = at.open(context, "frozen")
    house.say(page, "say before", "before")
    house.spoken(page)
    house.finished(page)
    at.rumi.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    try:
        house.say(page, "say frozenx", "frozenx")
        page.wait_for_function("bench.bubble > 0", polling=30)
        row("frozen: Enter to the bubble", f"{page.evaluate('bench.bubble - bench.enter'):.0f} ms")
        for moment in LOOKS_S:
            if moment > FROZEN_S and time.monotonic() - began < FROZEN_S:
                page.wait_for_timeout((began + FROZEN_S - time.monotonic()) * 1000)
                at.rumi.send_signal(signal.SIGCONT)
            page.wait_for_timeout(max(0.0, began + moment - time.monotonic()) * 1000)
            shown = page.evaluate(SHOWN)
            row(f"frozen: the window after {moment:.0f} s", shown)
    finally:
        at.rumi.send_signal(signal.SIGCONT)
    house.spoken(page)
    house.finished(page)
    row("frozen: answered after", f"{time.monotonic() - began:.1f} s")
    bubbles = page.locator(".entry.you", has_text="frozenx").count()
    row("frozen: stored, answered, bubbles", f"{at.stored('say frozenx')}, "
        f"{len(at.model.asked('say frozenx'))}, {bubbles}", "1, 1, 1")  # fmt: skip
    context.close()


def main() -> None:
    """Print all figures."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else REPETITIONS
    with house.house() as at:
        load(at)
        latency(at, times)
        streams(at)
        memory(at, 2 * times)
        frozen(at)


if __name__ == "__main__":
    main()
