"""A world of actors that is driven by a drawn plan and keeps account of everything that happens in it.

`play` runs a plan in virtual time and checks what must hold whatever the plan was. Tests draw plans, and show
that bugs planted in the runtime make a check fail.
"""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import trio
from hypothesis import strategies as st

from actors import (
    Actor,
    ActorCrashed,
    ActorRef,
    ActorStopped,
    ChildSpec,
    DynamicSupervisor,
    MailboxFull,
    NodeStatus,
    Request,
    RestartLimitExceeded,
    Supervisor,
    TooManyChildren,
)
from actors.spec import Overflow, Restart
from actors.supervisor import Strategy
from tests.fakes import virtual_time

SHUTDOWN_S = 4.0
STATIC = ("s0", "s1", "s2")
KEYS = ("k0", "k1")

MessageId = tuple[int, int]
Deed = Literal["return", "sleep", "crash", "sleep and crash", "crash in cleanup", "end", "spawn and crash"]


class Planned(Exception):
    """A crash that the plan asked for."""


@dataclass(frozen=True, slots=True)
class Job(Request[MessageId]):
    """What a handler shall do. The reply is the id."""

    id: MessageId
    deed: Deed
    seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a client does: sleep, or send a job and wait for what the way of sending waits for."""

    way: Literal["tell", "tell_nowait", "ask", "stop key", "sleep"]
    to: str
    deed: Deed
    seconds: float
    patience_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Clients run at the same time, each its steps in order."""

    strategy: Strategy
    restarts: tuple[Restart, ...]
    overflow: Overflow
    capacity: int
    concurrency: int
    max_restarts: int
    within: float
    idle_s: float | None
    start_failures: frozenset[int]
    """Incarnations, from the second on, that fail to start."""
    clients: tuple[tuple[Step, ...], ...]


deeds: st.SearchStrategy[Deed] = st.sampled_from(
    ["return", "sleep", "crash", "sleep and crash", "crash in cleanup", "end", "spawn and crash"]
)
moments = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 10.0])
steps = st.builds(
    Step,
    way=st.sampled_from(["tell", "tell_nowait", "ask", "ask", "stop key", "sleep"]),
    to=st.sampled_from(STATIC + KEYS),
    deed=deeds,
    seconds=moments,
    patience_s=st.none() | moments,
)
restarts: st.SearchStrategy[Restart] = st.sampled_from(["permanent", "transient", "temporary"])
plans = st.builds(
    Plan,
    strategy=st.sampled_from(["one_for_one", "rest_for_one", "one_for_all"]),
    restarts=st.tuples(restarts, restarts, restarts, restarts),
    overflow=st.sampled_from(["wait", "reject"]),
    capacity=st.integers(1, 4),
    concurrency=st.sampled_from([1, 1, 1, 3]),
    max_restarts=st.sampled_from([0, 1, 2, 50]),
    within=st.sampled_from([1.0, 5.0]),
    idle_s=st.none() | st.sampled_from([0.5, 1.0, 3.0]),
    start_failures=st.frozensets(st.integers(2, 5), max_size=2),
    clients=st.lists(st.lists(steps, min_size=1, max_size=8).map(tuple), min_size=1, max_size=4).map(tuple),
)


@dataclass
class Account:
    """What happened."""

    begun: list[tuple[int, str, MessageId]] = field(default_factory=list)
    """Handlers that began: the place (by identity of its reference), its id, the message."""
    working: set[MessageId] = field(default_factory=set)
    taken: set[MessageId] = field(default_factory=set)
    """Tells that were accepted."""
    refused: set[MessageId] = field(default_factory=set)
    asked: set[MessageId] = field(default_factory=set)
    settled: Counter[MessageId] = field(default_factory=Counter)
    wrong_replies: list[tuple[MessageId, object]] = field(default_factory=list)
    left_behind: set[MessageId] = field(default_factory=set)
    """Asks whose asker had left while the handler still worked, although it cleans up quickly."""
    restarts: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Times at which an incarnation after the first was made, for each place."""
    places: dict[int, Any] = field(default_factory=dict)
    """Keeps references alive, so that their identities stay unique."""


class Worker(Actor[Job]):
    def __init__(self, account: Account, plan: Plan) -> None:
        self.account = account
        self.plan = plan

    async def started(self) -> None:
        self.account.places[id(self.ref)] = self.ref
        if self.incarnation > 1:
            self.account.restarts[id(self.ref), self.id].append(trio.current_time())
            if self.incarnation in self.plan.start_failures:
                raise Planned("start")

    async def receive(self, job: Job) -> MessageId:
        self.account.begun.append((id(self.ref), self.id, job.id))
        self.account.working.add(job.id)
        try:
            await self.do(job)
        finally:
            self.account.working.discard(job.id)
        return job.id

    async def do(self, job: Job) -> None:
        match job.deed:
            case "return":
                pass
            case "sleep":
                await trio.sleep(job.seconds)
            case "crash":
                raise Planned("crash")
            case "sleep and crash":
                await trio.sleep(job.seconds)
                raise Planned("crash")
            case "crash in cleanup":
                try:
                    await trio.sleep(job.seconds)
                finally:
                    raise Planned("cleanup")
            case "end":
                self.stop()
            case "spawn and crash":
                self.start_soon(self.crash_soon, job.seconds)

    async def crash_soon(self, seconds: float) -> None:
        await trio.sleep(seconds)
        raise Planned("task")


class World:
    """The tree, its clients, and the account of what they saw."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.account = Account()
        self.root = Supervisor(
            "root", strategy=plan.strategy, max_restarts=plan.max_restarts, within=plan.within
        )
        self.static = {
            key: self.root.add(self.spec(key, restart)) for key, restart in zip(STATIC, plan.restarts, strict=False)
        }
        self.keyed: DynamicSupervisor[Job] = self.root.add_supervisor(
            DynamicSupervisor(
                "keyed",
                lambda key: self.spec(key, plan.restarts[3], plan.idle_s),
                max_restarts=plan.max_restarts,
                within=plan.within,
            )
        )

    def spec(self, id: str, restart: Restart, idle_s: float | None = None) -> ChildSpec[Job]:
        plan = self.plan
        return ChildSpec(
            id,
            lambda: Worker(self.account, plan),
            restart=restart,
            capacity=plan.capacity,
            overflow=plan.overflow,
            shutdown=SHUTDOWN_S,
            concurrency=plan.concurrency,
            idle_s=idle_s,
        )

    async def run(self) -> None:
        try:
            async with self.root.running(), trio.open_nursery() as nursery:
                for number, steps_of_one in enumerate(self.plan.clients):
                    nursery.start_soon(self.client, number, steps_of_one)
        except RestartLimitExceeded:
            pass

    async def client(self, number: int, steps_of_one: tuple[Step, ...]) -> None:
        for place, step in enumerate(steps_of_one):
            try:
                await self.step((number, place), step)
            except (ActorStopped, ActorCrashed, MailboxFull, TooManyChildren, Planned):
                pass

    async def step(self, id: MessageId, step: Step) -> None:
        if step.way == "sleep":
            await trio.sleep(step.seconds)
            return
        if step.way == "stop key":
            await self.keyed.stop(step.to)
            return
        ref = self.static[step.to] if step.to in STATIC else await self.keyed.get_or_start(step.to)
        job = Job(id, step.deed, step.seconds)
        if step.way == "ask":
            await self.ask(ref, job, step.patience_s)
        else:
            await self.tell(ref, job, step)

    async def tell(self, ref: ActorRef[Job], job: Job, step: Step) -> None:
        taken = False
        try:
            if step.way == "tell_nowait":
                ref.tell_nowait(job)
                taken = True
            else:
                with trio.move_on_after(float("inf") if step.patience_s is None else step.patience_s):
                    await ref.tell(job)
                    taken = True
        finally:
            (self.account.taken if taken else self.account.refused).add(job.id)

    async def ask(self, ref: ActorRef[Job], job: Job, patience_s: float | None) -> None:
        account = self.account
        account.asked.add(job.id)
        try:
            with trio.move_on_after(float("inf") if patience_s is None else patience_s):
                reply = await ref.ask(job)
                if reply != job.id:
                    account.wrong_replies.append((job.id, reply))
        except MailboxFull:
            account.refused.add(job.id)
            raise
        finally:
            account.settled[job.id] += 1
            # No handler here takes longer than nothing to clean up.
            if job.id in account.working:
                account.left_behind.add(job.id)


def play(plan: Plan) -> World:
    """Run the plan, check what must hold, and return the world for more checks."""
    world = World(plan)

    async def whole() -> tuple[int, int]:
        before = trio.lowlevel.current_statistics().tasks_living
        await world.run()
        return before, trio.lowlevel.current_statistics().tasks_living

    before, after = virtual_time.run(whole)
    assert after == before, "a task is left when the tree has ended"
    check(world)
    return world


def check(world: World) -> None:
    """What must hold, whatever the plan was."""
    account = world.account
    handled = [message for _, _, message in account.begun]
    twice = [message for message, times in Counter(handled).items() if times > 1]
    assert not twice, f"handled twice: {twice}"
    assert not account.wrong_replies, f"another's reply: {account.wrong_replies}"
    assert set(account.settled) == account.asked, "an ask did not settle"
    assert all(times == 1 for times in account.settled.values()), "an ask settled more than once"
    assert not account.left_behind, f"askers left their work behind: {account.left_behind}"
    assert not account.working, f"handlers are at work after the end: {account.working}"
    refused = account.refused & set(handled)
    assert not refused, f"handled although it was refused: {refused}"
    if world.plan.concurrency == 1:
        check_order(account)
    check_intensity(world)
    lost = len(account.taken - set(handled))
    assert lost == dead_letters(world.root.status()), "tells were lost without being counted"


def check_order(account: Account) -> None:
    """What one client sent to one place begins in the order in which it was sent."""
    last: dict[tuple[int, int], int] = {}
    for place, _, (client, number) in account.begun:
        assert last.get((place, client), -1) < number, f"client {client} was overtaken by itself"
        last[place, client] = number


def check_intensity(world: World) -> None:
    """Where each restart is one child's own, no window holds more of them than allowed."""
    plan = world.plan
    keyed = [times for (_, id), times in world.account.restarts.items() if id in KEYS]
    for times in keyed:
        check_windows(times, plan.max_restarts, plan.within)
    if plan.strategy == "one_for_one":
        static = [times for (_, id), times in world.account.restarts.items() if id in STATIC]
        check_windows(sorted(sum(static, [])), plan.max_restarts, plan.within)


def check_windows(times: list[float], most: int, within: float) -> None:
    for first in times:
        inside = [time for time in times if 0 <= time - first <= within]
        assert len(inside) <= most, f"{len(inside)} restarts within {within} s, {most} are allowed"


def dead_letters(node: NodeStatus) -> int:
    """Of the whole tree."""
    return node.dead_letters + sum(dead_letters(child) for child in node.children)


