"""Asking: replies, giving up, crashes, and what becomes of requests that nobody can answer."""

import signal
import sys
from types import FrameType
from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing

from actors import ActorCrashed, ActorStopped, AskedItself, ChildSpec, MailboxFull, Supervisor
from tests.fakes.actors import Broken, Crash, Do, Echo, End, House, Note, Probe, Work


async def test_an_ask_returns_what_receive_returned() -> None:
    house = House()
    ref = house.add("a")
    async with house.up():
        assert await ref.ask(Echo("x")) == "x"


async def test_the_asker_of_a_crash_gets_actor_crashed_with_the_cause() -> None:
    house = House()
    ref = house.add("a")
    error = Broken("mine")
    async with house.up():
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(Crash(error))
        assert caught.value.__cause__ is error
        assert caught.value.path == "root/a"


async def test_a_message_that_crashed_is_dropped_and_never_handled_again() -> None:
    house = House()
    ref = house.add("a")
    async with house.up():
        await ref.tell(Crash())
        await ref.tell(Note(1))
        assert await ref.ask(Echo(2)) == 2
    assert len(house.said("crash")) == 1
    assert house.said("note", "echo") == [("a", 2, "note", 1), ("a", 2, "echo", 2)]


async def test_queued_messages_stay_at_a_crash_in_their_order() -> None:
    house = House()
    ref = house.add("a")
    for value in range(3):
        ref.tell_nowait(Note(value))
    ref.tell_nowait(Crash())
    for value in range(3, 6):
        ref.tell_nowait(Note(value))
    async with house.up():
        await ref.ask(Echo("last"))
    assert [line[3] for line in house.said("note")] == [0, 1, 2, 3, 4, 5]
    assert [line[1] for line in house.said("note")] == [1, 1, 1, 2, 2, 2]


async def test_cancelling_the_asker_cancels_the_handler_and_waits_for_its_end() -> None:
    house = House()
    ref = house.add("a")
    async with house.up():
        before = trio.current_time()
        with trio.move_on_after(1):
            await ref.ask(Work(100, cleanup_s=2))
        assert trio.current_time() - before == 3
        assert house.said("work begins", "work cancelled", "work ends") == [
            ("a", 1, "work begins"),
            ("a", 1, "work cancelled"),
        ]
        # That was no crash: the same incarnation goes on.
        assert await ref.ask(Echo(1)) == 1
        assert house.node("a").incarnation == 1


async def test_the_asker_waits_for_the_handlers_end_no_longer_than_shutdown() -> None:
    house = House()
    ref = house.add("a", shutdown=3.0)
    async with house.up():
        before = trio.current_time()
        with trio.move_on_after(1):
            await ref.ask(Work(100, cleanup_s=50))
        assert trio.current_time() - before == 4
        assert await ref.ask(Echo(1)) == 1
        assert trio.current_time() - before == 51


async def test_a_request_of_a_gone_asker_is_never_handled() -> None:
    house = House()
    ref = house.add("a")
    async with house.up(), trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask, Work(10))
        await trio.sleep(1)
        with trio.move_on_after(1):
            await ref.ask(Echo("gone"))
        assert ref.statistics().depth == 0
        assert await ref.ask(Echo("here")) == "here"
    assert [line[3] for line in house.said("echo")] == ["here"]


async def test_a_request_of_a_gone_asker_makes_room_for_a_waiting_sender() -> None:
    house = House()
    ref = house.add("a", capacity=1)
    async with house.up(), trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask, Work(10))
        await trio.sleep(1)

        async def asks_too_long() -> None:
            with trio.move_on_after(2):
                await ref.ask(Echo("gone"))

        nursery.start_soon(asks_too_long)
        await trio.sleep(1)
        before = trio.current_time()
        await ref.tell(Note("waited"))
        assert trio.current_time() - before == 1


async def test_a_late_reply_is_discarded() -> None:
    house = House()
    ref = house.add("a")

    async def deaf(probe: Probe) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(2)
        return "late"

    async with house.up():
        with trio.move_on_after(1) as scope:
            await ref.ask(Do(deaf))
            pytest.fail("a reply came after giving up")
        assert scope.cancelled_caught
        assert await ref.ask(Echo("next")) == "next"


async def test_an_asker_that_is_cancelled_already_sends_nothing() -> None:
    house = House()
    ref = house.add("a")
    async with house.up():
        with trio.CancelScope() as scope:
            scope.cancel()
            await ref.ask(Echo("no"))
        with trio.CancelScope() as scope:
            scope.cancel()
            await ref.tell(Note("no"))
        await ref.ask(Echo("yes"))
    assert [line[3] for line in house.said("echo", "note")] == ["yes"]


async def test_a_cleanup_that_raises_after_the_asker_gave_up_is_no_crash(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House()
    ref = house.add("a", restart="temporary")
    async with house.up():
        with trio.move_on_after(1):
            await ref.ask(Work(100, cleanup_error=Broken("in cleanup")))
        assert await ref.ask(Echo(1)) == 1
        assert house.node("a").incarnation == 1
    assert "cleanup after a cancellation raised Broken: in cleanup" in caplog.text


async def test_an_error_next_to_a_cancellation_is_no_crash() -> None:
    """A handler's own nursery turns them into a group."""
    house = House()
    ref = house.add("a")

    async def two(probe: Probe) -> None:
        async def raises() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise Broken("beside")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(raises)
            nursery.start_soon(trio.sleep_forever)

    async with house.up():
        with trio.move_on_after(1):
            await ref.ask(Do(two))
        assert await ref.ask(Echo(1)) == 1
        assert house.node("a").incarnation == 1


async def test_an_error_next_to_a_cancellation_by_a_stop_is_no_crash() -> None:
    house = House()
    ref = house.add("a", shutdown=1.0)

    async def two(probe: Probe) -> None:
        async def raises() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise Broken("beside")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(raises)
            nursery.start_soon(trio.sleep_forever)

    async with house.up():
        await ref.tell(Do(two))
        await trio.sleep(1)
    assert house.log[-1] == ("a", 1, "stopped", "stopped")
    assert await ref.wait_stopped() == "stopped"


async def test_a_tell_is_not_cancelled_by_an_asker_of_the_message_before() -> None:
    house = House()
    ref = house.add("a")
    async with house.up(), trio.open_nursery() as nursery:

        async def asks() -> None:
            with trio.move_on_after(1):
                await ref.ask(Work(100))

        nursery.start_soon(asks)
        await trio.sleep(0.5)
        await ref.tell(Work(5))
        await trio.sleep(10)
    assert [line[2] for line in house.log] == [
        "started", "work begins", "work cancelled", "work begins", "work ends", "stopped",
    ]  # fmt: skip


async def test_at_the_final_stop_queued_asks_get_actor_stopped_and_queued_tells_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = House()
    ref = house.add("a", restart="temporary")
    results: list[str] = []

    async def asks() -> None:
        with pytest.raises(ActorStopped):
            await ref.ask(Echo(1))
        results.append("told")

    async with house.up(), trio.open_nursery() as nursery:
        ref.tell_nowait(Crash(after_s=1))
        await trio.sleep(0.1)
        nursery.start_soon(asks)
        await trio.sleep(0.1)
        ref.tell_nowait(Note(1))
        ref.tell_nowait(Note(2))
        assert await ref.wait_stopped() == "crashed"
        await trio.lowlevel.checkpoint()
        assert results == ["told"]
        assert ref.statistics().dead_letters == 2
        assert house.node("a").dead_letters == 2
        with pytest.raises(ActorStopped):
            await ref.tell(Note(3))
        with pytest.raises(ActorStopped):
            ref.tell_nowait(Note(3))
        with pytest.raises(ActorStopped):
            await ref.ask(Echo(3))
        assert ref.statistics().dead_letters == 2
    assert house.said("note", "echo") == []
    assert "2 messages that it will not handle" in caplog.text


async def test_a_sender_that_waits_for_room_is_turned_away_at_the_final_stop() -> None:
    house = House()
    ref = house.add("a", restart="temporary", capacity=1)
    async with house.up():
        await ref.tell(Crash(after_s=1))
        await trio.sleep(0.1)
        await ref.tell(Note("fills it"))
        with pytest.raises(ActorStopped):
            await ref.tell(Note("waits"))
        assert ref.statistics().dead_letters == 1


async def test_an_ask_in_the_handlers_hand_at_a_stop_is_answered_within_shutdown() -> None:
    house = House()
    ref = house.add("a")
    replies: list[str] = []

    async def asks() -> None:
        replies.append(await ref.ask(Work(3, reply="in time")))

    async with trio.open_nursery() as nursery:
        async with house.up():
            nursery.start_soon(asks)
            await trio.sleep(1)
    assert replies == ["in time"]


async def test_an_ask_that_is_cut_off_by_a_stop_gets_actor_stopped() -> None:
    house = House()
    ref = house.add("a", shutdown=2.0)
    times: list[float] = []

    async def asks() -> None:
        with pytest.raises(ActorStopped):
            await ref.ask(Work(30))
        times.append(trio.current_time() - begun)

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        async with house.up():
            nursery.start_soon(asks)
            await trio.sleep(1)
    assert times == [3]


async def test_asking_oneself_raises_at_once() -> None:
    house = House()
    ref = house.add("a")

    async def itself(probe: Probe) -> object:
        return await probe.ref.ask(Echo("never"))

    async def from_below(probe: Probe) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(probe.ref.ask, Echo("never"))

    async with house.up():
        begun = trio.current_time()
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(Do(itself))
        assert isinstance(caught.value.__cause__, AskedItself)
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(Do(from_below))
        assert isinstance(caught.value.__cause__, ExceptionGroup)
        assert caught.value.__cause__.subgroup(AskedItself) is not None
        assert trio.current_time() == begun


async def test_asking_oneself_raises_with_many_handlers_too() -> None:
    house = House()
    ref = house.add("a", concurrency=3)

    async def itself(probe: Probe) -> object:
        return await probe.ref.ask(Echo("never"))

    async with house.up():
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(Do(itself))
        assert isinstance(caught.value.__cause__, AskedItself)


@pytest.mark.parametrize("hook", ["started", "stopped"])
async def test_asking_oneself_raises_in_the_hooks(hook: str) -> None:
    errors: list[BaseException] = []

    class Fool(Probe):
        async def try_it(self) -> None:
            try:
                await self.ref.ask(Echo(1))
            except AskedItself as error:
                errors.append(error)

        async def started(self) -> None:
            if hook == "started":
                await self.try_it()

        async def stopped(self, reason: object) -> None:
            if hook == "stopped":
                await self.try_it()

    root = Supervisor("root")
    root.add(ChildSpec("fool", lambda: Fool([])))
    with trio.fail_after(1):
        async with root.running():
            pass
    assert len(errors) == 1


async def test_a_task_of_the_actor_may_ask_the_actor() -> None:
    house = House()
    ref = house.add("a")
    replies: list[object] = []

    async def task(probe: Probe) -> None:
        replies.append(await probe.ref.ask(Echo("from my task")))

    async def starts(probe: Probe) -> None:
        probe.start_soon(task, probe)
        await trio.sleep(1)

    async with house.up():
        await ref.ask(Do(starts))
        await ref.ask(Echo("x"))
    assert replies == ["from my task"]


async def test_two_actors_may_ask_each_other_in_a_chain() -> None:
    house = House()
    a = house.add("a")
    b = house.add("b")

    async def via(probe: Probe) -> object:
        return await b.ask(Echo("from b"))

    async with house.up():
        assert await a.ask(Do(via)) == "from b"


async def test_giving_up_goes_through_a_chain_of_asks_to_its_end() -> None:
    house = House()
    a = house.add("a")
    b = house.add("b")

    async def via(probe: Probe) -> object:
        return await b.ask(Work(100, cleanup_s=1))

    async with house.up():
        before = trio.current_time()
        with trio.move_on_after(1):
            await a.ask(Do(via))
        assert trio.current_time() - before == 2
        assert house.said("work cancelled") == [("b", 1, "work cancelled")]


async def test_a_full_mailbox_rejects_where_asked_to() -> None:
    house = House()
    ref = house.add("a", capacity=2, overflow="reject")
    ref.tell_nowait(Note(1))
    ref.tell_nowait(Note(2))
    with pytest.raises(MailboxFull) as caught:
        ref.tell_nowait(Note(3))
    assert caught.value.capacity == 2
    with pytest.raises(MailboxFull):
        await ref.tell(Note(3))
    with pytest.raises(MailboxFull):
        await ref.ask(Echo(3))
    async with house.up():
        await trio.sleep(1)
    assert [line[3] for line in house.said("note", "echo")] == [1, 2]


async def test_a_full_mailbox_makes_senders_wait_in_order() -> None:
    house = House()
    ref = house.add("a", capacity=1)
    async with house.up(), trio.open_nursery() as nursery:
        await ref.tell(Work(10))
        await trio.sleep(1)
        await ref.tell(Note(0))
        with pytest.raises(MailboxFull):
            ref.tell_nowait(Note("no room"))
        for value in range(1, 4):
            nursery.start_soon(ref.tell, Note(value))
            await trio.sleep(1)
        assert ref.statistics().senders_waiting == 3
    assert [line[3] for line in house.said("note")] == [0, 1, 2, 3]


async def test_a_sender_that_is_cancelled_while_it_waits_for_room_has_sent_nothing() -> None:
    house = House()
    ref = house.add("a", capacity=1)
    async with house.up():
        await ref.tell(Work(10))
        await trio.sleep(1)
        await ref.tell(Note(0))
        with trio.move_on_after(1):
            await ref.tell(Note("gone"))
        with trio.move_on_after(1):
            await ref.ask(Echo("gone"))
        assert await ref.ask(Echo("here")) == "here"
    assert [line[3] for line in house.said("note", "echo")] == [0, "here"]


async def test_many_messages_are_handled_at_once_with_concurrency() -> None:
    house = House()
    ref = house.add("a", concurrency=3)
    async with house.up():
        before = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(ref.ask, Work(10))
        assert trio.current_time() - before == 20


async def test_giving_up_on_one_of_many_leaves_the_others_alone() -> None:
    house = House()
    ref = house.add("a", concurrency=3)
    replies: list[str] = []

    async def asks() -> None:
        replies.append(await ref.ask(Work(10)))

    async with house.up():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks)
            nursery.start_soon(asks)
            with trio.move_on_after(1):
                await ref.ask(Work(100))
        assert replies == ["done", "done"]
        assert house.node("a").incarnation == 1
    assert len(house.said("work cancelled")) == 1


async def test_a_crash_of_one_of_many_handlers_tells_all_askers() -> None:
    house = House()
    ref = house.add("a", concurrency=3)
    causes: list[BaseException | None] = []

    async def asks(message: Work | Crash) -> None:
        with pytest.raises(ActorCrashed) as caught:
            await ref.ask(message)
        causes.append(caught.value.__cause__)

    error = Broken("one")
    async with house.up():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asks, Work(10))
            nursery.start_soon(asks, Work(10))
            nursery.start_soon(asks, Crash(error, 1))
        assert causes == [error, error, error]
        assert await ref.ask(Echo(1)) == 1
        assert house.node("a").incarnation == 2


async def test_a_stop_lets_all_of_many_handlers_finish() -> None:
    house = House()
    ref = house.add("a", concurrency=3)
    replies: list[str] = []

    async def asks(seconds: float) -> None:
        replies.append(await ref.ask(Work(seconds, reply=str(seconds))))

    async with trio.open_nursery() as nursery:
        async with house.up():
            nursery.start_soon(asks, 2)
            nursery.start_soon(asks, 4)
            await trio.sleep(1)
    assert sorted(replies) == ["2", "4"]
    assert house.log[-1] == ("a", 1, "stopped", "stopped")


async def test_an_ask_of_a_tree_that_has_ended_raises_actor_stopped() -> None:
    house = House()
    ref = house.add("a")
    async with house.up():
        pass
    with pytest.raises(ActorStopped):
        await ref.ask(Echo(1))
    assert await ref.wait_stopped() == "stopped"


async def test_messages_may_be_sent_before_the_tree_runs() -> None:
    house = House()
    ref = house.add("a")
    await ref.tell(Note("early"))
    async with house.up():
        assert await ref.ask(End()) == "ended"
    assert house.said("note") == [("a", 1, "note", "early")]


@pytest.mark.parametrize("queued", [False, True])
def test_an_ask_that_ctrl_c_interrupts_takes_its_work_back(queued: bool) -> None:
    house = House()
    ref = house.add("a", capacity=4)

    @trio.lowlevel.enable_ki_protection
    async def press() -> None:
        await trio.testing.wait_all_tasks_blocked()
        signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        with trio.fail_after(30):
            async with house.up(), trio.open_nursery() as nursery:
                if queued:
                    nursery.start_soon(ref.ask, Work(1))
                    await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(press)
                with pytest.raises(KeyboardInterrupt):
                    await ref.ask(Work(3600, cleanup_s=0.01))
                assert len(house.said("work cancelled")) == (0 if queued else 1)
                assert await ref.ask(Echo("free")) == "free"

    trio.run(main)
    assert len(house.said("work begins")) == 1


async def test_what_an_ask_costs_does_not_grow_with_the_messages_in_hand() -> None:
    """Counted in steps of the interpreter, not in time."""
    house = House()
    ref = house.add("a", concurrency=2000, capacity=2000)

    async def steps() -> int:
        await trio.testing.wait_all_tasks_blocked()
        count = 0

        def trace(frame: FrameType, event: str, arg: object) -> Any:
            nonlocal count
            count += 1
            return trace

        sys.settrace(trace)
        try:
            assert not ref._node.runs_this_task()
        finally:
            sys.settrace(None)
        return count

    async with house.up():
        few = 3
        for _ in range(few):
            await ref.tell(Work(10))
        with_few = await steps()
        for _ in range(1000):
            await ref.tell(Work(10))
        assert await steps() == with_few > 0


async def test_the_end_of_one_of_many_handlers_wakes_only_a_reader_without_room() -> None:
    house = House()
    ref = house.add("a", concurrency=3)

    class Steps(trio.abc.Instrument):
        of_reader = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.of_reader += task.name == "a"

    async with house.up():
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        for _ in range(10):
            await ref.ask(Echo(1))
        assert steps.of_reader == 10
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(ref.ask, Work(10))
            await trio.sleep(5)
            steps.of_reader = 0
        assert steps.of_reader == 1  # three end at once, and the fourth begins
        trio.lowlevel.remove_instrument(steps)
