"""Takes snapshots of chats' files, and retains those from the last turns of each chat.

Each version of a file is copied once, into an object: for files that have not changed, a snapshot reuses the
objects of the previous snapshot. If the file system can share blocks, no data is copied at all. Objects are
not hard links to the workspace's files, because a write to a file would also change its link. No sandbox can
reach objects.

The folder `undo/CHAT` contains the manifests, `NUMBER-TURN.json`; the folder `objects/`; and the folders that
`rumi.chats.undo.restoring` uses.
"""

import contextlib
import errno
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from rumi.chats.undo.manifest import Cause, Manifest, read_manifest
from rumi.errors import RumiError
from rumi.platform.config.schema import UndoSection
from rumi.platform.home import Home
from rumi.platform.openat import FOLDER, opened
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.copying import clone, copy_data
from rumi.sandbox.disk import free_on
from rumi.sandbox.entries import Key, Unlistable, Walk

logger = logging.getLogger(__name__)

BLOCK_BYTES: Final = 512


class Unrestorable(RumiError):
    """The files from before a turn cannot be restored; `cause` says why."""

    def __init__(self, cause: Cause) -> None:
        super().__init__("The files cannot be restored: {cause}.", cause=cause)
        self.cause: Cause = cause


class Snapshots:
    """The snapshots of all chats. Blocking; calls for one chat must not overlap.

    Only the bytes of copied files count towards `max_mb` of `limits`, not those of files that share blocks.
    """

    def __init__(
        self,
        home: Path | Home,
        limits: UndoSection | None = None,
        now: Callable[[], float] = time.time,
        files: ChatFiles | None = None,
    ) -> None:
        self.limits = limits or UndoSection()
        self._home = home if isinstance(home, Home) else Home(home)
        self._now = now
        self.files = files or ChatFiles(self._home.workspaces)
        self._failed: dict[tuple[str, str], Cause] = {}

    def folder(self, chat: str) -> Path:
        """Return the folder of a chat's snapshots."""
        return self._home.snapshots / chat

    def workspace(self, chat: str) -> Path:
        """Return the folder of what a chat has written: its files, or its changes to a person's folder."""
        return self.files.stored(chat)

    def take(self, chat: str, turn: str, *, tainted: bool) -> None:
        """Take a snapshot of the files before a turn, once per turn. Never raise an expected error."""
        manifests = self._manifests(chat)
        if not self.limits.turns or turn in manifests or (chat, turn) in self._failed:
            return
        folder = self.folder(chat)
        try:
            (folder / "objects").mkdir(mode=0o700, parents=True, exist_ok=True)
            last = read_manifest(next(reversed(manifests.values()))) if manifests else None
            number = int(next(reversed(manifests.values())).name.partition("-")[0]) + 1 if manifests else 1
            manifest = _Taking(self, chat, turn, last).manifest(tainted)
            manifest.write(folder / f"{number:08}-{turn}.json")
            self._prune(chat)
        except OSError as error:
            logger.warning("chat %s: no snapshot of its files: %s", chat, error)
            # Not tried again in this turn: a later snapshot would contain changes of the turn itself.
            self._failed[chat, turn] = "disk"

    def of(self, chat: str, turn: str) -> Manifest | None:
        """Return the manifest of the files before a turn; None if the turn changed no files.

        Raises:
            Unrestorable: the turn may have changed files, and their earlier state is not known.
        """
        if (cause := self._failed.get((chat, turn))) is not None:
            raise Unrestorable(cause)
        if (path := self._manifests(chat).get(turn)) is None:
            return None
        manifest = read_manifest(path)
        if manifest is None:
            raise Unrestorable("lost")
        if manifest.cause:
            raise Unrestorable(manifest.cause)
        return manifest

    def drop(self, chat: str, turn: str) -> None:
        """Delete the snapshot of an undone turn."""
        if (path := self._manifests(chat).get(turn)) is not None:
            path.unlink(missing_ok=True)
            self._prune(chat)

    def applied(self, chat: str) -> None:
        """Record that a chat's changes are in a person's folder, where an undo cannot revert them."""
        for path in self._manifests(chat).values():
            if (manifest := read_manifest(path)) is not None and not manifest.cause:
                replace(manifest, cause="applied", entries=()).write(path)
        if (self.folder(chat) / "objects").exists():
            self._prune(chat)

    def forget(self, chat: str) -> None:
        """Delete all snapshots of a chat."""
        shutil.rmtree(self.folder(chat), ignore_errors=True)
        self._failed = {key: cause for key, cause in self._failed.items() if key[0] != chat}

    def chats(self) -> tuple[str, ...]:
        """Return the chats that have snapshots or folders of an interrupted restore."""
        try:
            return tuple(entry.name for entry in os.scandir(self._home.snapshots))
        except FileNotFoundError:
            return ()

    def expire(self, retention_s: float) -> None:
        """Delete snapshots that are older than `retention_s` seconds."""
        for chat in self.chats():
            with contextlib.suppress(OSError):
                for path in self._manifests(chat).values():
                    if path.stat().st_mtime < self._now() - retention_s:
                        path.unlink()
                self._prune(chat)

    def _manifests(self, chat: str) -> dict[str, Path]:
        """Return a chat's manifests by the turns that they belong to, the oldest first."""
        found = sorted(self.folder(chat).glob("*-*.json"))
        return {path.stem.partition("-")[2]: path for path in found if path.name[:1].isdecimal()}

    def _prune(self, chat: str) -> None:
        """Delete snapshots beyond the limits, and the objects that no remaining snapshot needs."""
        # Manifests first, objects last: if the process ends in between, only unneeded objects remain.
        paths = list(self._manifests(chat).values())
        kept = {path: read_manifest(path) for path in paths[-self.limits.turns :]}
        for path in paths[: -self.limits.turns]:
            path.unlink()
        objects = self.folder(chat) / "objects"
        sizes = {entry.name: entry.stat().st_blocks * BLOCK_BYTES for entry in os.scandir(objects)}
        while True:
            needed = frozenset().union(
                *(manifest.objects for manifest in kept.values() if manifest is not None)
            )
            cloned = any(manifest is not None and manifest.cloned for manifest in kept.values())
            taken = sum(size for name, size in sizes.items() if name in needed)
            # Shared blocks take no extra space, and the last snapshot stays, so that one undo is possible.
            if cloned or len(kept) < 2 or taken <= self.limits.max_bytes:
                break
            oldest = next(iter(kept))
            del kept[oldest]
            oldest.unlink()
        for name in sizes.keys() - needed:
            (objects / name).unlink()


class _Taking:
    """One walk through a workspace that copies its changed files and creates a manifest."""

    def __init__(self, snapshots: Snapshots, chat: str, turn: str, last: Manifest | None) -> None:
        self._limits = snapshots.limits
        self._workspace = snapshots.workspace(chat)
        self._objects = snapshots.folder(chat) / "objects"
        self._turn = turn
        self._known = {entry.key: entry for entry in last.entries if entry.key} if last is not None else {}
        self._copied = 0
        self._bytes = 0
        free = free_on(self._objects)
        self._free_bytes = free.bytes - free.reserve_bytes
        self._clones: bool | None = None

    def manifest(self, tainted: bool) -> Manifest:
        """Return the manifest; if the files cannot be copied, it has a cause and no entries."""
        try:
            try:
                top = os.open(self._workspace, FOLDER)
            except FileNotFoundError:
                return Manifest(self._turn, tainted=tainted)
            with opened(top):
                status = os.fstat(top)
                entries = Walk(self._limits.max_files, self._take).entries(top)
        except (Unrestorable, Unlistable) as error:
            return Manifest(self._turn, error.cause, tainted)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            return Manifest(self._turn, "disk" if full else "unreadable", tainted)
        owner = (status.st_uid, status.st_gid)
        return Manifest(self._turn, "", tainted, bool(self._clones), owner, entries)

    def _take(self, path: str, source: int, status: os.stat_result, key: Key) -> str:
        # `key` is empty for a file that changed so recently that its times cannot prove a version: such
        # files are not in `_known` and are copied again.
        known = self._known.get(key)
        if known is not None and (self._objects / known.content).exists():
            self._count(0 if self._clones else status.st_blocks * BLOCK_BYTES)
            return known.content
        self._copied += 1
        content = f"{self._turn}-{self._copied}"
        self._copy(source, self._objects / content, status)
        return content

    def _copy(self, source: int, target: Path, status: os.stat_result) -> None:
        flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with opened(os.open(target, flags, 0o600)) as copy:
            # After one failure no other file is tried: all are on the same file system.
            if self._clones is not False:
                self._clones = clone(source, copy)
            if not self._clones:
                size = status.st_blocks * BLOCK_BYTES
                self._count(size)
                self._free_bytes -= size
                if self._free_bytes < 0:
                    raise Unrestorable("disk")
                copy_data(source, copy, status.st_size)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.max_bytes:
            raise Unrestorable("bytes")
