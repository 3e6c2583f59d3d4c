"""An expected error is refused to its asker, and the actor goes on."""

import pytest
import trio
import trio.testing

from actors import Actor, ActorCrashed, ChildSpec, Refused, Request, Supervisor
from tests.fakes.actors import Do, Echo, House, Note, Probe, Refuse, Work


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_the_asker_gets_the_error_that_the_handler_refused_with(concurrency: int) -> None:
    house = House(max_restarts=0)
    ref = house.add("a", concurrency=concurrency)
    error = LookupError("not here")
    async with house.up():
        with pytest.raises(LookupError) as caught:
            await ref.ask(Refuse(error))
        assert caught.value is error
        assert await ref.ask(Echo(1)) == 1
        assert house.node("a").incarnation == 1
        assert house.node("a").last_error is None


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_refusal_of_a_told_message_is_dropped(concurrency: int) -> None:
    house = House(max_restarts=0)
    ref = house.add("a", concurrency=concurrency)
    async with house.up():
        await ref.tell(Refuse())
        await ref.tell(Note("behind"))
        await trio.testing.wait_all_tasks_blocked()
        assert house.said("note")


async def test_a_refusal_leaves_the_other_handlers_at_work() -> None:
    house = House(max_restarts=0)
    ref = house.add("a", concurrency=2)
    async with house.up(), trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask, Work(10))
        with pytest.raises(LookupError):
            await ref.ask(Refuse(after_s=1))
    assert house.said("work ends")


async def test_a_refusal_that_comes_alone_out_of_a_nursery_is_a_refusal() -> None:
    house = House(max_restarts=0)
    ref = house.add("a")

    async def refuses() -> None:
        raise Refused(LookupError("below"))

    async def within(probe: Probe) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refuses)

    async with house.up():
        with pytest.raises(LookupError, match="below"):
            await ref.ask(Do(within))


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_a_refusal_after_its_asker_has_left_reaches_no_one(concurrency: int) -> None:
    house = House(max_restarts=0)
    ref = house.add("a", concurrency=concurrency)

    async def refuses_late(probe: Probe) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise Refused(LookupError("late"))

    async with house.up():
        with trio.move_on_after(1) as patience:
            await ref.ask(Do(refuses_late))
        assert patience.cancelled_caught
        assert await ref.ask(Echo(1)) == 1


async def test_a_refusal_by_a_task_of_the_actor_is_a_crash() -> None:
    house = House()
    ref = house.add("a")

    async def refuses() -> None:
        raise Refused(LookupError("for no one"))

    async def starts(probe: Probe) -> None:
        probe.start_soon(refuses)
        await trio.sleep_forever()

    async with house.up():
        with pytest.raises(ActorCrashed):
            await ref.ask(Do(starts))


async def test_a_request_that_an_actor_has_no_method_for_is_refused_with_a_type_error() -> None:
    class Unknown(Request[int]):
        pass

    class Deaf(Actor[str]):
        pass

    root = Supervisor("root", max_restarts=0)
    ref = root.add(ChildSpec("deaf", Deaf))
    async with root.running():
        with pytest.raises(TypeError, match="Deaf does not answer Unknown"):
            await ref.ask(Unknown())
