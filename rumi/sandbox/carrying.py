"""Transfer of workspaces between this machine and the store, for the process that owns a chat.

Before an owner's first turn, `fetch` makes the folder equal to the stored workspace. At the end of a turn,
`store` stores the changes. The caller guarantees that no process of another owner uses the folder between two
calls for a chat, and that no sandbox of the chat runs during a call.

A crash at any moment leaves either the former or the new version, never a mixture. In the store, the manifest
is written after its pieces. On this machine, a new folder is built in a staging folder and then renamed. The
next `fetch` compares the folder with the store and completes the transfer.
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
"""Name of the staging folder, next to the workspaces. No chat has this name: it is not a valid chat id."""


class PieceStore(Protocol):
    """The store of workspaces: a manifest per chat, and pieces of file content.

    `fence` is the fencing number of the lease of the chat's owner.
    """

    async def manifest(self, chat: str, fence: int) -> bytes:
        """Return the stored manifest, empty if there is none; reject all later writes by earlier owners.

        Raises:
            LeaseLostError: A later owner has already loaded the manifest.
        """
        ...

    async def missing(self, chat: str, keys: Sequence[str]) -> Sequence[str]:
        """Return those of the given keys whose pieces are not stored."""
        ...

    async def put(self, chat: str, fence: int, pieces: Mapping[str, bytes]) -> None:
        """Store pieces. Raise LeaseLostError if a later owner has loaded the manifest."""
        ...

    async def get(self, chat: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the requested pieces that are stored."""
        ...

    async def set_manifest(
        self, chat: str, fence: int, manifest: bytes, keys: Sequence[str], size: int
    ) -> Sequence[str]:
        """Replace the manifest atomically; return the keys whose pieces are missing.

        If any piece is missing, the manifest is not replaced.

        Raises:
            LeaseLostError: A later owner has loaded the manifest.
        """
        ...

    async def collect_garbage(self, chat: str, fence: int) -> None:
        """Delete the chat's pieces that its manifest does not refer to."""
        ...


@dataclass(frozen=True, slots=True)
class TransferResult:
    """Statistics of a transfer: entries of the workspace, and the pieces and bytes transferred."""

    files: int = 0
    pieces: int = 0
    bytes: int = 0


class WorkspaceCarrier:
    """Fetches and stores workspaces. Each chat allows one call at a time; different chats may overlap."""

    def __init__(
        self,
        workspaces: Path,
        user: tuple[int, int],
        store: PieceStore,
        offload: Offload,
        limits: PackLimits | None = None,
    ) -> None:
        """`workspaces` contains the folders of all chats; `user` is the uid and gid of their commands."""
        self._folder = workspaces
        self._user = user
        self._store = store
        self._offload = offload
        self._limits = limits or PackLimits()
        self._known: dict[str, Mapping[Key, str]] = {}
        """For each chat, the piece keys of each file version, so that unchanged files are not read again."""

    async def fetch(self, chat: str, fence: int) -> TransferResult:
        """Make the chat's folder equal to the stored workspace; change nothing if none is stored.

        Pieces that the folder already has are not fetched. If cancelled, the folder is either unchanged or
        equal to the stored workspace.

        Raises:
            LeaseLostError: A later owner has taken over the chat.
            SpoiltWorkspace: The stored workspace is damaged. The folder is unchanged.
            OSError: The folder cannot be written, for example on a full disk. The folder is unchanged.
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
        # Read the new files once now, so that the first `store` knows their versions.
        self._known[chat] = (await self._offload(partial(self._pack, chat))).known
        return made

    async def store(self, chat: str, fence: int) -> TransferResult:
        """Store the chat's folder. Call `fetch` with the same fence first.

        Files that have not changed since the last call are not read, and pieces that are already stored are
        not sent. If cancelled, the store has either the former workspace or the current one.

        Raises:
            LeaseLostError: A later owner has taken over the chat.
            Unpackable: The folder cannot be stored; the error is meant for the chat's user.
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
                # The manifest goes last: until it is replaced, the store still has the former workspace.
                manifest = await self._offload(packed.manifest)
                if not await self._store.set_manifest(chat, fence, manifest, keys, packed.size):
                    self._known[chat] = packed.known
                    await self._store.collect_garbage(chat, fence)
                    return TransferResult(len(packed.entries), sent, size)
        raise Unpackable("changing", self._limits)

    def forget(self, chat: str) -> None:
        """Drop the cached file versions of a chat, because this process no longer owns the chat."""
        self._known.pop(chat, None)

    def _pack(self, chat: str) -> Packed:
        return pack(self._folder / chat, self._limits, self._known.get(chat, {}))

    async def _here(self, chat: str) -> Packed | None:
        """Pack the chat's folder on this machine; return None if it cannot be packed."""
        try:
            return await self._offload(partial(self._pack, chat))
        except Unpackable:
            return None

    async def _make(
        self, chat: str, swap: FolderSwap, entries: Sequence[Entry], here: Packed | None
    ) -> TransferResult:
        """Build the folder in the staging folder; copy the pieces that the current folder already has."""
        target = swap.new / chat
        await self._offload(partial(_make_folders, swap))
        wanted = await self._offload(partial(make_files, target, entries))
        local_pieces = here.pieces if here is not None else {}
        missing = [key for key in wanted if key not in local_pieces]
        for batch in _batches((key, local_pieces[key]) for key in wanted if key in local_pieces):
            read = await self._offload(partial(read_pieces, self._folder / chat, batch))
            if read is None:  # the folder has changed since it was packed: fetch these pieces too
                missing += [key for key, _ in batch]
            else:
                await self._offload(partial(write_pieces, target, read, wanted))
        size = 0
        for at in range(0, len(missing), BATCH_BYTES // PIECE_BYTES):
            asked = missing[at : at + BATCH_BYTES // PIECE_BYTES]
            got = await self._store.get(chat, asked)
            if any(key not in got for key in asked):
                raise SpoiltWorkspace("a piece of a file is missing")
            await self._offload(partial(write_pieces, target, got, wanted))
            size += sum(map(len, got.values()))
        await self._offload(partial(finish_files, target, entries, self._user))
        return TransferResult(len(entries), len(missing), size)

    def _swap_of(self, chat: str) -> FolderSwap:
        staging = self._folder / BESIDE / chat
        return FolderSwap(self._folder, staging / "draft", staging / "replaced")


def _same(here: Sequence[Entry], stored: Sequence[Entry]) -> bool:
    """Return True if the folder equals the stored workspace, apart from the owners of the entries."""

    def shape(entry: Entry) -> tuple[object, ...]:
        return entry.path, entry.kind, entry.mode, entry.mtime_ns, entry.content, entry.size

    return [shape(entry) for entry in here] == [shape(entry) for entry in stored]


def _batches(pieces: Iterable[tuple[str, PieceLocation]]) -> Iterator[list[tuple[str, PieceLocation]]]:
    """Split the pieces into batches of at most `BATCH_BYTES` and `BATCH_PIECES`."""
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
    """Complete the folder swap that a killed process began; remove the folder that it was building."""
    swap.finish()
    _discard(swap)


def _commit(swap: FolderSwap, chat: str, workspace: Path) -> None:
    if os.path.ismount(workspace):  # a mount point cannot be renamed
        raise OSError(f"{workspace} is a mount")
    swap.commit([chat])


def _discard(swap: FolderSwap) -> None:
    """Remove the staging folder, unless it is about to replace the chat's folder."""
    if swap.plan.exists():
        return
    for left in (swap.staging, swap.replaced):
        if os.path.lexists(left):
            with contextlib.suppress(Exception):
                remove_workspace(left)  # handles modes and depths with which rmtree would fail
            shutil.rmtree(left, ignore_errors=True)
    with contextlib.suppress(OSError):
        swap.staging.parent.rmdir()
