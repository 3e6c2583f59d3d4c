"""The tree as it is seen from outside, at any time."""

from dataclasses import FrozenInstanceError

import pytest
import trio
import trio.testing

from actors import ChildSpec, DynamicSupervisor, NodeStatus, Supervisor
from tests.fakes.actors import Any_, Broken, Crash, End, House, Note, Probe, Script, Work


class Talkative(Probe):
    words = ""

    def activity(self) -> str:
        return self.words


def house_with_everything() -> House:
    root = Supervisor("root")
    house = House(root)
    house.add("a", capacity=5)
    nested = root.add_supervisor(Supervisor("nested"))
    nested.add(house.spec("b"))
    root.add_supervisor(DynamicSupervisor("keyed", house.spec))
    return house


def test_a_tree_can_be_dumped_before_it_runs_outside_of_trio() -> None:
    house = house_with_everything()
    status = house.root.status()
    assert [child.id for child in status.children] == ["a", "nested", "keyed"]
    assert [child.kind for child in status.children] == ["actor", "supervisor", "dynamic_supervisor"]
    assert house.node("a") == NodeStatus("a", "actor", "new", 0, 0, 0, 5, "", None, None)


async def test_a_status_has_all_that_is_promised() -> None:
    house = house_with_everything()
    assert isinstance(house.root, Supervisor)
    async with house.up():
        ref = house.root._children[0].ref  # type: ignore[attr-defined]
        up_since = house.node("a").since
        assert house.node("a") == NodeStatus("a", "actor", "running", 1, 0, 0, 5, "", up_since, None)
        await trio.sleep(10)
        await ref.tell(Work(5))
        for _ in range(3):
            await ref.tell(Note(1))
        await trio.sleep(2)
        busy = house.node("a")
        assert (busy.depth, busy.capacity, busy.activity) == (3, 5, "Work")
        assert busy.since == trio.current_time() - 2
        await trio.sleep(10)
        await ref.tell(Crash(Broken("two\nlines")))
        await trio.testing.wait_all_tasks_blocked()
        after = house.node("a")
        assert (after.incarnation, after.restarts, after.last_error) == (2, 1, "Broken: two lines")
        assert (after.depth, after.activity, after.since) == (0, "", trio.current_time())
        with pytest.raises(FrozenInstanceError):
            after.depth = 1  # type: ignore[misc]
    assert house.node("a").state == "stopped"


async def test_a_status_never_waits() -> None:
    """It is a plain function, and answers while an actor starts, works, stops or waits for its restart."""
    house = House()
    ref = house.add("a", Script(start_s=1, stop_s=1), restart="transient")
    states: list[str] = []

    async def watch() -> None:
        for _ in range(5):
            states.append(house.node("a").state)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await trio.sleep(0.5)
        async with house.up():
            await ref.tell(Work(1))
            await ref.tell(End())
            await ref.wait_stopped()
    assert states[:2] == ["new", "starting"]
    assert states[-1] == "stopped"


async def test_what_an_actor_is_doing_is_said_in_its_own_words() -> None:
    root = Supervisor("root")
    actor = Talkative([])
    root.add(ChildSpec("a", lambda: actor))
    async with root.running():
        actor.words = "thinking"
        assert root.status().children[0].activity == "thinking"


async def test_a_doing_that_raises_does_not_break_the_status() -> None:
    class Broke(Probe):
        def activity(self) -> str:
            raise Broken("mute")

    root = Supervisor("root")
    root.add(ChildSpec("a", lambda: Broke([])))
    async with root.running():
        assert root.status().children[0].activity == "doing() raised Broken: mute"


async def test_what_an_actor_counts_is_in_the_status_and_a_count_that_raises_does_not_break_it() -> None:
    class Counting(Probe):
        def metrics(self) -> dict[str, object]:
            return {"seen": len(self.log)} if len(self.log) < 2 else {"seen": 1 // 0}

    house = House()
    root = Supervisor("root")
    root.add(ChildSpec("a", lambda: Counting(house.log)))
    assert root.status().children[0].metrics == {}
    async with root.running():
        del house.log[:]
        assert root.status().children[0].metrics == {"seen": 0}
        house.log.extend([None, None])  # type: ignore[list-item]
        assert "ZeroDivisionError" in str(root.status().children[0].metrics["error"])


async def test_many_messages_at_once_are_all_named() -> None:
    house = House()
    ref = house.add("a", concurrency=3)
    async with house.up():
        await ref.tell(Work(5))
        await ref.tell(Work(5))
        await trio.testing.wait_all_tasks_blocked()
        assert house.node("a").activity == "Work, Work"


async def test_states_of_a_group_restart() -> None:
    house = House(strategy="one_for_all")
    a = house.add("a", Script(start_s=1, stop_s=1))
    house.add("b", Script(start_s=1, stop_s=1))
    seen: list[tuple[str, str]] = []
    async with house.up():
        await a.tell(Crash())
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(5):
            await trio.sleep(0.5 if not seen else 1)
            seen.append((house.node("a").state, house.node("b").state))
    assert seen == [
        ("running", "running"),  # the hook of the one that crashed
        ("suspended", "stopping"),
        ("starting", "suspended"),
        ("running", "starting"),
        ("running", "running"),
    ]


async def test_statistics_are_those_of_the_mailbox() -> None:
    house = House()
    ref = house.add("a", capacity=2)
    ref.tell_nowait(Note(1))
    assert (ref.statistics().depth, ref.statistics().capacity) == (1, 2)
    assert ref.statistics().senders_waiting == 0
    assert ref.statistics().dead_letters == 0
    async with house.up():
        pass


async def test_dead_letters_of_keyed_children_stay_in_the_status() -> None:
    keyed: DynamicSupervisor[Any_] = DynamicSupervisor("keyed", House().spec)
    async with keyed.running():
        ref = await keyed.get_or_start("a")
        await ref.tell(Work(1))
        await ref.tell(Note(1))
        await trio.testing.wait_all_tasks_blocked()
        await keyed.stop("a")
        assert keyed.status().children == ()
        assert keyed.status().dead_letters == 1
