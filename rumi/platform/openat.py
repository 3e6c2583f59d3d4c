"""Functions to open files in untrusted folders without following links, and to print file names safely."""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_OPENAT2 = 437  # every architecture has had this number since Linux added the call
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x01, 0x02, 0x04, 0x08


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(folder: int, name: bytes, flags: int = READ, *, same_mount: bool = False) -> int:
    """Open a path below an open folder without following links; the caller must close the descriptor.

    Opening never blocks, not even for a FIFO. The opened file may be of any type: see `is_ordinary`.

    Raises:
        OSError: ELOOP if a link is on the path; EXDEV if the path leads out of the folder or, with
            `same_mount`, into another mount.
    """
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    if same_mount:
        resolve |= _RESOLVE_NO_XDEV
    how = _OpenHow(flags, 0, resolve)
    libc = _libc()
    for _ in range(64):
        file: int = libc.syscall(_OPENAT2, folder, name, ctypes.byref(how), ctypes.sizeof(how))
        if file >= 0:
            return file
        if (number := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            break  # EAGAIN: a rename during the lookup, so the kernel could not tell if the path leads out
    raise OSError(number, os.strerror(number))


@contextmanager
def opened(fd: int) -> Iterator[int]:
    """Close a file descriptor when the block ends."""
    try:
        yield fd
    finally:
        os.close(fd)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def read_foreign(path: Path, most: int, *, own_link: bool = False) -> bytes:
    """Return the bytes of a file that others may have created. A path that is a link is refused.

    With `own_link`, the link is followed, because the user has named the file or created the link.

    Raises:
        OSError: ELOOP for a link, EINVAL if the file is not regular, EFBIG if it has more than `most` bytes.
    """
    with opened(os.open(path, READ & ~os.O_NOFOLLOW if own_link else READ)) as file:
        return read_open(file, most)


def read_open(file: int, most: int) -> bytes:
    """Return the bytes of an open file. Never blocks on a pipe.

    Raises:
        OSError: EINVAL if the file is not regular, EFBIG if it has more than `most` bytes.
    """
    if not is_ordinary(file):
        raise OSError(errno.EINVAL, "not a regular file")
    if os.fstat(file).st_size > most:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    parts = bytearray()
    while chunk := os.read(file, min(1 << 20, most + 1 - len(parts))):
        parts += chunk
        if len(parts) > most:  # the file grew while it was read
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return bytes(parts)


def is_ordinary(file: int) -> bool:
    """Return True if the open file is a regular file."""
    return stat.S_ISREG(os.fstat(file).st_mode)


def shown(name: str) -> str:
    """Return a file name in which control characters and undecodable bytes are escaped, for printing."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
