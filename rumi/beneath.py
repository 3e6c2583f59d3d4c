"""Opening a file below a folder whose content others have made: nothing on the way is followed out of it."""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_OPENAT2 = 437  # the same number on every architecture that Linux added it to
_RESOLVE_NO_XDEV, _RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x01, 0x02, 0x04, 0x08


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(folder: int, name: bytes, flags: int = READ, *, same_mount: bool = False) -> int:
    """Open what is at a path below an open folder, links nowhere followed; the caller closes it.

    Opening waits for nothing, and what is opened may be anything: see `is_ordinary`. Raises OSError: ELOOP
    where a link lies on the way, EXDEV where it leads out, with `same_mount` also into what is mounted there.
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
            break  # EAGAIN: something on the way was renamed meanwhile, so the kernel could not tell
    raise OSError(number, os.strerror(number))


@contextmanager
def opened(fd: int) -> Iterator[int]:
    """A file descriptor, closed when the block ends."""
    try:
        yield fd
    finally:
        os.close(fd)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def is_ordinary(file: int) -> bool:
    """Whether an open file is an ordinary one."""
    return stat.S_ISREG(os.fstat(file).st_mode)
