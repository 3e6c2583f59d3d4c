"""Storage of users' uploads in a chat's workspace, while commands may change everything there.

An upload has no name until it is complete; then the open file is linked into the open folder under an unused
name. So no link is followed, no file is replaced, and a failure leaves nothing behind. Calls block, for a
bounded time.
"""

import contextlib
import errno
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from rumi.platform.openat import FOLDER, opened, shown
from rumi.sandbox.disk import free_on
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.workspace import WorkspaceError, measure
from rumi.texts import os_error

MAX_NAME_BYTES: Final = 100
"""Maximum length of a safe name, without the number that distinguishes equal names."""

MAX_FOLDERS: Final = 50
"""Maximum number of names in a path at which a file is placed."""

PART: Final = ".rumi-part"
"""The name of a complete file for the instant before it replaces another one."""

_MAX_ENDING_BYTES: Final = 20
_CHUNK_BYTES: Final = 1024 * 1024
_MEGA: Final = 1024 * 1024
_UNNAMED: Final = os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC
_HIDDEN: Final = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_COMPARED: Final = 50
"""Maximum number of namesakes that are compared with a new file."""
_NO_UNNAMED: Final = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
"""The errnos of file systems that cannot create files without a name (NFS, older overlays)."""

_MEDIA_TYPE: Final = re.compile(r"[A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64}")
_ABOUT: Final = re.compile(
    r"\[The user sent a file: /workspace/(?P<name>.+) \([^()\n]+, (?P<size>[0-9]{1,15}) bytes\)\](?:\Z|\n)"
)

_SAFE_MARKS: Final = frozenset("._-+@,%")
# Invisible letters and marks: fillers, joiners, variation selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def put_file(
    workspace: Path,
    name: str,
    source: BinaryIO,
    *,
    user: tuple[int, int],
    limits: SandboxLimits,
    max_bytes: int,
    checkpoint: Callable[[], None] = lambda: None,
    below: str = "",
    reuse: bool = False,
    counted: Path | None = None,
) -> str:
    """Copy `source`, from its beginning, to a new file of the workspace; return the file's name.

    The name is `safe_name(name)`, or the first free one of `report-2.pdf`, `report-3.pdf`, … With `reuse`, a
    file with one of these names and the same content is returned instead of a second copy. The file belongs
    to the sandbox's `user` (uid and gid), and only that user may read it. `checkpoint` is called for every
    chunk, and once more directly before the file gets its name; its exception ends the copying and leaves
    nothing of the file. With `below`, the file is stored in that folder of the workspace, which is created if
    it is missing. `counted` is the folder whose files count to the limits, by default the workspace.

    Raises:
        WorkspaceError: `source` has more than `max_bytes`, the workspace would exceed `limits`, or the file
            cannot be written.
    """
    safe = safe_name(name)
    try:
        if reuse and (known := _known(workspace, below, safe, source, user)):
            return known
        free_bytes = _free_bytes(counted or workspace, safe, limits)
        with opened(_folder(workspace, below, user)) as folder, _unnamed(folder) as file:
            _fill(file, safe, source, user, min(max_bytes, free_bytes), max_bytes, checkpoint)
            return _give_name(file, folder, safe, limits.workspace_files)
    except OSError as error:
        raise _cannot_put(safe, error) from error


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """A file at a path of the workspace. `replaced` means that another file was there before."""

    path: str
    replaced: bool


def place_file(
    workspace: Path,
    path: str,
    source: BinaryIO,
    *,
    suggested: str,
    user: tuple[int, int],
    limits: SandboxLimits,
    max_bytes: int,
    checkpoint: Callable[[], None] = lambda: None,
    counted: Path | None = None,
) -> PlacedFile:
    """Copy `source`, from its beginning, to a path of the workspace; create missing folders.

    An ordinary file at the path is replaced, in one step. If the path is a folder's, the file gets the first
    free name after `safe_name(suggested)` there, and replaces nothing. Otherwise like `put_file`. After a
    kill, a file `PART` may remain in the folder; the next call for the folder removes it.

    Raises:
        WorkspaceError: As in `put_file`, or the path is not one of an ordinary file below the workspace.
    """
    steps, name = _split(path)
    told = shown(path)
    free_bytes = _free_bytes(counted or workspace, told, limits)
    made: list[tuple[int, str]] = []
    done = False
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(opened(os.open(workspace, FOLDER)))
            for step in steps:
                folder = _enter(stack, folder, step, user, made)
            kind = _kind_of(folder, name)
            if name and kind is not None and stat.S_ISDIR(kind):
                steps, name, folder = (*steps, name), "", _enter(stack, folder, name, user, made)
            elif kind is not None and not stat.S_ISREG(kind):
                raise WorkspaceError("{relative} is not an ordinary file.", relative=told)
            with _unnamed(folder) as file:
                _fill(file, told, source, user, min(max_bytes, free_bytes), max_bytes, checkpoint)
                if name:
                    _replace(file, folder, name)
                else:
                    name = _give_name(file, folder, safe_name(suggested), limits.workspace_files)
                    kind = None
                done = True
            return PlacedFile("/".join((*steps, name)), kind is not None)
        except OSError as error:
            raise _cannot_put(told, error) from error
        finally:
            for above, step in reversed(made if not done else []):
                with contextlib.suppress(OSError):
                    os.rmdir(step, dir_fd=above)


def check_path(path: str) -> None:
    """Refuse a path that can never be one of a file below the workspace.

    Raises:
        WorkspaceError: The path leads upwards, or has characters or a length that it cannot have.
    """
    _split(path)


def _split(path: str) -> tuple[tuple[str, ...], str]:
    """Return the folders and the file name of a path below the workspace; the name of a folder is empty."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or not path.isprintable():
        raise WorkspaceError(
            "{path} is not a path below /workspace.", "Take a relative path without `..`.", path=shown(path)
        )
    try:
        if len(parts) > MAX_FOLDERS or any(len(part.encode()) > 255 for part in parts):
            raise WorkspaceError("{path} is too long.", path=shown(path[:100]))
    except UnicodeEncodeError as error:
        raise WorkspaceError("{path} is not UTF-8.", path=shown(path)) from error
    if not parts or path.endswith(("/", "/.")):
        return tuple(parts), ""
    return tuple(parts[:-1]), parts[-1]


def _enter(
    stack: contextlib.ExitStack, folder: int, name: str, user: tuple[int, int], made: list[tuple[int, str]]
) -> int:
    """Open a folder in an open folder; create it if it is missing; do not follow a link."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        made.append((folder, name))
        if os.getuid() == 0:
            os.chown(name, *user, dir_fd=folder, follow_symlinks=False)
    return stack.enter_context(opened(os.open(name, FOLDER, dir_fd=folder)))


def _kind_of(folder: int, name: str) -> int | None:
    """Return the mode of the entry with this name; None if there is none."""
    if not name:
        return None
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None


def _replace(file: int, folder: int, name: str) -> None:
    """Give the open file a name, whether or not another file has it."""
    part = PART
    try:
        os.unlink(PART, dir_fd=folder)
    except FileNotFoundError:
        pass
    except IsADirectoryError:  # made by a command: it must not keep all files out of the folder
        part = f"{PART}-{secrets.token_hex(8)}"
    os.link(f"/proc/self/fd/{file}", part, dst_dir_fd=folder)
    try:
        os.rename(part, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=folder)
        raise


def _fill(
    file: int,
    name: str,
    source: BinaryIO,
    user: tuple[int, int],
    free_bytes: int,
    max_bytes: int,
    checkpoint: Callable[[], None],
) -> None:
    """Copy `source` into an open file, and give the file to the user."""
    size = 0
    source.seek(0)
    while chunk := source.read(_CHUNK_BYTES):
        checkpoint()
        size += len(chunk)
        if size > max_bytes:
            raise WorkspaceError(
                "{safe} is larger than {max_bytes} MB.", safe=name, max_bytes=f"{max_bytes / _MEGA:g}"
            )
        if size > free_bytes:
            raise _full(name)
        _write(file, chunk)
    if os.getuid() == 0:
        os.fchown(file, *user)
    os.fchmod(file, 0o600)
    checkpoint()


def _cannot_put(name: str, error: OSError) -> WorkspaceError:
    return WorkspaceError(
        "{safe} cannot be put into the workspace: {reason}.", safe=name, reason=os_error(error)
    )


def room_for(workspace: Path, name: str, limits: SandboxLimits) -> int:
    """Return the number of bytes that may still be added to the workspace.

    Raises:
        WorkspaceError: There is no room at all.
    """
    return _free_bytes(workspace, shown(name), limits)


def _folder(workspace: Path, below: str, user: tuple[int, int]) -> int:
    """Open the folder for a new file, and create it if it is missing; do not follow a link."""
    with contextlib.ExitStack() as stack:
        top = stack.enter_context(opened(os.open(workspace, FOLDER)))
        return os.dup(_enter(stack, top, below, user, []) if below else top)


def about_file(name: str, media_type: str, size: int) -> str:
    """Return the line that tells a model which file the user sent, and its path in the workspace."""
    # The media type comes from the sender, and could otherwise inject text into the prompt.
    kind = media_type if _MEDIA_TYPE.fullmatch(media_type) else "unknown type"
    return f"[The user sent a file: /workspace/{name} ({kind}, {size} bytes)]"


def file_in(about: str) -> tuple[str, int] | None:
    """Return the file name and size from a text that starts with a line of `about_file`, otherwise None."""
    found = _ABOUT.match(about)
    return None if found is None else (found["name"], int(found["size"]))


def safe_name(name: str) -> str:
    """Turn an untrusted file name into one that misleads no shell, terminal or person.

    Letters, digits and accents of all scripts and `._-+@,%` are preserved; every other visible character
    becomes `_`, and invisible ones are removed. The name has no folders and no leading dot or dash, is at
    most `MAX_NAME_BYTES` of UTF-8 long, and retains its ending. Without any valid character it is `file`.
    """
    base = re.split(r"[/\\]", unicodedata.normalize("NFC", name))[-1]
    stem, ending = os.path.splitext(base)
    if not _is_ending(ending):
        stem, ending = stem + ending, ""
    stem = unicodedata.normalize("NFC", "".join(map(_safe, _INVISIBLE.sub("", stem))))
    stem = re.sub("_{2,}", "_", stem)
    while stem and not (stem[0] == "_" or unicodedata.category(stem[0])[0] in "LN"):
        stem = stem[1:]
    max_stem_bytes = MAX_NAME_BYTES - len(ending.encode())
    return (stem.encode()[:max_stem_bytes].decode(errors="ignore") or "file") + ending


def _safe(character: str) -> str:
    kind = unicodedata.category(character)
    if kind[0] in "LMN" or character in _SAFE_MARKS:
        return character
    return "" if kind[0] == "C" else "_"  # C: control, format (bidirectional ones too), half characters


def _is_ending(text: str) -> bool:
    seen = text[1:].isalnum() and not _INVISIBLE.search(text)
    return seen and len(text.encode()) <= _MAX_ENDING_BYTES


def _free_bytes(workspace: Path, name: str, limits: SandboxLimits) -> int:
    """Return the number of bytes that may still be added to the workspace. Raise WorkspaceError if none."""
    use = measure(workspace, stop_after=limits.workspace_files)
    if use.files >= limits.workspace_files or use.bytes >= limits.workspace_bytes:
        raise _full(name)
    free = free_on(workspace, limits.reserve_bytes)
    if free.low:
        raise WorkspaceError(
            "The disk has no room for {name}.", "Delete files that are no longer needed.", name=name
        )
    return min(limits.workspace_bytes - use.bytes, int(free.bytes - free.reserve_bytes))


def _full(name: str) -> WorkspaceError:
    return WorkspaceError(
        "The workspace has no room for {name}.",
        "Delete files in it, or all of them with /reset files.",
        name=name,
    )


@contextlib.contextmanager
def _unnamed(folder: int) -> Iterator[int]:
    """Create a file on the folder's file system: without a name if possible, else with a temporary one."""
    hidden = ""
    try:
        file = os.open(".", _UNNAMED, 0o600, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NO_UNNAMED:
            raise
        hidden = f".{secrets.token_hex(8)}.part"
        file = os.open(hidden, _HIDDEN, 0o600, dir_fd=folder)
    try:
        yield file
    finally:
        os.close(file)
        if hidden:
            with contextlib.suppress(OSError):  # a command has removed it already
                os.unlink(hidden, dir_fd=folder)


def _write(file: int, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[os.write(file, rest) :]


def _known(workspace: Path, below: str, name: str, source: BinaryIO, user: tuple[int, int]) -> str:
    """Return the name of a file with the content of `source` that `put_file` has stored; empty if none."""
    size = source.seek(0, os.SEEK_END)
    with opened(_folder(workspace, below, user)) as folder:
        for candidate in _namesakes(name, _MOST_COMPARED):
            try:
                file = os.open(candidate, _READ, dir_fd=folder)
            except FileNotFoundError:
                return ""  # the name under which the file is going to be stored
            except OSError:  # a link, or a file that only a command can read
                continue
            with opened(file):
                there = os.fstat(file)
                # Only as `put_file` leaves it: a command may have taken its rights away.
                ours = (
                    stat.S_ISREG(there.st_mode) and there.st_uid == user[0] and there.st_mode & stat.S_IRUSR
                )
                if ours and there.st_size == size and _same(file, source):
                    return candidate
    return ""


def _same(file: int, source: BinaryIO) -> bool:
    source.seek(0)
    while chunk := source.read(_CHUNK_BYTES):
        if os.read(file, len(chunk)) != chunk:
            return False
    return not os.read(file, 1)


def _give_name(file: int, folder: int, name: str, files: int) -> str:
    """Link the open file into the folder under the first free name."""
    for candidate in _namesakes(name, files + 1):  # one more than the file limit: one is free
        with contextlib.suppress(FileExistsError):
            # Through the descriptor: this is the written file, whatever a command did to its temporary name.
            os.link(f"/proc/self/fd/{file}", candidate, dst_dir_fd=folder)
            return candidate
    raise _full(name)


def _namesakes(name: str, most: int) -> Iterator[str]:
    yield name
    stem, ending = os.path.splitext(name)
    if stem.endswith(".tar"):
        stem, ending = stem.removesuffix(".tar"), f".tar{ending}"
    for number in range(2, most + 1):
        yield f"{stem}-{number}{ending}"
