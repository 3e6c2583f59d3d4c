"""Python in the sandbox: the standard library of the host's interpreter, and pip."""

import importlib.util
import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.programs import Program

WHEELS: Final = Path("/usr/share/python-wheels")
"""Debian's folder for the wheels of `ensurepip`."""

PIP: Final = """\
#!/usr/bin/python3
import sys
from pip._internal.cli.main import main
sys.exit(main())
"""
PIP_CONF: Final = """\
[global]
no-index = true
no-cache-dir = true
disable-pip-version-check = true
"""
"""Settings of pip: no package index, because there is no network."""

LEFT_OUT: Final = frozenset(
    ("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "msilib", "__pycache__")
)
NOT_NEEDED: Final = ("config-", "site-packages", "dist-packages")
UNUSED_MODULES: Final = ("_tkinter", "_test", "_xx", "xx", "_ctypes_test")
KINDS: Final = (".py", ".so", ".txt", ".json", ".pem", ".typed", ".cfg", ".toml")

_ASK: Final = """
import importlib.util, json, os, site, sys, sysconfig
print(json.dumps({
    "prefix": os.path.realpath(sys.base_prefix),
    "library": sorted({os.path.realpath(sysconfig.get_path(each)) for each in ("stdlib", "platstdlib")}),
    "sites": site.getsitepackages(),
    "tag": sys.implementation.cache_tag,
    "magic": importlib.util.MAGIC_NUMBER.hex(),
}))
"""
_PYC_HEADER: Final = 16
_NEVER_CHECKED: Final = (1).to_bytes(4, "little") + bytes(8)


@dataclass(frozen=True, slots=True)
class RootfsEntry:
    """A file of the root file system: a copy of `source`, or `content`. With `elf`, it may load libraries.

    With `linked`, it is a link to `source` if possible, because nothing else uses that file.
    """

    inside: Path
    source: Path | None = None
    content: bytes | None = None
    elf: bool = False
    executable: bool = False
    linked: bool = False


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Paths and versions that an interpreter reports about itself."""

    prefix: Path
    library: tuple[Path, ...]
    sites: tuple[Path, ...]
    tag: str
    magic: bytes

    def inside(self, path: Path) -> Path:
        """Map a path below the interpreter's prefix to the tree, in which the prefix is /usr.

        Raises:
            ValueError: The path is not below the prefix.
        """
        return Path("usr", path.relative_to(self.prefix))


def interpreter(program: Program) -> Interpreter | None:
    """Query an interpreter; return None if it does not answer, or its library is outside of its prefix."""
    try:
        said = subprocess.run(
            [program.source, "-I", "-S", "-B", "-c", _ASK],
            capture_output=True,
            check=True,
            timeout=30,
            env={"PATH": "/usr/bin:/bin"},
        )
        described = json.loads(said.stdout)
        found = Interpreter(
            Path(described["prefix"]),
            tuple(map(Path, described["library"])),
            tuple(map(Path, described["sites"])),
            described["tag"],
            bytes.fromhex(described["magic"]),
        )
        for path in found.library:
            found.inside(path)
    except (OSError, subprocess.SubprocessError, ValueError, KeyError):
        return None
    return found


def standard_library(python: Interpreter) -> Iterator[RootfsEntry]:
    """Yield the standard library, without its tests, its graphical modules and the site packages."""
    for folder in python.library:
        yield from _modules(folder, python.inside(folder), python)


def pip_of(python: Interpreter) -> Path | None:
    """Return the path of pip: the interpreter's own package or wheel, otherwise the one Rumi imports."""
    for site in python.sites:
        if (site / "pip/__main__.py").is_file():
            return site / "pip"
    bundled = [folder / "ensurepip/_bundled" for folder in python.library]
    wheels = [wheel for folder in (*bundled, WHEELS) for wheel in sorted(folder.glob("pip-*.whl"))]
    if wheels:
        return wheels[-1]
    own = importlib.util.find_spec("pip")
    return Path(own.origin).parent if own is not None and own.origin else None


def pip(python: Interpreter) -> Iterator[RootfsEntry]:
    """Yield pip's package for this interpreter, its program and settings; nothing if the host has no pip."""
    sites = [site for site in python.sites if site.is_relative_to(python.prefix)]
    if (source := pip_of(python)) is None or not sites:
        return
    home = python.inside(sites[0])
    if source.suffix == ".whl":
        yield from _unpacked(source, home)
    else:
        yield from _modules(source, home / "pip", python)
    yield RootfsEntry(Path("usr/bin/pip"), content=PIP.encode(), executable=True)
    yield RootfsEntry(Path("etc/pip.conf"), content=PIP_CONF.encode())


def _unpacked(wheel: Path, home: Path) -> Iterator[RootfsEntry]:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith("pip/") and name.endswith(KINDS):
                yield RootfsEntry(home / name, content=archive.read(name))


def _modules(folder: Path, inside: Path, python: Interpreter) -> Iterator[RootfsEntry]:
    for top, folders, files in os.walk(folder):
        folders[:] = sorted(
            subfolder
            for subfolder in folders
            if subfolder not in LEFT_OUT and not subfolder.startswith(NOT_NEEDED)
        )
        here = Path(top)
        for name in sorted(files):
            path = here / name
            if not name.endswith(KINDS) or name == "sitecustomize.py" or not path.is_file():
                continue
            target = inside / path.relative_to(folder)
            if name.endswith(".so"):
                if not name.startswith(UNUSED_MODULES):
                    yield RootfsEntry(target, path, elf=True)
                continue
            yield RootfsEntry(target, path)
            if name.endswith(".py") and (compiled := _compiled(path, python)) is not None:
                yield RootfsEntry(
                    target.parent / f"__pycache__/{path.stem}.{python.tag}.pyc", content=compiled
                )


def _compiled(path: Path, python: Interpreter) -> bytes | None:
    """Return the host's bytecode of a module as an unchecked pyc (PEP 552); None if it is missing or stale.

    The pyc is unchecked, because all files of a tree have the same time, so that Python's comparison of times
    would fail.
    """
    try:
        content = (path.parent / f"__pycache__/{path.stem}.{python.tag}.pyc").read_bytes()
        status = path.stat()
    except OSError:
        return None
    flags, time, size = (int.from_bytes(content[at : at + 4], "little") for at in (4, 8, 12))
    if content[:4] != python.magic or flags or time != int(status.st_mtime) or size != status.st_size:
        return None
    return python.magic + _NEVER_CHECKED + content[_PYC_HEADER:]
