"""Publishing never waits; a slow reader loses what the rule says, and nothing else."""

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from rumi.platform.topic import Backlog, Subscription, Topic


async def taken(events: Subscription[int]) -> list[int]:
    return [await events.receive() for _ in range(events.behind)]


async def test_an_event_reaches_the_subscribers_of_its_key_and_those_of_all_keys() -> None:
    topic: Topic[str, int] = Topic(Backlog())
    with topic.listening("a") as of_a, topic.listening("b") as of_b, topic.listening() as of_all:
        topic.publish("a", 1)
        topic.publish("c", 2)
        assert await taken(of_a) == [1]
        assert await taken(of_b) == []
        assert await taken(of_all) == [1, 2]


async def test_a_reader_that_waits_gets_the_next_event() -> None:
    topic: Topic[str, int] = Topic(Backlog())
    got: list[int] = []

    async def read(events: Subscription[int]) -> None:
        got.append(await events.receive())

    with topic.listening() as events:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, events)
            await trio.testing.wait_all_tasks_blocked()
            topic.publish("a", 1)
    assert got == [1]


async def test_a_slow_reader_loses_the_oldest_events_and_knows_how_many() -> None:
    topic: Topic[str, int] = Topic(Backlog(most=3))
    with topic.listening() as slow, topic.listening(wants=lambda event: event == 1) as choosy:
        for number in range(10):
            topic.publish("a", number)
        assert (slow.lost, await taken(slow)) == (7, [7, 8, 9])
        assert (choosy.lost, await taken(choosy)) == (0, [1])


async def test_what_must_be_kept_is_never_lost() -> None:
    topic: Topic[str, int] = Topic(Backlog(most=2, retains=lambda event: event % 10 == 0))
    with topic.listening() as events:
        for number in range(35):
            topic.publish("a", number)
        assert await taken(events) == [0, 10, 20, 30]
        assert events.lost == 31


async def test_neighbours_that_join_wait_as_one() -> None:
    topic: Topic[str, str] = Topic(
        Backlog(most=2, joins=lambda older, newer: older + newer if newer != "|" else None)
    )
    with topic.listening() as events:
        for word in ("a", "b", "|", "c"):
            topic.publish("", word)
        assert [await events.receive() for _ in range(events.behind)] == ["ab", "|c"]


@given(events=st.lists(st.integers(0, 20), max_size=50), most=st.integers(1, 5), weight=st.integers(20, 60))
def test_what_waits_is_within_the_bounds_and_in_order(events: list[int], most: int, weight: int) -> None:
    async def main() -> None:
        numbered: Topic[str, tuple[int, int]] = Topic(
            Backlog(most=most, most_weight=weight, weight=lambda event: event[1])
        )
        with numbered.listening() as reader:
            for number, event in enumerate(events):
                numbered.publish("", (number, event))
            left = [await reader.receive() for _ in range(reader.behind)]
        assert len(left) <= most
        assert sum(event for _, event in left) <= weight
        assert left == list(enumerate(events))[len(events) - len(left) :]
        assert reader.lost == len(events) - len(left)

    trio.run(main)


async def test_a_closed_subscription_leaves_nothing_behind() -> None:
    topic: Topic[str, int] = Topic(Backlog())
    with topic.listening("a") as events:
        with topic.listening("a"), topic.listening():
            assert topic.subscribed() == ("a", None)
        assert topic.subscribed() == ("a",)
    assert topic.subscribed() == ()
    topic.publish("a", 1)
    assert events.behind == 0
