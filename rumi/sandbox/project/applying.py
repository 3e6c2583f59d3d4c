"""Application of changes to a user's folder, after a person has seen them: completely or not at all.

A path is changed only if it still has the content from before the change. A path that already has the new
content is skipped. The steps:

1. All new files are written to a staging folder in the user's folder, and synced.
2. A record of the intent is written. From now on, the changes will be made, even if the process is killed:
   the next start calls `finish`.
3. The new files are renamed to their names. The old files move to the staging folder, so that a failure can
   undo the changes made before it.
4. The caller drops what is no longer a change (`noted`). Then the record and the staging folder are removed.
"""

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

from rumi.platform.atomic_write import atomic_write, fsync_path
from rumi.platform.openat import FOLDER, openat2, opened, shown
from rumi.sandbox.project.changes import Changes, FileChange
from rumi.sandbox.project.tree import DRAFT, ProjectEntry, entry_at

RECORD: Final = "applying.json"
"""Name of the record of a running application, in the folder that the caller names."""

_MOST_NAMED: Final = 10
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
"""Error numbers from file systems that do not support hard links."""

Noted: TypeAlias = Callable[[Sequence[FileChange]], None]
"""Drops applied changes from those that the caller knows. May be called again after a kill."""


class FolderChanged(Exception):
    """Paths of the folder have changed since they were compared. Nothing was applied."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(*paths)
        self.paths = tuple(paths)

    @property
    def named(self) -> str:
        """The first paths, safe to print."""
        return named(self.paths)


class NotUndone(Exception):
    """Applying failed, and these paths could not be changed back."""

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(*paths)
        self.paths = tuple(paths)


class _Changed(Exception):
    """A path has changed since it was checked."""


@dataclass(frozen=True, slots=True)
class _Record:
    """The intent: these changes of a folder. With `back`, those that were made are undone.

    Before everything is `staged`, only the staging folder is to be removed.
    """

    folder: str
    draft: str
    changes: tuple[FileChange, ...]
    back: bool = False
    staged: bool = True

    def write(self, path: Path) -> None:
        atomic_write(path, json.dumps(asdict(self)).encode())


def apply(
    folder: Path, state: Path, token: str, changes: Changes, noted: Noted = lambda changes: None
) -> int:
    """Apply changes to a user's folder; return the number of changed paths. Blocking.

    The record of the intent lies in the folder `state`, which no other process uses meanwhile; `token` names
    the staging folder. After a kill at any moment, `finish` completes what was begun.

    Raises:
        FolderChanged: The folder has other changes. Nothing was changed.
        NotUndone: A change failed, and changes made before it could not be undone.
        OSError: The folder cannot be written. Nothing was changed.
    """
    finish(state, noted)
    record = state / RECORD
    with opened(os.open(folder, FOLDER)) as top:
        todo = still_to_do(top, changes)
        plan = _Record(str(folder), f"{DRAFT}{token}", tuple(todo))
        _remove_draft(top, plan.draft)
        if todo:
            try:
                replace(plan, staged=False).write(record)
                _stage(top, plan, changes)
                plan.write(record)
            except BaseException:
                _end(top, plan, record)
                raise
            _carry_out(top, plan, record)
        noted(changes.all)
        _end(top, plan, record)
    return len(todo)


def note(changes: Changes, token: str) -> None:
    """Apply the changes to their base too, so that they no longer count as changes. Blocking.

    Raises:
        FolderChanged: The base has other content than before the changes and after them.
        OSError: The base cannot be written. Call this again.
    """
    with opened(os.open(changes.base, FOLDER)) as base:
        plan = _Record("", f"{DRAFT}{token}", tuple(still_to_do(base, changes, ours=True)))
        _remove_draft(base, plan.draft)
        if not plan.changes:
            return
        try:
            _stage(base, plan, changes)
            with opened(os.open(plan.draft, FOLDER, dir_fd=base)) as drafts:
                for change in sorted(plan.changes, key=_order):
                    _make(base, drafts, change)
            _remove_all_empty(base, plan.changes)
        except _Changed as error:
            raise FolderChanged([str(error)]) from None
        finally:
            _remove_draft(base, plan.draft)


def finish(state: Path, noted: Noted = lambda changes: None) -> bool:
    """Complete an application that a kill has interrupted; return True if there was one. Blocking.

    Paths that were changed since the kill are left as they are, and remain changes. If the folder is not
    there any more, the intent is dropped.

    Raises:
        OSError: The folder cannot be written. Call this again.
    """
    record = state / RECORD
    try:
        found = json.loads(record.read_bytes())
        changes = tuple(_change(fields) for fields in found["changes"])
        plan = _Record(found["folder"], found["draft"], changes, found["back"], found["staged"])
    except FileNotFoundError:
        return False
    except (ValueError, TypeError, KeyError):  # written by another version of Rumi
        record.unlink(missing_ok=True)
        return False
    try:
        top = os.open(plan.folder, FOLDER)
    except (FileNotFoundError, NotADirectoryError):
        record.unlink(missing_ok=True)
        return True
    with opened(top):
        try:
            drafts = os.open(plan.draft, FOLDER, dir_fd=top)
        except OSError:  # another folder has taken the place of the one that was staged for
            drafts = -1
        if drafts >= 0:
            with opened(drafts):
                if plan.back:
                    _undo(top, drafts, plan.changes)
                elif plan.staged:
                    _complete(top, drafts, plan.changes)
        if plan.staged and not plan.back:
            todo, wrong = compare(top, Changes(changes, (), Path(), Path()))
            others = {*wrong, *(change.path for change in todo)}
            noted([change for change in changes if change.path not in others])
        _end(top, plan, record)
    return True


def _end(top: int, plan: _Record, record: Path) -> None:
    # The record last: it names the staging folder, which nothing else finds after a kill.
    _remove_draft(top, plan.draft)
    with suppress(FileNotFoundError):
        record.unlink()
        fsync_path(record.parent)


def _remove_draft(top: int, draft: str) -> None:
    with suppress(OSError):
        shutil.rmtree(draft, dir_fd=top)


def _change(fields: dict[str, object]) -> FileChange:
    return FileChange(
        str(fields["path"]),
        _entry(fields["before"]),
        _entry(fields["after"]),
        int(str(fields["number"])),
    )


def _entry(fields: object) -> ProjectEntry | None:
    return ProjectEntry(**fields) if isinstance(fields, dict) else None


def still_to_do(top: int, changes: Changes, *, ours: bool = False) -> list[FileChange]:
    """Return the changes that have not been applied to the open folder yet.

    Raises:
        FolderChanged: The folder has other changes, which would be overwritten.
    """
    todo, wrong = compare(top, changes, ours=ours)
    if wrong:
        raise FolderChanged(wrong)
    return todo


def compare(top: int, changes: Changes, *, ours: bool = False) -> tuple[list[FileChange], list[str]]:
    """Return the changes that have not been applied to the open folder, and the paths of other changes there.

    With `ours`, a folder in it that contains no files is replaced if a new file needs its path.
    """
    todo, wrong = list[FileChange](), list[str]()
    gone = {changed.path for changed in changes.all if changed.after is None}
    above_gone = {above for path in gone for above in _above(path)}
    above_new = {above for changed in changes.all if changed.before is None for above in _above(changed.path)}
    for change in changes.all:
        now = entry_at(top, change.path)
        if now == change.after:
            continue
        if now == "folder" and change.after is None and change.path in above_new:
            continue  # a run that was killed has already replaced the deleted file by the new folder
        if now == "other" and change.before is None and not gone.isdisjoint(_above(change.path)):
            now = None  # a link or a file that will be deleted is where the new folder will be
        if now == "folder" and change.before is None and (ours or change.path in above_gone):
            now = None
        if now == change.before:
            todo.append(change)
        else:
            wrong.append(change.path)
    return todo, wrong


def _stage(top: int, plan: _Record, changes: Changes) -> None:
    """Write all new files into the staging folder, and sync them."""
    os.mkdir(plan.draft, 0o700, dir_fd=top)
    with opened(os.open(plan.draft, FOLDER, dir_fd=top)) as drafts:
        for change in plan.changes:
            _prepare(drafts, change, changes.content(change, after=True))
        os.fsync(drafts)
    os.fsync(top)


def _carry_out(top: int, plan: _Record, record: Path) -> None:
    """Make all changes; a failure undoes the changes made before it."""
    with opened(os.open(plan.draft, FOLDER, dir_fd=top)) as drafts:
        try:
            for change in sorted(plan.changes, key=_order):
                _make(top, drafts, change)
        except (OSError, _Changed) as error:
            # Recorded first: a kill during the undo must not let the next start go forward again.
            replace(plan, back=True).write(record)
            left = _undo(top, drafts, plan.changes)
            if left:
                record.unlink(missing_ok=True)
                raise NotUndone(left) from error
            _end(top, plan, record)
            if isinstance(error, _Changed):
                raise FolderChanged([str(error)]) from None
            raise
        _remove_all_empty(top, plan.changes)


def _complete(top: int, drafts: int, changes: Sequence[FileChange]) -> None:
    """Make the changes that a killed process has not made; leave alone what has changed since."""
    for change in sorted(changes, key=_order):
        if entry_at(top, change.path) != change.after:
            # Missing: killed after all changes, while the staging folder was removed; changed back since.
            with suppress(_Changed, FileNotFoundError):
                _make(top, drafts, change)
    _remove_all_empty(top, changes)


def _undo(top: int, drafts: int, changes: Sequence[FileChange]) -> list[str]:
    """Undo the changes that were made; return the paths at which that failed."""
    left = list[str]()
    for change in sorted(changes, key=_order, reverse=True):
        old = f"old-{change.number}"
        try:
            now = entry_at(top, change.path)
            made = change.after is not None and now == change.after
            moved = now is None and change.before is not None and entry_at(drafts, old) == change.before
            if made or moved:
                _unmake(top, drafts, change, old)
            if change.before is None:
                _remove_empty(top, change.path)
        except (OSError, _Changed):
            left.append(change.path)
    return left


def _unmake(top: int, drafts: int, change: FileChange, old: str) -> None:
    parent, name = _parent(top, change.path, make=change.before is not None)
    with opened(parent):
        if change.before is None:
            os.unlink(name, dir_fd=parent)
        else:
            os.rename(old, name, src_dir_fd=drafts, dst_dir_fd=parent)
        os.fsync(parent)


def _order(change: FileChange) -> tuple[bool, int, str]:
    """Return the sort key: deletions come first, so that a file can become a folder and a folder a file."""
    depth = change.path.count("/")
    return (False, -depth, change.path) if change.after is None else (True, depth, change.path)


def _prepare(drafts: int, change: FileChange, content: Path) -> None:
    """Write the new content of a change into the staging folder."""
    name, after = str(change.number), change.after
    if after is None:
        return
    if after.kind == "link":
        os.symlink(after.digest, name, dir_fd=drafts)
        return
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
    with open(content, "rb") as source, open(os.open(name, flags, 0o600, dir_fd=drafts), "wb") as copy:
        shutil.copyfileobj(source, copy)
        copy.flush()
        os.fsync(copy.fileno())


def _make(top: int, drafts: int, change: FileChange) -> None:
    """Make one change, if its path still has the old content.

    Raises:
        _Changed: The path has changed since it was checked.
    """
    parent, name = _parent(top, change.path, make=change.after is not None)
    with opened(parent):
        now = entry_at(parent, name)
        if now == "folder" and change.before is None:
            _remove_folders(parent, name, change.path)
            now = None
        draft, old = str(change.number), f"old-{change.number}"
        moved = now is None and change.before is not None and entry_at(drafts, old) == change.before
        if now != change.before and not moved:
            raise _Changed(change.path)
        if change.after is not None and change.after.kind == "file":
            _set_mode(drafts, draft, parent, old if moved else name, change, drafts if moved else parent)
        if change.before is not None and not moved:
            _keep_old(drafts, old, parent, name, moving=change.after is None)
        if change.after is not None:
            if change.before is None:
                _give_name(drafts, draft, parent, name)
            else:
                os.rename(draft, name, src_dir_fd=drafts, dst_dir_fd=parent)
        os.fsync(parent)


def _keep_old(drafts: int, old: str, parent: int, name: str, *, moving: bool) -> None:
    """Keep the old file in the staging folder; with `moving`, or without hard links, it moves there."""
    with suppress(FileNotFoundError):
        os.unlink(old, dir_fd=drafts)
    if not moving:
        try:
            os.link(name, old, src_dir_fd=parent, dst_dir_fd=drafts, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            return
    os.rename(name, old, src_dir_fd=parent, dst_dir_fd=drafts)


def _remove_folders(parent: int, name: str, path: str) -> None:
    """Remove a folder and the folders in it. Their files must have been deleted already.

    Raises:
        _Changed: One of the folders still contains something other than folders.
    """
    with opened(os.open(name, FOLDER, dir_fd=parent)) as folder:
        for inner in os.listdir(folder):
            if not stat.S_ISDIR(os.stat(inner, dir_fd=folder, follow_symlinks=False).st_mode):
                raise _Changed(path)
            _remove_folders(folder, inner, path)
    os.rmdir(name, dir_fd=parent)


def _parent(top: int, path: str, *, make: bool) -> tuple[int, str]:
    """Open the parent folder of a path step by step; return the open folder and the path's last name.

    `make` creates missing folders.
    """
    *folders, name = path.split("/")
    folder = os.dup(top)
    try:
        for component in folders:
            try:
                inner = openat2(folder, os.fsencode(component), FOLDER, same_mount=True)
            except FileNotFoundError:
                if not make:
                    raise
                os.mkdir(component, 0o777, dir_fd=folder)
                inner = openat2(folder, os.fsencode(component), FOLDER, same_mount=True)
                _give_owner(inner, os.fstat(folder))
                os.fsync(folder)
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder, name


def _set_mode(drafts: int, draft: str, parent: int, name: str, change: FileChange, at: int) -> None:
    """Set a new file's mode: the mode of the file `name` in `at` that it replaces, or else the default mode.

    The execute bits come from the new file.
    """
    assert change.after is not None
    with opened(os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=drafts)) as file:
        owner, mode = os.fstat(parent), 0o666 & ~_umask()
        if change.before is not None and change.before.kind == "file":
            owner = os.stat(name, dir_fd=at, follow_symlinks=False)
            mode = stat.S_IMODE(owner.st_mode) & 0o777
        # Executable for everyone who may read the file, or for no one.
        mode = mode | (mode & 0o444) >> 2 if change.after.runs else mode & ~0o111
        os.fchmod(file, mode)
        _give_owner(file, owner)


def _umask() -> int:
    # The umask can only be read by setting it; files that other threads create meanwhile are private.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _give_owner(file: int, owner: os.stat_result) -> None:
    # Only root can give files away; without this, a daemon that runs as root would own the user's files.
    if os.geteuid() == 0:
        os.fchown(file, owner.st_uid, owner.st_gid)


def _give_name(drafts: int, draft: str, parent: int, name: str) -> None:
    """Rename a new file to its final name.

    Raises:
        _Changed: The name exists already.
    """
    # A hard link fails if the name exists, unlike a rename: a file that the user creates meanwhile is not
    # lost.
    try:
        os.link(draft, name, src_dir_fd=drafts, dst_dir_fd=parent, follow_symlinks=False)
    except FileExistsError:
        raise _Changed(name) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(draft, name, src_dir_fd=drafts, dst_dir_fd=parent)


def _remove_all_empty(top: int, changes: Sequence[FileChange]) -> None:
    """Remove the folders whose last file was deleted. Last, so that a failure before it can be undone."""
    for change in changes:
        if change.after is None:
            _remove_empty(top, change.path)


def _remove_empty(top: int, path: str) -> None:
    """Remove the folders above a path if they are now empty."""
    for folder in _above(path):
        with suppress(OSError):
            parent, name = _parent(top, folder, make=False)
            with opened(parent):
                os.rmdir(name, dir_fd=parent)
                continue
        return


def _above(path: str) -> Iterator[str]:
    """Yield the folders above a path, from the innermost to the outermost."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def named(paths: Sequence[str]) -> str:
    """Return the first of some paths, safe to print, and the number of the others."""
    more = f" (+{len(paths) - _MOST_NAMED})" if len(paths) > _MOST_NAMED else ""
    return ", ".join(map(shown, paths[:_MOST_NAMED])) + more
