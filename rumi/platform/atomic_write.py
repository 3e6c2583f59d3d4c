"""Files that are replaced as a whole: readers and crashes see the old content or the new content."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rumi.platform.openat import opened


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Prevent other processes that ask for the lock from changing files of the folder. Blocking."""
    with opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def atomic_write(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the file's content completely or not at all; keep the mode of the file.

    A new file gets `mode`, regardless of the umask. A path that is a link stays one. Blocking. Raises
    OSError.
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
            os.fsync(descriptor)
        os.replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)
    fsync_path(target.parent)


def fsync_path(path: Path) -> None:
    """Sync a file, or a folder's names, to the disk."""
    with opened(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)


@dataclass(frozen=True, slots=True)
class FolderSwap:
    """Replaces several entries of a folder together, also if the process is killed meanwhile.

    The new entries are prepared in `new`. `commit` records which names they replace; from then on `finish`
    completes the exchange, however often it was interrupted. The former entries end in `kept`. Both only
    rename: `draft`, `kept` and the entries are on one file system. What they leave in `draft` is of no use.
    Only one process may do this at a time. Blocking.
    """

    folder: Path
    staging: Path
    replaced: Path

    @property
    def new(self) -> Path:
        """Where the new entries are prepared."""
        return self.staging / "new"

    @property
    def plan(self) -> Path:
        """The names, in a file that exists from the commit until the exchange is complete."""
        return self.staging / "names.json"

    def commit(self, names: Iterable[str]) -> None:
        """Put the entries of `new` in place of these names, in this order; without a new entry, remove it.

        The new entries must be on the disk. Raises OSError: nothing has changed, or `finish` does the rest.
        """
        atomic_write(
            self.plan, json.dumps({name: os.path.lexists(self.new / name) for name in names}).encode()
        )
        self.finish()

    def finish(self) -> None:
        """Complete an exchange that was committed, if there is one. Raises OSError."""
        try:
            names: dict[str, bool] = json.loads(self.plan.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return
        old = self.staging / "old"
        if self.new.exists():
            old.mkdir(mode=0o700, exist_ok=True)
            for name, has_new in names.items():
                self._swap_entry(name, has_new, old)
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
        if has_new and not os.path.lexists(new):  # it is in place since before an interruption
            return
        if not os.path.lexists(old / name):
            with suppress(FileNotFoundError):
                target.rename(old / name)
        if has_new:  # an empty folder may have been made here since
            new.rename(target)
