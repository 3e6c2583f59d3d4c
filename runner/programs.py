"""The programs of the sandbox, their places on this host, and the libraries that they load."""

import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# fmt: off
ALLOWED: tuple[str, ...] = (
    "ls", "cat", "head", "tail", "less", "more", "cp", "mv", "rm", "mkdir", "rmdir", "touch",
    "find", "which", "stat", "du", "df", "grep", "egrep", "fgrep", "sed", "awk", "gawk", "cut",
    "sort", "uniq", "wc", "tr", "tee", "diff", "comm", "join", "paste", "echo", "printf", "yes",
    "base64", "md5sum", "sha256sum", "pwd", "basename", "dirname", "realpath", "date", "cal",
    "expr", "seq", "sleep", "true", "false", "test", "[", "env", "printenv", "id", "whoami", "tar",
    "gzip", "gunzip", "zcat", "sh", "xargs", "nl", "tac", "split", "column", "fold", "rev", "shuf",
    "timeout", "nice",
)
# fmt: on
"""Programs that a person or a model may run."""

OWN: tuple[str, ...] = ("bash", "kill")
"""Programs that the sandbox needs for itself: its first process, and the end of all others."""

PROGRAMS: tuple[str, ...] = ALLOWED + OWN

SYSTEM_PATH = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin")


class RootfsError(Exception):
    """This host lacks something that a root file system needs; the error names it."""


@dataclass(frozen=True, slots=True)
class Program:
    """One program: its name inside, and the real file on this host (alternatives' links followed)."""

    name: str
    source: Path
    kind: Literal["elf", "script"]
    interpreter: str
    """The loader of an ELF file ("" if it is static), or the interpreter that a script names."""


def find_program(name: str) -> Program | None:
    """Look in the system's folders, then in PATH, because a person's own wrapper must not be in a sandbox.

    Return None if this host has no such program, or one that is neither ELF nor a script.
    """
    found = shutil.which(name, path=os.pathsep.join(SYSTEM_PATH)) or shutil.which(name)
    if found is None:
        return None
    source = Path(os.path.realpath(found))
    with source.open("rb") as file:
        start = file.read(256)
    if start.startswith(b"\x7fELF"):
        return Program(name, source, "elf", elf_interpreter(source))
    if start.startswith(b"#!"):
        words = start[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
        return Program(name, source, "script", words[0]) if words else None
    return None


def elf_interpreter(path: Path) -> str:
    """Return the loader that an ELF file names in PT_INTERP; "" for a static one.

    Raises:
        RootfsError: The file is damaged.
    """
    try:
        with path.open("rb") as file:
            ident = file.read(16)
            wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
            # e_type to e_phnum; then of each program header p_type, p_offset and p_filesz.
            header_format = order + ("HHIQQQIHHH" if wide else "HHIIIIIHHH")  # e_type to e_phnum
            header = struct.unpack(header_format, file.read(struct.calcsize(header_format)))
            table_offset, entry_size, entries = header[4], header[8], header[9]
            for index in range(entries):
                file.seek(table_offset + index * entry_size)
                if wide:
                    kind, _, offset, _, _, size = struct.unpack(order + "IIQQQQ", file.read(40))
                else:
                    kind, offset, _, _, size = struct.unpack(order + "IIIII", file.read(20))
                if kind == 3:  # PT_INTERP
                    file.seek(offset)
                    return file.read(size).rstrip(b"\0").decode()
    except (struct.error, IndexError) as error:
        raise RootfsError(f"{path} is not a readable ELF file.") from error
    return ""


def libraries(program: Program) -> tuple[Path, ...]:
    """Return the loader and the libraries that it loads for this program, by the paths where it looks for
    them.

    It asks the loader itself (glibc and musl both know `--list`), so the same files are found inside.

    Raises:
        RootfsError: The loader cannot find one of them.
    """
    if program.kind != "elf" or not program.interpreter:
        return ()
    listed = subprocess.run(
        [program.interpreter, "--list", str(program.source)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C"},  # without the builder's LD_PRELOAD and LD_LIBRARY_PATH
        timeout=30,
    )
    found = {Path(program.interpreter)}
    for line in listed.stdout.splitlines():
        if "not found" in line:
            raise RootfsError(f"{program.source} needs a library that this host lacks: {line.strip()}.")
        target = line.split("=>")[-1].strip().split(" (")[0]
        if target.startswith("/"):
            found.add(Path(target))
    if listed.returncode != 0:
        raise RootfsError(f"{program.source} cannot be loaded here: {listed.stderr.strip()}.")
    return tuple(sorted(found))
