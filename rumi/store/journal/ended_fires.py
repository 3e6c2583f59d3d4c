"""How the work of a schedule's fire ended: noted in the transaction that ends a turn or a task."""

from typing import Final, Literal

from rumi.store.steps import Transaction

WELL: Final = frozenset({"complete", "succeeded"})
NEITHER: Final = frozenset({"stopped", "interrupted"})
"""Somebody ended it, or the process did: that says nothing about the schedule."""


def fire_ended(transaction: Transaction, table: Literal["messages", "tasks"], id: int, how: str) -> None:
    """Count the failures in a row of the schedule that a turn's message or a task belongs to, if one does."""
    if how in NEITHER:
        return
    transaction.db.execute(
        "UPDATE schedules SET failures = CASE WHEN ?1 THEN 0 ELSE failures + 1 END"
        f" WHERE id = (SELECT schedule FROM {table} WHERE id = ?2)",
        (how in WELL, id),
    )
