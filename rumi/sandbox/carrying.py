"""Carries the files of chats between this machine and the store, for the owner of a chat.

`fetch` before the first turn of an owner makes the workspace as it is stored; `store` at the end of a turn
stores what has changed. Between two calls for a chat no process of another owner uses the folder, and no
sandbox of the chat runs during a call.

Killed at any moment, the store has the former workspace or the new one, because the manifest follows its
pieces; and the folder is the former one or the new one, because it is built beside and then renamed. The next
`fetch` compares the folder with the store, and completes what was left.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from rumi.platform.atomic_write import FolderSwap
from rumi.platform.threads import Offload
from rumi.sandbox.entries import Entry, Key
from rumi.sandbox.packing import (
    PIECE_BYTES,
    TRIES,
    Packed,
    PackLimits,
    PieceLocation,
    SpoiltWorkspace,
    Unpackable,
    entries_of,
    finish_files,
    make_files,
    pack,
    read_pieces,
    write_pieces,
)
from rumi.sandbox.workspace import remove as remove_workspace

BATCH_BYTES: Final = 4 * PIECE_BYTES
BATCH_PIECES: Final = 200
BESIDE: Final = ".carried"
"""The folder among the workspaces in which new ones are built: no chat has this id."""


class PieceStore(Protocol):
    """Where the workspaces of chats are stored. `fence` is the number of the owner's lease."""

    async def manifest(self, chat: str, fence: int) -> bytes:
        """Return the stored manifest, empty where there is none; earlier owners can write no more.

        Raises:
            LeaseLostError: A later owner has done this.
        """
        ...

    async def missing(self, chat: str, keys: Sequence[str]) -> Sequence[str]:
        """Return the keys of which there is no piece."""
        ...

    async def put(self, chat: str, fence: int, pieces: Mapping[str, bytes]) -> None:
        """Store pieces. Raises `LeaseLostError`."""
        ...

    async def get(self, chat: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return pieces; those that are not there are left out."""
        ...

    async def set_manifest(
        self, chat: str, fence: int, manifest: bytes, keys: Sequence[str], size: int
    ) -> Sequence[str]:
        """Replace the manifest, at once or not at all. Return the keys without a piece: nothing has changed.

        Raises:
            LeaseLostError: A later owner has loaded it.
        """
        ...

    async def collect_garbage(self, chat: str, fence: int) -> None:
        """Delete the chat's pieces that its manifest does not have."""
        ...


@dataclass(frozen=True, slots=True)
class TransferResult:
    """What was done: entries of the workspace, and the pieces and bytes that went to the store or came."""

    files: int = 0
    pieces: int = 0
    bytes: int = 0


class WorkspaceCarrier:
    """Fetches and stores workspaces. One call at a time for each chat; any number of chats at once."""

    def __init__(
        self,
        workspaces: Path,
        user: tuple[int, int],
        store: PieceStore,
        offload: Offload,
        limits: PackLimits | None = None,
    ) -> None:
        """`workspaces` is the folder that has one for each chat; `user` is the one of their commands."""
        self._folder = workspaces
        self._user = user
        self._store = store
        self._offload = offload
        self._limits = limits or PackLimits()
        self._known: dict[str, Mapping[Key, str]] = {}
        """By chat, the contents of files whose versions are known."""

    async def fetch(self, chat: str, fence: int) -> TransferResult:
        """Make the chat's folder as it is stored; where nothing is stored, leave it as it is.

        What the folder has already is not fetched. Cancelled, the folder is as before or as stored.

        Raises:
            LeaseLostError: A later owner has the chat.
            SpoiltWorkspace: What is stored is damaged. The folder is as before.
            OSError: There is no room, say. The folder is as before.
        """
        swap = self._swap_of(chat)
        await self._offload(partial(_finish_interrupted, swap))
        manifest = await self._store.manifest(chat, fence)
        if not manifest:
            return TransferResult()
        entries = await self._offload(partial(entries_of, manifest, self._user))
        here = await self._here(chat)
        if here is not None and _same(here.entries, entries):
            self._known[chat] = here.known
            return TransferResult(len(entries))
        try:
            made = await self._make(chat, swap, entries, here)
            await self._offload(partial(_commit, swap, chat, self._folder / chat))
        finally:
            await self._offload(partial(_discard, swap))
        self._known[chat] = (await self._offload(partial(self._pack, chat))).known
        return made

    async def store(self, chat: str, fence: int) -> TransferResult:
        """Store the chat's folder as it is. `fetch` comes first, with the same fence.

        Files that have not changed since the last call are not read, and pieces that are stored are not sent.
        Cancelled, what is stored is the former workspace or this one.

        Raises:
            LeaseLostError: A later owner has the chat.
            Unpackable: The folder cannot be stored; the error is for the chat's user.
        """
        sent = size = 0
        for _ in range(TRIES):
            packed = await self._offload(partial(self._pack, chat))
            keys = tuple(packed.pieces)
            missing: Sequence[str] = await self._store.missing(chat, keys)
            for batch in _batches((key, packed.pieces[key]) for key in missing):
                read = await self._offload(partial(read_pieces, self._folder / chat, batch))
                if read is None:  # a file changed since it was hashed
                    break
                await self._store.put(chat, fence, read)
                sent, size = sent + len(read), size + sum(map(len, read.values()))
            else:
                manifest = await self._offload(packed.manifest)
                if not await self._store.set_manifest(chat, fence, manifest, keys, packed.size):
                    self._known[chat] = packed.known
                    await self._store.collect_garbage(chat, fence)
                    return TransferResult(len(packed.entries), sent, size)
        raise Unpackable("changing", self._limits)

    def forget(self, chat: str) -> None:
        """Forget what is known of the chat's folder, when this process does not own the chat any more."""
        self._known.pop(chat, None)

    def _pack(self, chat: str) -> Packed:
        return pack(self._folder / chat, self._limits, self._known.get(chat, {}))

    async def _here(self, chat: str) -> Packed | None:
        """Return what the folder has, None if that cannot be known."""
        try:
            return await self._offload(partial(self._pack, chat))
        except Unpackable:
            return None

    async def _make(
        self, chat: str, swap: FolderSwap, entries: Sequence[Entry], here: Packed | None
    ) -> TransferResult:
        """Build the folder beside; take pieces from the present one where it has them."""
        target = swap.new / chat
        await self._offload(partial(_make_folders, swap))
        wanted = await self._offload(partial(make_files, target, entries))
        local_pieces = here.pieces if here is not None else {}
        away = [key for key in wanted if key not in local_pieces]
        for batch in _batches((key, local_pieces[key]) for key in wanted if key in local_pieces):
            read = await self._offload(partial(read_pieces, self._folder / chat, batch))
            if read is None:
                away += [key for key, _ in batch]
            else:
                await self._offload(partial(write_pieces, target, read, wanted))
        size = 0
        for at in range(0, len(away), BATCH_BYTES // PIECE_BYTES):
            asked = away[at : at + BATCH_BYTES // PIECE_BYTES]
            got = await self._store.get(chat, asked)
            if any(key not in got for key in asked):
                raise SpoiltWorkspace("a piece of a file is missing")
            await self._offload(partial(write_pieces, target, got, wanted))
            size += sum(map(len, got.values()))
        await self._offload(partial(finish_files, target, entries, self._user))
        return TransferResult(len(entries), len(away), size)

    def _swap_of(self, chat: str) -> FolderSwap:
        staging = self._folder / BESIDE / chat
        return FolderSwap(self._folder, staging / "draft", staging / "replaced")


def _same(here: Sequence[Entry], stored: Sequence[Entry]) -> bool:
    """Return True if a folder is as it is stored."""

    def shape(entry: Entry) -> tuple[object, ...]:
        return entry.path, entry.kind, entry.mode, entry.mtime_ns, entry.content, entry.size

    return [shape(entry) for entry in here] == [shape(entry) for entry in stored]


def _batches(pieces: Iterable[tuple[str, PieceLocation]]) -> Iterator[list[tuple[str, PieceLocation]]]:
    """Yield the pieces in portions of limited size."""
    batch: list[tuple[str, PieceLocation]] = []
    size = 0
    for key, location in pieces:
        if batch and (size + location.length > BATCH_BYTES or len(batch) >= BATCH_PIECES):
            yield batch
            batch, size = [], 0
        batch.append((key, location))
        size += location.length
    if batch:
        yield batch


def _make_folders(swap: FolderSwap) -> None:
    staging = swap.staging.parent
    for folder in (swap.folder, staging.parent, staging, swap.staging, swap.new):
        folder.mkdir(0o700, exist_ok=True)


def _finish_interrupted(swap: FolderSwap) -> None:
    """Complete what a killed process has begun to put in place, and remove what it was building."""
    swap.finish()
    _discard(swap)


def _commit(swap: FolderSwap, chat: str, workspace: Path) -> None:
    if os.path.ismount(workspace):
        raise OSError(f"{workspace} is a mount")
    swap.commit([chat])


def _discard(swap: FolderSwap) -> None:
    """Remove what is beside, unless it waits to be put in place."""
    if swap.plan.exists():
        return
    for left in (swap.staging, swap.replaced):
        if os.path.lexists(left):
            with contextlib.suppress(Exception):
                remove_workspace(left)  # commands may have made it hard to remove
            shutil.rmtree(left, ignore_errors=True)
    with contextlib.suppress(OSError):
        swap.staging.parent.rmdir()
