"""A world of actors that is driven by a drawn plan and keeps account of everything that happens in it.

`play` runs a plan in virtual time and checks what must hold whatever the plan was. Tests draw plans, and show
that bugs planted in the runtime make a check fail.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

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
    StopReason,
    Supervisor,
    TooManyChildren,
    answers,
    testing,
)
from actors.spec import Overflow, Restart
from actors.supervisor import Strategy

SHUTDOWN_S = 4.0
QUIET_S = 1000.0  # longer than all that was asked for can take
CLEANUP_S = 1.0  # less than that, so that an asker who gives up never leaves before the handler
STATIC = ("s0", "s1", "s2")
KEYS = ("k0", "k1")

MessageId = tuple[int, int]
Behaviour = Literal[
    "return",
    "sleep",
    "crash",
    "sleep and crash",
    "crash in cleanup",
    "slow cleanup",
    "end",
    "spawn",
    "spawn and crash",
]


class Planned(Exception):
    """A crash that the plan asked for."""


@dataclass(frozen=True, slots=True)
class Job(Request[MessageId]):
    """What a handler shall do. The reply is the id."""

    id: MessageId
    behaviour: Behaviour
    seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """One thing a client does: sleep, or send a job and wait for what the way of sending waits for."""

    way: Literal["tell", "tell_nowait", "ask", "stop key", "sleep"]
    to: str
    behaviour: Behaviour
    seconds: float
    patience_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """Clients run at the same time, each its steps in order."""

    strategy: Strategy
    restarts: tuple[Restart, ...]
    overflow: Overflow
    capacity: int
    concurrency: Literal[1, 3]
    max_restarts: int
    within: float
    idle_s: float | None
    start_failures: frozenset[int]
    """Incarnations, from the second on, that fail to start."""
    start_s: float
    stop_s: float
    """How long the hooks take."""
    over_after_s: float | None
    """When the whole tree is cancelled."""
    clients: tuple[tuple[Step, ...], ...]


BEHAVIOURS = get_args(Behaviour)
moments = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 10.0])
restarts: st.SearchStrategy[Restart] = st.sampled_from(["permanent", "transient", "temporary"])


def plans(behaviours: Sequence[Behaviour] = BEHAVIOURS, **fixed: Any) -> st.SearchStrategy[Plan]:
    """All plans, or those with these deeds and these fields."""
    steps = st.builds(
        Step,
        way=st.sampled_from(["tell", "tell_nowait", "ask", "ask", "stop key", "sleep"]),
        to=st.sampled_from(STATIC + KEYS),
        behaviour=st.sampled_from(behaviours),
        seconds=moments,
        patience_s=st.none() | moments,
    )
    clients = st.lists(st.lists(steps, min_size=1, max_size=8).map(tuple), min_size=1, max_size=4)
    drawn: dict[str, st.SearchStrategy[Any]] = {
        "strategy": st.sampled_from(["one_for_one", "rest_for_one", "one_for_all"]),
        "restarts": st.tuples(restarts, restarts, restarts, restarts),
        "overflow": st.sampled_from(["wait", "reject"]),
        "capacity": st.integers(1, 4),
        "concurrency": st.sampled_from([1, 1, 1, 3]),
        "max_restarts": st.sampled_from([0, 1, 2, 50]),
        "within": st.sampled_from([1.0, 5.0]),
        "idle_s": st.none() | st.sampled_from([0.5, 1.0, 3.0]),
        "start_failures": st.frozensets(st.integers(2, 5), max_size=2),
        "start_s": st.sampled_from([0.0, 0.0, 1.0]),
        "stop_s": st.sampled_from([0.0, 0.0, 1.0]),
        "over_after_s": st.none() | moments,
        "clients": clients.map(tuple),
    }
    return st.builds(Plan, **(drawn | {name: st.just(value) for name, value in fixed.items()}))


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
    alive: Counter[str] = field(default_factory=Counter)
    """Incarnations that have started and not ended, for each id."""
    twins: set[str] = field(default_factory=set)
    """Ids that had two at once."""
    left_behind: set[MessageId] = field(default_factory=set)
    """Asks whose asker had left while the handler still worked, although it cleans up within `shutdown`."""
    restarts: dict[tuple[int, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Times at which an incarnation after the first was made, for each place."""
    never_idle: tuple[str, ...] = ()
    """Keyed children that were still there long after the last message."""
    refs_by_id: dict[int, Any] = field(default_factory=dict)
    """Keeps references alive, so that their identities stay unique."""


class Worker(Actor[Job]):
    def __init__(self, account: Account, plan: Plan) -> None:
        self.account = account
        self.plan = plan

    async def started(self) -> None:
        account = self.account
        if self.plan.start_s:
            await trio.sleep(self.plan.start_s)
        self.account.refs_by_id[id(self.ref)] = self.ref
        if self.incarnation > 1:
            self.account.restarts[id(self.ref), self.id].append(trio.current_time())
            if self.incarnation in self.plan.start_failures:
                raise Planned("start")
        account.alive[self.id] += 1
        if account.alive[self.id] > 1:
            account.twins.add(self.id)

    async def stopped(self, reason: StopReason) -> None:
        if self.plan.stop_s:
            await trio.sleep(self.plan.stop_s)
        self.account.alive[self.id] -= 1

    @answers(Job)
    async def work(self, job: Job) -> MessageId:
        self.account.begun.append((id(self.ref), self.id, job.id))
        self.account.working.add(job.id)
        try:
            await self.do(job)
        finally:
            self.account.working.discard(job.id)
        return job.id

    async def do(self, job: Job) -> None:
        match job.behaviour:
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
            case "slow cleanup":
                try:
                    await trio.sleep(job.seconds)
                finally:
                    with trio.CancelScope(shield=True):
                        await trio.sleep(CLEANUP_S)
            case "end":
                self.stop()
            case "spawn":
                self.start_soon(trio.sleep_forever)
            case "spawn and crash":
                self.start_soon(self.crash_soon, job.seconds)

    async def crash_soon(self, seconds: float) -> None:
        await trio.sleep(seconds)
        raise Planned("task")


class ManyWorker(Worker):
    concurrency = 3


class World:
    """The tree, its clients, and the account of what they saw."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.account = Account()
        self.root = Supervisor(
            "root", strategy=plan.strategy, max_restarts=plan.max_restarts, within=plan.within
        )
        s0, s1, s2 = (self.spec(key, restart) for key, restart in zip(STATIC, plan.restarts, strict=False))
        self.static = {"s0": self.root.add(s0)}
        nested = self.root.add_supervisor(
            Supervisor("nested", max_restarts=plan.max_restarts, within=plan.within)
        )
        self.static["s2"] = nested.add(s2)
        self.static["s1"] = self.root.add(s1)
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
        kind = Worker if plan.concurrency == 1 else ManyWorker
        return ChildSpec(
            id,
            lambda: kind(self.account, plan),
            restart=restart,
            capacity=plan.capacity,
            overflow=plan.overflow,
            shutdown=SHUTDOWN_S,
            idle_s=idle_s,
        )

    async def run(self) -> None:
        try:
            over_after_s = float("inf") if self.plan.over_after_s is None else self.plan.over_after_s
            with trio.move_on_after(over_after_s):
                async with self.root.running():
                    async with trio.open_nursery() as nursery:
                        for number, steps_of_one in enumerate(self.plan.clients):
                            nursery.start_soon(self.client, number, steps_of_one)
                    if self.plan.idle_s is not None:
                        await trio.sleep(QUIET_S)
                        self.account.never_idle = self.keyed.keys()
        except RestartLimitExceeded:
            pass

    async def client(self, number: int, steps_of_one: tuple[Step, ...]) -> None:
        for index, step in enumerate(steps_of_one):
            with suppress(ActorStopped, ActorCrashed, MailboxFull, TooManyChildren, Planned):
                await self.step((number, index), step)

    async def step(self, id: MessageId, step: Step) -> None:
        if step.way == "sleep":
            await trio.sleep(step.seconds)
            return
        if step.way == "stop key":
            await self.keyed.stop(step.to)
            return
        ref = self.static[step.to] if step.to in STATIC else await self.keyed.get_or_start(step.to)
        job = Job(id, step.behaviour, step.seconds)
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
        answered = False
        try:
            with trio.move_on_after(float("inf") if patience_s is None else patience_s):
                reply = await ref.ask(job)
                answered = True
                if reply != job.id:
                    account.wrong_replies.append((job.id, reply))
        finally:
            account.settled[job.id] += 1
            if job.id in account.working:
                account.left_behind.add(job.id)
            if not answered and all(id != job.id for _, _, id in account.begun):
                account.refused.add(
                    job.id
                )  # whatever the reason: nobody waits for it, so nobody may begin it


def play(plan: Plan) -> World:
    """Run the plan, check what must hold, and return the world for more checks."""
    world = World(plan)

    async def whole() -> tuple[int, int]:
        before = trio.lowlevel.current_statistics().tasks_living
        await world.run()
        return before, trio.lowlevel.current_statistics().tasks_living

    before, after = testing.run(whole)
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
    assert not account.twins, f"two incarnations at once: {account.twins}"
    assert not +account.alive, f"did not stop: {+account.alive}"
    assert not account.never_idle, f"did not go idle: {account.never_idle}"
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
    for ref_id, _, (client, number) in account.begun:
        assert last.get((ref_id, client), -1) < number, f"client {client} was overtaken by itself"
        last[ref_id, client] = number


def check_intensity(world: World) -> None:
    """Where each restart is one child's own, no window holds more of them than allowed."""
    plan = world.plan
    if plan.strategy != "one_for_one":
        return  # there, most new incarnations are a sibling's fault
    restarts = world.account.restarts
    for (_, id), times in restarts.items():
        if id in KEYS:
            check_restart_windows(times, plan.max_restarts, plan.within)
    # Not s2: it also starts over with its supervisor.
    static = [time for (_, id), times in restarts.items() if id in ("s0", "s1") for time in times]
    check_restart_windows(sorted(static), plan.max_restarts, plan.within)


def check_restart_windows(times: list[float], most: int, within: float) -> None:
    for first in times:
        inside = [time for time in times if 0 <= time - first <= within]
        assert len(inside) <= most, f"{len(inside)} restarts within {within} s, {most} are allowed"


def dead_letters(node: NodeStatus) -> int:
    """Of the whole tree."""
    return node.dead_letters + sum(dead_letters(child) for child in node.children)
