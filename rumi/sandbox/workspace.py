"""A chat's files on the host: makes, measures, reads and clears them while commands may change them.

Commands control everything below a workspace: links that lead outside, folders that become links between two
looks, pipes that never answer, names that no terminal should show. So this module follows no link, every step
goes from an open folder to a name in it, and nothing waits for a file. Calls block, for a bounded time.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

from rumi.errors import RumiError
from rumi.platform.home import workspaces_in
from rumi.platform.openat import FOLDER, is_ordinary, openat2, opened, shown

CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}|task\.[0-9]{1,18}|bot\.[A-Za-z0-9_-]{1,40}")
MAX_DEPTH = 256
"""The maximum depth of visited folders, with an open file each; legitimate trees stay far below it."""
STOP_AFTER = 200_000

BLOCK_BYTES = 512  # the unit of st_blocks, independent of the file system's own blocks


class WorkspaceError(RumiError):
    """A path in a workspace that is refused, or a workspace that cannot be used."""

    code = "workspace"


@dataclass(frozen=True, slots=True)
class WorkspaceUse:
    """The use of a workspace on the disk: blocks, not lengths, and each file once, however many names it has.

    `complete` is False if the counting stopped early; then `files` is at least the number at which it stops.
    `hidden`: it may take more than could be counted.
    """

    bytes: int
    files: int
    complete: bool = True
    hidden: bool = False


def prepare_workspace(
    home: Path, chat_id: str, uid: int, gid: int, *, workspaces: Path | None = None
) -> Path:
    """Make the chat's folder, private and owned by the sandbox's user, if it is missing; return its path.

    It is in the home, or in `place`, the folder of all chats' folders. A folder of a user other than root
    keeps its owner: see `rumi.sandbox.handover`.

    Raises:
        WorkspaceError: The id is not a chat's, another kind of file is in its place, or it cannot be made.
    """
    if not CHAT_ID.fullmatch(chat_id):
        raise WorkspaceError(f"{shown(chat_id)} is not a chat id.")
    path = (workspaces or workspaces_in(home)) / chat_id
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        with opened(os.open(path, FOLDER)) as folder:
            status = os.fstat(folder)
            if (
                os.getuid() == 0
                and status.st_uid in (0, uid)
                and (status.st_uid, status.st_gid) != (uid, gid)
            ):
                os.fchown(folder, uid, gid)
            if stat.S_IMODE(status.st_mode) != 0o700:
                os.fchmod(folder, 0o700)
    except OSError as error:
        raise WorkspaceError(f"The workspace {path} cannot be used: {error.strerror}.") from error
    return path


def measure(path: Path, *, stop_after: int = STOP_AFTER) -> WorkspaceUse:
    """Count everything below the folder; about a quarter of a second for 50 000 files.

    Vanishing entries do not count. It stops at `stop_after` entries and at folders nested deeper than
    `MAX_DEPTH`: files must not hide by depth or number, so both count as too many.
    """
    counted = _Count(stop_after)
    levels: list[tuple[int, list[str]]] = []
    try:
        with contextlib.suppress(OSError):
            levels.append(counted.scan(os.open(path, FOLDER)))
        while levels:
            folder, names = levels[-1]
            if not names or counted.files >= stop_after:
                os.close(folder)
                levels.pop()
            elif len(levels) >= MAX_DEPTH:
                counted.files = stop_after
            elif (inner := _open_folder(folder, names.pop())) is not None:
                levels.append(counted.scan(inner))
    finally:
        for folder, _ in levels:
            os.close(folder)
    return WorkspaceUse(counted.bytes, counted.files, counted.files < stop_after, counted.hidden)


class _Count:
    def __init__(self, stop_after: int) -> None:
        self.bytes = 0
        self.files = 0
        self.hidden = False
        self._stop_after = stop_after
        self._linked: set[int] = set()

    def scan(self, folder: int) -> tuple[int, list[str]]:
        """Count the folder's entries; return the count and the names of the folders in it."""
        inner: list[str] = []
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if (status := self._status(folder, entry)) is None:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    inner.append(entry.name)
                elif status.st_nlink > 1:
                    if status.st_ino in self._linked:
                        continue
                    self._linked.add(status.st_ino)
                self.files += 1
                self.bytes += status.st_blocks * BLOCK_BYTES
                if self.files >= self._stop_after:
                    break
        return folder, inner

    def _status(self, folder: int, entry: os.DirEntry[str]) -> os.stat_result | None:
        """Return the status of an entry; if its owner removed the right to enter it, restore that right."""
        try:
            return entry.stat(follow_symlinks=False)
        except PermissionError:
            with contextlib.suppress(OSError):
                os.fchmod(folder, 0o700)
                return entry.stat(follow_symlinks=False)
            self.hidden = True
        except OSError:
            pass
        return None


def open_beneath(workspace: Path, relative: str) -> int:
    """Open an ordinary file of the workspace for reading; the caller closes the file descriptor.

    No link on the path is followed, and opening does not wait.

    Raises:
        WorkspaceError: It does not exist, leads outside, passes through a link or is not an ordinary file.
    """
    name = os.fsencode(relative)
    if not name or b"\0" in name:
        raise WorkspaceError(f"{shown(relative)} names no file.")
    try:
        with opened(os.open(workspace, FOLDER)) as folder:
            file = openat2(folder, name)
    except OSError as error:
        raise WorkspaceError(_refusal(relative, error.errno or 0)) from error
    if not is_ordinary(file):
        os.close(file)
        raise WorkspaceError(f"{shown(relative)} is not an ordinary file.")
    return file


@dataclass(frozen=True, slots=True)
class WorkspaceEntry:
    """A file or a folder in a list. `modified` is in seconds since 1970; `name` has no undecodable bytes."""

    name: str
    folder: bool
    size: int
    modified: float


def listing(workspace: Path, relative: str = "", *, most: int = 500) -> tuple[list[WorkspaceEntry], int]:
    """Return the files and folders in a folder of the workspace, and how many entries are left out.

    Left out are links and entries that are neither, undecodable names, and what is beyond `most`. A workspace
    that does not exist yet is empty.

    Raises:
        WorkspaceError: The folder does not exist, or its path leads outside or through a link.
    """
    name = os.fsencode(relative)
    if b"\0" in name:
        raise WorkspaceError(f"{shown(relative)} names no file.")
    found: list[WorkspaceEntry] = []
    left_out = 0
    try:
        with contextlib.ExitStack() as stack:
            try:
                folder = stack.enter_context(opened(os.open(workspace, FOLDER)))
            except FileNotFoundError:
                return [], 0
            if name:
                folder = stack.enter_context(opened(openat2(folder, name, FOLDER)))
            for entry in stack.enter_context(os.scandir(folder)):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    is_folder = stat.S_ISDIR(status.st_mode)
                    shows = (is_folder or stat.S_ISREG(status.st_mode)) and len(found) < most
                    if shows and not any("\udc80" <= c <= "\udcff" for c in entry.name):
                        size = 0 if is_folder else status.st_size
                        found.append(WorkspaceEntry(entry.name, is_folder, size, status.st_mtime))
                    else:
                        left_out += 1
    except OSError as error:
        raise WorkspaceError(_refusal(relative, error.errno or 0)) from error
    return sorted(found, key=lambda entry: (not entry.folder, entry.name.casefold())), left_out


def clear(path: Path) -> None:
    """Remove everything in the folder, but not the folder. Nothing outside is touched.

    Raises:
        WorkspaceError: Entries are left, because they cannot be removed or because more keep coming.
    """
    try:
        with opened(os.open(path, FOLDER)) as top:
            left: os.DirEntry[str] | None = None
            for _ in range(3):  # entries that an ending command adds are found in the second round
                _empty(top)
                with os.scandir(top) as entries:
                    left = next(entries, None)
                if left is None:
                    return
    except OSError as error:
        raise WorkspaceError(f"The workspace {path} cannot be cleared: {error.strerror}.") from error
    raise WorkspaceError(
        f"The workspace {path} cannot be cleared: {shown(left.name if left else '')} is left."
    )


def remove(path: Path) -> None:
    """Remove the folder with everything in it.

    Raises:
        WorkspaceError: See `clear`.
    """
    clear(path)
    with contextlib.suppress(OSError):  # a new sandbox of the chat has written into it by now
        path.rmdir()


def _refusal(relative: str, number: int) -> str:
    name = shown(relative)
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return f"There is no file {name} in the workspace."
        case errno.ELOOP:
            return f"{name} is a symbolic link or lies behind one."
        case errno.EXDEV:
            return f"{name} leads out of the workspace."
        case errno.ENXIO:
            return f"{name} is not an ordinary file."
        case _:
            return f"{name} cannot be opened: {os.strerror(number)}."


def _open_folder(parent: int, name: str) -> int | None:
    """Open a folder in a folder; if its owner removed the right to read it, restore that right."""
    try:
        return os.open(name, FOLDER, dir_fd=parent)
    except PermissionError:
        with contextlib.suppress(OSError):
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            with opened(os.open(name, flags, dir_fd=parent)) as folder:
                # By its descriptor: the name might be a link to another folder by now.
                os.chmod(f"/proc/self/fd/{folder}", 0o700)
                return os.open(f"/proc/self/fd/{folder}", FOLDER & ~os.O_NOFOLLOW)
    except OSError:
        pass
    return None


def _empty(top: int) -> None:
    """Remove the content of an open folder, without recursion and with a bounded number of open files."""
    levels = [(os.dup(top), "", _remove_files(top))]
    try:
        while levels:
            folder, name, inner = levels[-1]
            if not inner:
                os.close(folder)
                levels.pop()
                if levels:
                    with contextlib.suppress(OSError):  # no longer empty, or no longer there
                        os.rmdir(name, dir_fd=levels[-1][0])
            elif len(levels) >= MAX_DEPTH:
                levels[0][2].append(_lifted(folder, inner.pop(), top))
            elif (opened := _open_folder(folder, inner[-1])) is not None:
                levels.append((opened, inner.pop(), _remove_files(opened)))
            else:
                inner.pop()
    finally:
        for folder, _, _ in levels:
            os.close(folder)


def _lifted(folder: int, name: str, top: int) -> str:
    """Move a folder that is too deep up to the top, to be visited there; return its new name."""
    new = secrets.token_hex(8)
    with contextlib.suppress(OSError):
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
    return new


def _remove_files(folder: int) -> list[str]:
    """Remove all entries except the folders in a folder; return the folders' names."""
    inner = []
    with contextlib.suppress(FileNotFoundError):
        if os.fstat(folder).st_mode & 0o700 != 0o700:
            os.fchmod(folder, 0o700)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
                else:
                    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                        os.unlink(entry.name, dir_fd=folder)
    return inner
