"""Application of a bot's changes to the user's folder, after a person has seen them.

A path is changed only if it still has the content that was copied for the bot. A path that already has the
new content is skipped. So if the process is killed, a second run completes the work. Changes that people made
meanwhile are reported as a conflict. All files are written to a staging folder before the first file is
renamed. If a change fails, the earlier changes are undone.
"""

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from rumi.platform.atomic_write import folder_lock
from rumi.platform.openat import FOLDER, openat2, opened, shown
from rumi.tasks.bots.config import BotError
from rumi.tasks.bots.project.changes import Changes, FileChange
from rumi.tasks.bots.project.link import Link, Project
from rumi.tasks.bots.project.tree import DRAFT, ProjectEntry, entry_at
from rumi.texts import os_error

_MOST_NAMED: Final = 10
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})
"""Error numbers from file systems that do not support hard links."""


class _Changed(Exception):
    """A path has changed since it was checked."""


def apply(project: Project, link: Link, changes: Changes) -> int:
    """Apply changes to the user's folder, which `link` names, and then to the base. Blocking.

    The base is the copy of the folder that the bot got. Return the number of changed paths in the user's
    folder. After an interruption at any moment, the next call completes the work.

    Raises:
        BotError: The folder has changed since the bot got it, or cannot be written. Nothing was changed, or
            the error lists the changed files.
    """
    with folder_lock(project.state):
        now = project.link()
        if now is None or now.token != link.token:
            raise BotError(
                "The bot was given its project again in the meantime.", "Look at its changes again."
            )
        try:
            with opened(os.open(link.folder, FOLDER)) as top:
                todo = _still_to_do(top, link.folder, changes)
                _carry_out(top, f"{DRAFT}{link.token}", todo, changes, undo=True)
        except OSError as error:
            raise BotError(
                "{folder} cannot be written: {reason}; it is as it was before.",
                "Check its owner and its disk, then apply again.",
                folder=link.folder,
                reason=os_error(error),
            ) from error
        except _Changed as error:
            raise _conflict(link.folder, [str(error)]) from None
        # The base last: killed before this, the next call finds all changes in the folder and only updates
        # the base. In the other order the changes would count as applied.
        try:
            _note(link, changes)
        except (OSError, _Changed) as error:
            raise BotError(
                "The changes are in {folder}, and this could not be noted: {error}.",
                "Run rumi bot apply again: it changes nothing there any more.",
                folder=link.folder,
                error=error,
            ) from error
    return len(todo)


def _note(link: Link, changes: Changes) -> None:
    """Apply the changes to the base too, so that they no longer count as the bot's changes."""
    with opened(os.open(changes.base, FOLDER)) as base:
        todo = _still_to_do(base, str(changes.base), changes, ours=True)
        _carry_out(base, f"{DRAFT}{link.token}", todo, changes, undo=False)


def _still_to_do(top: int, folder: str, changes: Changes, *, ours: bool = False) -> list[FileChange]:
    """Return the changes that have not been applied to the folder yet.

    With `ours`, the folder is the base: a folder in it that contains no files is replaced if a new file needs
    its path.

    Raises:
        BotError: The folder has other changes, which would be overwritten.
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
    if wrong:
        raise _conflict(folder, wrong)
    return todo


def _carry_out(top: int, draft: str, todo: Sequence[FileChange], changes: Changes, *, undo: bool) -> None:
    """Apply the changes below an open folder. With `undo`, a failure undoes the changes made before it."""
    with suppress(FileNotFoundError):  # left by a run that was killed
        shutil.rmtree(draft, dir_fd=top)
    if not todo:
        return
    os.mkdir(draft, 0o700, dir_fd=top)
    done = list[FileChange]()
    try:
        with opened(os.open(draft, FOLDER, dir_fd=top)) as drafts:
            for change in todo:
                _prepare(drafts, change, changes.content(change, after=True))
            try:
                for change in sorted(todo, key=_order):
                    # Before the change: one that fails halfway must be undone too.
                    done.append(change)
                    _make(top, drafts, change)
            except (OSError, _Changed):
                if undo:
                    _undo(top, drafts, done, changes)
                raise
    finally:
        with suppress(OSError):
            shutil.rmtree(draft, dir_fd=top)


def _undo(top: int, drafts: int, done: Sequence[FileChange], changes: Changes) -> None:
    left = list[str]()
    back = [FileChange(changed.path, changed.after, changed.before, changed.number) for changed in done]
    for change in sorted(back, key=_order):
        try:
            now = entry_at(top, change.path)
            if now == change.after or (isinstance(now, ProjectEntry) and now != change.before):
                continue  # the change was not made, or the user has changed the file since
            with suppress(FileNotFoundError):
                os.unlink(str(change.number), dir_fd=drafts)
            _prepare(drafts, change, changes.base / change.path)
            _make(top, drafts, change)
        except (OSError, _Changed):
            left.append(change.path)
    if left:
        raise BotError(
            "Applying broke off, and these files could not be put back: {left}.",
            "Run rumi bot apply again: it does the rest.",
            left=_named(left),
        )


def _order(change: FileChange) -> tuple[bool, int]:
    """Return the sort key: deletions come first, so that a file can become a folder and a folder a file."""
    depth = change.path.count("/")
    return (False, -depth) if change.after is None else (True, depth)


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
        if now != change.before:
            raise _Changed(change.path)
        if change.after is None:
            os.unlink(name, dir_fd=parent)
        else:
            draft = str(change.number)
            if change.after.kind == "file":
                _set_mode(drafts, draft, parent, name, change)
            if change.before is None:
                _give_name(drafts, draft, parent, name)
            else:
                os.rename(draft, name, src_dir_fd=drafts, dst_dir_fd=parent)
        os.fsync(parent)
    if change.after is None:
        _remove_empty(top, change.path)


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
            os.close(folder)
            folder = inner
    except BaseException:
        os.close(folder)
        raise
    return folder, name


def _set_mode(drafts: int, draft: str, parent: int, name: str, change: FileChange) -> None:
    """Set a new file's mode: the mode of the file that it replaces, or else the default mode.

    The execute bits come from the bot's file.
    """
    assert change.after is not None
    with opened(os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=drafts)) as file:
        owner, mode = os.fstat(parent), 0o666 & ~_umask()
        if change.before is not None and change.before.kind == "file":
            owner = os.stat(name, dir_fd=parent, follow_symlinks=False)
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


def _named(paths: Sequence[str]) -> str:
    more = f" (+{len(paths) - _MOST_NAMED})" if len(paths) > _MOST_NAMED else ""
    return ", ".join(map(shown, paths[:_MOST_NAMED])) + more


def _conflict(folder: str, paths: Sequence[str]) -> BotError:
    return BotError(
        "{folder} has changed since the bot got it, so nothing was applied: {paths}.",
        "Undo your changes to these files, or take the bot's from rumi bot diff by hand.",
        folder=folder,
        paths=_named(paths),
    )
