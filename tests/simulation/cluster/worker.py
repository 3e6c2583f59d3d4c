"""One worker among others: a process with a lease, its own clock, and its own way to the database."""

from collections.abc import Callable, Collection
from contextlib import suppress
from contextvars import Context
from typing import Any, TypeVar, cast

import outcome
import trio
from telegram.request import RequestData

from actors import ActorRef, ChildSpec
from rumi.chats.budgets.meter import SharedLedger
from rumi.platform.config.schema import StoreSection
from rumi.sandbox.engine import ContainerInfo
from rumi.sandbox.lease import LeaseLostError
from rumi.store.cluster.lease import WorkerLease
from rumi.store.cluster.partitions import Dependents, Drain, Partitioned, Partitions
from rumi.store.journal.leases import join_cluster, renew_lease
from rumi.store.journal.store import JournalError, Store
from rumi.store.ownership import Ownership, partition_of
from rumi.store.steps import Run
from tests.simulation.cluster.database import FakeNotifications, Server, Way
from tests.simulation.cluster.pausing import Gate
from tests.simulation.containers import Box, Client, Daemon
from tests.simulation.ports import Disk, Life, Line, _method
from tests.simulation.process import Process, Setting
from tests.simulation.world import World

R = TypeVar("R")
T = TypeVar("T")

LEASE_S = 12.0
DRAIN_S = 20.0
SKEWS_S = (0.0, 0.0, 0.0, 40.0, -40.0, 4000.0)
"""How wrong the clock of a worker is."""

MOST_SKEW_S = 40.0
"""How wrong it is at most where people set reminders, which come by it."""

SILENT_S = (0.0, 0.0, 0.2, 5.0)
"""How long it takes until a worker knows that nobody answers."""

FINAL = ("sendMessage", "editMessageText", "sendDocument", "sendMessageDraft")

OUTSIDE = Context()
"""In which what is on its way outside of a worker goes on, though the worker is paused."""


class Reach(Disk):
    """Blocking work at the database: where nobody answers, it takes a while to know."""

    def __init__(self, life: Life, way: Way) -> None:
        super().__init__(life)
        self._way = way

    async def __call__(self, work: Callable[[], T]) -> T:
        if self._way.cut and not self._life.dead:
            with trio.CancelScope(shield=True):
                await trio.sleep(self._world.random.choice(SILENT_S))
        return await super().__call__(work)


class Asking:
    """The connection of its own for what concerns workers. One request at a time."""

    def __init__(self, way: Way, life: Life) -> None:
        self._way = way
        self._life = life
        self._store: Store | None = None
        self._one = trio.CapacityLimiter(1)

    async def __call__(self, request: Run[R], /) -> R:
        world, began = self._life.world, False
        async with self._one:
            try:
                await trio.sleep(world.random.choice((0, 0, 0.01, 0.2)))
                if self._way.cut:
                    await trio.sleep(world.random.choice(SILENT_S))
                began = True
                reply = self._do(request)
                await trio.sleep(world.random.choice((0, 0, 0.01)))
            except trio.Cancelled:
                if not began and world.random.random() < 0.5:  # a thread goes on with it
                    with suppress(JournalError):
                        self._do(request)
                raise
        return cast(R, reply)

    def _do(self, request: Run[Any]) -> object:
        if self._life.dead:
            raise JournalError("the process is dead")
        if request.step in (join_cluster, renew_lease):
            self._life.moment("renews")
            if self._life.dead:
                raise JournalError("the process is dead")
        try:
            if self._store is None:
                self._store = Store(self._way, now=None)
            (reply,) = self._store.run([request])
        except JournalError:
            self._store = None
            raise
        if request.step is join_cluster or (request.step is renew_lease and reply is not None):
            worker, lease_s = request.args[0], request.args[3 if request.step is join_cluster else 1]
            self._way.server.leases[worker] = trio.current_time() + lease_s
        return reply


class OwnClient(Client):
    """The daemon of a worker's machine. It may make no box when the worker's lease has ended."""

    def __init__(self, daemon: Daemon, worker: "Worker") -> None:
        super().__init__(daemon)
        self.worker = worker
        self.lease_of: dict[str, str] = {}
        """Under which lease each box was made."""

    async def create(self, chat_id: str, workspace: Any) -> Box:
        self.alive()
        if self.worker.ownership.over:  # as the engines do, by the clock that goes on during a pause
            raise LeaseLostError
        other = self.daemon.live.get(chat_id)
        if other is not None and other.client is not self:
            self.daemon.world.complain(f"{chat_id}: a box is made while another worker has one")
        if not self.worker.ownership.serves(self.worker.partition_key_of(chat_id)):
            self.daemon.world.complain(f"{chat_id}: a box is made by a worker that does not serve it")
        self.lease_of[f"box-{len(self.daemon.made)}"] = self.worker.ownership.worker
        return await super().create(chat_id, workspace)

    async def remove(self, chat_id: str) -> None:
        box = self.daemon.live.get(chat_id)
        if box is not None and box.client is not self:
            self.alive()
            await trio.lowlevel.checkpoint()
            return
        await super().remove(chat_id)

    async def containers(self) -> list[ContainerInfo]:
        mine = {box.id for box in self.daemon.live.values() if box.client is self}
        return [container for container in await super().containers() if container.container_id in mine]


class OwnLine(Line):
    """A line to Telegram: what is on its way arrives, though the worker is paused meanwhile."""

    worker: "Worker"
    setting: Setting

    async def _request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        data: RequestData = kwargs["request_data"]
        if _method(url) in FINAL:
            self.worker.sends(_method(url), data.parameters)
        done = trio.Event()
        scope = trio.CancelScope()
        got: list[outcome.Outcome[tuple[int, bytes]]] = []
        request = super()._request

        async def go() -> None:
            with scope:
                got.append(await outcome.acapture(request, url, *args, **kwargs))
            done.set()

        nursery = cast(Any, self.api).nursery
        OUTSIDE.run(nursery.start_soon, go)
        try:
            await done.wait()
        except trio.Cancelled:
            scope.cancel()
            raise
        return got[0].unwrap()


class Worker:
    """What makes a process a worker. Each life of a worker has its own."""

    def __init__(
        self,
        world: World,
        server: Server,
        name: str,
        sends: Callable[["Worker", str, Any], None],
        partition_key_of: Callable[[str], str],
    ) -> None:
        """`sends` is told of what goes to Telegram: the method and its parameters. `place_of` returns the
        chat whose worker does what concerns a chat, or a task of it.
        """
        self.partition_key_of = partition_key_of
        self.world = world
        self.name = name
        self.gate = Gate()
        self.server = server
        self.backend = Way(server)
        self.ownership = Ownership(now=trio.current_time)
        self.settings = StoreSection(lease_s=LEASE_S, drain_s=DRAIN_S)
        self.skew_s = world.random.choice(SKEWS_S)
        if world.reminders and abs(self.skew_s) > MOST_SKEW_S:
            self.skew_s = 0.0
        self.context: Context | None = None
        self.process: Process
        self.stop: trio.Event
        self.went_on_at = -1.0
        """When it last went on behind a pause, on trio's clock."""
        self._names = 0
        self._sends = sends
        self._ask: Asking
        self._partitions: ActorRef[Drain]

    def now(self) -> float:
        return self.world.now() + self.skew_s

    def disk(self, life: Life) -> Disk:
        return Reach(life, self.backend)

    def client(self, daemon: Daemon) -> Client:
        return OwnClient(daemon, self)

    def line(self, life: Life, setting: Setting) -> Line:
        line = OwnLine(life, setting.api, setting.latency, setting.witness.typing)
        line.worker = self
        return line

    def killed(self) -> None:
        self.backend.dead = True
        self.gate.open()

    def new_name(self) -> str:
        self._names += 1
        return f"{self.name}.{self._names}"

    def add_lease(self, process: Process) -> None:
        self.process = process
        self._ask = Asking(self.backend, process.life)
        process.root.add(
            ChildSpec(
                "lease", lambda: WorkerLease(self._ask, self.ownership, self.settings, new_name=self.new_name)
            )
        )

    def add_partitions(self, process: Process) -> None:
        parts: tuple[Partitioned, ...] = (
            process.telegram,
            process.services.fact_extraction,
            process.inbox.chats,
        )
        if process.tasks is not None:
            parts = (process.telegram, process.services.fact_extraction, process.tasks, process.inbox.chats)

        if process.usage is not None:
            parts = (SharedLedger(process.usage), *parts)
        if process.schedules is not None:
            parts = (*parts, process.schedules)

        async def look(chats: Collection[str] | None) -> None:
            if chats:
                process.telegram.look(tuple(chats))
            await process.inbox.chats.look(chats)
            if process.tasks is not None:
                await process.tasks.look()

        def busy() -> frozenset[int]:
            tasks = () if process.tasks is None else process.tasks.open_tasks().values()
            return process.inbox.chats.busy() | {partition_of(task.partition_key) for task in tasks}

        self._partitions = process.root.add(
            ChildSpec(
                "partitions",
                lambda: Partitions(
                    self._ask,
                    process.journal.ask,
                    self.ownership,
                    self.settings,
                    FakeNotifications(self.backend),
                    Dependents(parts, look, busy),
                ),
            )
        )

    @property
    def partitions(self) -> ActorRef[Drain]:
        """The actor that takes and hands over its partitions."""
        return self._partitions

    async def drain(self) -> None:
        await self._partitions.ask(Drain())

    @property
    def serves_now(self) -> bool:
        """Return True while its lease lasts, by the database."""
        return self.server.leases.get(self.ownership.worker, 0.0) > trio.current_time()

    def sends(self, method: str, parameters: Any) -> None:
        """Something goes to Telegram."""
        self._sends(self, method, parameters)

    def run(self, work: Callable[..., T], *args: Any) -> T:
        """Call a function as the worker would: the tasks that it starts stop at the worker's gate."""
        assert self.context is not None
        return self.context.copy().run(work, *args)
