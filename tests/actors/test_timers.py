"""Timers belong to the incarnation that set them."""

import pytest
import trio
import trio.testing

from actors import Actor, ChildSpec, Supervisor
from tests.fakes.actors import Crash, Do, House, Note, Probe


async def test_a_timer_tells_its_actor_once_after_that_time() -> None:
    house = House()
    ref = house.add("a")

    async def sets(probe: Probe) -> None:
        probe.tell_after(5, Note("ring"))

    async with house.up():
        await ref.ask(Do(sets))
        await trio.sleep(4)
        assert not house.said("note")
        await trio.sleep(100)
        assert len(house.said("note")) == 1


async def test_a_timer_that_repeats_goes_on_until_it_is_cancelled() -> None:
    house = House()
    ref = house.add("a")
    scopes: list[trio.CancelScope] = []

    async def sets(probe: Probe) -> None:
        scopes.append(probe.tell_every(10, Note("tick")))

    async with house.up():
        await ref.ask(Do(sets))
        await trio.sleep(35)
        assert len(house.said("note")) == 3
        scopes[0].cancel()
        await trio.sleep(100)
        assert len(house.said("note")) == 3


async def test_a_timer_ends_with_the_incarnation_that_set_it() -> None:
    house = House()
    ref = house.add("a")

    async def sets(probe: Probe) -> None:
        probe.tell_every(10, Note("tick"))
        probe.tell_after(10, Note("ring"))

    async with house.up():
        await ref.ask(Do(sets))
        await ref.tell(Crash())
        await trio.sleep(100)
        assert house.node("a").incarnation == 2
        assert not house.said("note")


@pytest.mark.parametrize("overflow", ["wait", "reject"])
async def test_the_ticks_of_a_timer_do_not_pile_up_before_a_busy_actor(overflow: str) -> None:
    house = House()
    ref = house.add("a", capacity=1, overflow=overflow)

    async def sets_and_works(probe: Probe) -> None:
        probe.tell_every(1, Note("tick"))
        await trio.sleep(100.5)

    async with house.up():
        await ref.ask(Do(sets_and_works))
        await trio.testing.wait_all_tasks_blocked()
        assert len(house.said("note")) <= 2
        await trio.sleep(10)
        assert 10 <= len(house.said("note")) <= 12


async def test_a_timer_that_repeats_needs_time_between_its_ticks() -> None:
    class Hasty(Actor[str]):
        async def started(self) -> None:
            self.tell_every(0, "tick")

    root = Supervisor("root")
    root.add(ChildSpec("hasty", Hasty))
    with pytest.raises(ValueError, match="more than 0 seconds"):
        async with root.running():
            pass
