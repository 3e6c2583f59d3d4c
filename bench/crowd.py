"""Many turns at once with a model that answers after two seconds: how long they take, and who notices.

    python -m bench.crowd [CHATS …]

Rumi is this process; the model server is another one, on loopback. While the turns run, some chats are
stopped, and a task that sleeps for 10 ms looks how much later it is woken. The last one is a server that
refuses (429) what it is asked while 20 calls run there.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

import trio

from bench import house
from bench.rounds import percentile, row
from rumi.app.app import App
from rumi.cli.serve import look_for_cycles_seldom

REPLY_S = 2.0
CHATS = (50, 200, 1000)
STOPS = 20
TAKES = 20
TICK_S = 0.01
SAYS = "That is how it is."


class Model:
    """A bare HTTP server, which costs little beside what is measured.

    It answers after two seconds, and refuses what is more than it takes at once.
    """

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.running = self.calls = self.refused = self.most = 0

    async def connection(self, stream: trio.SocketStream) -> None:
        data = b""
        async with stream:
            while True:
                while (end := data.find(b"\r\n\r\n")) < 0 or len(data) < end + 4 + _length(data[:end]):
                    more = await stream.receive_some()
                    if not more:
                        return
                    data += more
                data = data[end + 4 + _length(data[:end]) :]
                await self.answer(stream)

    async def answer(self, stream: trio.SocketStream) -> None:
        self.calls += 1
        if self.running >= self.takes:
            self.refused += 1
            body = b'{"error": {"message": "Too many requests at once", "type": "requests"}}'
            await stream.send_all(b"HTTP/1.1 429 Too Many\r\n" + JSON % len(body) + body)
            return
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await trio.sleep(REPLY_S)
        finally:
            self.running -= 1
        await stream.send_all(REPLY)


def _length(head: bytes) -> int:
    return next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )


def _event(delta: dict[str, str], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


JSON = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
_STREAM = _event({"role": "assistant", "content": SAYS}) + _event({}, "stop") + b"data: [DONE]\n\n"
REPLY = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(_STREAM)
    + _STREAM
)


def serve(takes: int) -> None:
    """The server's process. It prints its address, and in the end what it saw."""
    model = Model(takes)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=4096)
            nursery.start_soon(trio.serve_listeners, model.connection, listeners)
            print(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1", flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)
            nursery.cancel_scope.cancel()

    trio.run(main)
    print(json.dumps({"calls": model.calls, "refused": model.refused, "most": model.most}), flush=True)


@contextmanager
def server(takes: int) -> Iterator[tuple[str, dict[str, int]]]:
    """A server's address, and what it saw, once the block has ended."""
    command = [sys.executable, "-m", "bench.crowd", "--serve", str(takes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        saw: dict[str, int] = {}
        try:
            yield process.stdout.readline().strip(), saw
        finally:
            process.stdin.close()
            saw.update(json.loads(process.stdout.readline() or "{}"))


@dataclass
class Seen:
    """What came of a crowd's turns; times in seconds."""

    took_s: float = 0.0
    failed: int = 0
    stops_s: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)


async def crowd(app: App, chats: int) -> Seen:
    """All chats say something at once; some of them are stopped on the way."""
    seen = Seen()
    random = Random(7)
    stopped = set(random.sample(range(chats), min(STOPS, chats // 5)))

    async def one(number: int) -> None:
        reply = await house.turn(app, f"c{number}", "How is it?")
        seen.failed += reply != SAYS and number not in stopped

    async def stop(number: int, after_s: float) -> None:
        await trio.sleep(after_s)
        began = time.perf_counter()
        await house.turn(app, f"c{number}", "/stop")
        seen.stops_s.append(time.perf_counter() - began)

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await trio.sleep(TICK_S)
            seen.late_s.append(max(0.0, time.perf_counter() - began - TICK_S))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        began = time.perf_counter()
        async with trio.open_nursery() as turns:
            for number in range(chats):
                turns.start_soon(one, number)
            for number in stopped:
                turns.start_soon(stop, number, random.uniform(0.2, REPLY_S))
        seen.took_s = time.perf_counter() - began
        nursery.cancel_scope.cancel()
    return seen


async def show(name: str, chats: int, aim: str, takes: int = 10**6, **flags: object) -> None:
    """One crowd, in a fresh house."""
    with server(takes) as (url, saw):
        settings = {
            "sandbox.backend": "bubblewrap",
            "memory.extract": False,
            "model.default": "custom:crowd",
            "model.fallbacks": [],
            "model.custom.crowd.base_url": url,
            "model.custom.crowd.model": "m",
            **flags,
        }
        async with house.app(settings) as app:
            await house.turn(app, "warm-up", "How is it?")
            look_for_cycles_seldom()
            seen = await crowd(app, chats)
    print(f"\n{name}")
    row("  until all have their reply", f"{seen.took_s:.1f} s", aim)
    row("  turns without their answer", f"{seen.failed}", "0")
    row(
        "  /stop: median, p99",
        f"{percentile(seen.stops_s, 0.5) * 1000:.0f} ms, {percentile(seen.stops_s, 0.99) * 1000:.0f} ms",
        "p99 under 250 ms",
    )
    row(
        "  delay of the event loop: median, p99, most",
        ", ".join(f"{percentile(seen.late_s, share) * 1000:.0f} ms" for share in (0.5, 0.99, 1.0)),
    )
    row("  calls, refused, most at once", f"{saw['calls']}, {saw['refused']}, {saw['most']}")


async def main() -> None:
    arguments = parse()
    for chats in arguments.chats or CHATS:
        aim = {50: "at most 2.5 s", 1000: "at most 12 s"}.get(chats, "")
        await show(f"{chats} chats", chats, aim)
    if not arguments.chats:
        await show("1000 chats, max_concurrent = 1000", 1000, "at most 8 s", **{"model.max_concurrent": 1000})
        await show(f"200 chats, a server that takes {TAKES} at once", 200, "", takes=TAKES)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("chats", nargs="*", type=int)
    parser.add_argument("--serve", type=int)
    return parser.parse_args()


if __name__ == "__main__":
    if (takes := parse().serve) is not None:
        serve(takes)
    else:
        house.run(main)
