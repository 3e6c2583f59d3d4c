"""Tiny static programs for x86-64 Linux, made of bytes: a sandbox has no compiler, and no test needs one.

They do what no allowed program does: make any system call, and leave a process behind that has left its
session, as whoever wants to outlive a stop would.
"""

import platform
import struct
from collections.abc import Iterable

HERE = platform.machine() == "x86_64"
"""Whether this machine can run them."""

ADDRESS = 0x400000
EXIT = bytes.fromhex("b83c000000 31ff 0f05")
_REGISTERS = ("48b8", "48bf", "48be", "48ba", "49ba", "49b8", "49b9")  # rax, then the six arguments


def program(code: bytes) -> bytes:
    """An ELF file with one segment that holds `code`, which starts at its beginning."""
    start = 64 + 56
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        *(2, 62, 1, ADDRESS + start, 64, 0, 0, 64, 56, 1, 0, 0, 0),
    )
    size = start + len(code)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, ADDRESS, ADDRESS, size, size, 0x1000)
    return header + segment + code


def calls(numbers_and_arguments: Iterable[tuple[int, ...]]) -> bytes:
    """A program that makes these calls and writes what each returned: eight bytes, little-endian, signed."""
    code = b""
    for call in numbers_and_arguments:
        words = (*call, *(0,) * (7 - len(call)))
        for register, word in zip(_REGISTERS, words, strict=True):
            code += bytes.fromhex(register) + struct.pack("<Q", word & 0xFFFFFFFFFFFFFFFF)
        # syscall; push rax; write(1, rsp, 8); pop rax
        code += bytes.fromhex("0f05 50 b801000000 bf01000000 4889e6 ba08000000 0f05 58")
    return program(code + EXIT)


def results(output: bytes) -> list[int]:
    """What `calls` wrote."""
    return [value for (value,) in struct.iter_unpack("<q", output)]


def daemon() -> bytes:
    """A program that forks, leaves its session, forks again and sleeps for ever; the first process ends."""
    fork_and_leave = bytes.fromhex("b839000000 0f05 85c0 7409") + EXIT
    set_sid = bytes.fromhex("b870000000 0f05")
    sleep = bytes.fromhex("b822000000 0f05 ebf7")
    return program(fork_and_leave + set_sid + fork_and_leave + sleep)


def old_call() -> bytes:
    """A program that asks for its pid by the 32-bit way in, and exits with 0 if it may."""
    return program(bytes.fromhex("b814000000 cd80") + EXIT)
