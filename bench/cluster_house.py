"""Several workers on one PostgreSQL server, for benchmarks and tests: real processes, real sandboxes.

Each worker has a home of its own and reaches the database through a `Proxy` of this process, which can cut,
delay and lose what goes through it. The homes share one folder of workspaces. All talk to the fakes of
`telegram_house`.
"""

import contextlib
import os
import random
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
import trio

from bench import telegram_house as house
from bench.telegram_house import Outside, Process, until
from rumi.sandbox.processes import descendants
from tests.postgres import Server

SERVE: Final = (sys.executable, "-m", "rumi", "serve")
LEASE_S: Final = 3.0
DRAIN_S: Final = 5.0
SANDBOX_USER: Final = "1879048192\n"
"""The homes share their workspaces, so that their commands have to run as the same user."""

KEEPER: Final = re.compile(rb"\0name=rumi-runner-(.+)-([0-9a-f]{12})\0.*\0parent=([0-9]+)\0")
"""The words of a keeper, which its children have as well until they become bubblewrap."""

Way: Final = ("pass", "slow", "deaf", "cut")
"""How a proxy passes on: everything; with a delay; without the server's answers; nothing, and it refuses."""


class Proxy:
    """Passes connections on to the database. `way` says how, as one of `Way`; `slow_s` delays each piece.

    `heard` gets what clients send, before the database does.
    """

    def __init__(self, target: int, slow_s: float = 0.3) -> None:
        self.target = target
        self.way: str = "pass"
        self.slow_s = slow_s
        self.heard: Callable[[bytes], object] = lambda data: None
        self.port = 0
        self.connections = 0
        self._scopes: set[trio.CancelScope] = set()

    async def serve(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            self.port = listeners[0].socket.getsockname()[1]
            nursery.start_soon(trio.serve_listeners, self._connection, listeners)
            task_status.started()

    def cut(self) -> None:
        """End all connections; refuse new ones while the way is `cut`."""
        for scope in tuple(self._scopes):
            scope.cancel()

    async def _connection(self, client: trio.SocketStream) -> None:
        self.connections += 1
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                async with client:
                    if self.way == "cut":
                        return
                    server = await trio.open_tcp_stream("127.0.0.1", self.target)
                    async with server, trio.open_nursery() as nursery:
                        nursery.start_soon(self._pass_on, client, server, False, scope)
                        await self._pass_on(server, client, True, scope)
            except (OSError, trio.BrokenResourceError):
                return
            finally:
                self._scopes.discard(scope)

    async def _pass_on(
        self, source: trio.SocketStream, to: trio.SocketStream, answers: bool, scope: trio.CancelScope
    ) -> None:
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some(65536):
                if not answers:
                    self.heard(bytes(data))
                if self.way == "slow":
                    await trio.sleep(self.slow_s)
                if self.way == "deaf" and answers:
                    continue  # the server has done it, and the client never learns of it
                await to.send_all(data)
        scope.cancel()


@dataclass(eq=False)
class Worker:
    """A worker: its home, its way to the database, and its process, if it runs."""

    number: int
    root: Path
    proxy: Proxy
    env: Mapping[str, str]
    command: Sequence[str]
    address: str
    process: Process | None = None
    starts: int = 0
    _silent: int = 0

    @property
    def said(self) -> Path:
        """The file that has its standard error."""
        return self.root.parent / "rumi.err"

    @property
    def name(self) -> str:
        return f"worker-{self.number}"

    @property
    def runs(self) -> bool:
        return self.process is not None and not self.process.over

    @property
    def installation(self) -> str:
        return (self.root / "installation").read_text().strip()

    def start(self) -> Process:
        assert not self.runs
        self.starts += 1
        self._silent = self.said.stat().st_size if self.said.exists() else 0
        self.process = house.start(self.command, self.env, self.said)
        return self.process

    @property
    def serves(self) -> bool:
        """Whether it has got so far that it said so."""
        return b"Serving" in self.said.read_bytes()[self._silent :]

    def signal(self, number: int) -> None:
        if self.runs:
            assert self.process is not None
            self.process.signal(number)

    async def status(self) -> str:
        """What `rumi status` prints of it."""
        words = [sys.executable, "-m", "rumi", "status"]
        with trio.move_on_after(30):
            done = await trio.run_process(
                words,
                env=dict(self.env),
                cwd=house.ROOT,
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
            )
            return done.stdout.decode()
        return "no status"

    async def end(self, within_s: float = 60.0) -> int | None:
        """Tell it to end; its exit code, None if it does not end."""
        if self.process is None:
            return 0
        self.signal(signal.SIGTERM)
        with trio.move_on_after(within_s):
            return await self.process.ended()
        return None

    def kill(self) -> list[int]:
        """kill -9, and wait until the kernel has ended it. Returns what it had started."""
        if self.process is None:
            return []
        family = descendants(self.process.pid)
        with contextlib.suppress(ProcessLookupError):
            self.process.signal(signal.SIGCONT)
        self.process.kill()
        self.process = None
        return family


@dataclass(frozen=True)
class Member:
    """A worker as the database has it, by its clock."""

    name: str
    address: str
    left_s: float
    partitions: int


@dataclass
class Cluster:
    """The workers, their database, and the folder of the chats' files that they share."""

    server: Server
    url: str
    workers: list[Worker]
    workspaces: Path
    out: Outside
    _asking: "psycopg.Connection[tuple[Any, ...]] | None" = field(default=None)
    _owned: dict[str | None, set[int]] = field(default_factory=dict)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the database, past all proxies; nothing where it does not answer."""
        for _ in range(2):  # the connection may have ended since the last time
            try:
                if self._asking is None or self._asking.closed:
                    self._asking = psycopg.connect(self.url, autocommit=True, connect_timeout=2)
                return self._asking.execute(sql.encode()).fetchall()
            except psycopg.Error:
                self.close()
        return []

    def close(self) -> None:
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def members(self) -> list[Member]:
        """The workers with a lease that lasts."""
        rows = self.query(
            "SELECT name, address, until - extract(epoch FROM clock_timestamp()),"
            " (SELECT count(*) FROM partitions WHERE worker = name) FROM workers"
            " WHERE until > extract(epoch FROM clock_timestamp())"
        )
        return [Member(name, address, float(left), count) for name, address, left, count in rows]

    def served(self) -> int:
        """How many partitions have an owner whose lease lasts."""
        return sum(member.partitions for member in self.members())

    def partitions_of(self, worker: Worker) -> frozenset[int]:
        """The partitions of a worker and of its earlier incarnations; the last that were known of while the
        database does not answer.
        """
        rows = self.query(
            "SELECT number, address FROM partitions LEFT JOIN workers ON partitions.worker = workers.name"
        )
        if rows:
            self._owned = {}
        for number, address in rows:
            self._owned.setdefault(address, set()).add(number)
        return frozenset(self._owned.get(worker.address, ()))

    def owner_of(self, partition: int) -> Worker | None:
        rows = self.query(
            "SELECT address FROM workers WHERE name ="
            f" (SELECT worker FROM partitions WHERE number = {partition})"
        )
        return next((worker for worker in self.workers if rows and worker.address == rows[0][0]), None)

    async def ready(self, running: int, within_s: float = 60.0) -> None:
        """Wait until so many workers share all partitions."""

        def shared() -> bool:
            members = self.members()
            return (
                len(members) == running
                and sum(member.partitions for member in members) == 256
                and min(member.partitions for member in members) >= 256 // running
            )

        try:
            await until(shared, f"{running} workers share all partitions", within_s, 0.1)
        except TimeoutError as error:
            said = [worker.said.read_text()[-300:] for worker in self.workers if worker.said.exists()]
            raise TimeoutError(f"{error}: {self.members()}, {said}") from None


def own_port() -> int:
    """A free port that the kernel gives to no connection: a worker that starts again must find it free."""
    while True:
        port = random.randrange(15_000, 30_000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


@contextlib.asynccontextmanager
async def cluster(
    server: Server,
    out: Outside,
    workers: int,
    users: Sequence[int],
    *,
    lease_s: float = LEASE_S,
    command: Sequence[str] = house.RUMI,
    sections: Mapping[str, Mapping[str, object]] | None = None,
) -> AsyncIterator[Cluster]:
    """Yield a `Cluster` whose workers do not run yet; whatever runs of it ends with the block."""
    url = server.new_database()
    made: list[Worker] = []
    async with trio.open_nursery() as nursery:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rumi-bench-")))
            workspaces = folder / "workspace"
            workspaces.mkdir(mode=0o700)
            running = Cluster(server, url, made, workspaces, out)
            stack.callback(running.close)
            for number in range(1, workers + 1):
                proxy = Proxy(server.port)
                await nursery.start(proxy.serve)
                store = {
                    "url": server.url(url.rpartition("/")[2], proxy.port),
                    "lease_s": lease_s,
                    "drain_s": DRAIN_S,
                    "workspaces": str(workspaces),
                    "address": (address := f"127.0.0.1:{own_port()}"),
                }
                root = stack.enter_context(house.home(users, **{**(sections or {}), "store": store}))
                (root / "sandbox-user").write_text(SANDBOX_USER)
                (root / "installation").write_text(f"{secrets.token_hex(6)}\n")
                env = {**out.environment(root), "DOCKER_HOST": "unix:///nonexistent", "STORE_TOKEN": "t" * 64}
                made.append(Worker(number, root, proxy, env, command, address))
            try:
                yield running
            finally:
                for worker in made:
                    worker.kill()
        nursery.cancel_scope.cancel()


def leftovers(workers: Sequence[Worker]) -> list[str]:
    """What is there of processes of these homes, in words."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words, environ = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
        except OSError:
            continue
        for worker in workers:
            marks = (str(worker.root).encode(), f"-{worker.installation}".encode())
            if any(mark in words + environ for mark in marks) and int(path.name) != os.getpid():
                found.append(f"process {path.name} of {worker.name}: {words[:80]!r}")
    return found


# Sandboxes, looked at from outside


@dataclass(frozen=True)
class Seen:
    """A keeper process: the chat and the installation of its sandbox."""

    chat: str
    installation: str
    since: float


@dataclass(frozen=True)
class Doubled:
    """Two sandboxes of one chat at the same time."""

    chat: str
    pids: tuple[int, int]
    installations: tuple[str, str]
    begun: float
    seconds: float

    def __str__(self) -> str:
        first, second = self.installations
        where = "one worker" if first == second else f"two workers ({first}, {second})"
        return f"{self.chat} had two sandboxes of {where} for {self.seconds:.2f} s, pids {self.pids}"


class Watcher:
    """Looks every 10 ms which chats have sandboxes. Blocking: it is a process of its own.

    `python -m bench.cluster_house INSTALLATION…` prints a line for each pair of sandboxes of one chat when it
    is over, and at SIGTERM how often it looked.
    """

    SETTLED = 30
    """A process that is no keeper after so many looks will be none: it is not read again."""

    def __init__(self, installations: Sequence[str]) -> None:
        self.looks = 0
        self.slowest_s = 0.0
        self.most = 0
        self.keepers: dict[int, Seen] = {}
        self.doubled: list[Doubled] = []
        self._theirs = frozenset(installations)
        self._others: dict[int, int] = {}
        self._pairs: dict[tuple[int, int], tuple[Seen, Seen, float]] = {}

    def look(self) -> None:
        now = time.time()
        self.looks += 1
        pids = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        for pid in self._others.keys() - pids:
            del self._others[pid]
        for pid in [keeper for keeper in self.keepers if keeper not in pids or not self._lives(keeper)]:
            del self.keepers[pid]
        for pid in pids - self.keepers.keys():
            looked = self._others.get(pid, 0)
            if looked < self.SETTLED:
                found = self._keeper(pid, now)
                if found is not None:
                    self.keepers[pid] = found
                else:
                    self._others[pid] = looked + 1
        self._pair(now)
        self.most = max(self.most, len(self.keepers))

    def _lives(self, pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except OSError:
            return False
        return state not in (b"Z", b"X")

    def _keeper(self, pid: int, now: float) -> Seen | None:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            found = KEEPER.search(words)
            if found is None or found[2].decode() not in self._theirs or found[1].startswith(b"probe-"):
                return None
            if Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1] != found[3]:
                return None
        except OSError:
            return None
        return Seen(found[1].decode(), found[2].decode(), now)

    def _pair(self, now: float) -> None:
        by_chat: dict[str, list[int]] = {}
        for pid, keeper in self.keepers.items():
            by_chat.setdefault(keeper.chat, []).append(pid)
        pairs = {
            (first, second)
            for pids in by_chat.values()
            for index, first in enumerate(pids)
            for second in pids[index + 1 :]
        }
        for pair in pairs - self._pairs.keys():
            self._pairs[pair] = (self.keepers[pair[0]], self.keepers[pair[1]], now)
        for pair in self._pairs.keys() - pairs:
            first, second, since = self._pairs.pop(pair)
            both = (first.installation, second.installation)
            self.doubled.append(Doubled(first.chat, pair, both, since, now - since))

    def end(self) -> None:
        """No keeper is there any more, as far as this is concerned."""
        self.keepers.clear()
        self._pair(time.time())


def watch() -> None:
    """The watcher's process."""
    import json

    watcher, told, over = Watcher(sys.argv[1:]), 0, []
    signal.signal(signal.SIGTERM, lambda number, frame: over.append(number))
    while not over:
        began = time.monotonic()
        watcher.look()
        if told < len(watcher.doubled):
            print(json.dumps({"doubled": str(watcher.doubled[told]), "at": watcher.doubled[told].begun}))
            sys.stdout.flush()
            told += 1
        taken = time.monotonic() - began
        watcher.slowest_s = max(watcher.slowest_s, taken)
        time.sleep(max(0.0, 0.01 - taken))
    watcher.end()
    for doubled in watcher.doubled[told:]:
        print(json.dumps({"doubled": str(doubled), "at": doubled.begun}))
    print(json.dumps({"looks": watcher.looks, "slowest_s": watcher.slowest_s, "most": watcher.most}))


if __name__ == "__main__":
    watch()
