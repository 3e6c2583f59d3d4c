"""How long `rumi status --json` takes while 200 chats have turns.

    python -m bench.status [CHATS [ROUNDS]]

Half of the chats run `sleep 600` in bubblewrap, the other half wait for a model that says nothing, and
meanwhile some more write and are answered all the time, so that the process has something to do. Rumi is a
process of its own on a fake Telegram and a fake Groq.

Asked in three ways, in turn: as a line over the control socket, as a call over an open WebSocket, and as
the whole command, Python's start included. Beside it, in every round: a bare echo of as many bytes over a
Unix socket by a process that does nothing else, and `python -c pass`.

Exits with 1 where the chat that hangs is not in the answer.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import trio

from bench import telegram_house as house
from bench.rounds import percentile, row, spread
from bench.stop_telegram import Bench, Model, chat_of
from bench.telegram_house import until
from rumi.channels.attach.connection import connect
from rumi.channels.attach.one_call import STATUS, ask
from rumi.platform.caller import TERMINAL
from rumi.platform.home import Home, socket_path

CHATS = 200
ROUNDS = 3
TALKING = 5
ASKED = 200
COMMANDS = 40
REQUEST = STATUS
RUMI = str(Path(sys.executable).with_name("rumi"))


@contextmanager
def echo(path: Path) -> Iterator[None]:
    """A process that sends back what it gets, and does nothing else."""
    code = (
        "import socket,sys\n"
        "listener=socket.socket(socket.AF_UNIX); listener.bind(sys.argv[1]); listener.listen()\n"
        "while True:\n"
        "    connection,_=listener.accept(); data=b''\n"
        "    while not data.endswith(b'\\n'): data+=connection.recv(1<<20)\n"
        "    connection.sendall(data); connection.close()\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)])
    try:
        while not path.exists():
            time.sleep(0.01)
        yield
    finally:
        process.kill()
        process.wait()


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


async def times(number: int, work: Callable[[], object]) -> list[float]:
    """Each in a thread: what is measured must not wait for the fakes of this process."""
    found = []
    for _ in range(number):
        found.append(await trio.to_thread.run_sync(timed, work))
        await trio.sleep(0.005)
    return found


async def websocket_times(number: int, path: Path) -> list[float]:
    """The same over one open WebSocket, from a trio of its own."""

    async def measure() -> list[float]:
        found = []
        async with connect(path, TERMINAL) as client:
            for _ in range(number):
                began = time.perf_counter()
                await client.call("status")
                found.append(time.perf_counter() - began)
                await trio.sleep(0.005)
        return found

    return await trio.to_thread.run_sync(partial(trio.run, measure))


def report(name: str, rounds: list[list[float]], aim: str = "") -> None:
    every = [seconds * 1000 for times in rounds for seconds in times]
    p99 = [percentile(times, 0.99) * 1000 for times in rounds]
    row(name, f"median {percentile(every, 0.5):.1f}, p99 {spread(p99)}, max {max(every):.1f} ms", aim)


async def main() -> int:
    chats = int(sys.argv[1]) if len(sys.argv) > 1 else CHATS
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    model, machine = Model(), house.Machine()
    patient: dict[str, dict[str, object]] = {
        "model": {"timeout_s": 3600},
        "agent": {"turn_timeout_s": 3600},
        "sandbox": {"timeout_s": 3600},
    }
    with house.home(range(1, chats + TALKING + 1), **patient) as root:
        async with house.outside(model) as out:
            people = [out.api.user(number) for number in range(1, chats + TALKING + 1)]
            env = out.environment(root)
            with house.running(house.WITNESSED, env, root.parent / "rumi.err", read=True) as process:
                bench = Bench(out, model, process, people[:chats])
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(bench.seen.watch, process)
                    await until(lambda: out.api.updates.poll, "Rumi polls", 60)
                    middle = chats // 2
                    await bench.begin(people[:middle], people[middle:chats])
                    nursery.start_soon(_talk, bench, people[chats:])
                    found = await measure(root, env, rounds)
                    nursery.cancel_scope.cancel()
    status = json.loads(found.last)["result"]
    print(
        f"{chats} chats in turns, {TALKING} more that talk; {rounds} rounds, {len(found.last) / 1000:.0f} KB"
    )
    report("over the control socket, a line", found.line, "100 ms")
    report("over an open WebSocket", found.websocket)
    report("rumi status --json, the whole command", found.command, "100 ms")
    report("bare echo of as many bytes", found.echo)
    report("python -c pass", found.python)
    row("of this machine, other programs had", f"{machine.others():.0%}")
    nodes = {node["id"]: node for node in status["tree"]["children"]}
    hanging = next(node for node in nodes["chats"]["children"] if node["id"] == chat_of(people[0]))
    tools = hanging["figures"]["tools"]
    row("the chat that hangs", f"{tools}")
    return 0 if tools and tools[0]["age_s"] > 1 else 1


class Found:
    """Seconds, by round; and the last answer."""

    def __init__(self) -> None:
        self.line: list[list[float]] = []
        self.websocket: list[list[float]] = []
        self.command: list[list[float]] = []
        self.echo: list[list[float]] = []
        self.python: list[list[float]] = []
        self.last = b""


async def measure(root: Path, env: dict[str, str], rounds: int) -> Found:
    home, found = Home(root), Found()
    path = socket_path(home.run, home.installation())
    status = [RUMI, "status", "--json"]
    bare = root.parent / "echo.sock"

    def run(command: list[str]) -> None:
        subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)

    with echo(bare):
        for _ in range(rounds):
            found.last = await trio.to_thread.run_sync(ask, path, REQUEST)
            words = found.last.rstrip(b"\n")
            found.line.append(await times(ASKED, partial(ask, path, REQUEST)))
            found.websocket.append(await websocket_times(ASKED, path))
            found.echo.append(await times(ASKED, partial(ask, bare, words)))
            found.command.append(await times(COMMANDS, partial(run, status)))
            found.python.append(await times(COMMANDS, partial(run, [sys.executable, "-c", "pass"])))
    return found


async def _talk(bench: Bench, people: list[object]) -> None:
    """Somebody always writes."""
    while True:
        for person in people:
            bench.out.api.say(person, "hello")  # type: ignore[arg-type]
            await trio.sleep(0.2)


if __name__ == "__main__":
    sys.exit(trio.run(main))
