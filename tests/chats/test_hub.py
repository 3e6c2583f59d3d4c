"""What chats tell reaches those who listen, however much it is."""

import trio

from rumi.chats import ChatEvent, Hub, Replied

EVENTS = 1000


async def test_a_reader_keeps_up_with_many_chats_while_others_are_busy() -> None:
    hub = Hub()
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await trio.lowlevel.checkpoint()

    with hub.listening() as events:
        for number in range(EVENTS):
            hub.publish(ChatEvent(f"c{number}", "", 0.0, Replied(number, (number,), "")))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            chats = [(await events.receive()).chat for _ in range(EVENTS)]
            nursery.cancel_scope.cancel()
    assert chats == [f"c{number}" for number in range(EVENTS)]
    assert 0 < rounds < EVENTS / 10


async def test_a_cancelled_reader_loses_nothing() -> None:
    hub = Hub()
    with hub.listening() as events:
        for number in range(3):
            hub.publish(ChatEvent("c", "", 0.0, Replied(number, (number,), "")))
        await events.receive()
        with trio.CancelScope() as scope:
            scope.cancel()
            await events.receive()
        assert scope.cancelled_caught
        left = [(await events.receive()).what for _ in range(2)]
    assert [what.delivery for what in left if isinstance(what, Replied)] == [1, 2]
