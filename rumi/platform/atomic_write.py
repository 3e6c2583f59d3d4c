"""Atomic replacement of files and folders. Readers see the old or the new content, even after a crash."""

import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rumi.platform.openat import opened


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the folder's advisory lock during the block; other Rumi processes wait for the lock. Blocking."""
    with opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def atomic_write(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the content of a file completely or not at all, and preserve its mode. Blocking.

    A file that does not exist yet gets `mode`, regardless of the umask. If the path is a link, the target of
    the link is replaced.

    Raises:
        OSError: The file cannot be written. Unless only the final sync failed, it has its old content.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        mode = target.stat().st_mode & 0o777
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            # Before the rename: after a power cut the new name must not lead to an empty file.
            os.fsync(descriptor)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    fsync_path(target.parent)


def fsync_path(path: Path) -> None:
    """Sync a file to the disk, or a folder's list of entries. Blocking."""
    with opened(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a draft that becomes `folder` when the block ends; an error leaves nothing of it. Blocking.

    The draft has a hidden name beside `folder`, so that no reader finds an incomplete folder.

    Raises:
        OSError: The folder cannot be written.
    """
    draft = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    draft.mkdir(mode=0o700, parents=True)
    try:
        yield draft
        os.rename(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class FolderSwap:
    """Replaces several entries of `folder` together; after a crash, `finish` completes the swap. Blocking.

    The entries are files and folders. The caller prepares the new ones in `new`, a folder inside `staging`.
    `commit` records the names of the entries to replace. From then on, `finish` completes the swap, even if
    the swap was interrupted several times. The old entries are moved to `replaced`. Files are moved only by
    renaming, so `folder`, `staging` and `replaced` must be on one file system. Files that remain in `staging`
    after the swap can be deleted. Only one process may do a swap at a time.
    """

    folder: Path
    staging: Path
    replaced: Path

    @property
    def new(self) -> Path:
        """The folder in which the new entries are prepared."""
        return self.staging / "new"

    @property
    def plan(self) -> Path:
        """The file that lists the names to replace. It exists from the commit until the swap is complete."""
        return self.staging / "names.json"

    def commit(self, names: Iterable[str]) -> None:
        """Replace each named entry with the entry of the same name in `new`, in the order of `names`.

        A named entry that has no replacement in `new` is removed. The caller must sync the new entries to the
        disk before the call.

        Raises:
            OSError: Either nothing has changed, or `finish` must be called to complete the swap.
        """
        atomic_write(
            self.plan, json.dumps({name: os.path.lexists(self.new / name) for name in names}).encode()
        )
        self.finish()

    def finish(self) -> None:
        """Complete the committed swap. Without a committed swap, do nothing.

        Raises:
            OSError: The swap is not complete; call `finish` again.
        """
        # Each step can be repeated: after a kill, the next call finds out which renames were done.
        try:
            names: dict[str, bool] = json.loads(self.plan.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return
        old = self.staging / "old"
        if self.new.exists():
            old.mkdir(mode=0o700, exist_ok=True)
            for name, has_new in names.items():
                self._swap_entry(name, has_new, old)
            # Synced before `new` is removed: without it, the next call assumes that all entries are swapped.
            for folder in (old, self.folder):
                fsync_path(folder)
            self.new.rmdir()
        if old.exists():
            if self.replaced.exists():
                self.replaced.rename(self.staging / f"older-{secrets.token_hex(4)}")
            old.rename(self.replaced)
            fsync_path(self.folder)
        self.plan.unlink()

    def _swap_entry(self, name: str, has_new: bool, old: Path) -> None:
        new, target = self.new / name, self.folder / name
        if has_new and not os.path.lexists(new):  # swapped before an interruption
            return
        if not os.path.lexists(old / name):
            with suppress(FileNotFoundError):
                target.rename(old / name)
        if has_new:  # a rename also replaces an empty folder that another program may have created here
            new.rename(target)
