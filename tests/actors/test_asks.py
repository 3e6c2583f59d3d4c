"""Who asks whom is read from the tree."""

import trio
import trio.testing

from actors import DynamicSupervisor, PendingAsk, Supervisor, circles, pending_asks
from tests.fakes.actors import Any_, Do, Echo, House, Probe, Work


async def test_who_asks_whom_is_seen_at_each_stage() -> None:
    root = Supervisor("root")
    house = House(root)
    busy = house.add("busy", capacity=1)
    keyed: DynamicSupervisor[Any_] = root.add_supervisor(DynamicSupervisor("keyed", house.spec))

    async def asks(probe: Probe) -> None:
        probe.start_soon(busy.ask, Echo(1))
        await trio.testing.wait_all_tasks_blocked()
        probe.start_soon(busy.ask, Echo(2))

    async def client() -> None:
        await busy.ask(Work(10))

    async with house.up(), trio.open_nursery() as nursery:
        nursery.start_soon(client, name="client")
        await trio.testing.wait_all_tasks_blocked()
        key = await keyed.get_or_start("k")
        await key.ask(Do(asks))
        await trio.testing.wait_all_tasks_blocked()
        assert pending_asks(root) == (
            PendingAsk("client", "root/busy", "Work", "handled"),
            PendingAsk("root/keyed/k", "root/busy", "Echo", "queued"),
            PendingAsk("root/keyed/k", "root/busy", "Echo", "waits for room"),
        )
    assert pending_asks(root) == ()


async def test_the_asks_of_many_handlers_are_all_seen() -> None:
    house = House()
    ref = house.add("a", concurrency=2)
    async with house.up(), trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ref.ask, Work(10))
        await trio.testing.wait_all_tasks_blocked()
        assert isinstance(house.root, Supervisor)
        assert [ask.stage for ask in pending_asks(house.root)] == ["handled", "handled", "queued"]


async def test_a_circle_of_asks_is_found() -> None:
    house = House()
    refs = {id: house.add(id) for id in "abc"}

    def asks(*ids: str) -> Do:
        async def do(probe: Probe) -> None:
            await refs[ids[0]].ask(asks(*ids[1:]) if ids[1:] else Echo("never"))

        return Do(do)

    async with house.up():
        with trio.move_on_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(refs["a"].ask, asks("b", "c", "a"))
                await trio.testing.wait_all_tasks_blocked()
                assert isinstance(house.root, Supervisor)
                assert circles(pending_asks(house.root)) == (("root/a", "root/b", "root/c"),)
        assert circles(pending_asks(house.root)) == ()


def test_asks_without_a_circle_have_none() -> None:
    def asks(*pairs: str) -> list[PendingAsk]:
        return [PendingAsk(asker, asked, "Get", "handled") for asker, asked in pairs]

    assert circles(asks("ab", "ac", "bd", "cd", "xa")) == ()
    assert circles(asks("ab", "ba", "bc", "cd", "dc")) == (("a", "b"), ("c", "d"))
