"""What supervisors do after every kind of end, for every kind of child and every strategy."""

from contextlib import suppress
from typing import Literal

import pytest
import trio
import trio.testing

from actors import ActorStopped, Backoff, RestartLimitExceeded, Supervisor, TreeEvent
from actors.spec import Restart
from actors.supervisor import Strategy
from tests.fakes.actors import Broken, Crash, Do, Echo, End, House, Note, Probe, Script, Work

Ending = Literal["normal", "crashed"]
STRATEGIES: list[Strategy] = ["one_for_one", "rest_for_one", "one_for_all"]
RESTARTS: list[Restart] = ["permanent", "transient", "temporary"]


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


def restarts_after(ending: Ending, restart: Restart) -> bool:
    return restart == "permanent" or (restart == "transient" and ending == "crashed")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("restart", RESTARTS)
@pytest.mark.parametrize("ending", ["normal", "crashed"])
async def test_who_restarts_after_which_end(ending: Ending, restart: Restart, strategy: Strategy) -> None:
    house = House(strategy=strategy)
    house.add("above")
    ref = house.add("child", restart=restart)
    house.add("below")
    async with house.up():
        await ref.tell(End() if ending == "normal" else Crash())
        await settle()
        again = restarts_after(ending, restart)
        incarnations = {child.id: child.incarnation for child in house.root.status().children}
        assert incarnations == {
            "above": 2 if again and strategy == "one_for_all" else 1,
            "child": 2 if again else 1,
            "below": 2 if again and strategy != "one_for_one" else 1,
        }
        assert house.node("child").state == ("running" if again else "stopped")
        assert house.node("child").restarts == (1 if again else 0)
        if again:
            assert await ref.ask(Echo(1)) == 1
        else:
            assert await ref.wait_stopped() == ending


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("restart", RESTARTS)
async def test_a_child_stopped_by_its_supervisor_never_restarts(restart: Restart, strategy: Strategy) -> None:
    house = House(strategy=strategy)
    ref = house.add("child", restart=restart)
    async with house.up():
        pass
    assert await ref.wait_stopped() == "stopped"
    assert house.log == [("child", 1, "started"), ("child", 1, "stopped", "stopped")]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("restart", RESTARTS)
async def test_a_failure_to_start_goes_to_the_caller_that_runs_the_tree(
    restart: Restart, strategy: Strategy
) -> None:
    error = Broken("cannot")
    house = House(strategy=strategy)
    house.add("first")
    house.add("second")
    house.add("child", Script(start_errors={1: error}), restart=restart)
    house.add("never")
    with pytest.raises(Broken) as caught:
        async with house.up():
            pytest.fail("the body ran")
    assert caught.value is error
    assert house.log == [
        ("first", 1, "started"),
        ("second", 1, "started"),
        ("child", 1, "cannot start"),
        ("second", 1, "stopped", "stopped"),
        ("first", 1, "stopped", "stopped"),
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("restart", ["permanent", "transient"])
async def test_a_failure_to_start_again_counts_as_a_restart(restart: Restart, strategy: Strategy) -> None:
    house = House(strategy=strategy, max_restarts=3)
    ref = house.add("child", Script(start_errors={2: Broken("2"), 3: Broken("3")}), restart=restart)
    async with house.up():
        await ref.tell(Crash())
        assert await ref.ask(Echo(1)) == 1
        assert house.node("child").incarnation == 4
        assert house.node("child").restarts == 3
        assert house.node("child").last_error == "Broken: 3"


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_failures_to_start_again_reach_the_limit(strategy: Strategy) -> None:
    house = House(strategy=strategy, max_restarts=2)
    errors: dict[int, BaseException] = {number: Broken(str(number)) for number in range(2, 9)}
    ref = house.add("child", Script(start_errors=errors))
    with pytest.raises(RestartLimitExceeded) as caught:
        async with house.up():
            await ref.tell(Crash())
            await trio.sleep_forever()
    assert caught.value.__cause__ is errors[3]
    assert await ref.wait_stopped() in ("crashed", "stopped")


async def test_a_factory_that_raises_is_a_failure_to_start() -> None:
    root = Supervisor("root")

    def factory() -> Probe:
        raise Broken("no actor")

    from actors import ChildSpec

    root.add(ChildSpec("child", factory))
    with pytest.raises(Broken, match="no actor"):
        async with root.running():
            pytest.fail("the body ran")


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_as_many_restarts_as_allowed_and_one_more(strategy: Strategy) -> None:
    house = House(strategy=strategy, max_restarts=3, within=5.0)
    ref = house.add("child")
    crashes = 0
    with pytest.raises(RestartLimitExceeded) as caught:
        async with house.up():
            for _ in range(5):
                await ref.tell(Crash())
                await settle()
                crashes += 1
            pytest.fail("the body went on")
    assert crashes == 3
    assert caught.value.max_restarts == 3
    assert isinstance(caught.value.__cause__, Broken)


async def test_restarts_that_are_far_apart_are_never_too_many() -> None:
    house = House(max_restarts=1, within=5.0)
    ref = house.add("child")
    async with house.up():
        for _ in range(10):
            await ref.tell(Crash())
            await trio.sleep(5.01)
        assert house.node("child").incarnation == 11


async def test_restarts_of_different_children_share_one_budget() -> None:
    house = House(max_restarts=1)
    a, b = house.add("a"), house.add("b")
    with pytest.raises(RestartLimitExceeded):
        async with house.up():
            await a.tell(Crash())
            await settle()
            await b.tell(Crash())
            await trio.sleep_forever()


async def test_the_body_is_cancelled_at_the_limit_and_children_stop_in_reverse_order() -> None:
    house = House(max_restarts=0)
    house.add("a")
    house.add("b")
    ref = house.add("c")
    cancelled = False
    with pytest.raises(RestartLimitExceeded):
        async with house.up():
            await ref.tell(Crash())
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                cancelled = True
                raise
    assert cancelled
    assert house.said("stopped") == [
        ("c", 1, "stopped", "crashed"),
        ("b", 1, "stopped", "stopped"),
        ("a", 1, "stopped", "stopped"),
    ]


async def test_children_start_in_order_and_stop_in_reverse_one_after_the_other() -> None:
    house = House()
    for id in "abc":
        house.add(id, Script(start_s=1, stop_s=1))
    async with house.up():
        pass
    assert house.log == [
        ("a", 1, "started"),
        ("b", 1, "started"),
        ("c", 1, "started"),
        ("c", 1, "stopped", "stopped"),
        ("c", 1, "stopped ends"),
        ("b", 1, "stopped", "stopped"),
        ("b", 1, "stopped ends"),
        ("a", 1, "stopped", "stopped"),
        ("a", 1, "stopped ends"),
    ]


async def test_they_stop_in_that_order_also_when_the_body_is_cancelled() -> None:
    house = House()
    for id in "abc":
        house.add(id, Script(stop_s=1))
    with trio.move_on_after(5) as scope:
        async with house.up():
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert [line[0] for line in house.said("stopped ends")] == ["c", "b", "a"]


async def test_an_error_of_the_body_stops_the_tree_and_comes_out_as_it_is() -> None:
    house = House()
    house.add("a")
    error = Broken("in the body")
    with pytest.raises(Broken) as caught:
        async with house.up():
            raise error
    assert caught.value is error
    assert house.said("stopped") == [("a", 1, "stopped", "stopped")]


async def test_a_system_exit_of_the_body_comes_out_as_it_is() -> None:
    house = House()
    house.add("a")
    with pytest.raises(SystemExit):
        async with house.up():
            raise SystemExit(3)


async def test_a_keyboard_interrupt_in_a_handler_stops_the_tree_in_order_and_comes_out() -> None:
    house = House()
    house.add("a", Script(stop_s=1))
    ref = house.add("b", Script(stop_s=1))
    with pytest.raises(KeyboardInterrupt):
        async with house.up():
            await ref.tell(Crash(KeyboardInterrupt()))
            await trio.sleep_forever()
    assert [line[0] for line in house.said("stopped ends")] == ["b", "a"]


async def test_a_cancelled_start_stops_what_is_up() -> None:
    house = House()
    house.add("a")
    house.add("b", Script(start_s=100))
    begun = trio.current_time()
    with trio.move_on_after(1):
        async with house.up():
            pytest.fail("the body ran")
    assert trio.current_time() - begun == 1
    assert house.log == [("a", 1, "started"), ("a", 1, "stopped", "stopped")]


async def test_the_message_in_hand_may_finish_within_shutdown() -> None:
    house = House()
    ref = house.add("a", shutdown=5.0)
    begun = trio.current_time()
    async with house.up():
        await ref.tell(Work(4))
        await ref.tell(Note("queued"))
        await settle()
    assert trio.current_time() - begun == 4
    assert house.said("work ends", "work cancelled", "note") == [("a", 1, "work ends")]
    assert ref.statistics().dead_letters == 1


async def test_a_message_that_takes_longer_than_shutdown_is_cancelled() -> None:
    house = House()
    ref = house.add("a", shutdown=5.0)
    begun = trio.current_time()
    async with house.up():
        await ref.tell(Work(60))
        await settle()
    assert trio.current_time() - begun == 5
    assert house.said("work cancelled", "stopped") == [
        ("a", 1, "work cancelled"),
        ("a", 1, "stopped", "stopped"),
    ]


async def test_the_stopped_hook_is_shielded_and_bounded_by_shutdown() -> None:
    house = House()
    house.add("a", Script(stop_s=60), shutdown=5.0)
    begun = trio.current_time()
    with trio.move_on_after(1):
        async with house.up():
            await trio.sleep_forever()
    assert trio.current_time() - begun == 6
    assert house.said("stopped ends") == []


async def test_an_infinite_shutdown_waits() -> None:
    house = House()
    ref = house.add("a", shutdown=float("inf"))
    async with house.up():
        await ref.tell(Work(10_000))
        await settle()
    assert house.said("work ends")


async def test_temporary_children_stopped_by_a_siblings_crash_stay_stopped() -> None:
    house = House(strategy="one_for_all")
    a = house.add("a")
    b = house.add("b", restart="temporary")
    async with house.up():
        await a.tell(Crash())
        assert await b.wait_stopped() == "stopped"
        await settle()
        assert house.node("a").incarnation == 2
        assert house.node("b").state == "stopped"


async def test_siblings_keep_their_mailboxes_through_a_group_restart() -> None:
    house = House(strategy="rest_for_one")
    a = house.add("a")
    b = house.add("b", shutdown=1.0)
    async with house.up():
        await b.tell(Work(60))
        await b.tell(Note("kept"))
        await settle()
        await a.tell(Crash())
        assert await b.ask(Echo(1)) == 1
    assert house.said("note") == [("b", 2, "note", "kept")]
    assert ("b", 1, "work cancelled") in house.log


async def test_a_crash_while_a_sibling_restarts_is_seen() -> None:
    """`a` crashes while `b`, which depends on it, is being started again after a crash of its own."""
    house = House(strategy="rest_for_one")
    a = house.add("a")
    b = house.add("b", Script(start_s=10))
    async with house.up():
        await b.tell(Crash())
        await trio.sleep(5)
        assert house.node("b").state == "starting"
        await a.tell(Crash())
        assert await b.ask(Echo(1)) == 1
        assert house.node("a").incarnation == 2
        assert house.node("b").incarnation == 3
    assert house.log[:6] == [
        ("a", 1, "started"),
        ("b", 1, "started"),
        ("b", 1, "crash"),
        ("b", 1, "stopped", "crashed"),
        ("a", 1, "crash"),
        ("a", 1, "stopped", "crashed"),
    ]


async def test_a_crash_of_a_child_while_the_tree_starts_does_not_hang_it() -> None:
    """`b` needs `a` to start, and `a` crashes over it: both are started again, in order."""
    house = House(strategy="rest_for_one")
    a = house.add("a")

    class Needs(Probe):
        async def started(self) -> None:
            if self.incarnation == 1:
                await a.tell(Crash())
                await a.ask(Echo("too late"))
                await a.ask(Work(0))
            self.say("started")

    from actors import ChildSpec

    assert isinstance(house.root, Supervisor)
    house.root.add(ChildSpec("b", lambda: Needs(house.log)))
    async with house.up():
        assert house.node("a").incarnation == 2
        assert house.node("b").incarnation == 2


async def test_two_crashes_at_once_are_one_group_restart() -> None:
    house = House(strategy="one_for_all")
    a, b = house.add("a"), house.add("b")
    async with house.up():
        a.tell_nowait(Crash())
        b.tell_nowait(Crash())
        await settle()
        assert (house.node("a").incarnation, house.node("b").incarnation) == (2, 2)


async def test_an_escalated_limit_is_a_crash_of_the_nested_supervisor() -> None:
    root = Supervisor("root", strategy="rest_for_one")
    house = House(root)
    house.add("above")
    nested = root.add_supervisor(Supervisor("nested", max_restarts=1))
    ref = nested.add(house.spec("child"))
    house.add("below")
    async with house.up():
        await ref.tell(Note(1))
        for _ in range(2):
            await ref.tell(Crash())
        await ref.tell(Note(2))
        assert await ref.ask(Echo(1)) == 1
        await settle()
        assert house.node("above").incarnation == 1
        assert house.node("nested").incarnation == 2
        assert house.node("nested").last_error is not None
        assert house.node("nested", "child").incarnation == 3
        assert house.node("below").incarnation == 2
    # The same reference, and what was queued for it was kept.
    assert house.said("note") == [("child", 1, "note", 1), ("child", 3, "note", 2)]
    assert house.said("stopped")[-3:] == [
        ("below", 2, "stopped", "stopped"),
        ("child", 3, "stopped", "stopped"),
        ("above", 1, "stopped", "stopped"),
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_nested_limit_applies_the_parents_strategy(strategy: Strategy) -> None:
    root = Supervisor("root", strategy=strategy)
    house = House(root)
    house.add("above")
    nested = root.add_supervisor(Supervisor("nested", max_restarts=0))
    ref = nested.add(house.spec("child"))
    house.add("below")
    async with house.up():
        await ref.tell(Crash())
        await ref.ask(Echo(1))
        await settle()
        incarnations = [child.incarnation for child in root.status().children]
        assert (
            incarnations
            == {
                "one_for_one": [1, 2, 1],
                "rest_for_one": [1, 2, 2],
                "one_for_all": [2, 2, 2],
            }[strategy]
        )


async def test_limits_escalate_to_the_root() -> None:
    root = Supervisor("root", max_restarts=1)
    nested = root.add_supervisor(Supervisor("nested", max_restarts=0))
    house = House(root)
    ref = nested.add(house.spec("child"))
    with pytest.raises(RestartLimitExceeded) as caught:
        async with house.up():
            await ref.tell(Crash())
            await ref.ask(Echo("second life"))
            await ref.tell(Crash())
            await trio.sleep_forever()
    assert caught.value.path == "root"
    assert isinstance(caught.value.__cause__, RestartLimitExceeded)
    assert caught.value.__cause__.path == "root/nested"
    assert isinstance(caught.value.__cause__.__cause__, Broken)


async def test_a_nested_supervisor_that_cannot_start_again_counts_for_its_parent() -> None:
    root = Supervisor("root", max_restarts=3)
    nested = root.add_supervisor(Supervisor("nested", max_restarts=0))
    house = House(root)
    ref = nested.add(house.spec("child", Script(start_errors={2: Broken("2")})))
    async with house.up():
        await ref.tell(Crash())
        assert await ref.ask(Echo(1)) == 1
        assert house.node("nested").incarnation == 3
        assert house.node("nested").restarts == 2


async def test_backoff_waits_longer_each_time_up_to_its_cap() -> None:
    house = House(max_restarts=100)
    ref = house.add("a", backoff=Backoff(first_s=1, factor=2, cap_s=5))
    pauses: list[float] = []
    async with house.up():
        for _ in range(5):
            await ref.tell(Crash())
            before = trio.current_time()
            await ref.ask(Echo(1))
            pauses.append(trio.current_time() - before)
        await trio.sleep(5)
        await ref.tell(Crash())
        before = trio.current_time()
        await ref.ask(Echo(1))
        pauses.append(trio.current_time() - before)
    assert pauses == [1, 2, 4, 5, 5, 1]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_stop_does_not_wait_for_a_backoff(strategy: Strategy) -> None:
    house = House(strategy=strategy)
    ref = house.add("a", backoff=Backoff(first_s=1000, cap_s=1000))
    house.add("b")
    begun = trio.current_time()
    async with house.up():
        await ref.tell(Crash())
        await trio.sleep(1)
        assert house.node("a").state in ("restarting", "suspended")
    assert trio.current_time() - begun == 1
    assert await ref.wait_stopped() in ("stopped", "crashed")


async def test_backoff_delays_a_group_restart() -> None:
    house = House(strategy="one_for_all")
    ref = house.add("a", backoff=Backoff(first_s=10))
    house.add("b")
    async with house.up():
        await ref.tell(Crash())
        before = trio.current_time()
        await ref.ask(Echo(1))
        assert trio.current_time() - before == 10


async def test_tasks_of_an_actor_end_with_its_incarnation() -> None:
    house = House()
    ref = house.add("a")

    async def forever(probe: Probe) -> None:
        try:
            await trio.sleep_forever()
        finally:
            probe.say("task ends")

    async def starts(probe: Probe) -> None:
        probe.start_soon(forever, probe)
        await trio.sleep(1)

    async with house.up():
        await ref.ask(Do(starts))
        await ref.tell(Crash())
        await ref.ask(Echo(1))
        assert house.log[-4:] == [
            ("a", 1, "task ends"),
            ("a", 1, "stopped", "crashed"),
            ("a", 2, "started"),
            ("a", 2, "echo", 1),
        ]
        await ref.ask(Do(starts))
    assert house.log[-2:] == [("a", 2, "task ends"), ("a", 2, "stopped", "stopped")]


async def test_a_task_that_raises_crashes_its_actor() -> None:
    house = House()
    ref = house.add("a")

    async def raises() -> None:
        await trio.sleep(1)
        raise Broken("in a task")

    async def starts(probe: Probe) -> None:
        probe.start_soon(raises)

    async with house.up():
        await ref.ask(Do(starts))
        await trio.sleep(2)
        assert house.node("a").incarnation == 2
        assert house.node("a").last_error == "Broken: in a task"


async def test_start_waits_for_the_task_and_raises_what_it_raised_before_it_was_ready() -> None:
    house = House()
    ref = house.add("a")

    async def ready(value: int, task_status: trio.TaskStatus[int]) -> None:
        await trio.sleep(1)
        task_status.started(value)
        await trio.sleep(1)
        raise Broken("after started")

    async def never(task_status: trio.TaskStatus[int]) -> None:
        raise Broken("before started")

    async def starts(probe: Probe) -> object:
        with pytest.raises(Broken, match="before"):
            await probe.start(never)
        return await probe.start(ready, 5)

    async with house.up():
        assert await ref.ask(Do(starts)) == 5
        assert house.node("a").incarnation == 1
        await trio.sleep(2)
        assert house.node("a").incarnation == 2
        assert house.node("a").last_error == "Broken: after started"


async def test_a_child_that_ends_normally_stops_for_good_after_its_message() -> None:
    house = House()
    ref = house.add("a", restart="transient")
    async with house.up():
        await ref.tell(End())
        await ref.tell(Note("not any more"))
        assert await ref.wait_stopped() == "normal"
        assert ref.statistics().dead_letters == 1
    assert house.log == [("a", 1, "started"), ("a", 1, "end"), ("a", 1, "stopped", "normal")]


async def test_an_error_in_stopped_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    house = House()
    ref = house.add("a", Script(stop_error=Broken("in stopped")), restart="transient")
    async with house.up():
        await ref.tell(End())
        assert await ref.wait_stopped() == "normal"
        assert house.node("a").last_error == "Broken: in stopped"
    assert "stopped() raised" in caplog.text


async def test_events_tell_the_story_of_the_tree() -> None:
    events: list[tuple[str, str, int]] = []

    def observe(event: TreeEvent) -> None:
        events.append((event.kind, event.path, event.incarnation))

    house = House(Supervisor("root", max_restarts=1, observe=observe))
    ref = house.add("a")
    with pytest.raises(RestartLimitExceeded):
        async with house.up():
            await ref.tell(Crash())
            await ref.tell(Crash())
            await trio.sleep_forever()
    assert events == [
        ("started", "root/a", 1),
        ("started", "root", 1),
        ("crashed", "root/a", 1),
        ("restarted", "root/a", 2),
        ("crashed", "root/a", 2),
        ("limit_reached", "root", 1),
        ("stopped", "root/a", 2),
        ("stopped", "root", 1),
    ]


async def test_an_observer_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def observe(event: TreeEvent) -> None:
        raise Broken("watching")

    house = House(Supervisor("root", observe=observe))
    ref = house.add("a")
    async with house.up():
        assert await ref.ask(Echo(1)) == 1
    assert "observe() raised" in caplog.text


async def test_a_tree_is_run_once_and_only_from_its_root() -> None:
    root = Supervisor("root")
    nested = root.add_supervisor(Supervisor("nested"))
    with pytest.raises(RuntimeError, match="is not a root"):
        async with nested.running():
            pass
    async with root.running():
        with pytest.raises(RuntimeError, match="runs already"):
            root.add(House().spec("late"))
    with pytest.raises(RuntimeError, match="been run"):
        async with root.running():
            pass


def test_ids_are_unique_and_specs_make_sense() -> None:
    house = House()
    house.add("a")
    with pytest.raises(ValueError, match="already"):
        house.add("a")
    for wrong in (
        {"capacity": 0},
        {"shutdown": -1.0},
        {"shutdown": float("nan")},
        {"idle_s": 0.0},
    ):
        with pytest.raises(ValueError, match="b: "):
            house.spec("b", **wrong)
    with pytest.raises(ValueError, match="concurrency"):
        house.spec("b", concurrency=0)
    with pytest.raises(ValueError, match="keyed"):
        house.add("b", idle_s=1.0)
    with pytest.raises(ValueError, match="within"):
        Supervisor("root", within=0)


async def test_an_isolated_child_at_its_limit_stops_for_good_and_the_others_run_on() -> None:
    events: list[TreeEvent] = []
    house = House(max_restarts=2, isolates=True, observe=events.append)
    broken, well = house.add("broken"), house.add("well")
    async with house.up():
        for _ in range(3):
            with pytest.raises(Exception):  # noqa: B017  # the crash, whatever it is called
                await broken.ask(Crash())
        await settle()
        with pytest.raises(ActorStopped):
            await broken.ask(Echo(1))
        # The others' budgets are their own: each may crash as often as one alone.
        for _ in range(2):
            await well.tell(Crash())
        assert await well.ask(Echo(1)) == 1
        assert house.node("broken").state == "stopped"
        assert house.node("well").incarnation == 3
    limits = [event for event in events if event.kind == "limit_reached"]
    assert [event.path for event in limits] == ["root/broken"]
    assert isinstance(limits[0].error, RestartLimitExceeded)


async def test_an_isolated_child_that_cannot_start_leaves_the_others_running() -> None:
    house = House(isolates=True)
    broken = house.add("broken", Script(start_errors={1: Broken("cannot")}))
    well = house.add("well")
    async with house.up():
        assert await well.ask(Echo(1)) == 1
        with pytest.raises(ActorStopped):
            await broken.ask(Echo(1))
        assert house.node("broken").last_error == "Broken: cannot"


async def test_an_isolated_supervisor_fails_alone() -> None:
    root = Supervisor("root", strategy="rest_for_one", max_restarts=0)
    house = House(root)
    house.add("above")
    fence = root.add_supervisor(Supervisor("fence", max_restarts=1, isolates=True))
    nested = fence.add_supervisor(Supervisor("nested", max_restarts=1))
    broken, below = nested.add(house.spec("broken")), house.add("below")
    async with house.up():
        for _ in range(4):  # two of each incarnation of `nested`
            with suppress(ActorStopped):
                await broken.tell(Crash())
            await settle()
        with pytest.raises(ActorStopped):
            await broken.ask(Echo(1))
        assert await below.ask(Echo(1)) == 1
        assert [house.node(id).incarnation for id in ("above", "fence", "below")] == [1, 1, 1]
    assert house.said("stopped")[-2:] == [
        ("below", 1, "stopped", "stopped"),
        ("above", 1, "stopped", "stopped"),
    ]


async def test_only_one_for_one_isolates() -> None:
    with pytest.raises(ValueError, match="one_for_one"):
        Supervisor("root", strategy="rest_for_one", isolates=True)
