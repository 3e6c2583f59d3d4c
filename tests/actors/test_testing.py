"""What tests of actors get from actors.testing."""

import pytest
import trio
import trio.testing

from actors import ActorCrashed, Backoff, ChildSpec, RestartLimitExceeded, Supervisor
from actors.testing import Injected, Tree, cancelled_at, crash, crashes_until_the_end, run
from tests.fakes.actors import Any_, Echo, Note, Probe, Work


def spec(id: str, log: list[tuple[object, ...]]) -> ChildSpec[Any_]:
    return ChildSpec(id, lambda: Probe(log))


async def test_an_injected_crash_drops_the_message_in_hand_and_tells_its_asker() -> None:
    log: list[tuple[object, ...]] = []
    tree = Tree()
    ref = tree.add(spec("a", log))
    error = RuntimeError("injected")
    caught: list[BaseException | None] = []

    async def asks() -> None:
        with pytest.raises(ActorCrashed) as crashed:
            await ref.ask(Work(100))
        caught.append(crashed.value.__cause__)

    async with tree.up(), trio.open_nursery() as nursery:
        nursery.start_soon(asks)
        await trio.testing.wait_all_tasks_blocked()
        ref.tell_nowait(Note("waits"))
        crash(ref, error)
        await trio.testing.wait_all_tasks_blocked()
        assert caught == [error]
        assert tree.node("a").incarnation == 2
        assert [line[1:] for line in log if line[2] == "note"] == [(2, "note", "waits")]
        assert (tree.paths_of("crashed"), tree.paths_of("restarted")) == (["root/a"], ["root/a"])


async def test_an_idle_actor_may_be_crashed_and_one_that_is_not_up_may_not() -> None:
    tree = Tree()
    ref = tree.add(spec("a", []))
    with pytest.raises(RuntimeError, match="a is not up"):
        crash(ref)
    async with tree.up():
        crash(ref)
        await trio.testing.wait_all_tasks_blocked()
        assert tree.node("a").last_error == f"{Injected.__name__}: a test's"
        assert await ref.ask(Echo(1)) == 1
    with pytest.raises(RuntimeError, match="a is not up"):
        crash(ref)


async def test_a_node_that_is_not_there_is_a_lookup_error() -> None:
    with pytest.raises(LookupError, match="root has no child b"):
        Tree().node("b")


def test_an_hour_takes_no_time_and_a_tree_that_hangs_is_too_slow() -> None:
    async def hour() -> float:
        begun = trio.current_time()
        await trio.sleep(3600)
        return trio.current_time() - begun

    async def hangs() -> None:
        async with Tree().up(within_s=3600):
            await trio.sleep_forever()

    assert run(hour) == 3600
    with pytest.raises(trio.TooSlowError):
        run(hangs)


async def test_every_step_of_some_work_can_be_cancelled() -> None:
    begun: list[int] = []

    async def work() -> None:
        for number in range(3):
            begun.append(number)
            await trio.lowlevel.checkpoint()

    step = 0
    while not await cancelled_at(step, work):
        step += 1
    assert step == 4
    assert begun == [0, 0, 0, 1, 0, 1, 2, 0, 1, 2]


async def test_restart_limits_multiply_over_the_levels_above_an_actor() -> None:
    tree = Tree(max_restarts=2)
    shallow = tree.add(spec("shallow", []))
    nested = tree.root.add_supervisor(Supervisor("nested", max_restarts=3))
    deep = nested.add(spec("deep", []))
    assert crashes_until_the_end(tree.root) == {shallow.path: 3, deep.path: 12}
    crashes = 0
    with pytest.raises(RestartLimitExceeded):
        async with tree.up():
            while True:
                crash(deep)
                crashes += 1
                await trio.testing.wait_all_tasks_blocked()
    assert crashes == 12


async def test_a_backoff_may_keep_an_actor_from_ever_ending_its_tree() -> None:
    tree = Tree(max_restarts=3, within=5.0)
    backoff = Backoff(first_s=1, factor=2, cap_s=10)
    ref = tree.add(ChildSpec("a", lambda: Probe([]), backoff=backoff))
    assert crashes_until_the_end(tree.root) == {ref.path: None}
    async with tree.up():
        for _ in range(50):
            crash(ref)
            await trio.sleep(10.5)
    assert len(tree.paths_of("crashed")) == 50
