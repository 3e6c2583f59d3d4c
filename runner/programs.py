"""The programs of the sandbox, their paths on this host, and the libraries that they load."""

import contextlib
import hashlib
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

Tools: TypeAlias = Literal["work", "core", "office"]

# fmt: off
CORE: tuple[str, ...] = (
    "ls", "cat", "head", "tail", "less", "more", "cp", "mv", "rm", "mkdir", "rmdir", "touch",
    "find", "which", "stat", "du", "df", "grep", "egrep", "fgrep", "sed", "awk", "gawk", "cut",
    "sort", "uniq", "wc", "tr", "tee", "diff", "comm", "join", "paste", "echo", "printf", "yes",
    "base64", "md5sum", "sha256sum", "pwd", "basename", "dirname", "realpath", "date", "cal",
    "expr", "seq", "sleep", "true", "false", "test", "[", "env", "printenv", "id", "whoami", "tar",
    "gzip", "gunzip", "zcat", "sh", "xargs", "nl", "tac", "split", "column", "fold", "rev", "shuf",
    "timeout", "nice", "bash", "kill", "nohup", "chmod", "chown", "chgrp", "ln", "link", "unlink", "readlink",
    "mktemp", "mkfifo", "truncate", "shred", "dd", "install", "sync", "od", "pr", "fmt", "expand", "unexpand",
    "csplit", "tsort", "factor", "numfmt", "cksum", "sum", "sha1sum", "sha224sum", "sha384sum", "sha512sum",
    "b2sum", "base32", "nproc", "uname", "arch", "groups", "who", "users", "tty", "cmp", "diff3",
)
WORK: tuple[str, ...] = (
    "python3", "python", "pip", "git", "jq", "rg", "patch", "file", "bc", "unzip", "zip", "xz", "sqlite3",
    "tree", "make", "node", "perl", "ps", "pgrep", "pstree", "top", "watch", "hostname", "time", "bzip2",
    "cpio", "rename", "pkill", "free", "uptime", "curl",
)
# fmt: on
OFFICE: tuple[str, ...] = ("matplotlib", "pillow", "reportlab", "python-pptx", "python-docx", "openpyxl")
"""The programs that commands may use: `CORE` always, `WORK` if `[sandbox] tools` is `work` or `office`.

The sandbox itself needs `bash`, `sleep` and `kill`. `OFFICE` are the Python packages for charts and
documents, if `[sandbox] tools` is `office`; `LOCK` has their versions.
"""

LOCK = Path(__file__).with_name("office.lock")
"""The versions and hashes of `OFFICE` and of all packages that they need; `make lock` writes it."""

SYSTEM_PATH = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin")
PYTHONS = ("python3", "python")


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of programs for a sandbox."""

    tools: Tools = "core"
    extra: tuple[str, ...] = ()
    """Names of additional programs of the host."""
    python_packages: tuple[str, ...] = ()
    """Python packages with optional versions, such as `numpy` and `numpy>=2`."""

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the programs that users and models may run."""
        work = WORK if self.tools != "core" else ()
        return tuple(dict.fromkeys((*CORE, *work, *self.extra)))

    @property
    def beyond_core(self) -> tuple[str, ...]:
        """Return the allowed programs that are not core programs."""
        return tuple(name for name in self.allowed if name not in CORE)

    @property
    def packages(self) -> tuple[str, ...]:
        """Return the Python packages whose versions the configuration decides; none without Python."""
        if "python3" not in self.allowed:
            return ()
        return tuple(each for each in self.python_packages if package_name(each) not in self.office)

    @property
    def office(self) -> tuple[str, ...]:
        """Return the Python packages whose versions are pinned; they win over `python_packages`."""
        return OFFICE if self.tools == "office" else ()

    @property
    def package_names(self) -> tuple[str, ...]:
        """Return the normalized names of the Python packages."""
        return tuple(dict.fromkeys((*map(package_name, self.packages), *self.office)))

    @property
    def label(self) -> str:
        """Return the selection as one line of text, which is equal for equal selections."""
        packages = ("+", *sorted(set(self.packages))) if self.packages else ()
        tools = f"{self.tools}-{lock_digest()}" if self.office else self.tools
        return " ".join((tools, *sorted(set(self.extra)), *packages))

    def lacking(self, installed: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the packages that are not among the installed ones."""
        there = set(map(package_name, installed))
        return tuple(name for name in self.package_names if name not in there)


@cache
def lock_digest() -> str:
    """Return a short digest of the versions of `OFFICE`: another version of Rumi may have other ones."""
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()[:8]


def package_name(requirement: str) -> str:
    """Return the normalized name of a package (PEP 503), without extras and version."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~]", requirement, maxsplit=1)[0]).lower()


class RootfsError(Exception):
    """This host lacks something that a root file system needs; the message names it."""


CORE_ONLY = Selection()


@dataclass(frozen=True, slots=True)
class Program:
    """A program: its name in the sandbox, and its real file on this host, with links resolved."""

    name: str
    source: Path
    kind: Literal["elf", "script"]
    interpreter: str
    """The loader of an ELF file ("" for a static one), or the interpreter of a script."""


def find_program(name: str) -> Program | None:
    """Find a program in the system's folders, then in PATH; return None if there is no usable one.

    PATH comes last, because a user's own wrapper script must not get into a sandbox. A program is unusable if
    it is neither an ELF file nor a script, or has a set-id bit or capabilities.
    """
    if name == "pip":
        return None  # a Python package: see `runner.python`
    source = _source(name)
    return _program(name, source) if source is not None and not _has_privileges(source) else None


def has_privileges(name: str) -> bool:
    """Return True if the host's program is left out because of a set-id bit or capabilities."""
    source = _source(name)
    return source is not None and _has_privileges(source)


def _source(name: str) -> Path | None:
    """Return the real file of a program, never a shim (a script that starts one of several versions)."""
    folders = [folder for folder in os.get_exec_path() if Path(folder).name != "shims"]
    names = PYTHONS if name in PYTHONS else (name,)
    for path in (SYSTEM_PATH, folders):
        for command in names:
            if found := shutil.which(command, path=os.pathsep.join(path)):
                return Path(os.path.realpath(found))
        if name in PYTHONS and path is SYSTEM_PATH:
            # The interpreter behind Rumi's virtual environment, which pyenv or uv may have installed.
            return Path(os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable))
    return None


def _has_privileges(source: Path) -> bool:
    if source.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        return True
    with contextlib.suppress(OSError):  # the file system has no extended attributes
        return "security.capability" in os.listxattr(source)
    return False


def _program(name: str, source: Path) -> Program | None:
    with source.open("rb") as file:
        start = file.read(256)
    if start.startswith(b"\x7fELF"):
        return Program(name, source, "elf", elf_interpreter(source))
    if start.startswith(b"#!"):
        words = start[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
        return Program(name, source, "script", words[0]) if words else None
    return None


def elf_interpreter(path: Path) -> str:
    """Return the loader that an ELF file names in PT_INTERP, or "" for a static file.

    Raises:
        RootfsError: The file is damaged.
    """
    try:
        with path.open("rb") as file:
            ident = file.read(16)
            wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
            # The fields e_type to e_phnum; then p_type, p_offset and p_filesz of each program header.
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
    """Return the loader and the libraries that it loads for this program, by the loader's own paths.

    Raises:
        RootfsError: The loader cannot find one of them.
    """
    if program.kind != "elf" or not program.interpreter:
        return ()
    return loaded_for(program.source, program.interpreter)


def loaded_for(source: Path, loader: str) -> tuple[Path, ...]:
    """Return the loader, and the libraries that it loads for an ELF file.

    The loader itself lists them (`--list`, in glibc and musl), so it finds the same files in the sandbox.

    Raises:
        RootfsError: The loader cannot find one of them.
    """
    listed = subprocess.run(
        [loader, "--list", str(source)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C"},  # without our own LD_PRELOAD and LD_LIBRARY_PATH
        timeout=30,
    )
    found = {Path(loader)}
    for line in listed.stdout.splitlines():
        if "not found" in line:
            raise RootfsError(f"{source} needs a library that this host lacks: {line.strip()}.")
        target = line.split("=>")[-1].strip().split(" (")[0]
        if target.startswith("/"):
            found.add(Path(target))
    if listed.returncode != 0:
        raise RootfsError(f"{source} cannot be loaded here: {listed.stderr.strip()}.")
    return tuple(sorted(found))
