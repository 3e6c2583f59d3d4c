"""Restores a backup: checks a copy of the backup, then replaces the home's files all at once. Blocking."""

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.app.backup import (
    DATABASES,
    FILES,
    FOLDERS,
    KEYS,
    LINKED,
    WORKSPACE,
    BackupError,
    copy_database,
    copy_entry,
    size_of_entry,
)
from rumi.errors import UsageError
from rumi.memory.schema import MEMORY
from rumi.platform.home import Home
from rumi.sandbox.copying import copy_files, size_of_files
from rumi.sandbox.folders.views import sweep
from rumi.sandbox.workspace import clear as clear_workspace
from rumi.store.journal.schema import STATE
from rumi.store.sqlite import Schema, checked_version, require_free_space
from rumi.texts import Text

_SCHEMAS: Final = {"state.db": STATE, "memory.db": MEMORY}
OF_TURNS: Final = ("undo", "recordings")
"""Folders with data about single turns. A restore moves them away: they may not match its databases."""

_OF_CHATS: Final = (WORKSPACE, LINKED)

ANOTHER: Final = Text("Use another backup.")
_LOGS: Final = (
    *(f"{name}-{end}" for name in DATABASES for end in ("wal", "shm")),
    *("recall.db", "recall.db-wal", "recall.db-shm"),
)
"""The WAL files and the recall index of the home, which a restore moves away together with the old databases.

SQLite would replay an old database's WAL into the restored database. The next start rebuilds the recall index
from the restored database.
"""


@dataclass(frozen=True, slots=True)
class Restorable:
    """A complete, checked copy of a backup inside the home, which does not replace the home's files yet.

    `entries` are the names in the copy, with their sizes in bytes. `replaced` are the home's entries that
    will be moved to the folder `former`. `left_out` counts the entries of the chats' folders that are not in
    the copy.
    """

    home: Home
    entries: tuple[tuple[str, int], ...]
    replaced: tuple[str, ...]
    left_out: int

    @property
    def former(self) -> Path:
        """The folder for the replaced entries; it can be restored like a backup."""
        return self.home.restoring.replaced

    def commit(self) -> None:
        """Replace all affected entries of the home at once.

        If this process is killed during the replacement, the next process that locks the home finishes it.

        Raises:
            BackupError: The disk refuses to write.
        """
        try:
            self.home.restoring.commit((*_LOGS, *_replaced([name for name, _ in self.entries])))
        except OSError as error:
            raise BackupError(
                "The backup cannot be put in place: {error}.",
                "Look at the disk, then try again.",
                error=error,
            ) from error


@contextmanager
def restorable(home: Home, path: Path, *, files: bool = True) -> Iterator[Restorable]:
    """Yield a checked copy of the backup inside the home; remove the copy if it was not committed.

    If `files` is False, the chats' files stay as they are. The caller has locked the home.

    Raises:
        UsageError: `path` is not a backup, or the home's files cannot be replaced.
        BackupError: A database is damaged or not one of Rumi's, or the disk cannot be written.
        DatabaseFault: A newer program made a database, or the disk has too little space.
    """
    names = [name for name in _entries(home, path) if files or name not in _OF_CHATS]
    swap = home.restoring
    sweep(home.folders)  # mounts that a killed process has left
    _remove(swap.staging)
    try:
        try:
            require_free_space(swap.staging, sum(_size(path / name) for name in names))
            swap.new.mkdir(mode=0o700, parents=True)
            left_out = 0
            for name in names:
                if name in _OF_CHATS:
                    left_out += copy_files(path / name, swap.new / name).left_out
                elif name in DATABASES:
                    copy_database(path / name, swap.new / name, advice=ANOTHER)
                    _check(swap.new / name, path / name, _SCHEMAS[name])
                else:
                    copy_entry(path / name, swap.new / name)
        except OSError as error:
            raise BackupError(
                "The backup cannot be copied: {error}.", "Make room on the home's disk.", error=error
            ) from error
        there = [name for name in _replaced(names) if os.path.lexists(home.root / name)]
        for name in there:
            if os.path.realpath(home.root) + f"/{name}" in _mounts():
                raise UsageError(
                    "{root} is a mounted disk, and cannot be replaced.",
                    "Unmount it first, or leave the chats' files out: --without-files.",
                    root=home.root / name,
                )
        sized = tuple((name, _size(swap.new / name)) for name in names)
        replaced = tuple(name for name in there if _has_content(home.root / name))
        yield Restorable(home, sized, replaced, left_out)
    finally:
        with contextlib.suppress(OSError):
            swap.finish()
        if not swap.plan.exists():
            _remove(swap.staging)


def _entries(home: Home, path: Path) -> list[str]:
    """Return the names in a backup that are also valid in a home.

    Raises:
        UsageError: The folder is not a backup.
    """
    where, root = path.resolve(), home.root.resolve()
    if not path.is_dir():
        raise UsageError("{path} is not a folder.", "Name a folder that rumi backup made.", path=path)
    if where == root or root.is_relative_to(where):
        raise UsageError("{path} holds the home itself.", "Name a folder that rumi backup made.", path=path)
    if where.is_relative_to(root) and where != home.restoring.replaced.resolve():
        raise UsageError("{path} is inside of the home.", "Name a folder that rumi backup made.", path=path)
    found = []
    for name in (*DATABASES, *FILES, KEYS, *_OF_CHATS):
        entry = path / name
        if os.path.lexists(entry):
            if entry.is_symlink() or not (entry.is_dir() if name in FOLDERS else entry.is_file()):
                raise UsageError("{entry} is not what a backup has there.", ANOTHER, entry=entry)
            found.append(name)
    if not set(found) & set(DATABASES):
        raise UsageError(
            "{path} is not a backup: it has no database.", "Name a folder that rumi backup made.", path=path
        )
    return found


def _check(copy: Path, source: Path, schema: Schema) -> None:
    """Check that a database is undamaged and has a schema that this program knows."""
    try:
        with contextlib.closing(sqlite3.connect(f"{copy.as_uri()}?mode=ro", uri=True)) as db:
            version = checked_version(db, source, schema)
            (found,) = db.execute("PRAGMA integrity_check(1)").fetchone()
            tables = _tables(db)
    except sqlite3.Error as error:
        raise BackupError("{source} is damaged: {error}.", ANOTHER, source=source, error=error) from error
    if found != "ok":
        raise BackupError(
            "{source} is damaged: {reason}.", ANOTHER, source=source, reason=" ".join(found.split())
        )
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema.tables)
        expected = _tables(db)
    if (expected - tables) if version == schema.version else (tables and not expected & tables):
        raise BackupError("{source} is not a database of Rumi's.", ANOTHER, source=source)


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _replaced(names: Sequence[str]) -> list[str]:
    """Return the files and folders of the home that a backup with the given `names` replaces.

    If the backup contains no keys, the home keeps its keys; the same applies to the chats' files.
    """
    return [*DATABASES, *FILES, *OF_TURNS, *(name for name in (KEYS, *_OF_CHATS) if name in names)]


def _size(path: Path) -> int:
    return size_of_files(path) if path.name in _OF_CHATS else size_of_entry(path)


def _has_content(path: Path) -> bool:
    return not path.is_dir() or path.is_symlink() or any(path.iterdir())


def _mounts() -> set[str]:
    """Return the paths of all mount points. They cannot be renamed, so a restore cannot replace them."""
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    return {re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line.split()[4]) for line in lines}


def _remove(folder: Path) -> None:
    """Remove a folder and its contents, including files that sandboxed commands have created."""
    if folder.is_dir():
        clear_workspace(folder)
        with contextlib.suppress(OSError):
            folder.rmdir()
