"""What an actor costs over bare trio, in the same run: `python -m bench.actors [--rounds N] [--quick]`.

Rounds are interleaved, so that a slow moment of the machine meets all contenders. A rate is printed as its
ratio to bare trio of the same round: median (lowest … highest). Handlers do nothing; real ones take so long
that none of this is seen.
"""

import argparse
import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Run as a file, this folder comes first on the path, and this very file would be `actors`.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import trio  # noqa: E402
import trio.testing  # noqa: E402

from actors import Actor, ChildSpec, DynamicSupervisor, Request, Supervisor, answers  # noqa: E402
from bench.rounds import ratios, row, spread  # noqa: E402

TRIOTP = "triotp not installed: pip install --no-deps triotp==0.2.1 logbook tenacity trio-util"


@dataclass(frozen=True, slots=True)
class Add(Request[int]):
    value: int


@dataclass(frozen=True, slots=True)
class Last:
    """Ends a round."""


class Sink(Actor[Add | Last]):
    def __init__(self, done: trio.Event) -> None:
        self.total = 0
        self.done = done

    async def receive(self, message: Add | Last) -> None:
        if type(message) is Last:
            self.done.set()

    @answers(Add)
    async def add(self, message: Add) -> int:
        self.total += 1
        return self.total


# --- tell: many messages to one receiver, until the last is handled; seconds per message


async def trio_tell(messages: int) -> float:
    done = trio.Event()
    send, receive = trio.open_memory_channel[Add | Last](64)
    sink = Sink(done)

    async def handle() -> None:
        async for message in receive:
            await sink._handle(message)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle)
        message = Add(1)
        begun = time.perf_counter()
        for _ in range(messages):
            await send.send(message)
        await send.send(Last())
        await done.wait()
        taken = time.perf_counter() - begun
        nursery.cancel_scope.cancel()
    return taken / messages


async def actors_tell(messages: int) -> float:
    done = trio.Event()
    root = Supervisor("root")
    ref = root.add(ChildSpec("sink", lambda: Sink(done)))
    async with root.running():
        message = Add(1)
        begun = time.perf_counter()
        for _ in range(messages):
            await ref.tell(message)
        await ref.tell(Last())
        await done.wait()
        return (time.perf_counter() - begun) / messages


def pykka_tell(messages: int) -> float:
    import pykka

    class PykkaSink(pykka.ThreadingActor):
        def on_receive(self, message: object) -> object:
            return message

    ref = PykkaSink.start()
    message = Add(1)
    begun = time.perf_counter()
    for _ in range(messages):
        ref.tell(message)
    ref.ask(message)
    taken = time.perf_counter() - begun
    ref.stop()
    return taken / messages


# --- ask: one after the other; seconds per call


@dataclass(slots=True)
class Call:
    value: int
    event: trio.Event
    reply: int = 0


async def trio_ask(calls: int) -> float:
    send, receive = trio.open_memory_channel[Call](64)

    async def serve() -> None:
        total = 0
        async for call in receive:
            total += 1
            call.reply = total
            call.event.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        begun = time.perf_counter()
        for _ in range(calls):
            call = Call(1, trio.Event())
            await send.send(call)
            await call.event.wait()
            assert call.reply
        taken = time.perf_counter() - begun
        nursery.cancel_scope.cancel()
    return taken / calls


async def actors_ask(calls: int) -> float:
    root = Supervisor("root")
    ref = root.add(ChildSpec("sink", lambda: Sink(trio.Event())))
    async with root.running():
        begun = time.perf_counter()
        for _ in range(calls):
            assert await ref.ask(Add(1))
        return (time.perf_counter() - begun) / calls


def pykka_ask(calls: int) -> float:
    import pykka

    class PykkaSink(pykka.ThreadingActor):
        def on_receive(self, message: object) -> object:
            return message

    ref = PykkaSink.start()
    begun = time.perf_counter()
    for _ in range(calls):
        ref.ask(Add(1))
    taken = time.perf_counter() - begun
    ref.stop()
    return taken / calls


async def _triotp(work: Callable[[str], "object"]) -> float:
    from types import ModuleType

    from triotp import gen_server, mailbox

    module = ModuleType("sink")

    async def init(_: object) -> int:
        return 0

    async def handle_cast(message: object, state: int) -> object:
        if isinstance(message, trio.Event):
            message.set()
        return (gen_server.NoReply(), state + 1)

    async def handle_call(message: object, caller: object, state: int) -> object:
        return (gen_server.Reply(payload=state + 1), state + 1)

    module.init, module.handle_cast, module.handle_call = init, handle_cast, handle_call  # type: ignore[attr-defined]
    mailbox._init()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gen_server.start, module, None, "sink")
        await trio.testing.wait_all_tasks_blocked()
        begun = time.perf_counter()
        await work("sink")  # type: ignore[misc]
        taken = time.perf_counter() - begun
        nursery.cancel_scope.cancel()
    return taken


async def triotp_tell(messages: int) -> float:
    from triotp import gen_server

    async def work(name: str) -> None:
        message = Add(1)
        done = trio.Event()
        for _ in range(messages):
            await gen_server.cast(name, message)
        await gen_server.cast(name, done)
        await done.wait()

    return await _triotp(work) / messages


async def triotp_ask(calls: int) -> float:
    from triotp import gen_server

    async def work(name: str) -> None:
        for _ in range(calls):
            await gen_server.call(name, Add(1))

    return await _triotp(work) / calls


# --- restart: from the crash to the next incarnation's started(), against a task's start; seconds each


async def trio_start(starts: int) -> float:
    total = 0.0

    async def task(begun: float, running: trio.Event) -> None:
        nonlocal total
        total += time.perf_counter() - begun
        running.set()

    async with trio.open_nursery() as nursery:
        for _ in range(starts):
            running = trio.Event()
            nursery.start_soon(task, time.perf_counter(), running)
            await running.wait()
    return total / starts


class Fragile(Actor[None]):
    crashed_at = 0.0
    total = 0.0
    up: trio.Event

    async def started(self) -> None:
        if self.incarnation > 1:
            Fragile.total += time.perf_counter() - Fragile.crashed_at
        Fragile.up.set()

    async def receive(self, message: None) -> None:
        Fragile.crashed_at = time.perf_counter()
        raise ValueError


async def actors_restart(restarts: int) -> float:
    Fragile.total = 0.0
    Fragile.up = trio.Event()
    root = Supervisor("root", max_restarts=10**9)
    ref = root.add(ChildSpec("fragile", Fragile))
    async with root.running():
        for _ in range(restarts):
            Fragile.up = trio.Event()
            await ref.tell(None)
            await Fragile.up.wait()
    return Fragile.total / restarts


async def unlogged_restart(restarts: int) -> float:
    """Without the log record of each crash, which costs what the application's logging costs."""
    logging.disable()
    try:
        return await actors_restart(restarts)
    finally:
        logging.disable(logging.NOTSET)


# --- memory: a process of its own, bytes per idle actor


def rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def measure(before: int, count: int) -> None:
    gc.collect()
    print((rss_bytes() - before) / count)


async def actors_memory(count: int) -> None:
    chats: DynamicSupervisor[Add | Last] = DynamicSupervisor(
        "chats", lambda key: ChildSpec(key, lambda: Sink(done), idle_s=3600)
    )
    done = trio.Event()
    async with chats.running():
        gc.collect()
        before = rss_bytes()
        for number in range(count):
            ref = await chats.get_or_start(f"chat-{number}")
            await ref.ask(Add(1))  # idle, not untouched
        measure(before, count)


async def tasks_memory(count: int) -> None:
    async with trio.open_nursery() as nursery:
        gc.collect()
        before = rss_bytes()
        for _ in range(count):
            nursery.start_soon(trio.sleep_forever)
        await trio.testing.wait_all_tasks_blocked()
        measure(before, count)
        nursery.cancel_scope.cancel()


def pykka_memory(count: int) -> None:
    import pykka

    class PykkaSink(pykka.ThreadingActor):
        def on_receive(self, message: object) -> object:
            return message

    gc.collect()
    before = rss_bytes()
    refs = [PykkaSink.start() for _ in range(count)]
    for ref in refs:
        ref.ask(1)
    measure(before, count)
    pykka.ActorRegistry.stop_all()


def memory_of(name: str, count: int) -> float:
    """Run this file for one figure, in a process that has done nothing else."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.actors", "--memory", name, "--count", str(count)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parent.parent,
    )
    return float(done.stdout)


def has_triotp() -> bool:
    try:
        from triotp import gen_server  # noqa: F401
    except ImportError:
        return False
    return True


def interleaved(
    contenders: dict[str, Callable[[int], object]], count: int, rounds: int
) -> dict[str, list[float]]:
    """Seconds per operation of each contender, a list of one figure per round."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(-1, rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:  # nobody is always first
            gc.collect()
            run = contenders[name]
            figure = run(count) if name == "pykka" else trio.run(run, count)
            if number >= 0:  # the first round warms up
                taken[name].append(float(figure))  # type: ignore[arg-type]
    return taken


def compare(
    title: str, contenders: dict[str, Callable[[int], object]], aim: float, count: int, rounds: int
) -> None:
    taken = interleaved(contenders, count, rounds)
    base = taken.pop("trio")
    row(f"{title}: bare trio", spread(base, "µs", 1e6))
    for name, metrics in taken.items():
        ratio = ratios(base, metrics)  # rates: theirs over ours of time is ours over theirs of speed
        row(f"{title}: {name}, speed over bare trio", spread(ratio), f">= {aim}" if name == "actors" else "")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--memory", choices=["actors", "tasks", "pykka"], help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=10_000, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # Crashes are logged; what is measured is the runtime, not a terminal.
    logging.getLogger("actors").addHandler(logging.NullHandler())
    logging.getLogger("actors").propagate = False
    if options.memory == "pykka":
        threading.stack_size(0)
        pykka_memory(options.count)
        return
    if options.memory:
        trio.run({"actors": actors_memory, "tasks": tasks_memory}[options.memory], options.count)
        return
    rounds = 3 if options.quick else options.rounds
    count = 2_000 if options.quick else 10_000
    others = has_triotp()
    tell: dict[str, Callable[[int], object]] = {"trio": trio_tell, "actors": actors_tell, "pykka": pykka_tell}
    ask: dict[str, Callable[[int], object]] = {"trio": trio_ask, "actors": actors_ask, "pykka": pykka_ask}
    if others:
        tell["triotp"], ask["triotp"] = triotp_tell, triotp_ask
    else:
        print(TRIOTP)
    print(f"{rounds} rounds of {count}, median (lowest … highest)")
    compare("tell", tell, 0.8, count, rounds)
    compare("ask", ask, 0.85, count, rounds)
    starts: dict[str, Callable[[int], object]] = {
        "task": trio_start,
        "restart": unlogged_restart,
        "logged restart": actors_restart,
    }
    taken = interleaved(starts, count // 10, rounds)
    row("start of a bare task", spread(taken["task"], "µs", 1e6))
    for name in ("restart", "logged restart"):
        more = [b - a for a, b in zip(taken["task"], taken[name], strict=True)]
        row(
            f"{name} after a crash: more than that", spread(more, "µs", 1e6), "<= 60 µs" * (name == "restart")
        )
    row("memory of an idle actor", f"{memory_of('actors', 10_000) / 1024:.2f} KB", "<= 8 KB")
    row("memory of a parked bare task", f"{memory_of('tasks', 10_000) / 1024:.2f} KB")
    row("memory of an idle pykka actor (1,000)", f"{memory_of('pykka', 1_000) / 1024:.2f} KB")


if __name__ == "__main__":
    main()
