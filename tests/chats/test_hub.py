"""What chats tell reaches those who listen, however much it is."""

import trio

from rumi.agent.events import Thinking, ToolFinished, ToolStarted
from rumi.agent.tool import ToolResult
from rumi.chats.events import ChatEvent, Happening, Replied, TurnStarted
from rumi.chats.hub import Hub
from rumi.models.model import TextDelta, ToolCall

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


def event(what: Happening, turn: str = "t1") -> ChatEvent:
    return ChatEvent("c", turn, 0.0, what)


async def test_a_subscriber_in_the_middle_of_a_turn_gets_its_state() -> None:
    hub = Hub()
    done, runs = (ToolCall(id, "bash", "{}") for id in ("done", "runs"))
    begun = [TurnStarted("do it", 1), Thinking(1), TextDelta("void"), ToolStarted(done), Thinking(2)]
    for what in begun:
        hub.publish(event(what))
    for number in range(3000):
        hub.publish(event(TextDelta(f"{number} ")))
    for what in (ToolStarted(done), ToolStarted(runs), ToolFinished(done, ToolResult(True, ""))):
        hub.publish(event(what))
    entered = hub.subscribe("c", entering=True)
    assert hub.subscribe("c").behind == hub.subscribe("other", entering=True).behind == 0
    told = [(await entered.receive()).what for _ in range(entered.behind)]
    assert told[0] == begun[0]
    assert "".join(what.text for what in told if isinstance(what, TextDelta)).split() == [
        str(number) for number in range(3000)
    ]
    assert [what.call for what in told if isinstance(what, ToolStarted)] == [runs]
    hub.publish(event(Replied(1, (2,), "busy"), turn=""))
    assert hub.subscribe("c", entering=True).behind > 0
    hub.publish(event(Replied(2, (1,), "done")))
    assert hub.subscribe("c", entering=True).behind == 0
    hub.publish(event(TurnStarted("again", 3)))
    hub.nothing_runs("c")
    assert hub.subscribe("c", entering=True).behind == 0


async def test_a_reader_that_is_far_behind_holds_a_bounded_number_of_characters_and_loses_no_reply() -> None:
    hub = Hub()
    large = ToolResult(True, "x" * 1_000_000)
    with hub.listening("c") as events:
        for number in range(100):
            hub.publish(event(ToolFinished(ToolCall(str(number), "bash", ""), large)))
        hub.publish(event(Replied(1, (1,), "done")))
        told = [(await events.receive()).what for _ in range(events.behind)]
    size = sum(len(what.result.content) for what in told if isinstance(what, ToolFinished))
    assert 30_000_000 < size <= 32_000_000
    assert told[-1] == Replied(1, (1,), "done")
