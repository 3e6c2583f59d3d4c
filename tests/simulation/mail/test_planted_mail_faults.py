"""A fault is planted for each promise about mails: a history must find it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from rumi.channels.mail import delivery, intake
from rumi.channels.mail.delivery import MailDelivery
from rumi.channels.mail.signatures import MailProof
from rumi.channels.mail.watcher import MailWatcher
from rumi.store.journal.mail_positions import move_mail_position
from rumi.store.journal.mails import ReceivedMail, accept_mail, reserve_mail, settle_mail, unknown_mails
from rumi.store.steps import Transaction
from tests.simulation.mail.play import play_mail
from tests.simulation.seeds import check_seed
from tests.simulation.world import World

SEEDS = range(500)

Plant = Callable[[pytest.MonkeyPatch], None]

pytestmark = pytest.mark.long


def sends_again_what_was_handed_over(patch: pytest.MonkeyPatch) -> None:
    reserve = reserve_mail.do

    def forgetful(transaction: Transaction, chat: str, turn: str, *more: Any) -> None:
        transaction.db.execute("DELETE FROM effects WHERE turn = ? AND chat = ?", (turn, chat))
        reserve(transaction, chat, turn, *more)

    patch.setattr(reserve_mail, "do", forgetful)


def marks_a_mail_before_it_is_sent(patch: pytest.MonkeyPatch) -> None:
    mark = MailDelivery._mark

    async def marked_first(self: MailDelivery, chat: str, turn: str, id: str) -> None:
        await mark(self, chat, turn, id)
        await self._journal.ask(settle_mail(chat, turn, int(turn.removeprefix("outbox:"))))

    patch.setattr(MailDelivery, "_mark", marked_first)


def tells_nobody_of_unknown_outcomes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(unknown_mails, "do", lambda transaction, chat="", told=True: ())


def knows_no_mail_again(patch: pytest.MonkeyPatch) -> None:
    accept, numbers = accept_mail.do, count()

    def anew(transaction: Transaction, mail: ReceivedMail, most: int) -> Any:
        return accept(transaction, replace(mail, marks=(f"<{next(numbers)}>",)), most)

    patch.setattr(accept_mail, "do", anew)


def moves_before_it_stores(patch: pytest.MonkeyPatch) -> None:
    look = MailWatcher._look

    async def moved_first(self: MailWatcher, folder: str, take: Any) -> None:
        async def late(found: Any) -> Any:
            position = replace(await self._ask(mails_end(self)), upto=max(mail.uid for mail in found))
            await self._ask(move_mail_position(self._watched.account, folder, position))
            return await take(found)

        await look(self, folder, late)

    def mails_end(self: MailWatcher) -> Any:
        from rumi.store.journal.mail_positions import mail_position

        return mail_position(self._watched.account, "INBOX")

    patch.setattr(MailWatcher, "_look", moved_first)


def asks_for_no_proof(patch: pytest.MonkeyPatch) -> None:
    async def proved(mail: Any, *more: Any) -> MailProof:
        return MailProof(marks=(f"mark of {hash(mail.raw)}",))

    patch.setattr(intake, "proof_of", proved)


def answers_programs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(intake, "automatic", lambda headers, author, own: "")


def forgets_what_was_numbered_anew(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: MailWatcher, folder: str) -> tuple[()]:
        return ()

    patch.setattr(MailWatcher, "_renumbered", nothing)


def gives_up_when_it_is_refused_for_now(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(delivery, "_PERMANENT", delivery.re.compile(r"\b[45]\d\d\b"))


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [
        (sends_again_what_was_handed_over, "times"),
        (marks_a_mail_before_it_is_sent, "was never delivered"),
        (tells_nobody_of_unknown_outcomes, "nobody was told"),
        (knows_no_mail_again, "messages, not 1"),
        (moves_before_it_stores, "became 0 messages"),
        (asks_for_no_proof, "messages, not 0"),
        (answers_programs, "messages, not 0"),
        (forgets_what_was_numbered_anew, "became 0 messages"),
        (gives_up_when_it_is_refused_for_now, "was given up"),
    ],
)
def test_a_planted_fault_of_mails_is_found(
    plant: Plant, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play_planted(seed: int) -> World:
        with monkeypatch.context() as fresh:  # what the fault counts begins anew in each history
            plant(fresh)
            return play_mail(World(seed))

    check_seed("mail", f"{plant.__name__}: {complaint}", complaint, SEEDS, play_planted)
