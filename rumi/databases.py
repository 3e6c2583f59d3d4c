"""SQLite files: brought up to date in one step, and copied while others use them. Blocking.

A file carries its schema's version (`PRAGMA user_version`). An older file is copied beside itself and then
changed in one transaction, so a program that is killed leaves it as it was or as it will be; a newer one is
refused.
"""

import contextlib
import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from rumi.errors import RumiError
from rumi.reserve import LEAST_BYTES, free_bytes

SPARE_BYTES = 10_000_000
"""What has to be left free beside a copy and the log of what is changed."""

PAGES_A_STEP = 2_000

LOCKED_S = 0.25
"""How long one attempt to write waits for another program's lock. Longer waits are loops of attempts."""

OPEN_S = 5.0
"""The same while a file is opened and brought up to date."""

LOG_BYTES = 4_000_000
"""How large the write-ahead log stays when what is in it was merged."""

Trouble: TypeAlias = Literal["full", "locked", "failing", "replaced"]
"""What keeps a file from being written, although nothing is wrong with what is to be written.

The disk is full; another program has locked the file; the disk refuses to write; the file was deleted or
replaced while it was open.
"""

_REFUSED: Final = frozenset(
    {
        *("SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC", "SQLITE_IOERR_TRUNCATE"),
        *("SQLITE_IOERR_SHMOPEN", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP", "SQLITE_IOERR_MMAP"),
    }
)
"""Writing has failed. What failed while reading is left out: it fails again, and only for that request."""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""The system's numbers for a disk that is full, or for a quota that is used up."""


class DatabaseFault(RumiError):
    """The file cannot be used as it is; says what to do."""


class NewerSchema(DatabaseFault):
    """A newer program made the file. `found` is its schema."""

    def __init__(self, path: Path, found: int, known: int) -> None:
        super().__init__(
            f"{path} was made by a newer Rumi (schema {found}, this one knows {known}).",
            "Use the newer program, or another RUMI_HOME.",
        )
        self.found = found


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file is: its version, the statements of a new one, and what leads from a version to the next."""

    version: int
    tables: str
    migrations: Mapping[int, str]

    def script(self, version: int) -> str:
        """What makes a file of this schema of one of `version`; 0 is an empty one."""
        if version == 0:
            return self.tables
        return "\n".join(self.migrations[step] for step in range(version, self.version))


def trouble_of(path: Path, error: sqlite3.Error | OSError) -> Trouble | None:
    """What keeps a file from being written; None where something else is wrong, which stays so."""
    trouble = _trouble_of(error)
    if trouble == "failing":  # so it says where the shared memory beside the log finds no room
        with contextlib.suppress(OSError):
            if free_bytes(path.parent) < LEAST_BYTES:
                return "full"
    return trouble


def _trouble_of(error: sqlite3.Error | OSError) -> Trouble | None:
    if isinstance(error, OSError):
        return "full" if error.errno in FULL else "failing" if error.errno == errno.EROFS else None
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return "locked"
    if name == "SQLITE_FULL":
        return "full"
    return "failing" if name in _REFUSED or name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")) else None


def why_unwritten(path: Path, trouble: Trouble, error: object = "") -> tuple[str, str]:
    """What keeps the file from being written, in a sentence, and what to do."""
    match trouble:
        case "full":
            return f"{path} cannot be written: its disk is full.", "Make room on the disk."
        case "locked":
            return f"{path} is locked by another program.", "End that program, or wait for it."
        case "replaced":
            return (
                f"{path} was deleted or replaced while it was open.",
                "End this process, put the right file there, and start again.",
            )
        case "failing":
            return (
                f"{path} cannot be written: {error}.",
                "Look at the disk and at the file's permissions, or ask: rumi doctor",
            )


def checked_version(db: sqlite3.Connection, path: Path, schema: Schema) -> int:
    """The file's version, 0 for an empty one.

    Raises:
        NewerSchema: this program is too old for it.
        sqlite3.Error: it is no database, or damaged.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > schema.version:
        raise NewerSchema(path, version, schema.version)
    return int(version)


def make_durable(db: sqlite3.Connection, path: Path) -> None:
    """What was committed survives a power cut, as far as the disk keeps its word; only its owner reads it."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
    path.chmod(0o600)


def bring_up_to_date(db: sqlite3.Connection, path: Path, schema: Schema, version: int) -> None:
    """Make a file of `version` one of this schema; one that holds something is copied beside itself first.

    Raises:
        DatabaseFault: there is no room for that. Nothing has changed.
        sqlite3.Error, OSError: nothing has changed.
    """
    if version == schema.version:
        return
    copy = path.with_name(f"{path.name}.before-{schema.version}")
    if version:
        copy_beside(db, path, copy)
    with upgrade(db, schema):
        for statement in statements(schema.script(version)):
            db.execute(statement)
    for older in copies_of(path):  # one is enough, and what was forgotten since should not last in them
        if version and older != copy:
            older.unlink(missing_ok=True)


def copies_of(path: Path) -> list[Path]:
    """The copies that were made before the file was brought up to date."""
    return sorted(path.parent.glob(f"{path.name}.before-*"))


@contextmanager
def upgrade(db: sqlite3.Connection, schema: Schema) -> Iterator[None]:
    """One transaction, after which the file is of this schema's version, or as it was."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute(f"PRAGMA user_version = {schema.version}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: all at once would end the transaction around them."""
    pending = ""
    for part in script.split(";"):
        pending += f"{part};"
        if sqlite3.complete_statement(pending) and pending.strip("; \n"):
            yield pending
            pending = ""


def copy_beside(db: sqlite3.Connection, path: Path, target: Path) -> None:
    """A whole copy, complete before it has its name. One of an earlier attempt is replaced.

    Raises:
        DatabaseFault: there is no room for it and for what comes after.
    """
    size = size_of(db)
    require_room(path, 2 * size)
    draft = target.with_name(f".{target.name}")
    draft.unlink(missing_ok=True)
    copy_to(db, draft)
    draft.replace(target)
    to_disk(target.parent)


def copy_to(db: sqlite3.Connection, target: Path, *, deadline: float | None = None) -> None:
    """Copy what the file holds at this moment into a new one that is its owner's alone, and to the disk.

    Others may write meanwhile: what they write is not in it. `deadline` is by the monotonic clock.

    Raises:
        FileExistsError: there is something already. Whatever else is raised, the target is gone.
        TimeoutError: the deadline has passed.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))

    def in_time(status: int, remaining: int, total: int) -> None:
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError(f"{total - remaining} of {total} pages were copied in time")

    try:
        with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
            db.execute("BEGIN")
            try:
                # A transaction that reads: without one, each write of another process would start it anew.
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()
                db.backup(copy, pages=PAGES_A_STEP, progress=in_time)
            finally:
                db.execute("ROLLBACK")
            copy.execute("PRAGMA journal_mode = DELETE")  # so that it is one file
        to_disk(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def size_of(db: sqlite3.Connection) -> int:
    """How many bytes the file has, what is in its log included."""
    (pages,), (size,) = (db.execute(f"PRAGMA page_{what}").fetchone() for what in ("count", "size"))
    return int(pages * size)


def require_room(path: Path, wanted_bytes: int) -> None:
    """Raise `DatabaseFault` where the disk of `path` has no room for that."""
    free = shutil.disk_usage(path.parent).free
    if free < wanted_bytes + SPARE_BYTES:
        wanted = (wanted_bytes + SPARE_BYTES) / 1e6
        raise DatabaseFault(
            f"Copying {path} takes {wanted:.0f} MB, and its disk has {free / 1e6:.0f} MB free.",
            "Make room, then try again.",
        )


def to_disk(path: Path) -> None:
    """Have the system write a file, or a folder's names, to the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
