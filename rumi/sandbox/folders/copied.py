"""The copy of a folder, for chats whose folder cannot be shown through an overlay.

The copy is the chat's workspace, and is made before the chat's first command. The file `copied.json` in the
chat's folder of state lists what the folder had then; with it, the chat's changes are known. Blocking.
"""

import contextlib
import errno
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from rumi.platform.atomic_write import atomic_write
from rumi.platform.openat import FOLDER, openat2, opened
from rumi.platform.texts.operating import short_size
from rumi.sandbox.copying import copy_files
from rumi.sandbox.entries import SETTLED_NS, version
from rumi.sandbox.folders.links import FolderFault
from rumi.sandbox.project.changes import FileChange
from rumi.sandbox.project.tree import (
    UNBOUNDED,
    OverLimits,
    ProjectEntry,
    ProjectLimits,
    ProjectTree,
    file_entry,
    scan,
)
from rumi.sandbox.workspace import remove
from rumi.texts import os_error

INDEX: Final = "copied.json"


@dataclass(slots=True)
class Copied:
    """The entries of the folder when it was copied; `keys` identify versions of the copy's files."""

    entries: dict[str, ProjectEntry] = field(default_factory=dict)
    keys: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def write(self, state: Path) -> None:
        """Store it. Raise OSError."""
        fields = {
            "entries": {path: asdict(entry) for path, entry in self.entries.items()},
            "keys": self.keys,
        }
        atomic_write(state / INDEX, json.dumps(fields, separators=(",", ":")).encode())


def read_copied(state: Path) -> Copied | None:
    """Return what was copied; None if there is no complete copy."""
    try:
        found = json.loads((state / INDEX).read_bytes())
        entries = {path: ProjectEntry(**fields) for path, fields in found["entries"].items()}
        return Copied(entries, {path: tuple(key) for path, key in found["keys"].items()})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def make_copy(folder: Path, copy: Path, state: Path, owner: tuple[int, int], bounds: ProjectLimits) -> None:
    """Copy the folder, with git's own files, for the user of commands. A killed call is repeated.

    Raises:
        FolderFault: The folder is too large, or cannot be read or copied.
    """
    draft = copy.with_name(f".copying-{copy.name}")
    try:
        shutil.rmtree(draft, ignore_errors=True)
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy_files(folder, draft, owner=owner, bounds=bounds)
        with opened(os.open(draft, FOLDER)) as top:
            copied = Copied()
            copied.entries = scan(top, UNBOUNDED, None, _Known(Copied(), copied)).entries
        if os.geteuid() == 0:
            os.chown(draft, *owner)
        if os.path.lexists(copy):  # of a killed call, whose list is missing: no command has used it
            remove(copy)
        os.rename(draft, copy)
        # Until then, a command could change a file without a change of its times.
        time.sleep(SETTLED_NS / 1e9)
        copied.write(state)
    except OverLimits as error:
        if error.what == "bytes":
            raise FolderFault(
                "{folder} has more than {size}, and is too large to be copied for the sandbox.",
                "Raise [sandbox] workspace_mb in config.toml, or start Rumi in a folder below it.",
                folder=folder,
                size=short_size(error.most),
            ) from error
        raise FolderFault(
            "{folder} has more than {files} files and folders, too many to be copied for the sandbox.",
            "Raise [sandbox] workspace_files in config.toml, or start Rumi in a folder below it.",
            folder=folder,
            files=f"{error.most:,}",
        ) from error
    except OSError as error:
        raise FolderFault(
            "{folder} cannot be copied for the sandbox: {reason}.",
            "Check its files and the disk of RUMI_HOME.",
            folder=folder,
            reason=os_error(error),
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


class _Known:
    """Describes a file from the list if its version is known, otherwise from its content.

    Reads at most `most` bytes; then files that have changed are too large (EFBIG).
    """

    def __init__(self, known: Copied, seen: Copied, most: int = UNBOUNDED.bytes) -> None:
        self._known = known
        self._seen = seen
        self._left = most

    def __call__(self, path: str, entry: ProjectEntry, file: int) -> ProjectEntry:
        if file < 0:
            return entry
        status = os.fstat(file)
        key = version(status)
        if self._known.keys.get(path) == key:
            entry = self._known.entries[path]
        elif status.st_size > self._left:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        else:
            self._left -= status.st_size
            entry = file_entry(file)
        self._seen.keys[path] = key
        return entry


def tree_of(copy: int, copied: Copied, most: int) -> ProjectTree:
    """Return the current files of the open copy. Only changed files are read, up to `most` bytes."""
    return scan(copy, UNBOUNDED, None, _Known(copied, Copied(), most))


def applied(state: Path, changes: list[FileChange]) -> None:
    """Store that the folder has these changes now, so that they no longer count."""
    if (copied := read_copied(state)) is None:
        return
    for change in changes:
        copied.keys.pop(change.path, None)
        if change.after is None:
            copied.entries.pop(change.path, None)
        else:
            copied.entries[change.path] = change.after
    copied.write(state)


def put_back(
    folder: int, copy: int, state: Path, paths: list[str], owner: tuple[int, int], now: Mapping[str, object]
) -> None:
    """Give these paths of the open copy the folder's current content. Raise OSError."""
    copied = read_copied(state) or Copied()
    for path in sorted(paths, key=lambda path: -path.count("/")):
        _remove(copy, path)
    for path in sorted(paths):
        entry = now.get(path)
        copied.keys.pop(path, None)
        copied.entries.pop(path, None)
        if isinstance(entry, ProjectEntry):
            _put(folder, copy, path, entry, owner)
            copied.entries[path] = entry
    copied.write(state)


def _remove(copy: int, path: str) -> None:
    *above, name = path.split("/")
    with contextlib.suppress(OSError), opened(_parent(copy, above, None)) as parent:
        os.unlink(name, dir_fd=parent)


def _put(folder: int, copy: int, path: str, entry: ProjectEntry, owner: tuple[int, int]) -> None:
    *above, name = path.split("/")
    with opened(_parent(copy, above, owner)) as parent:
        with contextlib.suppress(OSError):  # an empty folder that a command has put there
            os.rmdir(name, dir_fd=parent)
        if entry.kind == "link":
            os.symlink(entry.digest, name, dir_fd=parent)
        else:
            mode = 0o700 if entry.runs else 0o600
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            with (
                opened(openat2(folder, os.fsencode(path))) as source,
                opened(os.open(name, flags, mode, dir_fd=parent)) as target,
            ):
                file_entry(source, target)
        if os.geteuid() == 0:
            os.chown(name, *owner, dir_fd=parent, follow_symlinks=False)


def _parent(top: int, above: list[str], owner: tuple[int, int] | None) -> int:
    """Open the folder with these steps below an open one; with an owner, create what is missing."""
    folder = os.dup(top)
    for step in above:
        try:
            if owner is not None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, 0o700, dir_fd=folder)
                    if os.geteuid() == 0:
                        os.chown(step, *owner, dir_fd=folder, follow_symlinks=False)
            inner = os.open(step, FOLDER, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    return folder
