"""The simulation of several workers finds faults: each of these is planted, and must be found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import trio

from rumi.chats.dispatcher import Dispatcher
from rumi.chats.publishing import PendingMessages
from rumi.sandbox.lease import boottime
from rumi.store.cluster.lease import WorkerLease
from rumi.store.cluster.partitions import Partitions
from rumi.store.journal.history import append_history
from rumi.store.journal.leases import claim_partitions, renew_lease
from rumi.store.journal.outbox import undelivered_chats
from rumi.store.journal.store import Store
from rumi.store.ownership import PARTITIONS, Ownership
from rumi.store.steps import Transaction
from tests.simulation.cluster.play import play_cluster, world_of
from tests.simulation.seeds import check_seed
from tests.simulation.test_planted_faults import (
    notes_no_parts,
    stores_the_text_of_a_reminder_before_it_advances,
)
from tests.simulation.world import World

pytestmark = pytest.mark.long

SEEDS = range(1000)

Plant = Callable[[pytest.MonkeyPatch], None]


def checks_no_fence_of_what_a_turn_appends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(append_history, "owned", False)


def renews_a_lease_that_has_ended(patch: pytest.MonkeyPatch) -> None:
    def renew(transaction: Transaction, worker: str, lease_s: float, status: str = "") -> dict[int, int]:
        until = transaction.now() + lease_s
        transaction.db.execute("UPDATE workers SET until = ? WHERE name = ?", (until, worker))
        return dict(
            transaction.db.execute("SELECT number, fence FROM partitions WHERE worker = ?", (worker,))
        )

    async def renewed(self: WorkerLease) -> bool:
        sent = trio.current_time(), boottime()
        await self._ask(renew_lease(self._ownership.worker, self._settings.lease_s))
        self._extend(sent)
        return True

    patch.setattr(renew_lease, "do", renew)
    patch.setattr(WorkerLease, "_renewed", renewed)


def sends_what_others_serve(patch: pytest.MonkeyPatch) -> None:
    def all_of_them(transaction: Transaction, partitions: object = None) -> tuple[str, ...]:
        return tuple(
            chat
            for (chat,) in transaction.db.execute("SELECT DISTINCT chat FROM outbox WHERE delivered IS NULL")
        )

    patch.setattr(Ownership, "serves", lambda self, chat: True)
    patch.setattr(undelivered_chats, "do", all_of_them)


def hands_over_before_the_sandbox_is_gone(patch: pytest.MonkeyPatch) -> None:
    async def at_once(self: Dispatcher, chat: str, patience_s: float) -> None:
        await trio.lowlevel.checkpoint()

    patch.setattr(Dispatcher, "_hand_over", at_once)


def claims_without_a_new_fence(patch: pytest.MonkeyPatch) -> None:
    """Where fences alone say who may write."""

    claim = claim_partitions.do

    def same(transaction: Transaction, *args: Any) -> tuple[Any, ...]:
        claimed = claim(transaction, *args)
        for partition in claimed:
            transaction.db.execute("UPDATE partitions SET fence = 1 WHERE number = ?", (partition.number,))
        return tuple(replace(partition, fence=1) for partition in claimed)

    def by_fence(scope: Any, owners: Any, served: Any) -> frozenset[int]:
        numbers = scope.numbers if scope.owned else frozenset()
        return frozenset(
            number for number in numbers if served.fences.get(number, 0) != owners.get(number, ("", 0))[1]
        )

    patch.setattr(claim_partitions, "do", same)
    patch.setattr(Store, "_not_served", staticmethod(by_fence))


def looks_for_no_notification_that_was_lost(patch: pytest.MonkeyPatch) -> None:
    async def never(self: Partitions) -> None:
        await trio.sleep_forever()

    patch.setattr(Partitions, "_look_again", never)


def does_a_commit_without_an_answer_again(patch: pytest.MonkeyPatch) -> None:
    after = Store._after_an_unsure_commit

    def forgets(self: Store) -> None:
        after(self)
        self._done = []

    patch.setattr(Store, "_after_an_unsure_commit", forgets)


def takes_what_waited_for_begun(patch: pytest.MonkeyPatch) -> None:
    def adopt(self: PendingMessages, chat: str, open_messages: Any) -> None:
        cursor = self.cursor(chat)
        if self.worker is not None and not cursor.adopted and open_messages:
            cursor.judged = cursor.earlier = max(cursor.judged, open_messages[-1].id)
        cursor.adopted = True

    patch.setattr(PendingMessages, "adopt", adopt)


def takes_its_own_crash_for_an_earlier_workers_end(patch: pytest.MonkeyPatch) -> None:
    adopt = PendingMessages.adopt

    def adopts(self: PendingMessages, chat: str, open_messages: Any) -> None:
        adopt(self, chat, open_messages)
        if open_messages:
            self.cursor(chat).earlier = open_messages[-1].id

    patch.setattr(PendingMessages, "adopt", adopts)


def forgets_what_it_has_claimed(patch: pytest.MonkeyPatch) -> None:
    """A claim whose answer is lost stays with the worker, which serves nothing of it."""

    claim = claim_partitions.do

    def forgetful(transaction: Transaction, worker: str, most: int, after_s: float, has: object) -> Any:
        return claim(transaction, worker, most, after_s, tuple(range(PARTITIONS)))

    patch.setattr(claim_partitions, "do", forgetful)


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (checks_no_fence_of_what_a_turn_appends, "behind its end"),
        (renews_a_lease_that_has_ended, "was never delivered"),
        (sends_what_others_serve, "serves it"),
        (notes_no_parts, "nothing was noted"),
        (hands_over_before_the_sandbox_is_gone, "another worker"),
        (claims_without_a_new_fence, "behind its end"),
        (looks_for_no_notification_that_was_lost, "never settled"),
        (does_a_commit_without_an_answer_again, "entries twice"),
        (takes_what_waited_for_begun, "had not begun"),
        (takes_its_own_crash_for_an_earlier_workers_end, "had not begun"),
        (forgets_what_it_has_claimed, "never settled"),
        (stores_the_text_of_a_reminder_before_it_advances, "times, and was called"),
    ],
)
def test_a_planted_fault_of_workers_is_found(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play_planted(seed: int) -> World:
        with monkeypatch.context() as fresh:  # what the fault counts begins anew in each history
            plant(fresh)
            return play_cluster(world_of(seed))

    check_seed("cluster", f"{plant.__name__}: {complaint}", complaint, SEEDS, play_planted)
