"""Restores a chat's files from a snapshot, either completely or not at all, even if the process is killed.

The restored folder tree is built completely in a staging folder. `rumi.platform.atomic_write.FolderSwap` then
replaces the workspace by renaming; `Restoring.commit` completes an interrupted replacement. No other process
may use the workspace during this.
"""

import contextlib
import os
import shutil
from pathlib import Path

from rumi.chats.undo.manifest import Manifest
from rumi.chats.undo.snapshots import Snapshots, Unrestorable
from rumi.platform.atomic_write import FolderSwap
from rumi.platform.openat import opened
from rumi.sandbox.copying import clone, copy_data
from rumi.sandbox.entries import Entry, finish_entries, make_entries
from rumi.sandbox.workspace import remove as remove_workspace


class Restoring:
    """Restores the files of chats from their snapshots. Blocking; calls for one chat must not overlap."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def build(self, chat: str, turn: str) -> Manifest | None:
        """Build the files from before a turn in a staging folder; return None if the turn changed no files.

        The chat's files do not change. `discard` removes the staging folder.

        Raises:
            Unrestorable: the earlier files are not known, or there is not enough disk space.
        """
        self.discard(chat)
        manifest = self._snapshots.of(chat, turn)
        if manifest is None:
            return None
        swap, workspace = self._swap_of(chat), self._snapshots.workspace(chat)
        try:
            # `commit` renames folders, which works only within one file system.
            if os.path.ismount(workspace):
                raise Unrestorable("disk")
            swap.new.mkdir(mode=0o700, parents=True)
            if swap.new.stat().st_dev != workspace.parent.stat().st_dev:
                raise Unrestorable("disk")
            if manifest.owner is not None:
                _build(manifest, swap.new / workspace.name, self._snapshots.folder(chat) / "objects")
            # The files must be on the disk before the journal stores the decision to use them.
            os.sync()
        except OSError as error:
            raise Unrestorable("lost" if isinstance(error, FileNotFoundError) else "disk") from error
        return manifest

    def commit(self, chat: str) -> None:
        """Replace the chat's files with those that `build` prepared, or complete an interrupted replacement.

        Idempotent: do nothing if the files have already been replaced.

        Raises:
            OSError: the files cannot be replaced.
        """
        swap = self._swap_of(chat)
        if swap.plan.exists() or swap.new.exists():
            self._snapshots.files.close(chat)
        if swap.plan.exists():  # the process ended during a replacement
            swap.finish()
        elif swap.new.exists():
            swap.commit([self._snapshots.workspace(chat).name])
        self.discard(chat)

    def discard(self, chat: str) -> None:
        """Remove the staging folder and the replaced files."""
        swap = self._swap_of(chat)
        for left in (swap.staging, swap.replaced):
            if os.path.lexists(left):
                with contextlib.suppress(Exception):
                    remove_workspace(left)  # unlike `rmtree`, also if commands took away permissions
                shutil.rmtree(left, ignore_errors=True)

    def _swap_of(self, chat: str) -> FolderSwap:
        folder = self._snapshots.folder(chat)
        return FolderSwap(self._snapshots.workspace(chat).parent, folder / "draft", folder / "replaced")


def _build(manifest: Manifest, target: Path, objects: Path) -> None:
    def fill(entry: Entry, file: int) -> None:
        with opened(os.open(objects / entry.content, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as content:
            if os.fstat(content).st_size != entry.size:
                raise Unrestorable("lost")
            if not clone(content, file):
                copy_data(content, file, entry.size)

    make_entries(target, manifest.entries, fill)
    finish_entries(target, manifest.entries, manifest.owner)
