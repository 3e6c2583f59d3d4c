"""Keyed children: one for each key, started when needed, gone when idle, restarted each for itself."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from actors import (
    Actor,
    ActorCrashed,
    ActorRef,
    ActorStopped,
    AskedItself,
    Backoff,
    ChildSpec,
    DynamicSupervisor,
    RestartLimitExceeded,
    Supervisor,
    TooManyChildren,
)
from actors.spec import Restart
from tests.fakes.actors import Any_, Broken, Crash, Do, Echo, End, House, Note, Probe, Script, Work


class Chats(House):
    """A house whose root holds keyed probes."""

    def __init__(self, script: Callable[[str], Script] = lambda key: Script(), **options: Any) -> None:
        of_supervisor = {
            name: options.pop(name)
            for name in ("max_children", "on_limit", "max_restarts", "within", "observe")
            if name in options
        }
        self.chats: DynamicSupervisor[Any_] = DynamicSupervisor(
            "chats", lambda key: self.spec(key, script(key), **options), **of_supervisor
        )
        super().__init__(self.chats)


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def test_a_key_has_one_child_that_is_started_when_needed() -> None:
    house = Chats()
    async with house.up():
        assert house.chats.lookup("a") is None
        ref = await house.chats.get_or_start("a")
        assert await house.chats.get_or_start("a") is ref
        assert house.chats.lookup("a") is ref
        assert await ref.ask(Echo(1)) == 1
    assert len(house.said("started")) == 1


async def test_those_who_come_while_it_starts_await_the_same_start() -> None:
    house = Chats(lambda key: Script(start_s=5))
    refs: list[ActorRef[Any_]] = []

    async def get() -> None:
        refs.append(await house.chats.get_or_start("a"))

    async with house.up():
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(get)
            await trio.sleep(1)
            assert house.chats.lookup("a") is None
            nursery.start_soon(get)
        assert trio.current_time() - begun == 5
        assert len(set(refs)) == 1
    assert len(house.said("started")) == 1


async def test_a_failed_start_goes_to_all_who_waited_for_it_and_frees_the_key() -> None:
    error = Broken("cannot")
    scripts = [Script(start_s=5, start_errors={1: error}), Script()]
    house = Chats(lambda key: scripts.pop(0))
    errors: list[BaseException] = []

    async def get() -> None:
        with pytest.raises(Broken) as caught:
            await house.chats.get_or_start("a")
        errors.append(caught.value)

    async with house.up():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(get)
            nursery.start_soon(get)
        assert errors == [error, error]
        assert house.chats.keys() == ()
        assert house.root.status().restarts == 0
        ref = await house.chats.get_or_start("a")
        assert await ref.ask(Echo(1)) == 1


async def test_a_cancelled_caller_leaves_the_start_to_the_others() -> None:
    house = Chats(lambda key: Script(start_s=5))
    async with house.up(), trio.open_nursery() as nursery:

        async def impatient() -> None:
            with trio.move_on_after(1):
                await house.chats.get_or_start("a")

        nursery.start_soon(impatient)
        await trio.sleep(0.5)
        ref = await house.chats.get_or_start("a")
        assert await ref.ask(Echo(1)) == 1
    assert len(house.said("started")) == 1


async def test_a_stopping_child_is_waited_for_before_its_successor_starts() -> None:
    house = Chats(lambda key: Script(stop_s=3))
    async with house.up():
        old = await house.chats.get_or_start("a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.chats.stop, "a")
            await settle()
            assert house.chats.lookup("a") is None
            new = await house.chats.get_or_start("a")
        assert new is not old
        assert await new.ask(Echo(1)) == 1
        with pytest.raises(ActorStopped):
            await old.ask(Echo(1))
    assert [line[2] for line in house.log[:4]] == ["started", "stopped", "stopped ends", "started"]


async def test_stop_waits_for_the_end_and_frees_the_key() -> None:
    house = Chats(lambda key: Script(stop_s=3))
    async with house.up():
        ref = await house.chats.get_or_start("a")
        begun = trio.current_time()
        await house.chats.stop("a")
        assert trio.current_time() - begun == 3
        assert house.chats.keys() == ()
        assert await ref.wait_stopped() == "stopped"
        await house.chats.stop("nobody")


async def test_keyed_children_stop_all_at_once() -> None:
    house = Chats(lambda key: Script(stop_s=3))
    async with house.up():
        for number in range(20):
            await house.chats.get_or_start(str(number))
        begun = trio.current_time()
    assert trio.current_time() - begun == 3
    assert len(house.said("stopped ends")) == 20


async def test_an_idle_child_goes_and_a_later_message_starts_a_new_one() -> None:
    house = Chats(idle_s=10)
    async with house.up():
        ref = await house.chats.get_or_start("a")
        await trio.sleep(9)
        await ref.tell(Note(1))
        await trio.sleep(9)
        assert house.chats.lookup("a") is ref
        await trio.sleep(2)
        assert house.chats.keys() == ()
        assert await ref.wait_stopped() == "normal"
        again = await house.chats.get_or_start("a")
        await again.tell(Note(2))
    assert [line[2:] for line in house.log] == [
        ("started",),
        ("note", 1),
        ("stopped", "normal"),
        ("started",),
        ("note", 2),
        ("stopped", "stopped"),
    ]


async def test_no_message_is_lost_to_idleness() -> None:
    """Tells that come at the very moment of going idle are refused or handled, never swallowed."""
    house = Chats(idle_s=1)
    sent = 0
    async with house.up():
        for number in range(200):
            await trio.sleep(1 if number % 2 else 0.999999)
            ref = await house.chats.get_or_start("a")
            await ref.tell(Note(number))
            sent += 1
        await settle()
        assert house.root.status().dead_letters == 0
    assert [line[3] for line in house.said("note")] == list(range(sent))
    assert len(house.said("started")) > 10


async def test_a_message_right_behind_get_or_start_never_meets_a_closed_door() -> None:
    house = Chats(idle_s=1)
    async with house.up(), trio.open_nursery() as nursery:

        async def talks(offset: float) -> None:
            await trio.sleep(offset)
            for _ in range(50):
                ref = await house.chats.get_or_start("a")
                ref.tell_nowait(Note(offset))
                await trio.sleep(1)

        nursery.start_soon(talks, 0)
        nursery.start_soon(talks, 0)
    assert len(house.said("note")) == 100


async def test_a_busy_child_does_not_go_idle_until_it_has_been_quiet_long_enough() -> None:
    script = Script(busy=True)
    house = Chats(lambda key: script, idle_s=10)
    async with house.up():
        ref = await house.chats.get_or_start("a")
        await trio.sleep(100)
        assert house.chats.lookup("a") is ref
        script.busy = False
        await trio.sleep(7)
        assert house.chats.lookup("a") is ref
        await trio.sleep(20)
        assert house.chats.lookup("a") is None


async def test_a_child_with_a_message_in_hand_does_not_go_idle() -> None:
    house = Chats(idle_s=10)
    async with house.up():
        ref = await house.chats.get_or_start("a")
        await ref.tell(Work(100))
        await trio.sleep(50)
        assert house.chats.lookup("a") is ref
        await trio.sleep(80)
        assert house.chats.lookup("a") is None
    assert house.said("work ends")


async def test_an_idle_permanent_child_is_not_restarted() -> None:
    house = Chats(idle_s=10, restart="permanent")
    async with house.up():
        await house.chats.get_or_start("a")
        await trio.sleep(100)
        assert house.chats.keys() == ()
    assert len(house.said("started")) == 1


async def test_children_go_idle_each_in_its_own_time() -> None:
    supervisor: DynamicSupervisor[Any_] = DynamicSupervisor(
        "chats", lambda key: ChildSpec(key, lambda: Probe([]), idle_s=float(key))
    )
    with trio.fail_after(1e6):
        async with supervisor.running():
            for key in ("50", "10", "30"):
                await supervisor.get_or_start(key)
            seen = []
            for _ in range(4):
                seen.append(supervisor.keys())
                await trio.sleep(20)
    assert seen == [("50", "10", "30"), ("50", "30"), ("50",), ()]


async def test_busy_that_raises_is_a_crash_of_that_child_only() -> None:
    class Grumpy(Probe):
        def busy(self) -> bool:
            if self.incarnation == 1:
                raise Broken("busy")
            return True

    log: list[tuple[Any, ...]] = []
    supervisor: DynamicSupervisor[Any_] = DynamicSupervisor(
        "chats", lambda key: ChildSpec(key, lambda: Grumpy(log), idle_s=10)
    )
    with trio.fail_after(1e6):
        async with supervisor.running():
            ref = await supervisor.get_or_start("a")
            await trio.sleep(11)
            assert await ref.ask(Echo(1)) == 1
            assert supervisor.status().children[0].incarnation == 2


async def test_restarts_are_counted_for_each_child() -> None:
    house = Chats(max_restarts=2, within=5.0)
    async with house.up():
        refs = [await house.chats.get_or_start(str(number)) for number in range(20)]
        for _ in range(2):
            for ref in refs:
                with pytest.raises(ActorCrashed):
                    await ref.ask(Crash())
        for ref in refs:
            assert await ref.ask(Echo(1)) == 1
        assert all(child.restarts == 2 for child in house.root.status().children)


async def test_a_child_at_its_limit_stops_tells_on_limit_and_frees_its_key() -> None:
    limits: list[tuple[str, type[BaseException], BaseException | None, ActorRef[Any_] | None]] = []

    def on_limit(key: str, error: RestartLimitExceeded) -> None:
        limits.append((key, type(error), error.__cause__, house.chats.lookup(key)))

    house = Chats(max_restarts=1, on_limit=on_limit)
    last = Broken("last")
    async with house.up():
        ref = await house.chats.get_or_start("a")
        other = await house.chats.get_or_start("b")
        ref.tell_nowait(Crash())
        ref.tell_nowait(Crash(last))
        ref.tell_nowait(Note("lost"))
        assert await ref.wait_stopped() == "crashed"
        assert limits == [("a", RestartLimitExceeded, last, None)]
        assert house.chats.keys() == ("b",)
        assert house.root.status().dead_letters == 1
        fresh = await house.chats.get_or_start("a")
        assert fresh is not ref
        for _ in range(1):
            fresh.tell_nowait(Crash())
        assert await fresh.ask(Echo(1)) == 1
        assert await other.ask(Echo(2)) == 2
        assert len(limits) == 1


async def test_an_on_limit_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def on_limit(key: str, error: RestartLimitExceeded) -> None:
        raise Broken("in the callback")

    house = Chats(max_restarts=0, on_limit=on_limit)
    async with house.up():
        ref = await house.chats.get_or_start("a")
        ref.tell_nowait(Crash())
        await ref.wait_stopped()
        assert await (await house.chats.get_or_start("a")).ask(Echo(1)) == 1
    assert "on_limit('a') raised" in caplog.text


async def test_no_more_than_max_children() -> None:
    house = Chats(max_children=2)
    async with house.up():
        a = await house.chats.get_or_start("a")
        await house.chats.get_or_start("b")
        with pytest.raises(TooManyChildren):
            await house.chats.get_or_start("c")
        assert await house.chats.get_or_start("a") is a
        await house.chats.stop("a")
        await house.chats.get_or_start("c")


async def test_a_spec_that_cannot_be_made_goes_to_the_caller() -> None:
    def spec_for(key: str) -> ChildSpec[Any_]:
        raise Broken("no spec")

    supervisor: DynamicSupervisor[Any_] = DynamicSupervisor("chats", spec_for)
    async with supervisor.running():
        with pytest.raises(Broken, match="no spec"):
            await supervisor.get_or_start("a")
        assert supervisor.keys() == ()


@pytest.mark.parametrize("restart", ["transient", "temporary"])
async def test_a_child_that_ends_by_itself_leaves_no_trace(restart: str) -> None:
    house = Chats(restart=restart)
    async with house.up():
        ref = await house.chats.get_or_start("a")
        gone = weakref.ref(ref)
        await ref.tell(End())
        assert await ref.wait_stopped() == "normal"
        await settle()
        assert house.root.status().children == ()
        assert house.chats.keys() == ()
        del ref
        gc.collect()
        assert gone() is None


async def test_thousands_of_keys_that_come_and_go_leave_nothing_behind() -> None:
    house = Chats(idle_s=1)
    async with house.up():
        for number in range(3000):
            await house.chats.get_or_start(str(number))
        await trio.sleep(5)
        assert house.chats.keys() == ()
        assert house.chats._idle_watch._looks == []


async def test_a_child_cannot_wait_for_its_own_end_or_start() -> None:
    house = Chats()

    async def stops(probe: Probe) -> None:
        await house.chats.stop("a")

    async def waits(probe: Probe) -> None:
        await probe.ref.wait_stopped()

    async with house.up():
        ref = await house.chats.get_or_start("a")
        for fn in (stops, waits):
            with pytest.raises(ActorCrashed) as caught:
                await ref.ask(Do(fn))
            assert isinstance(caught.value.__cause__, AskedItself)

    class Impatient(Probe):
        async def started(self) -> None:
            await supervisor.get_or_start("a")

    supervisor: DynamicSupervisor[Any_] = DynamicSupervisor(
        "chats", lambda key: ChildSpec(key, lambda: Impatient([]))
    )
    with trio.fail_after(10):
        async with supervisor.running():
            with pytest.raises(AskedItself):
                await supervisor.get_or_start("a")


async def test_get_or_start_waits_for_a_supervisor_that_is_not_up_and_fails_when_it_has_stopped() -> None:
    house = Chats()
    refs: list[ActorRef[Any_]] = []

    async def get() -> None:
        refs.append(await house.chats.get_or_start("a"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(get)
        await settle()
        assert refs == []
        async with house.up():
            await settle()
            assert len(refs) == 1
    with pytest.raises(ActorStopped):
        await house.chats.get_or_start("a")


@pytest.mark.parametrize("restart", ["permanent", "transient"])
async def test_keyed_children_live_through_a_restart_of_their_supervisor(restart: Restart) -> None:
    """A sibling's crash restarts the supervisor: places and mailboxes stay, references too."""
    root = Supervisor("root", strategy="rest_for_one")
    house = House(root)
    above = house.add("above")
    chats: DynamicSupervisor[Any_] = root.add_supervisor(
        DynamicSupervisor("chats", lambda key: house.spec(key, restart=restart, shutdown=1.0, idle_s=100))
    )
    temporary: DynamicSupervisor[Any_] = root.add_supervisor(
        DynamicSupervisor("temporary", lambda key: house.spec(key, restart="temporary"))
    )
    async with house.up():
        ref = await chats.get_or_start("a")
        brief = await temporary.get_or_start("t")
        await ref.tell(Work(60))
        await ref.tell(Note("kept"))
        await settle()
        await above.tell(Crash())
        await settle()
        late: list[ActorRef[Any_]] = []

        async def get() -> None:
            late.append(await chats.get_or_start("b"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(get)
            assert await ref.ask(Echo(1)) == 1
        assert len(late) == 1
        assert house.node("chats").incarnation == 2
        assert house.node("chats", "a").incarnation == 2
        assert chats.lookup("a") is ref
        assert await brief.wait_stopped() == "stopped"
        assert temporary.keys() == ()
        await trio.sleep(300)
        assert chats.keys() == ()
    assert house.said("note") == [("a", 2, "note", "kept")]


async def test_a_start_that_is_interrupted_by_a_restart_of_the_supervisor_is_begun_again() -> None:
    root = Supervisor("root", strategy="rest_for_one")
    house = House(root)
    above = house.add("above")
    chats: DynamicSupervisor[Any_] = root.add_supervisor(
        DynamicSupervisor("chats", lambda key: house.spec(key, Script(start_s=5)))
    )
    async with house.up():
        async with trio.open_nursery() as nursery:

            async def get() -> None:
                ref = await chats.get_or_start("a")
                assert await ref.ask(Echo(1)) == 1

            nursery.start_soon(get)
            await trio.sleep(1)
            await above.tell(Crash())
        assert house.node("chats").incarnation == 2
    assert len(house.said("started")) == 3  # above twice, the child once


async def test_stopping_a_child_that_is_starting_or_waiting_to_restart_is_quick() -> None:
    scripts = {"slow": Script(start_s=100), "crashes": Script()}
    house = Chats(lambda key: scripts[key], backoff=Backoff(first_s=100, cap_s=100))
    async with house.up():
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:

            async def get() -> None:
                with trio.move_on_after(2):
                    await house.chats.get_or_start("slow")

            nursery.start_soon(get)
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        await house.chats.stop("slow")
        assert trio.current_time() - begun == 1
        ref = await house.chats.get_or_start("crashes")
        await ref.tell(Crash())
        await settle()
        await house.chats.stop("crashes")
        assert trio.current_time() - begun == 1
        assert house.chats.keys() == ()


async def test_asks_of_keyed_children_settle_when_the_tree_stops() -> None:
    house = Chats(shutdown=1.0)
    settled: list[str] = []

    async def asks(key: str) -> None:
        with pytest.raises(ActorStopped):
            await (await house.chats.get_or_start(key)).ask(Work(100))
        settled.append(key)

    async with trio.open_nursery() as nursery:
        async with house.up():
            for key in "abc":
                nursery.start_soon(asks, key)
            await trio.sleep(1)
    assert sorted(settled) == ["a", "b", "c"]


async def test_a_tree_that_stops_while_keyed_children_are_suspended_stops_them_too() -> None:
    root = Supervisor("root", strategy="rest_for_one")
    house = House(root)
    above = house.add("above", Script(start_s=5))
    chats: DynamicSupervisor[Any_] = root.add_supervisor(DynamicSupervisor("chats", house.spec))
    asked: list[str] = []
    async with trio.open_nursery() as nursery:
        async with house.up():
            ref = await chats.get_or_start("a")
            await above.tell(Crash())
            await trio.sleep(1)
            assert house.node("chats", "a").state == "suspended"
            await ref.tell(Note("queued"))

            async def asks() -> None:
                with pytest.raises(ActorStopped):
                    await ref.ask(Echo(1))
                asked.append("told")

            nursery.start_soon(asks)
            await settle()
    assert asked == ["told"]
    assert await ref.wait_stopped() == "stopped"
    assert house.node("chats").dead_letters == 1


async def test_a_message_may_be_none_and_is_in_hand_like_any_other() -> None:
    class Sleeper(Actor[None]):
        async def receive(self, message: None) -> None:
            await trio.sleep(100)

    supervisor: DynamicSupervisor[None] = DynamicSupervisor(
        "chats", lambda key: ChildSpec(key, Sleeper, idle_s=1)
    )
    async with supervisor.running():
        ref = await supervisor.get_or_start("a")
        await ref.tell(None)
        await trio.sleep(50)
        assert supervisor.lookup("a") is ref
        assert supervisor.status().children[0].activity == "NoneType"


async def test_a_child_that_was_suspended_when_it_was_looked_at_still_goes_idle() -> None:
    """The crash of what it depends on suspends it just when the idle watch looks at it."""
    root = Supervisor("root", strategy="rest_for_one")
    house = House(root)
    above = house.add("above")
    chats: DynamicSupervisor[Any_] = root.add_supervisor(
        DynamicSupervisor("chats", lambda key: house.spec(key, Script(stop_s=2), shutdown=3.0, idle_s=10))
    )
    async with house.up():
        await chats.get_or_start("a")
        await trio.sleep(9)
        await above.tell(Crash())
        await trio.sleep(5)
        assert house.node("chats", "a").incarnation == 2
        await trio.sleep(30)
        assert chats.keys() == ()
