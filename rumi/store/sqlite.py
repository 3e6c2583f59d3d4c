"""SQLite files: schema upgrades, and copies of files that other processes use. All functions block.

A file stores the version of its schema (`PRAGMA user_version`). Before an upgrade, the file is copied into
the same folder. The upgrade is one transaction, so if the program is killed, the file has either the old or
the new schema. A file with a newer schema is refused.
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
from typing import Final

from rumi.errors import RumiError
from rumi.platform.atomic_write import fsync_path
from rumi.platform.disk_reserve import LEAST_BYTES, free_bytes
from rumi.store.protocol import Database, Trouble
from rumi.texts import Text

SPARE_BYTES = 10_000_000
"""Free disk space in bytes that must remain after the copy and the write-ahead log of an upgrade."""

PAGES_A_STEP = 2_000
"""Number of pages that are copied between two checks of the deadline."""

LOCKED_S = 0.25
"""Maximum time that one attempt to write waits for another program's lock, in seconds. To wait longer,
callers retry; between the attempts they can do other work."""

OPEN_S = 5.0
"""Maximum time that opening and upgrading a file wait for another program's lock, in seconds."""

LOG_BYTES = 4_000_000
"""Size in bytes to which SQLite truncates the write-ahead log after a checkpoint."""

_REFUSED: Final = frozenset(
    {
        *("SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC", "SQLITE_IOERR_TRUNCATE"),
        *("SQLITE_IOERR_SHMOPEN", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMMAP", "SQLITE_IOERR_MMAP"),
    }
)
"""SQLite's error names for a failed write.

Read errors are not included: they do not go away after a wait, and they affect only the request that reads.
"""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Error numbers of a full disk and of an exceeded quota."""


class DatabaseFault(RumiError):
    """The database cannot be used in its present state; the error says what to do."""


class NewerSchema(DatabaseFault):
    """A newer version of the program wrote the database. `found` is the schema version of that database."""

    def __init__(self, path: Path | str, found: int, known: int) -> None:
        super().__init__(
            "{path} was made by a newer Rumi (schema {found}, this one knows {known}).",
            "Use the newer program, or another RUMI_HOME.",
            path=path,
            found=found,
            known=known,
        )
        self.found = found


@dataclass(frozen=True, slots=True)
class Schema:
    """The schema of a database: its version, the statements for a new database, and the migrations.

    `migrations` maps a version to the statements that upgrade it to the next version.
    """

    version: int
    tables: str
    migrations: Mapping[int, str]

    def script(self, version: int) -> str:
        """Return the statements that upgrade a file from `version` (0 if empty) to this schema."""
        if version == 0:
            return self.tables
        return "\n".join(self.migrations[step] for step in range(version, self.version))


def trouble_of(path: Path, error: sqlite3.Error | OSError) -> Trouble | None:
    """Return the problem that prevents writing for now, such as a full disk; None for any other error."""
    trouble = _trouble_of(error)
    if trouble == "failing":  # SQLite reports an I/O error, not a full disk, if the `-shm` file cannot grow
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
    """Return two texts: the reason why the file cannot be written, and advice for the user."""
    match trouble:
        case "full":
            return Text("{path} cannot be written: its disk is full.", path=path), Text(
                "Make room on the disk."
            )
        case "locked":
            return Text("{path} is locked by another program.", path=path), Text(
                "End that program, or wait for it."
            )
        case "replaced":
            return (
                Text("{path} was deleted or replaced while it was open.", path=path),
                Text("End this process, put the right file there, and start again."),
            )
        case "failing" | "away":
            return (
                Text("{path} cannot be written: {error}.", path=path, error=error),
                Text("Look at the disk and at the file's permissions, or ask: rumi doctor"),
            )


def checked_version(db: sqlite3.Connection, path: Path, schema: Schema) -> int:
    """Return the schema version of the file, 0 for an empty file.

    Raises:
        NewerSchema: This program is too old for the file.
        sqlite3.Error: The file is damaged or not a database.
    """
    (version,) = db.execute("PRAGMA user_version").fetchone()
    if version > schema.version:
        raise NewerSchema(path, version, schema.version)
    return int(version)


def make_durable(db: sqlite3.Connection, path: Path) -> None:
    """Make commits survive a power failure, and restrict the file's permissions to its owner."""
    db.execute("PRAGMA journal_mode = WAL")
    # With NORMAL, a commit in WAL mode is not synced, and a power cut could undo it.
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
    path.chmod(0o600)


def bring_up_to_date(db: sqlite3.Connection, path: Path, schema: Schema, version: int) -> None:
    """Upgrade a file from `version` to this schema; copy a non-empty file into the same folder first.

    Raises:
        DatabaseFault: The disk has too little space. Nothing has changed.
        sqlite3.Error, OSError: The upgrade failed. Nothing has changed.
    """
    if version == schema.version:
        return
    copy = path.with_name(f"{path.name}.before-{schema.version}")
    if version:
        copy_beside(db, path, copy)
    with upgrade(db, schema):
        for statement in statements(schema.script(version)):
            db.execute(statement)
    # One copy is enough to go back. Older copies would retain facts that users have deleted since.
    for older in copies_of(path):
        if version and older != copy:
            older.unlink(missing_ok=True)


def copies_of(path: Path) -> list[Path]:
    """Return the paths of the copies that were made before upgrades of the file."""
    return sorted(path.parent.glob(f"{path.name}.before-*"))


@contextmanager
def transaction(db: Database, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Run the block in one transaction: commit its changes, or roll them back if it raises."""
    db.execute(begin)
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            with contextlib.suppress(Exception):  # the caller needs the first error, not this one
                db.execute("ROLLBACK")
        raise


def leave_no_trace(db: sqlite3.Connection) -> bool:
    """Remove deleted rows from the write-ahead log as well. Return False if a reader prevents it."""
    with contextlib.suppress(sqlite3.Error):
        (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy
    return False


def decoded(raw: bytes) -> str:
    """Decode UTF-8 and replace invalid bytes: one damaged byte must not make a file unreadable."""
    return raw.decode("utf-8", "replace")


@contextmanager
def upgrade(db: sqlite3.Connection, schema: Schema) -> Iterator[None]:
    """Run the block and set the schema version in one transaction; if the block raises, nothing changes."""
    with transaction(db):
        yield
        db.execute(f"PRAGMA user_version = {schema.version}")


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script one by one."""
    # `executescript` would commit the open transaction, and the upgrade would not be atomic any more.
    pending = ""
    for part in script.split(";"):
        pending += f"{part};"
        if sqlite3.complete_statement(pending) and pending.strip("; \n"):
            yield pending
            pending = ""


def copy_beside(db: sqlite3.Connection, path: Path, target: Path) -> None:
    """Copy the file to `target`, replacing an earlier copy. An incomplete copy is never visible as `target`.

    Raises:
        DatabaseFault: The disk has too little space for the copy and the upgrade.
    """
    size = size_of(db)
    require_free_space(path, 2 * size)  # the copy, and at most as much for the log of the upgrade
    draft = target.with_name(f".{target.name}")
    draft.unlink(missing_ok=True)
    copy_to(db, draft)
    draft.replace(target)
    fsync_path(target.parent)


def copy_to(db: sqlite3.Connection, target: Path, *, deadline: float | None = None) -> None:
    """Copy the current content to a new file that only its owner can read, and sync the copy to the disk.

    Other processes may write to the file during the copy; these writes are not copied. `deadline` is a time
    on the monotonic clock. If the copy fails, the target is removed.

    Raises:
        FileExistsError: The target exists already; it is not changed.
        TimeoutError: The deadline has passed.
    """
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))

    def in_time(status: int, remaining: int, total: int) -> None:
        if deadline is not None and time.monotonic() > deadline:
            raise TimeoutError(f"{total - remaining} of {total} pages were copied in time")

    try:
        with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
            db.execute("BEGIN")
            try:
                # A read transaction: without it, each write by another process would restart the copy.
                db.execute("SELECT count(*) FROM sqlite_master").fetchone()
                db.backup(copy, pages=PAGES_A_STEP, progress=in_time)
            finally:
                db.execute("ROLLBACK")
            copy.execute("PRAGMA journal_mode = DELETE")  # without WAL the copy is a single file
        fsync_path(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def size_of(db: sqlite3.Connection) -> int:
    """Return the size of the file in bytes, including its write-ahead log."""
    (pages,), (size,) = (db.execute(f"PRAGMA page_{what}").fetchone() for what in ("count", "size"))
    return int(pages * size)


def require_free_space(path: Path, wanted_bytes: int) -> None:
    """Raise `DatabaseFault` if the disk that contains `path` has too little free space."""
    free = shutil.disk_usage(path.parent).free
    if free < wanted_bytes + SPARE_BYTES:
        wanted = (wanted_bytes + SPARE_BYTES) / 1e6
        raise DatabaseFault(
            "Copying {path} takes {wanted} MB, and its disk has {free} MB free.",
            "Make room, then try again.",
            path=path,
            wanted=f"{wanted:.0f}",
            free=f"{free / 1e6:.0f}",
        )
