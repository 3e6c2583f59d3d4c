"""Steps for schedules that look for a change before they work.

The next fire time is stored before a check begins, so that it never keeps the clock waiting. What it has read
is stored in the same transaction as the work that a change begins: a check that is interrupted has stored
nothing, and the next one finds the same change.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from rumi.store.journal.inbox import insert_message
from rumi.store.journal.outbox import outcome_json
from rumi.store.journal.records import Fired, FireOutcome, Firing, Incoming
from rumi.store.journal.schedules import goes_on, insert_work
from rumi.store.journal.scopes import keys_in
from rumi.store.journal.transaction import clean
from rumi.store.journal.unreachable import pause_if_unreachable
from rumi.store.steps import Transaction, step

BeginCheck: TypeAlias = tuple[int, float, float]
"""The number of a schedule, its instant, and its next instant."""


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """The result of a check of `schedule`, which had read `before` until then, and now `checked`.

    A change begins the work of `firing`. `told` is a message about the check itself.
    """

    schedule: int
    before: str
    checked: str
    outcome: FireOutcome
    firing: Firing | None = None
    told: Incoming | None = None


def _of_checks(transaction: Transaction, checks: tuple[BeginCheck, ...]) -> Iterable[str]:
    return keys_in(transaction, "schedules", [check[0] for check in checks])


@step(_of_checks, owned=True)
def begin_checks(transaction: Transaction, checks: tuple[BeginCheck, ...]) -> tuple[int, ...]:
    """Set the next fire times of schedules whose check begins; return the numbers of these schedules."""
    return tuple(id for id, instant, then in checks if _begins(transaction, id, instant, then))


def _begins(transaction: Transaction, id: int, instant: float, then: float) -> bool:
    if pause_if_unreachable(transaction, id):
        return False
    advanced = transaction.db.execute(
        "UPDATE schedules SET instant = ?1, next_at = ?1, touched = ?2"
        " WHERE id = ?3 AND state = 'active' AND instant = ?4",
        (then, transaction.now(), id, instant),
    )
    return bool(advanced.rowcount)


def _of_checked(transaction: Transaction, checked: StoredCheck) -> Iterable[str]:
    return keys_in(transaction, "schedules", [checked.schedule])


@step(_of_checked, owned=True)
def store_check(transaction: Transaction, checked: StoredCheck) -> tuple[Fired, Incoming | None] | None:
    """Store what a check has read, and the work and the message that follow from it, in one transaction.

    Return None, and store nothing, if the schedule was paused, deleted or checked meanwhile, or if work of an
    earlier change is unfinished: then the next check finds the change again.
    """
    firing = checked.firing
    if firing is not None and goes_on(firing, transaction):
        return None
    stored = transaction.db.execute(
        "UPDATE schedules SET checked = ?, outcome = ?, failures = failures + ?"
        " WHERE id = ? AND state = 'active' AND checked = ?",
        (
            clean(checked.checked),
            outcome_json(checked.outcome, transaction.now()),
            int(firing is not None and firing.failed),
            *(checked.schedule, checked.before),
        ),
    )
    if not stored.rowcount:
        return None
    fired = Fired() if firing is None else insert_work(firing, transaction)
    told = None if checked.told is None else insert_message(checked.told, transaction)
    return fired, told
