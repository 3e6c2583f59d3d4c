"""Compilation of the first process of a sandbox (`init.c`) with this host's compiler."""

import shutil
import subprocess
import tempfile
from functools import cache
from importlib import resources
from pathlib import Path

VERSION = "4"
"""Version that the program prints after its name. Increase it with every change of the protocol."""
COMPILERS = ("musl-gcc", "cc", "gcc", "clang")
FLAGS = ("-O2", "-Wall", "-static", "-s")
COMPILE_S = 60


class InitError(Exception):
    """The program cannot be compiled here, for the reason in the message."""


def source() -> bytes:
    """Return the source code of the program."""
    return resources.files("runner").joinpath("init.c").read_bytes()


def compile_init(target: Path) -> None:
    """Compile and try the program: statically, because the image may have no libraries. Blocks for a second.

    Raises:
        InitError: This host has no C compiler, or no static C library.
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


@cache
def compiled() -> bytes:
    """Return the compiled program. The first call in a process blocks for a second.

    Raises:
        InitError: See `compile_init`.
    """
    with tempfile.TemporaryDirectory(prefix="rumi-init-") as folder:
        target = Path(folder, "init")
        compile_init(target)
        return target.read_bytes()
