"""Backups: folders with consistent copies of the databases, made even while Rumi runs. Blocking."""

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rumi.errors import RumiError, UsageError
from rumi.platform.atomic_write import fsync_path
from rumi.platform.home import Home
from rumi.platform.openat import READ, is_ordinary, opened
from rumi.sandbox.copying import copy_data, copy_files, size_of_files
from rumi.sandbox.folders.views import UPPER
from rumi.store.sqlite import copy_to, require_free_space
from rumi.texts import os_error

COPY_S = 300.0
"""Maximum time to copy a database, in seconds."""

DATABASES = ("state.db", "memory.db")
TASKS = "tasks"
MCP = "mcp"
FILES = ("config.toml", "skills-trusted.json", "mcp-tools.json", "skills", "prompts", "bots", TASKS, MCP)
KEYS = ".env"
WORKSPACE = "workspace"
LINKED = "folders"
"""What chats have changed in folders of persons that they work on."""
FOLDERS = ("skills", "prompts", "bots", TASKS, MCP, WORKSPACE, LINKED)


class BackupError(RumiError):
    """The backup failed; its partial files were removed."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete backup on the disk. `entries` are the names in its folder, with their sizes in bytes.

    `left_out` counts the pipes, sockets and unreadable files in the chats' folders, which are not backed up.
    """

    path: Path
    entries: tuple[tuple[str, int], ...]
    left_out: int = 0


def back_up(home: Home, path: Path, *, keys: bool = False, files: bool = True) -> Backup:
    """Copy all data that Rumi cannot recreate to a new folder: to `path`, or to a folder inside `path`.

    The chats' files are copied as plain files, unless `files` is False. The logs are not copied, and the API
    keys are copied only if `keys` is True. The home need not be locked: each database copy is a snapshot of
    one moment, even during writes; files are copied one after the other. Nothing is overwritten, and a failed
    backup leaves no files behind.

    Raises:
        UsageError: `path` exists already, is inside a home or an earlier backup, or cannot be written.
        BackupError: There is nothing to back up, or a database is damaged.
        DatabaseFault: The disk has too little space.
    """
    target = path / time.strftime("rumi-%Y%m%d-%H%M%S") if path.is_dir() else path
    if target.exists() or target.is_symlink():
        raise _taken(target)
    if target.parent.resolve().is_relative_to(home.root.resolve()):
        raise UsageError(
            "{target} would be inside of {root}, and be lost with it.",
            "Name another place.",
            target=target,
            root=home.root,
        )
    for folder in (target.parent.resolve(), *target.parent.resolve().parents):
        if any((folder / name).exists() for name in DATABASES):
            raise UsageError(
                "{folder} is a backup or a home already, and {name} would lie in it.",
                "Name a new folder beside it, or one that holds backups and nothing else.",
                folder=folder,
                name=target.name,
            )
    there = [name for name in (*DATABASES, *FILES, *([KEYS] if keys else ())) if (home.root / name).exists()]
    if not there:
        raise BackupError(
            "{root} contains nothing to back up.", "Is RUMI_HOME the right folder?", root=home.root
        )
    try:
        # Only its owner may read it.
        draft = Path(tempfile.mkdtemp(prefix=".rumi-backup-", dir=target.parent))
    except OSError as error:
        raise UsageError(
            "{parent} cannot be written: {reason}.",
            "Name another place.",
            parent=target.parent,
            reason=os_error(error),
        ) from error
    try:
        linked = files and home.folders.is_dir() and not home.folders.is_symlink()
        files = files and home.workspaces.is_dir() and not home.workspaces.is_symlink()
        left_out = 0
        size = sum(size_of_entry(home.root / name) for name in there)
        of_chats = size_of_files(home.workspaces) if files else 0
        of_chats += sum(map(size_of_files, home.folders.glob(f"*/{UPPER}"))) if linked else 0
        require_free_space(target, size + of_chats)
        for name in there:
            if name in DATABASES:
                copy_database(home.root / name, draft / name)
            else:
                left_out += copy_entry(home.root / name, draft / name)
        entries = [(name, size_of_entry(draft / name)) for name in there]
        if files:
            copied = copy_files(home.workspaces, draft / WORKSPACE)
            entries.append((WORKSPACE, copied.bytes))
            left_out += copied.left_out
        if linked:
            copied = copy_files(home.folders, draft / LINKED)
            entries.append((LINKED, copied.bytes))
            left_out += copied.left_out
        _publish(draft, target)
    except OSError as error:
        raise BackupError(
            "The backup cannot be written: {error}.", "Make room, or name another place.", error=error
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return Backup(target, tuple(entries), left_out)


def copy_database(source: Path, copy: Path, *, advice: str = "Look at: rumi doctor") -> None:
    """Copy a database, and raise BackupError if the copy is damaged."""
    try:
        with contextlib.closing(_opened(source)) as db:
            copy_to(db, copy, deadline=time.monotonic() + COPY_S)
        with contextlib.closing(_opened(copy)) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        found = str(error)
    if found != "ok":
        raise BackupError("{source} cannot be copied: {found}.", advice, source=source, found=found)


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10, isolation_level=None)


def copy_entry(source: Path, copy: Path) -> int:
    """Copy a file, or a folder with its files, folders and links; only the owner can read the copy.

    `source` may be a symbolic link, because people link their configuration or skills. Return the number of
    entries omitted from a folder. Files of servers and bots are not trusted: see `copy_files`.
    """
    source = source.resolve()
    if source.is_dir():
        return copy_files(source, copy, keep_owners=False).left_out
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    with opened(os.open(source, READ)) as file:
        if not is_ordinary(file):
            raise OSError(errno.EINVAL, "is not a regular file", os.fspath(source))
        with opened(os.open(copy, flags, 0o700 if os.access(source, os.X_OK) else 0o600)) as target:
            copy_data(file, target, os.fstat(file).st_size)
    fsync_path(copy)
    return 0


def size_of_entry(path: Path) -> int:
    """Return the bytes on disk of a file, or of all files in a folder; holes in sparse files count as 0."""
    path = path.resolve()
    return size_of_files(path) if path.is_dir() else path.stat().st_blocks * 512


def _publish(draft: Path, target: Path) -> None:
    """Rename a finished draft of a backup to its final name; fail if that name is already in use."""
    try:
        draft.rename(target)
    except OSError as error:
        if target.exists():
            raise _taken(target) from error
        raise
    fsync_path(target.parent)


def _taken(target: Path) -> UsageError:
    return UsageError(
        "{target} exists already, and a backup overwrites nothing.",
        "Name a new folder, or one to put it in.",
        target=target,
    )
