"""Requests that keep the files of chats in the store.

A workspace is a manifest, and pieces of files by their hash. The pieces belong to a chat, so that its
deletion deletes them, and no chat learns what another one has. The owner of a chat puts the pieces first and
then the manifest, in one transaction that finds all of them there: what is stored is the former workspace or
the new one. Each owner has a fence, a number that grows: after `LoadWorkspace`, no earlier owner writes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from rumi.store.journal.transaction import JournalRequest, Read, steps
from rumi.store.steps import Transaction

ASKED_AT_ONCE: Final = 500
"""Keys in one statement: fewer than any database takes."""

PIECES_AT_ONCE: Final = 32
"""Pieces that one transaction deletes: others wait for no more than that."""


@dataclass(frozen=True, slots=True)
class LoadWorkspace(JournalRequest[bytes | None]):
    """Return the manifest of a chat's files, empty where none is stored; earlier owners write no more.

    None: a later owner has loaded it, and this one has lost its lease.
    """

    chat: str
    fence: int


@dataclass(frozen=True, slots=True)
class MissingPieces(Read[tuple[str, ...]]):
    """Return those of the keys of which the chat has no piece."""

    chat: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PutPieces(JournalRequest[bool]):
    """Store pieces, each with its key. False, and nothing is stored: this owner has lost its lease."""

    chat: str
    fence: int
    pieces: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class GetPieces(Read[tuple[tuple[str, bytes], ...]]):
    """Return pieces of a chat with their keys; those that are not there are left out."""

    chat: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeepWorkspace(JournalRequest[tuple[str, ...] | None]):
    """Replace the manifest of a chat's files, which has these pieces; `size` is that of the files in bytes.

    Returns the keys of pieces that are not there: then nothing has changed. None: the owner's lease is lost.
    """

    chat: str
    fence: int
    manifest: bytes
    keys: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class CollectPieces(JournalRequest[bool]):
    """Delete a slice of the pieces that no manifest has. The reply is True if there may be more."""

    chat: str
    fence: int


@dataclass(frozen=True, slots=True)
class DropWorkspace(JournalRequest[bool]):
    """Delete a slice of the stored files of a chat. The reply is True if there may be more."""

    chat: str


WorkspaceMessage: TypeAlias = (
    LoadWorkspace | MissingPieces | PutPieces | GetPieces | KeepWorkspace | CollectPieces | DropWorkspace
)


@steps.of(LoadWorkspace)
def load_workspace(request: LoadWorkspace, transaction: Transaction) -> bytes | None:
    """Return the manifest, and note the fence."""
    transaction.db.execute(
        "INSERT INTO workspaces (chat, fence, manifest, size, changed) VALUES (?, ?, ?, 0, ?)"
        " ON CONFLICT DO NOTHING",
        (request.chat, request.fence, b"", transaction.now()),
    )
    moved = transaction.db.execute(
        "UPDATE workspaces SET fence = ? WHERE chat = ? AND fence <= ?",
        (request.fence, request.chat, request.fence),
    ).rowcount
    if not moved:
        return None
    (manifest,) = transaction.db.execute(
        "SELECT manifest FROM workspaces WHERE chat = ?", (request.chat,)
    ).fetchone()
    return bytes(manifest)


@steps.of(MissingPieces)
def missing_pieces(request: MissingPieces, transaction: Transaction) -> tuple[str, ...]:
    """Return the keys without a piece, in their order."""
    there = set[str]()
    for keys in _slices(request.keys):
        there |= {
            key
            for (key,) in transaction.db.execute(
                f"SELECT key FROM pieces WHERE chat = ? AND key IN ({_placeholders(keys)})",
                (request.chat, *keys),
            )
        }
    return tuple(key for key in request.keys if key not in there)


@steps.of(PutPieces)
def put_pieces(request: PutPieces, transaction: Transaction) -> bool:
    """Store the pieces that are not there yet. No manifest has them until it is stored."""
    if not _owns(transaction, request.chat, request.fence):
        return False
    transaction.db.executemany(
        "INSERT INTO pieces (chat, key, content, size, used) VALUES (?, ?, ?, ?, 0) ON CONFLICT DO NOTHING",
        [(request.chat, key, content, len(content)) for key, content in request.pieces],
    )
    return True


@steps.of(GetPieces)
def get_pieces(request: GetPieces, transaction: Transaction) -> tuple[tuple[str, bytes], ...]:
    """Return the pieces that are there."""
    found: list[tuple[str, bytes]] = []
    for keys in _slices(request.keys):
        rows = transaction.db.execute(
            f"SELECT key, content FROM pieces WHERE chat = ? AND key IN ({_placeholders(keys)})",
            (request.chat, *keys),
        )
        found += ((key, bytes(content)) for key, content in rows)
    return tuple(found)


@steps.of(KeepWorkspace)
def keep_workspace(request: KeepWorkspace, transaction: Transaction) -> tuple[str, ...] | None:
    """Replace the manifest if all its pieces are there, and note which pieces it has."""
    chat, db = request.chat, transaction.db
    if not _owns(transaction, chat, request.fence):
        return None
    used = {
        key: bool(used) for key, used in db.execute("SELECT key, used FROM pieces WHERE chat = ?", (chat,))
    }
    wanted = frozenset(request.keys)
    if missing := wanted - used.keys():
        return tuple(sorted(missing))
    for value, keys in (
        (1, [key for key in wanted if not used[key]]),
        (0, [key for key, is_used in used.items() if is_used and key not in wanted]),
    ):
        db.executemany(
            "UPDATE pieces SET used = ? WHERE chat = ? AND key = ?", [(value, chat, key) for key in keys]
        )
    db.execute(
        "UPDATE workspaces SET manifest = ?, size = ?, changed = ? WHERE chat = ? AND manifest <> ?",
        (request.manifest, request.size, transaction.now(), chat, request.manifest),
    )
    return ()


@steps.of(CollectPieces)
def collect_pieces(request: CollectPieces, transaction: Transaction) -> bool:
    """Delete a slice of unused pieces, for the owner, which is putting none meanwhile."""
    if not _owns(transaction, request.chat, request.fence):
        return False
    return _delete_pieces(transaction, request.chat, " AND used = 0")


@steps.of(DropWorkspace)
def drop_workspace(request: DropWorkspace, transaction: Transaction) -> bool:
    """Delete a slice, the manifest first, because a workspace is all of its pieces."""
    if forget_workspace(transaction, request.chat):
        return True
    transaction.db.execute("DELETE FROM workspaces WHERE chat = ?", (request.chat,))
    return False


def forget_workspace(transaction: Transaction, chat: str) -> bool:
    """Delete a slice of the stored files of a chat that goes on. Return True if there may be more."""
    transaction.db.execute(
        "UPDATE workspaces SET manifest = ?, size = 0, changed = ? WHERE chat = ? AND manifest <> ?",
        (b"", transaction.now(), chat, b""),
    )
    return _delete_pieces(transaction, chat)


def _owns(transaction: Transaction, chat: str, fence: int) -> bool:
    """Return True if the chat's files were last loaded with this fence, and keep that so in this transaction.

    It changes nothing, but locks the row where transactions run at the same time.
    """
    owned = transaction.db.execute(
        "UPDATE workspaces SET fence = fence WHERE chat = ? AND fence = ?", (chat, fence)
    ).rowcount
    return bool(owned == 1)


def _delete_pieces(transaction: Transaction, chat: str, which: str = "") -> bool:
    gone = transaction.db.execute(
        "DELETE FROM pieces WHERE chat = ? AND key IN"
        f" (SELECT key FROM pieces WHERE chat = ?{which} LIMIT {PIECES_AT_ONCE})",
        (chat, chat),
    ).rowcount
    return bool(gone == PIECES_AT_ONCE)


def _slices(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    return (keys[at : at + ASKED_AT_ONCE] for at in range(0, len(keys), ASKED_AT_ONCE))


def _placeholders(keys: Sequence[str]) -> str:
    return ", ".join("?" * len(keys))
