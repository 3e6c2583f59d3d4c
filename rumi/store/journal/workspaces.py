"""Steps that store the files of chats in the database.

A workspace is a manifest and the pieces of the files, stored under their hashes. Pieces belong to one chat:
deleting the chat deletes its pieces, and no chat can find out which pieces another chat has. The owner of a
chat first stores the pieces and then the manifest, in a transaction that checks that all pieces are stored.
So the database always contains either the old workspace or the new one. Each owner has a fence, a number that
increases with each owner. After an owner's `load_workspace`, earlier owners can no longer write.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from rumi.store.journal.scopes import of_chat
from rumi.store.steps import Transaction, step

ASKED_AT_ONCE: Final = 500
"""Maximum number of keys in one statement: below the parameter limit of each database."""

PIECES_AT_ONCE: Final = 32
"""Maximum number of pieces that one transaction deletes. Other requests wait for that transaction."""


@step(of_chat)
def load_workspace(transaction: Transaction, chat: str, fence: int) -> bytes | None:
    """Return the manifest of a chat's files, empty if none is stored.

    From then on, earlier owners cannot write. Return None if a later owner has already loaded the manifest,
    which means that this owner has lost its lease.
    """
    transaction.db.execute(
        "INSERT INTO workspaces (chat, fence, manifest, size, changed) VALUES (?, ?, ?, 0, ?)"
        " ON CONFLICT DO NOTHING",
        (chat, fence, b"", transaction.now()),
    )
    moved = transaction.db.execute(
        "UPDATE workspaces SET fence = ? WHERE chat = ? AND fence <= ?",
        (fence, chat, fence),
    ).rowcount
    if not moved:
        return None
    (manifest,) = transaction.db.execute("SELECT manifest FROM workspaces WHERE chat = ?", (chat,)).fetchone()
    return bytes(manifest)


@step(reads=True)
def missing_pieces(transaction: Transaction, chat: str, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the keys for which the chat has no stored piece."""
    stored = set[str]()
    for part in _slices(keys):
        stored |= {
            key
            for (key,) in transaction.db.execute(
                f"SELECT key FROM pieces WHERE chat = ? AND key IN ({_placeholders(part)})",
                (chat, *part),
            )
        }
    return tuple(key for key in keys if key not in stored)


@step(of_chat)
def put_pieces(
    transaction: Transaction, chat: str, fence: int, pieces: tuple[tuple[str, bytes], ...]
) -> bool:
    """Store pieces under their keys. Return False, and store nothing, if this owner has lost its lease."""
    if not _owns(transaction, chat, fence):
        return False
    transaction.db.executemany(
        "INSERT INTO pieces (chat, key, content, size, used) VALUES (?, ?, ?, ?, 0) ON CONFLICT DO NOTHING",
        [(chat, key, content, len(content)) for key, content in pieces],
    )
    return True


@step(reads=True)
def get_pieces(transaction: Transaction, chat: str, keys: tuple[str, ...]) -> tuple[tuple[str, bytes], ...]:
    """Return the pieces of a chat that are stored under these keys. Keys without a piece are left out."""
    found: list[tuple[str, bytes]] = []
    for part in _slices(keys):
        rows = transaction.db.execute(
            f"SELECT key, content FROM pieces WHERE chat = ? AND key IN ({_placeholders(part)})",
            (chat, *part),
        )
        found += ((key, bytes(content)) for key, content in rows)
    return tuple(found)


@step(of_chat)
def keep_workspace(
    transaction: Transaction, chat: str, fence: int, manifest: bytes, keys: tuple[str, ...], size: int
) -> tuple[str, ...] | None:
    """Replace the manifest of a chat's files.

    `keys` are the keys of its pieces, `size` is the total size of the files in bytes. Return the keys of
    missing pieces; if any piece is missing, nothing changes. Return None if this owner has lost its lease.
    """
    db = transaction.db
    if not _owns(transaction, chat, fence):
        return None
    used = {
        key: bool(used) for key, used in db.execute("SELECT key, used FROM pieces WHERE chat = ?", (chat,))
    }
    wanted = frozenset(keys)
    if missing := wanted - used.keys():
        return tuple(sorted(missing))
    for value, changed in (
        (1, [key for key in wanted if not used[key]]),
        (0, [key for key, is_used in used.items() if is_used and key not in wanted]),
    ):
        db.executemany(
            "UPDATE pieces SET used = ? WHERE chat = ? AND key = ?", [(value, chat, key) for key in changed]
        )
    db.execute(
        "UPDATE workspaces SET manifest = ?, size = ?, changed = ? WHERE chat = ? AND manifest <> ?",
        (manifest, size, transaction.now(), chat, manifest),
    )
    return ()


@step(of_chat)
def collect_pieces(transaction: Transaction, chat: str, fence: int) -> bool:
    """Delete a slice of the pieces that the manifest does not list. Return True if there may be more.

    The owner asks for this only while it stores no pieces: they might be meant for its next manifest.
    """
    if not _owns(transaction, chat, fence):
        return False
    return _delete_pieces(transaction, chat, " AND used = 0")


@step(of_chat)
def drop_workspace(transaction: Transaction, chat: str) -> bool:
    """Delete a slice of the stored files of a chat. Return True if there may be more."""
    # The manifest is emptied first: it must never list a piece that is deleted already.
    if forget_workspace(transaction, chat):
        return True
    transaction.db.execute("DELETE FROM workspaces WHERE chat = ?", (chat,))
    return False


def forget_workspace(transaction: Transaction, chat: str) -> bool:
    """Delete a slice of the stored files of a continuing chat. Return True if there may be more."""
    transaction.db.execute(
        "UPDATE workspaces SET manifest = ?, size = 0, changed = ? WHERE chat = ? AND manifest <> ?",
        (b"", transaction.now(), chat, b""),
    )
    return _delete_pieces(transaction, chat)


def _owns(transaction: Transaction, chat: str, fence: int) -> bool:
    """Return True if the owner with this fence was the last one to load the chat's files.

    The UPDATE changes no value. On PostgreSQL it locks the row, so that no later owner can load the files
    before this transaction ends.
    """
    owned = transaction.db.execute(
        "UPDATE workspaces SET fence = fence WHERE chat = ? AND fence = ?", (chat, fence)
    ).rowcount
    return bool(owned == 1)


def _delete_pieces(transaction: Transaction, chat: str, which: str = "") -> bool:
    deleted = transaction.db.execute(
        "DELETE FROM pieces WHERE chat = ? AND key IN"
        f" (SELECT key FROM pieces WHERE chat = ?{which} LIMIT {PIECES_AT_ONCE})",
        (chat, chat),
    ).rowcount
    return bool(deleted == PIECES_AT_ONCE)


def _slices(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[at : at + ASKED_AT_ONCE] for at in range(0, len(keys), ASKED_AT_ONCE))


def _placeholders(keys: Sequence[str]) -> str:
    return ", ".join("?" * len(keys))
