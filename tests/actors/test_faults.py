"""Faults at the worst moments: cancellation at every single step, crashes in every hook, slow stops."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
import trio
import trio.testing

from actors import (
    ActorCrashed,
    ActorStopped,
    ChildSpec,
    DynamicSupervisor,
    Request,
    RestartLimitExceeded,
    Supervisor,
    testing,
)
from actors.testing import cancelled_at
from tests.fakes.actors import Any_, Broken, Crash, Do, Echo, End, House, Note, Probe, Script, Work

R = TypeVar("R")


class Tree:
    """One static child that crashes when told to, and keyed ones."""

    def __init__(self) -> None:
        self.root = Supervisor("root", strategy="rest_for_one", max_restarts=1000)
        self.house = House(self.root)
        self.ref = self.house.add("a", Script(start_s=0.1, stop_s=0.1), capacity=1)
        self.keyed: DynamicSupervisor[Any_] = self.root.add_supervisor(
            DynamicSupervisor("keyed", lambda key: self.house.spec(key, Script(start_s=0.1, stop_s=0.1)))
        )


async def ask(tree: Tree) -> None:
    assert await tree.ref.ask(Work(0.1, cleanup_s=0.1)) == "done"


async def ask_while_full(tree: Tree) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(tree.ref.ask, Work(0.1))
        await tree.ref.ask(Work(0.1))


async def ask_over_a_crash(tree: Tree) -> None:
    with pytest.raises(ActorCrashed):
        await tree.ref.ask(Crash(after_s=0.1))


async def tell_while_full(tree: Tree) -> None:
    await tree.ref.tell(Work(0.1))
    for number in range(5):
        await tree.ref.tell(Note(number))


async def get_or_start(tree: Tree) -> None:
    ref = await tree.keyed.get_or_start("k")
    assert await ref.ask(Echo(1)) == 1


async def stop_and_start_again(tree: Tree) -> None:
    await tree.keyed.get_or_start("k")
    await tree.keyed.stop("k")
    await tree.keyed.get_or_start("k")


async def wait_stopped(tree: Tree) -> None:
    ref = await tree.keyed.get_or_start("k")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tree.keyed.stop, "k")
        assert await ref.wait_stopped() == "stopped"


async def crash_and_get_or_start(tree: Tree) -> None:
    await tree.keyed.get_or_start("k")
    await tree.ref.tell(Crash())
    await trio.testing.wait_all_tasks_blocked()
    await tree.keyed.get_or_start("l")


@pytest.mark.parametrize(
    "work",
    [
        ask,
        ask_while_full,
        ask_over_a_crash,
        tell_while_full,
        get_or_start,
        stop_and_start_again,
        wait_stopped,
        crash_and_get_or_start,
    ],
)
async def test_a_call_may_be_cancelled_at_every_step(work: Callable[[Tree], Awaitable[None]]) -> None:
    steps = 0
    done = False
    while not done:
        tree = Tree()
        before = trio.lowlevel.current_statistics().tasks_living
        async with tree.house.up():
            done = await cancelled_at(steps, lambda: work(tree))  # noqa: B023
            # Whatever was cancelled where: everybody is there and answers, and nothing is left in hand.
            assert await tree.ref.ask(Echo("fine")) == "fine"
            assert tree.ref.statistics().senders_waiting == 0
            ref = await tree.keyed.get_or_start("k")
            assert await ref.ask(Echo("fine")) == "fine"
            assert len(tree.house.said("work begins")) == len(tree.house.said("work ends", "work cancelled"))
        assert trio.lowlevel.current_statistics().tasks_living == before
        steps += 1
    assert steps > 2


async def test_a_tree_may_be_cancelled_at_every_step() -> None:
    steps = 0
    done = False
    while not done:
        tree = Tree()
        before = trio.lowlevel.current_statistics().tasks_living

        async def life() -> None:
            async with tree.root.running():  # noqa: B023
                await ask(tree)  # noqa: B023
                await get_or_start(tree)  # noqa: B023
                await tree.ref.tell(Crash())  # noqa: B023
                await trio.sleep(0.01)

        done = await cancelled_at(steps, life)
        # Whoever has started has stopped, and no task is left.
        log = tree.house.log
        assert len(tree.house.said("started")) == len(tree.house.said("stopped ends")), log
        assert trio.lowlevel.current_statistics().tasks_living == before
        with pytest.raises(ActorStopped):
            await tree.ref.tell(Note("late"))
        assert steps == 0 or await tree.ref.wait_stopped() in ("stopped", "crashed")
        steps += 1
    assert steps > 8


@pytest.mark.parametrize("hook", ["factory", "started", "receive", "stopped", "task", "busy", "doing"])
@pytest.mark.parametrize("strategy", ["one_for_one", "rest_for_one", "one_for_all"])
async def test_a_crash_in_any_hook_leaves_the_siblings_at_work(hook: str, strategy: Any) -> None:
    class Fragile(Probe):
        """Its second incarnation breaks in the hook."""

        def breaks(self, here: str) -> None:
            if here == hook and self.incarnation == 2:
                raise Broken(here)

        async def started(self) -> None:
            self.breaks("started")
            self.start_soon(self.task)

        async def task(self) -> None:
            self.breaks("task")

        async def receive(self, message: Any_) -> None:
            self.breaks("receive")
            await super().receive(message)

        async def answer(self, message: Request[R]) -> R:
            self.breaks("receive")
            return await super().answer(message)

        async def stopped(self, reason: object) -> None:
            self.breaks("stopped")

        def busy(self) -> bool:
            self.breaks("busy")
            return True

        def activity(self) -> str:
            self.breaks("doing")
            return ""

    made = 0
    log: list[tuple[Any, ...]] = []

    def factory() -> Probe:
        nonlocal made
        made += 1
        if hook == "factory" and made == 2:
            raise Broken("factory")
        return Fragile(log)

    root = Supervisor("root", strategy=strategy)
    house = House(root)
    sibling = house.add("sibling")
    static = root.add(ChildSpec("static", factory))
    async with house.up():
        for message in (Crash(), Note(1), Crash(), Note(2)):
            await static.tell(message)
        root.status()
        assert await sibling.ask(Echo(1)) == 1
        await trio.testing.wait_all_tasks_blocked()
        assert await static.ask(Echo(2)) == 2
        assert house.node("static").incarnation >= 3


async def test_stops_slower_than_shutdown_are_cut_off_one_after_the_other() -> None:
    house = House()
    slow = [house.add(id, Script(stop_s=100), shutdown=2.0) for id in "abc"]
    begun = trio.current_time()
    async with house.up():
        for ref in slow:
            await ref.tell(Work(100))
        await trio.testing.wait_all_tasks_blocked()
    # Each: two seconds for the message in hand, two for the hook.
    assert trio.current_time() - begun == 12
    assert [line[0] for line in house.said("work cancelled")] == ["c", "b", "a"]


async def test_a_handler_that_will_not_go_is_waited_for_but_its_asker_leaves() -> None:
    """No task can be killed: a handler that shields itself holds the tree, not those who asked."""
    house = House()
    ref = house.add("a", shutdown=2.0)
    begun = trio.current_time()
    async with house.up():
        with trio.move_on_after(1):
            await ref.ask(Work(1000, cleanup_s=100))
        assert trio.current_time() - begun == 3
    assert trio.current_time() - begun == 101


async def test_a_crash_while_the_tree_stops_is_logged_and_counts_for_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House(max_restarts=0)
    house.add("a")
    ref = house.add("b")
    async with house.up():
        await ref.tell(Crash(after_s=1))
        await trio.testing.wait_all_tasks_blocked()
    assert await ref.wait_stopped() == "crashed"
    assert house.node("b").incarnation == 1
    assert "root/b crashed: Broken: told to" in caplog.text


async def test_a_group_of_errors_is_the_cause_as_it_is() -> None:
    house = House()
    ref = house.add("a")

    async def two(probe: Probe) -> None:
        raise ExceptionGroup("both", [Broken("1"), ValueError("2")])

    async with house.up():
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(Do(two))
        assert isinstance(caught.value.__cause__, ExceptionGroup)
        assert len(caught.value.__cause__.exceptions) == 2


async def test_two_tasks_that_crash_at_once_are_one_crash(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    ref = house.add("a")

    at_once = trio.Event()

    async def breaks(number: int) -> None:
        await at_once.wait()
        raise Broken(str(number))

    async def starts(probe: Probe) -> None:
        probe.start_soon(breaks, 1)
        probe.start_soon(breaks, 2)

    async with house.up():
        await ref.ask(Do(starts))
        await trio.testing.wait_all_tasks_blocked()
        at_once.set()
        await trio.testing.wait_all_tasks_blocked()
        assert house.node("a").restarts == 1
    assert caplog.text.count("root/a crashed") == 1
    assert caplog.text.count("cleanup after a cancellation raised Broken") == 1


async def test_a_limit_reached_while_the_body_fails_says_both() -> None:
    house = House(max_restarts=0)
    ref = house.add("a")
    with pytest.raises(RestartLimitExceeded) as caught:
        async with house.up():
            await ref.tell(Crash())
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                raise ValueError("of the body") from None
    assert caught.value.__notes__ == ["Meanwhile the body had raised ValueError: of the body"]


async def test_an_actor_that_stops_itself_while_it_is_stopped_says_stopped_once() -> None:
    house = House()
    ref = house.add("a", restart="transient")
    async with house.up():
        ref.tell_nowait(Work(1))
        ref.tell_nowait(End())
        await trio.testing.wait_all_tasks_blocked()
    assert len(house.said("stopped")) == 1


def test_a_hang_is_seen_even_behind_a_shield() -> None:
    """Of the tests' own watchdog: without it, a hang in a shielded part would hang the tests."""

    async def hangs() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep_forever()

    with pytest.raises(trio.TooSlowError):
        testing.run(hangs)
