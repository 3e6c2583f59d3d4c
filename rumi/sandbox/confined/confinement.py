"""System call filter that denies almost all system calls to a process that reads untrusted pages.

Parsers written in C read untrusted content, so the process may only use memory, its pipes and the clock. All
other system calls fail with EPERM: it can open no file, socket or program, even if a page exploits a parser.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
from typing import Final

# The numbers of each call on x86_64 and on aarch64.
_ALLOWED: Final[dict[str, tuple[int, int]]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "getpid": (39, 172),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "times": (100, 153),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}
_ARCHITECTURES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# Allowed only on this process itself: prlimit64 with the first argument 0, and tgkill, which abort() needs,
# with this process's id.
_PRLIMIT64: Final = (302, 261)
_TGKILL: Final = (234, 131)
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_NUMBER_AT, _ARCHITECTURE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def confine() -> bool:
    """Permanently deny this process all but a few system calls; return False if the kernel can't do that."""
    program = _program(platform.machine())
    if program is None:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    filter_ = _Program(len(program) // 8, program)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    done: int = libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0)
    return done == 0


def _program(machine: str) -> bytes | None:
    """Return the filter in BPF; None for a machine type whose system call numbers are not known here."""
    if machine not in _ARCHITECTURES or sys.byteorder != "little":
        return None
    column, architecture = _ARCHITECTURES[machine]
    known = [numbers[column] for numbers in _ALLOWED.values()]
    program = [
        _instruction(_LOAD, _ARCHITECTURE_AT),
        _instruction(_IF_EQUAL, architecture, 1, 0),
        _instruction(_RETURN, _REFUSE),
        _instruction(_LOAD, _NUMBER_AT),
    ]
    for number in known:
        program += [_instruction(_IF_EQUAL, number, 0, 1), _instruction(_RETURN, _ALLOW)]
    for number, own in ((_PRLIMIT64[column], 0), (_TGKILL[column], os.getpid())):
        program += [
            _instruction(_IF_EQUAL, number, 0, 4),
            _instruction(_LOAD, _FIRST_ARGUMENT_AT),
            _instruction(_IF_EQUAL, own, 0, 1),
            _instruction(_RETURN, _ALLOW),
            _instruction(_RETURN, _REFUSE),
        ]
    program.append(_instruction(_RETURN, _REFUSE))
    return b"".join(program)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)
