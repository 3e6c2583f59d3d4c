"""Puts a snapshot in the place of a chat's files: all of it, or nothing, also if the process is killed.

The restored tree is built beside, completely. `rumi.platform.atomic_write.Exchange` then renames it into
place; what was interrupted in that, `put_in_place` completes. No process may use the workspace meanwhile.
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
    """Restores the files of chats from their snapshots. Blocking; a chat's calls come one at a time."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    def build(self, chat: str, turn: str) -> Manifest | None:
        """Build the files as they were before a turn, beside those that are there; None: it changed none.

        Nothing of the chat's files changes. What this leaves, `discard` removes.

        Raises:
            Unrestorable: They are not known, or there is no room for them.
        """
        self.discard(chat)
        manifest = self._snapshots.of(chat, turn)
        if manifest is None:
            return None
        swap, workspace = self._swap_of(chat), self._snapshots.workspace(chat)
        try:
            if os.path.ismount(workspace):
                raise Unrestorable("disk")
            swap.new.mkdir(mode=0o700, parents=True)
            if swap.new.stat().st_dev != workspace.parent.stat().st_dev:
                raise Unrestorable("disk")
            if manifest.owner is not None:
                _build(manifest, swap.new / chat, self._snapshots.folder(chat) / "objects")
            os.sync()
        except OSError as error:
            raise Unrestorable("lost" if isinstance(error, FileNotFoundError) else "disk") from error
        return manifest

    def commit(self, chat: str) -> None:
        """Put what was built in place, or complete that; nothing where it is done. Raises OSError."""
        swap = self._swap_of(chat)
        if swap.plan.exists():
            swap.finish()
        elif swap.new.exists():
            swap.commit([chat])
        self.discard(chat)

    def discard(self, chat: str) -> None:
        """Remove what was built and is not in place, and the files that gave way."""
        swap = self._swap_of(chat)
        for left in (swap.staging, swap.replaced):
            if os.path.lexists(left):
                with contextlib.suppress(Exception):
                    remove_workspace(left)  # commands may have made it hard to remove
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
