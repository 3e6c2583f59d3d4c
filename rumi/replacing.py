"""Files that are replaced as a whole: a reader and a crash meet the old content or the new one."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep every other process that asks for the lock from changing files of the folder. Blocking."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put the content in the file's place, whole or not at all, with the mode that the file has had.

    A new file gets `mode`, whatever the umask is. A path that is a link goes on being one. Blocking.
    Raises OSError.
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
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
