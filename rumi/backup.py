"""A backup: one archive with consistent copies of the databases, made while Rumi runs or not. Blocking."""

import contextlib
import errno
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rumi.databases import copy_to, require_room, to_disk
from rumi.errors import RumiError, UsageError
from rumi.home import Home

COPY_S = 300.0
"""How long copying a database may take."""

DATABASES = ("state.db", "memory.db")
FILES = ("config.toml", "skills-trusted.json", "skills")
KEYS = ".env"


class BackupError(RumiError):
    """There is no backup now, and nothing half of one."""


@dataclass(frozen=True, slots=True)
class Backup:
    """An archive that is whole and on the disk. `holds` are the names in it, with their bytes."""

    path: Path
    bytes: int
    holds: tuple[tuple[str, int], ...]


def back_up(home: Home, path: Path, *, keys: bool = False) -> Backup:
    """Write everything that Rumi cannot make again into a new file, or into one in the folder `path`.

    The chats' files and the logs are not in it, and the keys only with `keys`. The home needs nobody to hold
    it: each database is copied as it is at one moment, whoever writes meanwhile. What is there is never
    overwritten; what goes wrong leaves no file.

    Raises:
        UsageError: there is something at `path` already, it is in the home, or it cannot be written.
        BackupError: there is nothing to back up, or a database is damaged.
        DatabaseFault: there is no room.
    """
    target = path / time.strftime("rumi-%Y%m%d-%H%M%S.tar.gz") if path.is_dir() else path
    if target.exists() or target.is_symlink():
        raise _taken(target)
    if target.parent.resolve().is_relative_to(home.root.resolve()):
        raise UsageError(
            f"{target} would be inside of {home.root}, and be lost with it.", "Name another place."
        )
    there = [name for name in (*DATABASES, *FILES, *([KEYS] if keys else ())) if (home.root / name).exists()]
    if not there:
        raise BackupError(f"There is nothing in {home.root} to back up.", "Is RUMI_HOME the right folder?")
    try:
        draft = Path(tempfile.mkdtemp(prefix=".rumi-backup-", dir=target.parent))  # its owner's alone
    except OSError as error:
        raise UsageError(
            f"{target.parent} cannot be written: {error.strerror}.", "Name another place."
        ) from error
    try:
        # Copies and the archive at the same time, in the worst case.
        require_room(target, 2 * sum(size for name in there for _, size in _sizes(home.root / name)))
        for name in there:
            if name in DATABASES:
                _copy(home.root / name, draft / name)
        archive = draft / "archive"
        holds = _pack(home, draft, archive, there)
        size = archive.stat().st_size
        _publish(archive, target)
    except OSError as error:
        raise BackupError(
            f"The backup cannot be written: {error}.", "Make room, or name another place."
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Backup(target, size, holds)


def _copy(source: Path, copy: Path) -> None:
    """A copy that was looked through: a backup that cannot be read is none."""
    try:
        with contextlib.closing(_opened(source)) as db:
            copy_to(db, copy, deadline=time.monotonic() + COPY_S)
        with contextlib.closing(_opened(copy)) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise BackupError(f"{source} cannot be backed up: {found}.", "Look at: rumi doctor")


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10, isolation_level=None)


def _pack(home: Home, copies: Path, archive: Path, names: list[str]) -> tuple[tuple[str, int], ...]:
    """Write the archive; what is in it."""
    holds = []
    descriptor = os.open(archive, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as tar:
            for name in names:
                source = (copies if name in DATABASES else home.root) / name
                tar.add(source.resolve(), arcname=name, filter=_plain)
                holds.append((name, sum(size for _, size in _sizes(source))))
        file.flush()
        os.fsync(file.fileno())
    return tuple(holds)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files, folders and links, for their owner; nothing that would hang whoever reads it."""
    if not (entry.isreg() or entry.isdir() or entry.issym()):
        return None
    entry.mode = 0o700 if entry.isdir() or entry.mode & 0o100 else 0o600
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _sizes(path: Path) -> Iterator[tuple[Path, int]]:
    """Each file below it, with its bytes."""
    if path.is_dir():
        for folder, _, files in os.walk(path):
            for name in files:
                with contextlib.suppress(OSError):
                    yield Path(folder, name), Path(folder, name).lstat().st_size
    else:
        yield path, path.stat().st_size


def _publish(archive: Path, target: Path) -> None:
    """Give it its name, unless somebody else took that meanwhile."""
    try:
        os.link(archive, target)
    except FileExistsError:
        raise _taken(target) from None
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP):
            raise
        # A file system without hard links: hold the name, then put the archive into it.
        try:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            raise _taken(target) from None
        archive.replace(target)
    to_disk(target.parent)


def _taken(target: Path) -> UsageError:
    return UsageError(
        f"{target} is there already, and nothing is overwritten.", "Name a new file, or a folder."
    )
