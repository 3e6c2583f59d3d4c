"""A fault is planted for each promise about Matrix: a history must find it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from rumi.channels.matrix import delivery, growing, intake
from rumi.channels.matrix.api import MatrixApi
from rumi.channels.matrix.delivery import MatrixDelivery
from rumi.channels.matrix.growing import GrowingReply
from rumi.channels.matrix.syncer import MatrixSyncer
from rumi.store.journal import matrix
from rumi.store.journal.matrix import SyncBatch, accept_sync
from rumi.store.journal.outbox import mark_delivered
from rumi.store.steps import Transaction
from tests.simulation.matrix.play import play_matrix
from tests.simulation.seeds import check_seed
from tests.simulation.world import World

SEEDS = range(500)

Plant = Callable[[pytest.MonkeyPatch], None]

pytestmark = pytest.mark.long


def sends_each_attempt_under_a_new_id(patch: pytest.MonkeyPatch) -> None:
    send, numbers = MatrixApi.send, count()

    async def anew(self: MatrixApi, room: str, kind: str, content: Any, txn: str) -> str:
        return await send(self, room, kind, content, f"{txn}-{next(numbers)}" if txn.startswith("r") else txn)

    patch.setattr(MatrixApi, "send", anew)


def marks_a_reply_before_it_is_sent(patch: pytest.MonkeyPatch) -> None:
    send = MatrixDelivery._send

    async def marked(self: MatrixDelivery, chat: str, place: Any, reply: Any, grown: Any) -> None:
        await self._journal.ask(mark_delivered(reply.delivery))
        await send(self, chat, place, reply, grown)

    patch.setattr(MatrixDelivery, "_send", marked)


def moves_before_it_stores(patch: pytest.MonkeyPatch) -> None:
    take = intake.MatrixIntake.take

    async def moved(self: Any, since: str, token: str, timelines: Any, start: Any) -> bool:
        await self._ask(accept_sync(SyncBatch(self._wire.account.user, since, token)))
        return await take(self, token, token, timelines, start)

    patch.setattr(intake.MatrixIntake, "take", moved)


def knows_no_event_again(patch: pytest.MonkeyPatch) -> None:
    accept, numbers = matrix._accept_event, count()

    def anew(transaction: Transaction, account: str, event: Any) -> Any:
        return accept(transaction, account, replace(event, id=f"{event.id}-{next(numbers)}"))

    patch.setattr(matrix, "_accept_event", anew)


def leaves_a_growing_answer_behind(patch: pytest.MonkeyPatch) -> None:
    async def none(self: MatrixDelivery, *more: Any) -> str:
        return ""

    patch.setattr(MatrixDelivery, "_preview", none)


def forgets_the_growing_answer_of_a_killed_process(patch: pytest.MonkeyPatch) -> None:
    preview = MatrixDelivery._preview

    async def own(self: MatrixDelivery, chat: str, place: Any, reply: Any, grown: Any, part: str) -> str:
        return "" if grown is None else await preview(self, chat, place, reply, grown, part)

    patch.setattr(MatrixDelivery, "_preview", own)


def lets_late_edits_follow_the_reply(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: GrowingReply, place: Any) -> None:
        self._unsure = None

    patch.setattr(GrowingReply, "settle", nothing)


def reads_no_gaps(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: MatrixSyncer, id: str, start: str, since: str) -> list[object]:
        return []

    patch.setattr(MatrixSyncer, "_left_out", nothing)


def stops_at_an_odd_event(patch: pytest.MonkeyPatch) -> None:
    def strict(raw: Any) -> Any:
        found = growing_event(raw)
        if found is None:
            raise RumiError("odd")
        return found

    from rumi.errors import RumiError

    growing_event = intake.event_of
    patch.setattr(intake, "event_of", strict)


def gives_up_at_a_limit(patch: pytest.MonkeyPatch) -> None:
    send = MatrixDelivery.send_reply

    async def hasty(self: MatrixDelivery, chat: str, reply: Any, grown: Any) -> None:
        try:
            await send(self, chat, reply, grown)
        except delivery.MatrixError as error:
            if error.kind != "limited":
                raise
            await self._journal.ask(delivery.mark_undeliverable(chat, "a limit", reply.delivery))

    patch.setattr(MatrixDelivery, "send_reply", hasty)


def finds_its_growing_answer_under_another_id(patch: pytest.MonkeyPatch) -> None:
    find, numbers = growing.find_preview, count()

    async def anew(wire: Any, journal: Any, chat: str, place: Any, number: int, *more: Any) -> str:
        send = wire.send_now

        async def renamed(place: Any, content: Any, txn: str, kind: str = "m.room.message") -> str:
            return await send(place, content, f"{txn}-{next(numbers)}", kind)

        class Renamed:
            account, api, related, salt = wire.account, wire.api, wire.related, wire.salt
            send_now = staticmethod(renamed)

        return await find(Renamed(), journal, chat, place, number, *more)  # type: ignore[arg-type]

    patch.setattr(growing, "find_preview", anew)
    patch.setattr(delivery, "find_preview", anew)


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (sends_each_attempt_under_a_new_id, "too many"),
        (marks_a_reply_before_it_is_sent, "never showed"),
        (moves_before_it_stores, "became 0 messages"),
        (knows_no_event_again, "became 2 messages"),
        (leaves_a_growing_answer_behind, "too many"),
        (forgets_the_growing_answer_of_a_killed_process, "too many"),
        (finds_its_growing_answer_under_another_id, "too many"),
        (lets_late_edits_follow_the_reply, "never showed"),
        (reads_no_gaps, "became 0 messages"),
        (stops_at_an_odd_event, "never settled"),
        (gives_up_at_a_limit, "given up"),
    ],
)
def test_a_planted_fault_on_matrix_is_found(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play_planted(seed: int) -> World:
        with monkeypatch.context() as fresh:  # what the fault counts begins anew in each history
            plant(fresh)
            return play_matrix(World(seed))

    check_seed("matrix", f"{plant.__name__}: {complaint}", complaint, SEEDS, play_planted)
