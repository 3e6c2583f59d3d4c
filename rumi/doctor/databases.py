"""The two databases: whether they are sound, and of a version that this program knows. Blocking, bounded."""

import contextlib
import shlex
import sqlite3
import time
from pathlib import Path

from rumi.databases import NewerSchema, Schema, checked_version, copies_of
from rumi.doctor.check import Check
from rumi.home import Home
from rumi.journal import STATE
from rumi.memory import MEMORY

READ_S = 20.0
"""How long a file is read for damage."""


def databases(home: Home) -> list[Check]:
    """Both files, read only: who holds the home goes on writing."""
    return [*_database(home.state_db, STATE), *_database(home.memory_db, MEMORY)]


def _database(path: Path, schema: Schema) -> list[Check]:
    if not path.exists():
        return [Check(path.name, "ok", "not there yet")]
    try:
        check = _read(path, schema)
    except NewerSchema as error:
        check = Check(path.name, "failure", error.message.rstrip("."), error.advice)
    except sqlite3.OperationalError as error:
        mend = "Make room on the disk and look at the file's owner and mode, then try again."
        check = Check(path.name, "failure", f"cannot be read: {error}", mend)
    except sqlite3.Error as error:
        check = _damaged(path, str(error))
    return [check, *_copies(path)]


def _read(path: Path, schema: Schema) -> Check:
    # Where nobody has it open, it is read as it lies: SQLite would put files beside it, and disks get full.
    lies = not path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro&immutable=1" if lies else "mode=ro"
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=5)) as db:
        version = checked_version(db, path, schema)
        found = _integrity(db)
    if lies and path.with_name(f"{path.name}-wal").exists():  # somebody began to write meanwhile
        return _read(path, schema)
    size = f"{path.stat().st_size / 1e6:.1f} MB"
    if found == "":
        return Check(path.name, "ok", f"{size}, no damage found in {READ_S:.0f} s, which was not all of it")
    if found != "ok":
        return _damaged(path, found)
    if 0 < version < schema.version:
        told = f"{size}, sound, of schema {version}: the next start brings it to {schema.version}"
        return Check(path.name, "ok", told)
    return Check(path.name, "ok", f"{size}, sound, schema {version}")


def _integrity(db: sqlite3.Connection) -> str:
    """The first damage that SQLite finds, "ok" if there is none, "" where the time was too short to say."""
    deadline = time.monotonic() + READ_S
    db.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
    try:
        (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            return ""
        raise
    return str(found)


def _damaged(path: Path, found: str) -> Check:
    name, aside = shlex.quote(str(path)), shlex.quote(f"{path}.damaged")
    words = " ".join(found.split())
    return Check(
        path.name,
        "failure",
        f"damaged: {words}",
        f"Stop Rumi, put a backup in its place, or begin anew: mv {name} {aside}",
    )


def _copies(path: Path) -> list[Check]:
    return [
        Check(
            path.name, "ok", f"{copy.name}: the copy from before the last upgrade; remove it when all is well"
        )
        for copy in copies_of(path)
    ]
