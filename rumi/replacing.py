"""Files that are replaced as a whole: readers and crashes see the old content or the new content."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rumi.safe_open import opened


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Prevent other processes that ask for the lock from changing files of the folder. Blocking."""
    with opened(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace the file's content completely or not at all; keep the mode of the file.

    A new file gets `mode`, regardless of the umask. A path that is a link stays one. Blocking. Raises
    OSError.
    """
    place = Path(os.path.realpath(path))
    draft = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    with suppress(FileNotFoundError):
        mode = place.stat().st_mode & 0o777
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, place)
    finally:
        draft.unlink(missing_ok=True)
    to_disk(place.parent)


def to_disk(path: Path) -> None:
    """Sync a file, or a folder's names, to the disk."""
    with opened(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as descriptor:
        os.fsync(descriptor)
