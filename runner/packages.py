"""Python packages of the sandbox: pip installs them on this host, for the interpreter of the sandbox.

Only wheels are installed, so no code of a package runs on the host. A folder holds the packages (`site`) and
a manifest, because the root file system is rebuilt more often than packages are installed.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from runner.fonts import font_entries
from runner.programs import LOCK, OFFICE, Program, find_program, package_name
from runner.python import Interpreter, RootfsEntry, interpreter, pip_of

INSTALL_S: Final = 1200
"""Maximum time of one run of pip; it stops by itself if an index does not answer."""
MAX_BYTES: Final = 4_000_000_000
"""Maximum size of all packages together."""
OPTIONS: Final = (
    *(
        "install",
        "--only-binary",
        ":all:",
        "--no-compile",
        "--no-user",
        "--no-input",
        "--progress-bar",
        "off",
    ),
    *("--disable-pip-version-check", "--root-user-action", "ignore", "--retries", "1", "--timeout", "15"),
)
PASSED_ON: Final = re.compile(
    r"PATH|HOME|LANG|LC_ALL|PIP_\w+|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|XDG_\w+|(https?|all|no)_proxy",
    re.IGNORECASE,
)
"""The variables of Rumi's environment that pip gets: where its settings, its index and certificates are."""
STEP: Final = re.compile(r"^ *Downloading (?:\S*/)?(?P<name>[^-/\s]+)-\S+ \((?P<size>[\d.]+ .?B)\)")
"""A line of pip's progress."""
RUN_PIP: Final = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
LIBRARY: Final = re.compile(r"\.so(\.[0-9]+)*$")
LEFT_OUT: Final = frozenset(("bin", "share", "include", "etc"))
"""Folders of `site` that are no packages; programs of `bin` get into the tree's own folder."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Packages:
    """The packages in a folder, and those that are not in it. `installed` has the form NAME==VERSION."""

    wanted: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    reason: str = ""
    """Why packages are missing, in English; empty if none is."""
    tag: str = ""
    """The interpreter that the packages are made for."""
    digest: str = ""
    """A digest of the names and versions of everything in the folder."""
    bytes: int = 0


def packages_in(folder: Path | None) -> Packages:
    """Return what the folder's manifest says; nothing if there is none."""
    try:
        saved = json.loads((folder / "manifest.json").read_text("utf-8")) if folder else {}
        lists = {name: tuple(saved[name]) for name in ("wanted", "installed", "missing") if name in saved}
        return Packages(**(saved | lists))
    except (OSError, ValueError, TypeError):
        return Packages()


def install(folder: Path, wanted: Sequence[str], progress: Progress, office: Sequence[str] = ()) -> Packages:
    """Install the packages that a configuration names, and replace the folder. Blocks for a minute or more.

    Those of `office` are installed by `LOCK`: in fixed versions, whose hashes are checked. They come first,
    and the others get versions that fit. A package without a wheel for the sandbox's Python is left out, and
    so are all of `office` if one of them has none. If nothing can be installed, the folder stays as it is,
    and the result says why.

    Raises:
        OSError: The folder cannot be written.
    """
    if not wanted and not office:
        shutil.rmtree(folder, ignore_errors=True)
        return Packages()
    every = (*wanted, *office)
    program = find_program("python3")
    python = interpreter(program) if program is not None else None
    pip = pip_of(python) if python is not None else None
    if program is None or python is None or pip is None:
        return _failed(folder, every, "this host has no python3 with pip")
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        site, missing, reason = building / "new" / "site", list[str](), ""
        site.mkdir(parents=True)
        run = partial(_run_pip, program, pip, building, progress=progress)
        fits: tuple[str, ...] = ()
        if office:
            done, said = run(site, ("--require-hashes", "-r", str(LOCK)))
            if done:
                fits = ("-c", str(_constraints(building)))
            else:
                reason = _reason(said)
                missing += office
                shutil.rmtree(site)
                site.mkdir()
        left, more = list(wanted), building / "more"
        while left:
            done, said = run(more if fits else site, (*fits, "--", *left))
            if done:
                break
            refused = _without_wheel(said, left)
            reason = _reason(said) if refused is None else "no index has a wheel for this machine"
            if refused is None and not fits:
                return _failed(folder, every, reason)
            lost = left if refused is None else [refused]
            missing += lost
            left = [each for each in left if each not in lost]
        if not left and len(missing) == len(every):
            return _failed(folder, every, reason)
        if more.exists():
            _merge(more, site)
        size = _tidy(site)
        if size > MAX_BYTES:
            return _failed(folder, every, f"they have more than {MAX_BYTES // 10**6} MB")
        _compile(program, site, python)
        size = _size(site)
        found = {package_name(each.name): each.version for each in distributions(path=[str(site)])}
        digest = hashlib.sha256(json.dumps([python.tag, sorted(found.items())]).encode()).hexdigest()[:16]
        there = (*left, *(each for each in office if each not in missing))
        pins = tuple(f"{name}=={found[name]}" for name in map(package_name, there) if name in found)
        packages = Packages(every, pins, tuple(missing), reason, python.tag, digest, size)
        (building / "new/manifest.json").write_text(json.dumps(asdict(packages)), "utf-8")
        if folder.exists():
            folder.rename(building / "old")
        (building / "new").rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return packages


def entries(folder: Path, python: Interpreter, taken: Collection[str]) -> Iterator[RootfsEntry]:
    """Yield the files of the packages, their programs unless `taken` has the name, and fonts."""
    site, sites = folder / "site", [each for each in python.sites if each.is_relative_to(python.prefix)]
    packages = packages_in(folder)
    if packages.tag != python.tag or not sites:
        return
    if set(OFFICE) <= set(map(package_name, packages.wanted)):
        yield from font_entries(site)
    for path in sorted(site.rglob("*")):
        inside = path.relative_to(site)
        if path.is_symlink() or not path.is_file():
            continue
        if inside.parts[0] not in LEFT_OUT:
            elf = LIBRARY.search(path.name) is not None
            yield RootfsEntry(python.inside(sites[0]) / inside, path, elf=elf, linked=True)
        elif inside.parts[0] == "bin" and inside.name not in taken:
            first, _, rest = path.read_bytes().partition(b"\n")
            if first.startswith(b"#!") and b"python" in first:
                content = b"#!/usr/bin/python3\n" + rest
                yield RootfsEntry(Path("usr/bin", inside.name), content=content, executable=True)


def _failed(folder: Path, wanted: Sequence[str], reason: str) -> Packages:
    """Return what the folder still has, and why it has no more."""
    old = packages_in(folder)
    there = {package_name(pin) for pin in old.installed}
    missing = tuple(each for each in wanted if package_name(each) not in there)
    return Packages(old.wanted, old.installed, missing, reason, old.tag, old.digest, old.bytes)


def _constraints(building: Path) -> Path:
    """Write the versions of `LOCK` without hashes, which pip would require of all other packages too."""
    file = building / "constraints.txt"
    lines = (line.removesuffix("\\").strip() for line in LOCK.read_text("utf-8").splitlines())
    file.write_text("\n".join(line for line in lines if not line.startswith("--hash")), "utf-8")
    return file


def _merge(more: Path, site: Path) -> None:
    """Move files that `site` lacks into it; both have the same versions of what they share."""
    for path in sorted(more.rglob("*")):
        to = site / path.relative_to(more)
        if path.is_file() and not path.is_symlink() and not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            path.rename(to)


def _run_pip(
    program: Program, pip: Path, building: Path, site: Path, wanted: Sequence[str], progress: Progress
) -> tuple[bool, str]:
    """Run pip with the last words of its command line; return True if it succeeded, and what it said."""
    home = pip if pip.suffix == ".whl" else pip.parent
    words = [str(program.source), "-I", "-S", "-c", RUN_PIP, str(home), *OPTIONS, "--target", str(site)]
    environment = {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}
    # In an empty folder and behind `--`: a name is never taken for a file or an option.
    empty = building / "empty"
    empty.mkdir(exist_ok=True)
    said: list[str] = []
    with subprocess.Popen(
        [*words, *wanted],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=empty,
        env=environment | {"TMPDIR": str(building), "PIP_REQUIRE_VIRTUALENV": "0"},
        text=True,
        errors="replace",
    ) as running:
        timer = threading.Timer(INSTALL_S, running.kill)
        timer.start()
        try:
            for line in running.stdout or ():
                said.append(line.strip()[:500])
                if step := STEP.search(line):
                    progress(f"{step['name']} ({step['size']})")
                elif line.startswith("Installing collected packages"):
                    progress("pip install")  # without a new step, the time would be the last package's
            return running.wait() == 0, "\n".join(said[-200:])
        finally:
            timer.cancel()
            running.kill()


def _without_wheel(said: str, wanted: Sequence[str]) -> str | None:
    """Return the package for which pip found no wheel; None if the index did not answer, or for others."""
    found = re.search(r"No matching distribution found for ([A-Za-z0-9._-]+)", said)
    if found is None or "Retrying (" in said or "no-index" in said:
        return None
    name = package_name(found[1])
    return next((each for each in wanted if package_name(each) == name), None)


def _reason(said: str) -> str:
    if "Retrying (" in said:
        return "no package index can be reached"
    errors = [line.removeprefix("ERROR: ") for line in said.splitlines() if line.startswith("ERROR: ")]
    return (errors or said.splitlines() or ["pip ended"])[-1][:200].rstrip(".")


def _tidy(site: Path) -> int:
    """Remove the packages' own tests, which are a seventh of all; return the size in bytes."""
    for path in sorted(site.glob("*/**/tests")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
    return _size(site)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _compile(program: Program, site: Path, python: Interpreter) -> None:
    """Compile all modules: the tree is read-only, so that each command would compile them again."""
    inside = Path("/", python.inside(python.sites[0])) if python.sites else site
    how = ["-q", "-j", "2", "--invalidation-mode", "unchecked-hash", "-s", str(site), "-p", str(inside)]
    words = [str(program.source), "-I", "-S", "-m", "compileall", *how, str(site)]
    subprocess.run(words, capture_output=True, check=False, timeout=INSTALL_S, env={"PATH": "/usr/bin:/bin"})
