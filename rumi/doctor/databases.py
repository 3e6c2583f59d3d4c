"""The two databases: whether they are sound, and of a version that this program knows. Blocking, bounded."""

import contextlib
import shlex
import sqlite3
import stat
import time
from pathlib import Path

from rumi.databases import NewerSchema, Schema, checked_version, copies_of
from rumi.doctor.check import Check
from rumi.home import Home
from rumi.journal import STATE
from rumi.memory import MEMORY
from rumi.texts import Language
from rumi.texts import doctor as words

READ_S = 10.0
"""How long a file is read for damage. Both have to fit into the time of a check."""


def databases(home: Home, language: Language) -> list[Check]:
    """Both files, read only: who holds the home goes on writing."""
    return [*_database(home.state_db, STATE, language), *_database(home.memory_db, MEMORY, language)]


def _database(path: Path, schema: Schema, language: Language) -> list[Check]:
    if not path.exists():
        return [Check(path.name, "ok", words.NOT_THERE.said(language)), *_copies(path, language)]
    if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for a writer
        return [Check(path.name, "failure", words.NO_FILE.said(language), words.MEND_NO_FILE.said(language))]
    try:
        check = _read(path, schema, language)
    except NewerSchema as error:
        found = words.NEWER.said(language, found=error.found, known=schema.version)
        check = Check(path.name, "failure", found, words.MEND_NEWER.said(language))
    except sqlite3.OperationalError as error:
        found = words.UNREADABLE.said(language, error=error)
        check = Check(path.name, "failure", found, words.MEND_UNREADABLE.said(language))
    except sqlite3.Error as error:
        check = _damaged(path, str(error), language)
    return [check, *_copies(path, language)]


def _read(path: Path, schema: Schema, language: Language) -> Check:
    # Where nobody has it open, it is read as it lies: SQLite would put files beside it, and disks get full.
    lies = not path.with_name(f"{path.name}-wal").exists()
    mode = "mode=ro&immutable=1" if lies else "mode=ro"
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=5)) as db:
        version = checked_version(db, path, schema)
        found = _integrity(db)
    if lies and path.with_name(f"{path.name}-wal").exists():  # somebody began to write meanwhile
        return _read(path, schema, language)
    size_bytes = path.stat().st_size
    size = f"{size_bytes / 1e6:.1f} MB" if size_bytes >= 100_000 else f"{size_bytes / 1e3:.1f} KB"
    if found == "":
        said = words.SOUND_IN_PART.said(language, size=size, seconds=f"{READ_S:.0f}")
    elif found != "ok":
        return _damaged(path, found, language)
    elif 0 < version < schema.version:
        said = words.SOUND_OLDER.said(language, size=size, version=version, known=schema.version)
    else:
        said = words.SOUND.said(language, size=size, version=version)
    return Check(path.name, "ok", said)


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


def _damaged(path: Path, found: str, language: Language) -> Check:
    """The log goes along: SQLite would write an old one into whatever takes the file's place."""
    beside = [path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm")]
    moves = [(path, path.with_name(f"{path.name}.damaged"))]
    moves += [(each, each.with_name(each.name.replace(".db-", ".db.damaged-"))) for each in beside]
    commands = " && ".join(
        f"mv {shlex.quote(str(old))} {shlex.quote(str(new))}" for old, new in moves if old.exists()
    )
    said = words.DAMAGED.said(language, error=" ".join(found.split()))
    return Check(path.name, "failure", said, words.MEND_DAMAGED.said(language, commands=commands))


def _copies(path: Path, language: Language) -> list[Check]:
    return [Check(path.name, "ok", words.COPY.said(language, name=copy.name)) for copy in copies_of(path)]
