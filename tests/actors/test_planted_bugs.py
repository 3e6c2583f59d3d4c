"""The properties can fail: each bug planted here, of a kind that a runtime may have, makes one fail."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from actors.cell import Cell
from actors.dynamic import DynamicSupervisor
from actors.incarnation import Incarnation
from actors.intensity import RestartIntensity
from actors.mailbox import Mailbox
from actors.request import Ask
from actors.supervisor import Supervisor
from tests.fakes.actor_worlds import Behaviour, Plan, plans, play

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def asker_not_answered(patch: Patch) -> None:
    settle = Incarnation._settle

    def forgetful(self: Incarnation[Any], item: object) -> None:
        if self.crash is None:
            settle(self, item)

    patch.setattr(Incarnation, "_settle", forgetful)


def message_redelivered(patch: Patch) -> None:
    failed = Incarnation._failed

    def again(self: Incarnation[Any], error: BaseException, work: trio.CancelScope | None = None) -> None:
        failed(self, error, work)
        if self.crash is error and self._in_hand is not None:
            self._mailbox.queue.appendleft(self._in_hand)

    patch.setattr(Incarnation, "_failed", again)


def window_off_by_one(patch: Patch) -> None:
    def allow(self: RestartIntensity, now: float) -> bool:
        while self._times and now - self._times[0] > self.within:
            self._times.popleft()
        if len(self._times) > self.max_restarts:
            return False
        self._times.append(now)
        return True

    patch.setattr(RestartIntensity, "allow", allow)


def asker_leaves_without_cancelling(patch: Patch) -> None:
    patch.setattr(Ask, "give_up", lambda self: None)


def asker_leaves_without_waiting(patch: Patch) -> None:
    async def at_once(self: Ask[Any]) -> None:
        pass

    patch.setattr(Ask, "ended", at_once)


def request_of_a_gone_asker_handled(patch: Patch) -> None:
    patch.setattr(Mailbox, "remove", lambda self, ask: None)


def mailbox_lost_at_a_crash(patch: Patch) -> None:
    live = Cell._live

    def empties(self: Cell[Any]) -> Any:
        self.mailbox.queue.clear()
        return live(self)

    patch.setattr(Cell, "_live", empties)


def mailbox_not_drained_at_the_final_stop(patch: Patch) -> None:
    def close(self: Mailbox) -> None:
        self.closed = True
        self.queue.clear()

    patch.setattr(Mailbox, "close", close)


def order_lost(patch: Patch) -> None:
    def pop(self: Mailbox) -> object:
        item = self.queue.pop()
        self._refill()
        return item

    patch.setattr(Mailbox, "pop", pop)


def waiting_sender_forgotten(patch: Patch) -> None:
    patch.setattr(Mailbox, "_refill", lambda self: None)


def tasks_not_cancelled(patch: Patch) -> None:
    patch.setattr(Incarnation, "_cancel_tasks", lambda self: None)


def successor_started_before_the_end(patch: Patch) -> None:
    stop_requested = Cell._stop_requested

    def frees_the_key(self: Any) -> None:
        stop_requested(self)
        if self.over and hasattr(self, "_forget"):
            self._forget(self)

    patch.setattr(Cell, "_stop_requested", frees_the_key)


def key_reserved_too_late(patch: Patch) -> None:
    reserve = DynamicSupervisor._reserve
    get_or_start = DynamicSupervisor.get_or_start

    async def late(self: DynamicSupervisor[Any], key: str) -> Any:
        await trio.lowlevel.checkpoint()
        if self._nursery is not None and key not in self._cells and not self._ending:
            cell = reserve(self, key)
            del self._cells[key]
            await trio.lowlevel.checkpoint()
            if self._nursery is not None and not self._ending:
                self._cells[key] = cell
                cell._begin(self._nursery)
        return await get_or_start(self, key)

    patch.setattr(DynamicSupervisor, "get_or_start", late)


def sibling_crash_missed(patch: Patch) -> None:
    delay = Supervisor._delay

    def only_the_first(self: Supervisor, child: Any, delay_s: float) -> float | None:
        if self._due or any(other.state == "starting" for other in self._children):
            return None
        return delay(self, child, delay_s)

    patch.setattr(Supervisor, "_delay", only_the_first)


def suspended_child_never_looked_at_again(patch: Patch) -> None:
    look = DynamicSupervisor._look

    def gives_up(self: DynamicSupervisor[Any], key: str, at: float) -> float | None:
        cell = self._cells.get(key)
        return None if cell is not None and (cell.stopping or cell.down) else look(self, key, at)

    patch.setattr(DynamicSupervisor, "_look", gives_up)


CRASHES: list[Behaviour] = ["return", "crash", "sleep and crash"]

# With plans that are likely to meet the bug: they need fewer of them.
BUGS: list[tuple[Callable[[Patch], None], st.SearchStrategy[Plan]]] = [
    (asker_not_answered, plans()),
    (message_redelivered, plans()),
    (window_off_by_one, plans(CRASHES, strategy="one_for_one", over_after_s=None, max_restarts=1)),
    (asker_leaves_without_cancelling, plans(["sleep"])),
    (asker_leaves_without_waiting, plans(["slow cleanup"])),
    (request_of_a_gone_asker_handled, plans()),
    (mailbox_lost_at_a_crash, plans(CRASHES)),
    (mailbox_not_drained_at_the_final_stop, plans(CRASHES)),
    (order_lost, plans(["return"], capacity=4, concurrency=1, over_after_s=None)),
    (waiting_sender_forgotten, plans(["return", "sleep"], capacity=1, overflow="wait", over_after_s=None)),
    (tasks_not_cancelled, plans(["return", "spawn", "crash"], over_after_s=None, max_restarts=50)),
    (successor_started_before_the_end, plans(["sleep"], stop_s=1.0)),
    (key_reserved_too_late, plans()),
    (sibling_crash_missed, plans(CRASHES, strategy="rest_for_one", over_after_s=None, max_restarts=50)),
    (
        suspended_child_never_looked_at_again,
        plans(
            ["return", "sleep", "crash"],
            strategy="rest_for_one",
            idle_s=0.5,
            stop_s=1.0,
            over_after_s=None,
            max_restarts=50,
        ),
    ),
]


@pytest.mark.parametrize(("bug", "drawn"), BUGS, ids=[bug.__name__ for bug, _ in BUGS])
def test_a_planted_bug_makes_a_property_fail(
    bug: Callable[[Patch], None], drawn: st.SearchStrategy[Plan], monkeypatch: Patch
) -> None:
    bug(monkeypatch)

    @settings(
        max_examples=1500,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=drawn, order=st.random_module())
    def holds(plan: Plan, order: object) -> None:
        play(plan)

    with pytest.raises((AssertionError, trio.TooSlowError, BaseExceptionGroup)):
        holds()
