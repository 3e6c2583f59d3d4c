"""Copying of the chats' files for a backup, while commands may change them.

No link is followed: each step goes from an open folder to a name in it. Links are copied as links; anything
other than files, folders and links is left out.
"""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rumi.platform.openat import FOLDER, READ, is_ordinary, opened
from rumi.sandbox.entries import OPAQUE, is_opaque, is_whiteout
from rumi.sandbox.project.tree import OverLimits, ProjectLimits
from rumi.sandbox.workspace import BLOCK_BYTES, MAX_DEPTH, measure

_CHUNK_BYTES = 1 << 20
_FICLONE = 0x40049409  # _IOW(0x94, 9, int), on every architecture that Rumi runs on
_EVERYTHING = 1 << 62


@dataclass(slots=True)
class CopySummary:
    """Counts of copied bytes, copied files and omitted entries."""

    bytes: int = 0
    files: int = 0
    left_out: int = 0
    keep_owners: bool = True
    owner: tuple[int, int] | None = None
    bounds: ProjectLimits | None = None
    entries: int = 0
    _names: dict[tuple[int, int], Path] = field(default_factory=dict)


def size_of_files(folder: Path) -> int:
    """Return the disk space that the files below a folder use, in bytes."""
    return measure(folder, stop_after=_EVERYTHING).bytes


def copy_files(
    source: Path,
    target: Path,
    *,
    keep_owners: bool = True,
    owner: tuple[int, int] | None = None,
    bounds: ProjectLimits | None = None,
) -> CopySummary:
    """Copy a folder into a new private one; preserve holes, links, times and, as root, owners.

    As root, all copies belong to `owner` if it is given. Where the file system can, copies share blocks.

    The marks of an overlay's upper layer are copied; other file systems below the folder are left out.
    Entries are copied in the order of their names, so that the same files make the same copy. A file that
    grows during the copy is copied up to its earlier size; one that vanishes is skipped. Left out are special
    files, unreadable entries, and folders nested deeper than `MAX_DEPTH`. Blocking.

    Raises:
        OSError: The target cannot be written.
        OverLimits: The folder has more than `bounds` allow.
    """
    copied = CopySummary(keep_owners=keep_owners, owner=owner, bounds=bounds)
    os.mkdir(target, 0o700)
    try:
        top = os.open(source, FOLDER)
    except FileNotFoundError:
        return copied
    with opened(top):
        _copy_folder(top, target, copied, MAX_DEPTH)
    os.sync()  # once, instead of an fsync for each file
    return copied


def _copy_folder(folder: int, target: Path, copied: CopySummary, depth: int) -> None:
    for name in sorted(os.listdir(folder), key=os.fsencode):
        copied.entries += 1
        if copied.bounds is not None and copied.entries > copied.bounds.files:
            raise OverLimits("files", copied.bounds.files)
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and depth > 0:
                with opened(os.open(name, FOLDER, dir_fd=folder)) as inner:
                    os.mkdir(target / name, 0o700)
                    if os.fstat(inner).st_dev != os.fstat(folder).st_dev:
                        continue
                    if is_opaque(inner):
                        os.setxattr(target / name, OPAQUE, b"y")
                    _copy_folder(inner, target / name, copied, depth - 1)
            elif stat.S_ISLNK(status.st_mode):
                os.symlink(os.readlink(name, dir_fd=folder), target / name)
            elif is_whiteout(status):
                os.mknod(target / name, stat.S_IFCHR, os.makedev(0, 0))
            elif stat.S_ISREG(status.st_mode):
                _copy_file(folder, name, target / name, copied)
            else:
                copied.left_out += 1
                continue
        except OSError as error:
            # These concern the target or the disk, so the copy has failed; others only concern this entry.
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO):
                raise
            copied.left_out += error.errno != errno.ENOENT  # a vanished file is not an omission
            continue
        owner = copied.owner or ((status.st_uid, status.st_gid) if copied.keep_owners else None)
        _copy_metadata(target / name, status, owner)


def _copy_file(folder: int, name: str, target: Path, copied: CopySummary) -> None:
    with opened(os.open(name, READ, dir_fd=folder)) as source:
        if not is_ordinary(source):
            raise OSError(errno.EINVAL, "swapped for something else")
        status = os.fstat(source)
        known = copied._names.get((status.st_dev, status.st_ino))
        if status.st_nlink > 1 and known is not None:  # one file with many names stays one file
            os.link(known, target, follow_symlinks=False)
            return
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with opened(os.open(target, flags, 0o700 if status.st_mode & 0o100 else 0o600)) as copy:
            if (
                copied.bounds is not None
                and copied.bytes + status.st_blocks * BLOCK_BYTES > copied.bounds.bytes
            ):
                raise OverLimits("bytes", copied.bounds.bytes)
            if copied.bounds is not None and clone(source, copy):
                copied.bytes += status.st_size
            else:
                copied.bytes += copy_data(source, copy, status.st_size)
    copied.files += 1
    if status.st_nlink > 1:
        copied._names[status.st_dev, status.st_ino] = target


def clone(source: int, copy: int) -> bool:
    """Make an empty open file share the blocks of another, copy-on-write; return False if unsupported."""
    try:
        fcntl.ioctl(copy, _FICLONE, source)
    except OSError:
        return False
    return True


def copy_data(source: int, copy: int, size: int) -> int:
    """Copy the first `size` bytes of an open file into an empty one, with holes; return the bytes read."""
    read = sum(_copy_range(source, copy, start, end) for start, end in data_in(source, size))
    os.ftruncate(copy, size)
    return read


def data_in(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) ranges of a file that contain data, without its holes."""
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
            end = min(size, os.lseek(file, start, os.SEEK_HOLE))
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole is left
                return
            raise
        if start >= end:
            return
        yield start, end


def _copy_range(source: int, copy: int, start: int, end: int) -> int:
    at = start
    while at < end and (data := os.pread(source, min(_CHUNK_BYTES, end - at), at)):
        written = 0
        while written < len(data):
            written += os.pwrite(copy, data[written:], at + written)
        at += len(data)
    return at - start


def _copy_metadata(target: Path, status: os.stat_result, owner: tuple[int, int] | None) -> None:
    """Set the owner, if permitted, and the time. Paths are safe: no other process writes to the copy."""
    if owner is not None and os.geteuid() == 0:
        os.chown(target, *owner, follow_symlinks=False)
    with contextlib.suppress(OSError):
        os.utime(target, ns=(status.st_mtime_ns, status.st_mtime_ns), follow_symlinks=False)
