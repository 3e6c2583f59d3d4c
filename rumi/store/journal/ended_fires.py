"""The failure count of schedules, updated in the transaction that ends a turn or a task."""

from typing import Final, Literal

from rumi.store.steps import Transaction

WELL: Final = frozenset({"complete", "succeeded"})
NEITHER: Final = frozenset({"stopped", "interrupted"})
"""A person or the end of the process ended the work: that is neither a success nor a failure."""


def fire_ended(transaction: Transaction, table: Literal["messages", "tasks"], id: int, how: str) -> None:
    """Update the consecutive failures of the schedule that started a turn's message or a task, if any."""
    if how in NEITHER:
        return
    transaction.db.execute(
        "UPDATE schedules SET failures = CASE WHEN ?1 THEN 0 ELSE failures + 1 END"
        f" WHERE id = (SELECT schedule FROM {table} WHERE id = ?2)",
        (how in WELL, id),
    )
