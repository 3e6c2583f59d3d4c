"""A chat's workspace on the host: create, measure, list, open and clear it while commands may change it.

Commands control everything below a workspace: they can make links that lead outside, replace a folder by a
link between two steps, make pipes that never answer, and use names that no terminal should show. Therefore
this module follows no link, every step goes from an open folder to a name in it, and nothing waits for a
file. All calls block, for a bounded time.
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
from rumi.texts import Text, os_error

CHAT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}|task\.[0-9]{1,18}|bot\.[A-Za-z0-9_-]{1,40}")
MAX_DEPTH = 256
"""Maximum depth of visited folders, each with an open descriptor; legitimate trees are far less deep."""
STOP_AFTER = 200_000

BLOCK_BYTES = 512  # the unit of st_blocks, independent of the file system's own blocks


class WorkspaceError(RumiError):
    """A path in a workspace was refused, or the workspace cannot be used."""

    code = "workspace"


@dataclass(frozen=True, slots=True)
class WorkspaceUse:
    """The disk use of a workspace, in disk blocks, not file lengths. A file with several names counts once.

    `complete` is False if counting stopped early; then `files` is at least the number of entries at which
    counting stops. `hidden` is True if the workspace may use more space than could be counted.
    """

    bytes: int
    files: int
    complete: bool = True
    hidden: bool = False


def prepare_workspace(
    home: Path, chat_id: str, uid: int, gid: int, *, workspaces: Path | None = None
) -> Path:
    """Create the chat's folder, private to the sandbox's user, if it is missing; return its path.

    The folder is created in RUMI_HOME, or in `workspaces` if it is given. The owner of an existing folder is
    changed only if it is root; `rumi.sandbox.handover` handles other former owners.

    Raises:
        WorkspaceError: The id is not a valid chat id, the path is not a folder, or it cannot be created.
    """
    if not CHAT_ID.fullmatch(chat_id):
        raise WorkspaceError("{chat_id} is not a chat id.", chat_id=shown(chat_id))
    path = (workspaces or workspaces_in(home)) / chat_id
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        # Owner and mode are changed through the descriptor: a path could have become a link by now.
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
        raise WorkspaceError(
            "The workspace {path} cannot be used: {reason}.", path=path, reason=os_error(error)
        ) from error
    return path


def measure(path: Path, *, stop_after: int = STOP_AFTER) -> WorkspaceUse:
    """Measure everything below the folder. Takes about a quarter of a second for 50 000 files.

    Entries that vanish during the measurement don't count. Counting stops at `stop_after` entries, and at
    folders nested deeper than `MAX_DEPTH`. Both cases count as too many files, so that no file can escape the
    limits by its depth or number.
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
        """Count the entries of an open folder; return its descriptor and the names of its subfolders."""
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
        """Return an entry's status, or None; restore the folder's mode if its owner removed access."""
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

    Opening follows no link on the path and does not wait, for example at a pipe.

    Raises:
        WorkspaceError: The path does not exist, leads outside, contains a link, or is not an ordinary file.
    """
    name = os.fsencode(relative)
    if not name or b"\0" in name:
        raise WorkspaceError("{relative} names no file.", relative=shown(relative))
    try:
        with opened(os.open(workspace, FOLDER)) as folder:
            file = openat2(folder, name)
    except OSError as error:
        raise WorkspaceError(_refusal(relative, error.errno or 0)) from error
    if not is_ordinary(file):
        os.close(file)
        raise WorkspaceError("{relative} is not an ordinary file.", relative=shown(relative))
    return file


def kind_beneath(workspace: Path, relative: str) -> int:
    """Return the kind of an entry of the workspace, as `stat` reports it; 0 if there is none or a link."""
    name = os.fsencode(relative)
    if not name or b"\0" in name:
        return 0
    try:
        with opened(os.open(workspace, FOLDER)) as folder:
            flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
            with opened(openat2(folder, name, flags)) as found:
                return stat.S_IFMT(os.fstat(found).st_mode)
    except OSError:
        return 0


def delete_beneath(workspace: Path, relative: str) -> None:
    """Delete an ordinary file of the workspace. Follows no link on the path, and deletes no folder.

    Raises:
        WorkspaceError: The path does not exist, leads outside, contains a link, or is not an ordinary file.
    """
    above, _, last = relative.rstrip("/").rpartition("/")
    name = os.fsencode(last)
    if name in (b"", b".", b"..") or b"\0" in os.fsencode(relative):
        raise WorkspaceError("{relative} names no file.", relative=shown(relative))
    try:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(opened(os.open(workspace, FOLDER)))
            if above:
                folder = stack.enter_context(opened(openat2(folder, os.fsencode(above), FOLDER)))
            if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise WorkspaceError("{relative} is not an ordinary file.", relative=shown(relative))
            os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise WorkspaceError(_refusal(relative, error.errno or 0)) from error


@dataclass(frozen=True, slots=True)
class WorkspaceEntry:
    """A file or folder in a listing. `modified` is the Unix time of the last change; `name` is decodable."""

    name: str
    folder: bool
    size: int
    modified: float


def listing(workspace: Path, relative: str = "", *, most: int = 500) -> tuple[list[WorkspaceEntry], int]:
    """List the files and folders in a folder of the workspace; return them and the number of omitted entries.

    Omitted are links and special files, names that cannot be decoded, and entries beyond the first `most`. A
    workspace that does not exist yet counts as empty.

    Raises:
        WorkspaceError: The folder does not exist, or its path leads outside or through a link.
    """
    name = os.fsencode(relative)
    if b"\0" in name:
        raise WorkspaceError("{relative} names no file.", relative=shown(relative))
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
    """Remove everything in the folder, but not the folder itself. Nothing outside of the folder is touched.

    Raises:
        WorkspaceError: Entries are left, because they cannot be removed or new ones keep appearing.
    """
    try:
        with opened(os.open(path, FOLDER)) as top:
            left: os.DirEntry[str] | None = None
            for _ in range(3):  # the second round removes entries that an ending command has added
                _empty(top)
                with os.scandir(top) as entries:
                    left = next(entries, None)
                if left is None:
                    return
    except OSError as error:
        raise WorkspaceError(
            "The workspace {path} cannot be cleared: {reason}.", path=path, reason=os_error(error)
        ) from error
    raise WorkspaceError(
        "The workspace {path} cannot be cleared: {name} is left.",
        path=path,
        name=shown(left.name if left else ""),
    )


def remove(path: Path) -> None:
    """Remove the folder with everything in it.

    Raises:
        WorkspaceError: See `clear`.
    """
    clear(path)
    with contextlib.suppress(OSError):  # not empty: a new sandbox of the chat has written into it by now
        path.rmdir()


def _refusal(relative: str, number: int) -> str:
    name = shown(relative)
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return Text("There is no file {name} in the workspace.", name=name)
        case errno.ELOOP:
            return Text("{name} is a symbolic link or lies behind one.", name=name)
        case errno.EXDEV:
            return Text("{name} leads out of the workspace.", name=name)
        case errno.ENXIO:
            return Text("{name} is not an ordinary file.", name=name)
        case _:
            return Text(
                "{name} cannot be opened: {number}.",
                name=name,
                number=os_error(OSError(number, os.strerror(number))),
            )


def _open_folder(parent: int, name: str) -> int | None:
    """Open a subfolder, None if that fails; restore its mode if its owner removed read access."""
    try:
        return os.open(name, FOLDER, dir_fd=parent)
    except PermissionError:
        with contextlib.suppress(OSError):
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            with opened(os.open(name, flags, dir_fd=parent)) as folder:
                # Through the descriptor: the name may be a link to another folder by now.
                os.chmod(f"/proc/self/fd/{folder}", 0o700)
                # Without O_NOFOLLOW: this path in /proc is itself a link, to the folder that was checked.
                return os.open(f"/proc/self/fd/{folder}", FOLDER & ~os.O_NOFOLLOW)
    except OSError:
        pass
    return None


def _empty(top: int) -> None:
    """Remove the content of an open folder, without recursion and with a bounded number of descriptors."""
    levels = [(os.dup(top), "", _remove_files(top))]
    try:
        while levels:
            folder, name, inner = levels[-1]
            if not inner:
                os.close(folder)
                levels.pop()
                if levels:
                    with contextlib.suppress(OSError):  # it is not empty any more, or has vanished
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
    """Move a folder that is nested too deep to the top level, to be emptied there; return its new name."""
    new = secrets.token_hex(8)
    with contextlib.suppress(OSError):
        os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
    return new


def _remove_files(folder: int) -> list[str]:
    """Remove all entries of a folder except its subfolders; return the names of the subfolders."""
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
