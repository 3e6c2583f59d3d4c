"""The part of this machine that programs of others see in their sandbox, as options of bubblewrap."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

TMP_BYTES: Final = 256 * 1024 * 1024
"""Maximum size of /tmp, and of /dev/shm, in bytes."""

TOP: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
"""Folders of / that programs and libraries are in, or links to them."""

_OF_ETC: Final = (
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "ld.so.cache",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "pki",
    "ssl",
    "timezone",
)

_READ_ONLY: Final = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_HIDDEN: Final = ("acpi", "asound", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list")


def system_words(more_of_etc: Iterable[str], etc: Mapping[str, int]) -> list[str]:
    """Return options for programs and libraries, and for /etc, /proc, /dev and /tmp of the sandbox.

    /etc has what most programs read, `more_of_etc`, and the files `etc`, which are inherited descriptors.
    """
    words = ["--ro-bind", "/usr", "/usr"]
    for name in TOP:
        top = Path("/", name)
        if top.is_symlink():
            words += ["--symlink", os.readlink(top), str(top)]
        elif top.is_dir():
            words += ["--ro-bind", str(top), str(top)]
    for name in (*_OF_ETC, *more_of_etc):
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    for name, fd in etc.items():
        words += ["--perms", "0644", "--ro-bind-data", str(fd), f"/etc/{name}"]
    words += ["--proc", "/proc", *_covered(), "--size", str(TMP_BYTES), "--tmpfs", "/tmp"]
    # bubblewrap's /dev and / are memory file systems without a size limit, so they are remounted read-only.
    # Otherwise a program could fill the machine's memory with files.
    words += ["--dev", "/dev", "--size", str(TMP_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"]
    return [*words, "--remount-ro", "/dev"]


def environment_words(environment: Mapping[str, str]) -> bytes:
    """Return the options that set a program's variables, as bubblewrap reads them from a descriptor.

    They are not in the environment of bubblewrap and of the launcher, which run outside of the sandbox:
    LD_PRELOAD could name a library in the program's own folder. They are not in the command line either,
    which other users can read.

    Raises:
        ValueError: A name or a value has a NUL, which would begin another option.
    """
    words = [word for name, value in environment.items() for word in ("--setenv", name, value)]
    if any("\0" in word for word in words):
        raise ValueError("a variable has a NUL character")
    return b"".join(os.fsencode(word) + b"\0" for word in words)


def _covered() -> Iterator[str]:
    """Yield bubblewrap options that hide kernel settings or make them read-only.

    Without these options, a program could change the settings if root started it.

    Docker protects the same paths in its containers.
    """
    for name in _READ_ONLY:
        if Path("/proc", name).exists():
            yield from ("--ro-bind", f"/proc/{name}", f"/proc/{name}")
    for name in _HIDDEN:
        path = Path("/proc", name)
        if path.is_dir():
            yield from ("--tmpfs", str(path), "--remount-ro", str(path))
        elif path.exists():
            yield from ("--ro-bind", "/dev/null", str(path))
