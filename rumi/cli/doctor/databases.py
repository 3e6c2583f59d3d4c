"""Checks that the databases are undamaged and have a known schema version. They block for a limited time."""

import contextlib
import shlex
import sqlite3
import stat
import time
from pathlib import Path

from rumi.cli.doctor.check import Check
from rumi.memory.recall.store import RECALL
from rumi.memory.schema import MEMORY
from rumi.platform.home import Home
from rumi.store.journal.schema import STATE
from rumi.store.sqlite import NewerSchema, Schema, checked_version, copies_of
from rumi.texts import Text

READ_S = 10.0
"""Maximum time to check one file for damage, in seconds; all files are checked within one check."""


def databases(home: Home) -> list[Check]:
    """Check the database files read-only, while the daemon continues to write."""
    checks = [
        *_database(home.state_db, STATE),
        *_database(home.memory_db, MEMORY),
        *_database(home.recall_db, RECALL),
    ]
    former = home.restoring.replaced
    if former.exists():
        found = Text("{name}: what the last restore replaced; remove it when all is well", name=former.name)
        checks.append(Check(former.name, "ok", found))
    return checks


def _database(path: Path, schema: Schema) -> list[Check]:
    if not path.exists():
        return [Check(path.name, "ok", Text("not there yet")), *_copies(path)]
    if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
        return [Check(path.name, "failure", Text("it is not a file"), Text("Stop Rumi and move it away."))]
    try:
        check = _read(path, schema)
    except NewerSchema as error:
        found = Text(
            "a newer Rumi made it (schema {found}, this one knows {version})",
            found=error.found,
            version=schema.version,
        )
        check = Check(path.name, "failure", found, Text("Use the newer program, or another RUMI_HOME."))
    except sqlite3.OperationalError as error:
        found = Text("cannot be read: {error}", error=error)
        fix = Text("Make room on the disk and look at the file's owner and mode, then try again.")
        check = Check(path.name, "failure", found, fix)
    except sqlite3.Error as error:
        check = _damaged(path, str(error))
    return [check, *_copies(path)]


def _read(path: Path, schema: Schema) -> Check:
    # Without a WAL file no process has the database open: read it as immutable, because SQLite would
    # otherwise create files next to it, which fails on a full disk.
    immutable = not path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro&immutable=1" if immutable else "mode=ro"
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=5)) as db:
        version = checked_version(db, path, schema)
        found = _integrity(db)
    if immutable and path.with_name(f"{path.name}-wal").exists():  # a process has opened it meanwhile
        return _read(path, schema)
    size_bytes = path.stat().st_size
    size = f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes / 1e3:.1f} KB"
    if found == "":
        said = Text(
            "{size}, no damage found in {seconds} s, which was not all of it",
            size=size,
            seconds=f"{READ_S:.0f}",
        )
    elif found != "ok":
        return _damaged(path, found)
    elif 0 < version < schema.version:
        said = Text(
            "{size}, sound, of schema {version}: the next start brings it to {next}",
            size=size,
            version=version,
            next=schema.version,
        )
    else:
        said = Text("{size}, sound, schema {version}", size=size, version=version)
    return Check(path.name, "ok", said)


def _integrity(db: sqlite3.Connection) -> str:
    """Return the first damage that SQLite finds, "ok" if there is none, or "" if the time ran out."""
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
    """Return the finding about a damaged database, with its fix.

    The fix also moves the database's WAL away, because SQLite would replay the WAL into a new database.
    """
    siblings = [path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm")]
    moves = [(path, path.with_name(f"{path.name}.damaged"))]
    moves += [
        (sibling, sibling.with_name(sibling.name.replace(".db-", ".db.damaged-"))) for sibling in siblings
    ]
    commands = " && ".join(
        f"mv {shlex.quote(str(old))} {shlex.quote(str(new))}" for old, new in moves if old.exists()
    )
    said = Text("damaged: {reason}", reason=" ".join(found.split()))
    fix = Text(
        "Stop Rumi, run this, then put a backup's copy in its place (without one it begins empty): "
        "{commands}",
        commands=commands,
    )
    return Check(path.name, "failure", said, fix)


def _copies(path: Path) -> list[Check]:
    return [
        Check(
            path.name,
            "ok",
            Text("{name}: the copy from before the last upgrade; remove it when all is well", name=copy.name),
        )
        for copy in copies_of(path)
    ]
