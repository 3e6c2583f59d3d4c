"""Compiles the first process of a container (`init.c`) with this host's compiler."""

import shutil
import subprocess
from importlib import resources
from pathlib import Path

VERSION = "2"
"""What the program prints after its name. A change of its protocol increases it."""
WITHOUT_LEASES = ("1", VERSION)
"""The versions whose protocol is the same for sandboxes without a lease."""
COMPILERS = ("musl-gcc", "cc", "gcc", "clang")
FLAGS = ("-O2", "-Wall", "-static", "-s")
COMPILE_S = 60


class InitError(Exception):
    """The program cannot be compiled here; the error gives the reason."""


def source() -> bytes:
    """Return the program's source."""
    return resources.files("runner").joinpath("init.c").read_bytes()


def compile_init(target: Path) -> None:
    """Compile the program, statically, because the image may have no libraries; try it. Blocking: a second.

    Raises:
        InitError: This host has no compiler, or no static library of C.
    """
    reason = "this host has no C compiler"
    for compiler in filter(shutil.which, COMPILERS):
        words = [compiler, *FLAGS, "-x", "c", "-o", str(target), "-"]
        try:
            done = subprocess.run(words, input=source(), capture_output=True, check=False, timeout=COMPILE_S)
            if done.returncode == 0:
                said = subprocess.run([target], capture_output=True, check=False, timeout=COMPILE_S).stdout
                if said == f"rumi-init {VERSION}\n".encode():
                    return
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it does not run"]
            reason = f"{compiler} cannot make it: {lines[-1][-200:]}"
        except (OSError, subprocess.TimeoutExpired) as error:
            reason = f"{compiler} cannot make it: {error}"
    raise InitError(reason)
