"""Files that some programs need in addition to their executable and their libraries."""

import os
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from runner.programs import Program
from runner.python import RootfsEntry, interpreter, pip, standard_library

GITCONFIG: Final = """\
[user]
\tname = Rumi
\temail = rumi@localhost
[init]
\tdefaultBranch = main
[safe]
\tdirectory = *
[gc]
\tautoDetach = false
[advice]
\tdetachedHead = false
"""
"""The system-wide git configuration: an identity, so that commits work, and trust in every repository,
because all of the workspace is the user's own.
"""

GIT_NETWORK: Final = re.compile(
    r"git-(remote-.*|http-.*|imap-send|daemon|send-email|svn|cvs.*|p4|instaweb|web--browse|shell"
    r"|credential-cache.*|archimport|quiltimport)|scalar"
)
"""Parts of git that use or serve a network."""

TERMINALS: Final = (Path("/lib/terminfo"), Path("/usr/lib/terminfo"), Path("/usr/share/terminfo"))

NODE_MODULES: Final = Path("/usr/share/nodejs")
NODE_OWN: Final = ("acorn", "acorn-walk", "cjs-module-lexer", "minimatch", "undici")
"""Names of the modules of node itself that Debian installs in `NODE_MODULES`."""


def companions(found: Mapping[str, Program]) -> Iterator[RootfsEntry]:
    """Yield the files that the found programs need. Blocking: it runs these programs to ask for the paths."""
    if (program := found.get("python3")) is not None and (python := interpreter(program)) is not None:
        yield from standard_library(python)
        yield from pip(python)
    if "git" in found:
        yield from _git(found["git"].source, found)
    if "file" in found:
        yield from _file(found["file"].source)
    if "perl" in found:
        yield from _perl(found["perl"].source)
    if found.keys() & {"top", "watch", "less"}:
        for folder in TERMINALS:
            for name in ("d/dumb", "x/xterm", "l/linux", "v/vt100"):
                if (path := folder / name).is_file():
                    yield RootfsEntry(path, path)
    if "node" in found:
        for name in NODE_OWN:
            yield from _all_below(NODE_MODULES / name)


def _git(git: Path, found: Collection[str]) -> Iterator[RootfsEntry]:
    """Yield git's own programs, without network programs and scripts for missing interpreters."""
    said = _said(git, "--exec-path")
    if not (folder := Path(said)).is_dir() or not said:
        return
    prefix = folder.parent.parent  # of lib/git-core or libexec/git-core
    for path in sorted(folder.iterdir()):
        if path.is_file() and not GIT_NETWORK.fullmatch(path.name) and _runs(path, found):
            yield RootfsEntry(path, path, elf=path.resolve() != git and _is_elf(path), executable=True)
    yield from _all_below(folder / "mergetools")
    yield from _all_below(prefix / "share/git-core/templates")
    etc = Path("/etc") if prefix == Path("/usr") else prefix / "etc"
    yield RootfsEntry(etc / "gitconfig", content=GITCONFIG.encode())


def _file(file: Path) -> Iterator[RootfsEntry]:
    """Yield the compiled magic files of the program `file`, at the paths that `file --version` reports."""
    for line in _said(file, "--version").splitlines():
        for path in line.removeprefix("magic file from ").split(":") if "magic file from" in line else ():
            compiled = Path(f"{path.removesuffix('.mgc')}.mgc")
            if compiled.is_absolute() and compiled.is_file():
                yield RootfsEntry(compiled, compiled)


def _perl(perl: Path) -> Iterator[RootfsEntry]:
    """Yield Perl's modules: on Debian those of `perl-base`, elsewhere all that come with Perl."""
    folders = [Path(line) for line in _said(perl, "-e", 'print "$_\\n" for @INC').splitlines()]
    base = [folder for folder in folders if folder.name == "perl-base"]
    own = _said(perl, "-MConfig", "-e", 'print "$Config{privlibexp}\\n$Config{archlibexp}\\n"').splitlines()
    for folder in base or map(Path, own):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix not in (".pod", ".h", ".ld"):
                yield RootfsEntry(path, path, elf=path.suffix == ".so")


def _all_below(folder: Path) -> Iterator[RootfsEntry]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield RootfsEntry(path, path)


def _said(program: Path, *options: str) -> str:
    said = subprocess.run(
        [program, *options], capture_output=True, text=True, check=False, timeout=30, env={"LC_ALL": "C"}
    )
    return said.stdout.strip()


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _runs(path: Path, found: Collection[str]) -> bool:
    """Return True for ELF files, scripts whose interpreter was found, and files that are not executable."""
    with path.open("rb") as file:
        start = file.read(256)
    if not start.startswith(b"#!"):
        return start.startswith(b"\x7fELF") or not os.access(path, os.X_OK)
    words = start[2:].split(b"\n", 1)[0].decode("utf-8", "replace").split()
    wanted = words[1] if len(words) > 1 and words[0].endswith("/env") else (words or [""])[0]
    return Path(wanted).name in found
