"""The lineage of sessions: a branch shares the beginning of its history with the session that it left."""

from rumi.store.steps import Transaction


def rows_of(transaction: Transaction, chat: str, session: int) -> tuple[str, tuple[int, ...]]:
    """Return an SQL condition on `history.session` and `history.id`, and its parameters.

    It holds for the entries of a session: its own, and those that it shares with the sessions it branched
    from.
    """
    shared = transaction.db.execute(
        "SELECT base, upto FROM lineage WHERE chat = ? AND session = ? ORDER BY base", (chat, session)
    ).fetchall()
    part = "history.session = ? AND history.id <= ?"
    parts = ["history.session = ?", *[part] * len(shared)]
    return f"({' OR '.join(parts)})", (session, *(number for pair in shared for number in pair))


def branches_of(transaction: Transaction, chat: str, session: int, entry: int) -> tuple[int, ...]:
    """Return a session and all sessions that share its entry number `entry`."""
    rows = transaction.db.execute(
        "SELECT session FROM lineage WHERE chat = ? AND base = ? AND upto >= ?", (chat, session, entry)
    )
    return (session, *(int(number) for (number,) in rows))


def share(transaction: Transaction, chat: str, session: int, base: int, upto: int) -> None:
    """Let a new session share the entries of the session `base` up to the entry number `upto`.

    `base` may be a branch itself. Sessions without an entry in the shared part are left out, so that a
    message that is edited many times does not make the lineage long.
    """
    transaction.db.execute(
        "INSERT INTO lineage (chat, session, base, upto)"
        " SELECT ?1, ?2, base, CASE WHEN upto < ?4 THEN upto ELSE ?4 END FROM"
        " (SELECT base, upto FROM lineage WHERE chat = ?1 AND session = ?3 UNION ALL SELECT ?3, ?4) AS shared"
        " WHERE EXISTS (SELECT 1 FROM history WHERE chat = ?1 AND history.session = shared.base"
        " AND history.id <= shared.upto AND history.id <= ?4)",
        (chat, session, base, upto),
    )
