"""Building of the sandbox's root file system from this host's own programs and their libraries.

The root file system is a folder tree. The embedded engine (bubblewrap) uses this tree as its root. A tar
archive of the tree becomes the Docker image if no image can be built from a registry. The tree has no
compiler, its pip has no index, and its only network program is curl, for servers in the sandbox.
"""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from runner.companions import companions
from runner.packages import entries as package_entries
from runner.packages import packages_in
from runner.programs import (
    CORE_ONLY,
    PYTHONS,
    Program,
    RootfsError,
    Selection,
    find_program,
    libraries,
    loaded_for,
)
from runner.python import RootfsEntry, interpreter, pip_of

__all__ = [
    "RootfsError",
    "RootfsReport",
    "Selection",
    "build_rootfs",
    "ensure_rootfs",
    "missing_programs",
    "names",
    "tree_id",
    "write_tar",
]

FORMAT = 6
"""Format version of trees. Increase it when the same programs give a different tree: older trees are then
rebuilt."""

EPOCH = 0
MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
MOUNT_POINTS = {"dev": 0o755, "proc": 0o755, "run": 0o755, "tmp": 0o1777, "workspace": 0o755, "skills": 0o755}
INIT = Path("usr/lib/rumi/init")
"""Path of an empty file, onto which the embedded engine mounts the first process's program."""
LOCALE = Path("/usr/lib/locale/C.utf8")
"""glibc's files of the locale C.UTF-8; musl has it built in."""
NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files\n"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RootfsReport:
    """Description of a built root file system. `bytes` is its size, with hard links counted once."""

    programs: tuple[str, ...]
    missing: tuple[str, ...]
    """Programs of the selection that this host, and so the tree, lacks."""
    bytes: int
    rootfs_id: str
    """A digest of all names, modes and bytes: trees with the same id are equal."""
    packages: tuple[str, ...] = ()
    """The Python packages of the selection in it, as NAME==VERSION."""


def build_rootfs(
    target: Path,
    *,
    uid: int = 1000,
    gid: int = 1000,
    selection: Selection = CORE_ONLY,
    packages: Path | None = None,
    progress: Progress | None = None,
) -> RootfsReport:
    """Build the tree at `target` and replace the old one, if any; a failed build preserves the old tree.

    Blocks for half a second, or with `WORK` tools for two or three. `uid` and `gid` are those of the user
    that runs commands, named `runner` in the tree. `packages` is the folder of the Python packages that
    `runner.packages.install` has installed. Containers that are using the old tree lose its files.

    Raises:
        RootfsError: The host lacks a shell, or a library that one of its programs needs.
        OSError: The target's folder cannot be written.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        tree = building / "tree"
        report, sources, found = _make_tree(tree, uid, gid, selection, packages, progress or (lambda _: None))
        _manifest(target).unlink(missing_ok=True)  # first: a crash must not leave a manifest of another tree
        if target.exists():  # a rename cannot replace a folder that is not empty
            target.rename(building / "old")
        tree.rename(target)
        manifest = {
            "format": FORMAT,
            "user": [uid, gid],
            "selection": selection.label,
            "packages": _packages_id(selection, packages),
            "found": found,
            "report": asdict(report),
            "sources": sources,
        }
        written = building / "manifest"
        written.write_text(json.dumps(manifest), "utf-8")
        written.rename(_manifest(target))
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return report


def ensure_rootfs(
    target: Path,
    *,
    uid: int = 1000,
    gid: int = 1000,
    selection: Selection = CORE_ONLY,
    packages: Path | None = None,
    progress: Progress | None = None,
) -> RootfsReport:
    """Reuse the tree at `target` if `build_rootfs` would build the same one, otherwise rebuild it.

    Blocks for a few milliseconds if the tree can be reused. A tree is stale if its user, selection, packages
    or format differ, or if the size, time or existence of one of its sources on this host has changed. No
    packages are installed here.
    """
    reusable = _reusable(target, uid, gid, selection, packages)
    if reusable is not None:
        return reusable
    return build_rootfs(target, uid=uid, gid=gid, selection=selection, packages=packages, progress=progress)


def missing_programs(selection: Selection) -> tuple[str, ...]:
    """Return the programs of the selection that a new tree would lack. Blocking: it runs Python."""
    found = {*_usable(selection)}
    if "pip" in selection.allowed and (program := find_program("python3")) is not None:
        python = interpreter(program)
        found |= {"pip"} if python is not None and pip_of(python) is not None else set()
    return tuple(name for name in selection.allowed if name not in found)


def names(uid: int, gid: int) -> dict[str, str]:
    """Return the files of /etc, by name, that define names.

    They define the users `root` and `runner`, the user of commands, and the hosts: the sandbox itself.
    """
    return {
        "hosts": "127.0.0.1 localhost rumi\n::1 localhost rumi\n",
        "passwd": f"root:x:0:0::/root:/bin/sh\nrunner:x:{uid}:{gid}::/workspace:/bin/sh\n",
        "group": f"root:x:0:\nrunner:x:{gid}:\n",
    }


def write_tar(tree: Path, fileobj: IO[bytes]) -> None:
    """Write the tree as an uncompressed tar archive; the same tree always gives the same bytes. Blocking.

    All members are owned by root, sorted, and have the same time.
    """
    linked: dict[tuple[int, int], str] = {}
    with tarfile.open(fileobj=fileobj, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in _walk(tree):
            status, name = path.lstat(), path.relative_to(tree).as_posix()
            member = tarfile.TarInfo(name)
            member.mode, member.mtime = stat.S_IMODE(status.st_mode), EPOCH
            member.uname = member.gname = "root"
            if stat.S_ISLNK(status.st_mode):
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
            elif stat.S_ISDIR(status.st_mode):
                member.type = tarfile.DIRTYPE
            elif (first := linked.setdefault((status.st_dev, status.st_ino), name)) != name:
                member.type, member.linkname = tarfile.LNKTYPE, first
            else:
                member.size = status.st_size
                with path.open("rb") as content:
                    archive.addfile(member, content)
                continue
            archive.addfile(member)


def tree_id(tree: Path) -> str:
    """Return a digest of all names, modes, links and bytes of the tree. Blocking."""
    digest = hashlib.sha256()
    for path in _walk(tree):
        status = path.lstat()
        digest.update(f"{path.relative_to(tree).as_posix()}\0{status.st_mode:o}\0".encode())
        if stat.S_ISLNK(status.st_mode):
            digest.update(os.readlink(path).encode())
        elif stat.S_ISREG(status.st_mode):
            with path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()[:16]


def _make_tree(
    tree: Path, uid: int, gid: int, selection: Selection, packages: Path | None, progress: Progress
) -> tuple[RootfsReport, dict[str, list[int]], list[str]]:
    """Build the tree; return its report, the stamps of its sources, and the programs found on this host."""
    found = _usable(selection)
    for name in ("sh", "bash"):
        if name not in found:
            raise RootfsError(f"This host has no {name}, without which nothing runs in a sandbox.")
    entries = list(companions(found))
    inside_paths = {entry.inside.as_posix() for entry in entries}
    python = interpreter(found["python3"]) if packages is not None and selection.package_names else None
    installed = list(package_entries(packages, python, found)) if packages and python else []
    entries += installed
    usable = {
        name: program_path for name, program_path in found.items() if not _is_bare_python(name, inside_paths)
    }
    _make_skeleton(tree, uid, gid)
    copies, loaded = _Copies(tree), set[Path]()
    for name, program in sorted(usable.items()):
        progress(name)
        copies.add(program.source, Path("usr/bin", name))
        loaded.update(libraries(program))
    for entry in entries:
        loaded.update(_add_entry(entry, copies, usable["bash"].interpreter))
    if packages is not None:  # a library of a package lies beside it
        real = packages.resolve()
        loaded = {path for path in loaded if not Path(os.path.realpath(path)).is_relative_to(real)}
    loaded.update(_loaded_by_name(frozenset(loaded)))
    data = sorted(path for path in LOCALE.rglob("*") if path.is_file())
    for path in [*sorted(loaded), *data]:
        copies.add(path, _merged(path))
    for libc in [path for path in loaded if path.name in ("libc.so.6", "libc.so")]:
        # The tree has no ld.so.cache, so libraries whose folder only the cache knows are copied next to libc.
        for library in sorted(loaded):
            copies.add(library, _merged(libc.with_name(library.name)))
    size = _settle(tree)
    programs = {*usable, *(["pip"] if "usr/bin/pip" in inside_paths else [])}
    missing = tuple(name for name in selection.allowed if name not in programs)
    pins = packages_in(packages).installed if installed else ()
    report = RootfsReport(tuple(sorted(programs)), missing, size, tree_id(tree), pins)
    stamped = [program.source for program in found.values()]
    # Stamp only the folders of the thousands of modules: an upgrade changes them, and the interpreter too.
    stamped += {entry.source.parent for entry in entries if entry.source is not None and not entry.linked}
    return report, _stamps([*stamped, *loaded, *data]), sorted(found)


def _is_bare_python(name: str, inside_paths: Collection[str]) -> bool:
    """Return True for a Python whose standard library was not found, and which therefore cannot start."""
    return name in PYTHONS and not any(path.endswith("/os.py") for path in inside_paths)


def _add_entry(entry: RootfsEntry, copies: "_Copies", loader: str) -> Iterable[Path]:
    """Add a file to the tree and return the libraries it loads; skip an ELF file that lacks a library."""
    inside = _merged(entry.inside) if entry.inside.is_absolute() else entry.inside
    if entry.content is not None or entry.source is None:
        copies.write(entry.content or b"", inside, executable=entry.executable)
        return ()
    needed: Iterable[Path] = ()
    if entry.elf:
        try:
            needed = loaded_for(entry.source, loader)
        except RootfsError:
            return ()
    copies.add(entry.source, inside, link=entry.linked)
    return needed


def _usable(selection: Selection) -> dict[str, Program]:
    """Return the selected programs that this host has, without scripts whose interpreter is missing."""
    found = {name: program for name in selection.allowed if (program := find_program(name)) is not None}
    return {name: p for name, p in found.items() if p.kind == "elf" or Path(p.interpreter).name in found}


def _make_skeleton(tree: Path, uid: int, gid: int) -> None:
    tree.mkdir()
    for name in MERGED:
        # As on a merged host: /bin/sh and /usr/bin/sh are one file.
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")
    for name in MOUNT_POINTS:
        (tree / name).mkdir()
    init = tree / INIT
    init.parent.mkdir()
    init.touch()
    etc = tree / "etc"
    etc.mkdir()
    for name, text in names(uid, gid).items():
        (etc / name).write_text(text, "utf-8")
    (etc / "nsswitch.conf").write_text(NSSWITCH, "utf-8")
    (etc / "os-release").write_text('NAME="Rumi runner"\nID=rumi-runner\n', "utf-8")


class _Copies:
    """Copies files into the tree; a file with several names (busybox) is copied once and hard-linked."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._first: dict[tuple[int, int], Path] = {}

    def add(self, source: Path, destination: Path, *, link: bool = False) -> None:
        """Copy `source`, with links resolved, unless the destination exists. With `link`, try to link it."""
        real, destination = Path(os.path.realpath(source)), self._tree / destination
        if destination.exists():
            return
        destination.parent.mkdir(parents=True, exist_ok=True)
        status = real.stat()
        if (first := self._first.setdefault((status.st_dev, status.st_ino), destination)) != destination:
            os.link(first, destination)
            return
        if link:
            with contextlib.suppress(OSError):  # another file system
                os.link(real, destination)
                return
        shutil.copyfile(real, destination)
        destination.chmod(0o755 if status.st_mode & 0o111 else 0o644)

    def write(self, content: bytes, destination: Path, *, executable: bool) -> None:
        """Create a file with this content."""
        destination = self._tree / destination
        destination.parent.mkdir(parents=True, exist_ok=True)
        destination.write_bytes(content)
        destination.chmod(0o755 if executable else 0o644)


def _merged(path: Path) -> Path:
    """Map an absolute path of the host to a merged tree, in which for example /lib is a link to /usr/lib."""
    parts = path.parts[1:]
    return Path("usr", *parts) if parts[0] in MERGED else Path(*parts)


def _loaded_by_name(loaded: Iterable[Path]) -> Iterator[Path]:
    """Yield the libraries that glibc before 2.34 loads, without linking them, to look up a user's name."""
    for library in loaded:
        if library.name == "libc.so.6" and (files := library.with_name("libnss_files.so.2")).exists():
            yield files


def _settle(tree: Path) -> int:
    """Set the modes and times of all files in the tree; return their total size in bytes."""
    size, seen = 0, set()
    for path in reversed([tree, *_walk(tree)]):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode):
            path.chmod(MOUNT_POINTS.get(path.relative_to(tree).as_posix(), 0o755))
        elif stat.S_ISREG(status.st_mode):
            path.chmod(0o755 if status.st_mode & 0o100 else 0o644)
            size += 0 if status.st_ino in seen else status.st_size
            seen.add(status.st_ino)
        os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
    return size


def _walk(tree: Path) -> Iterator[Path]:
    """Yield all paths below the tree, sorted, each folder before its content."""
    for path in sorted(tree.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)


def _manifest(target: Path) -> Path:
    return target.with_name(f".{target.name}.json")


def _stamps(sources: Iterable[Path]) -> dict[str, list[int]]:
    stamps = {}
    for source in sources:
        status = source.stat()
        stamps[str(source)] = [status.st_size, status.st_mtime_ns]
    return dict(sorted(stamps.items()))


def _packages_id(selection: Selection, packages: Path | None) -> str:
    return packages_in(packages).digest if selection.package_names else ""


def _reusable(
    target: Path, uid: int, gid: int, selection: Selection, packages: Path | None
) -> RootfsReport | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        manifest = json.loads(_manifest(target).read_text("utf-8"))
        saved = manifest["report"]
        programs, missing = tuple(saved["programs"]), tuple(saved["missing"])
        size, pins = int(saved["bytes"]), tuple(saved["packages"])
        report = RootfsReport(programs, missing, size, str(saved["rootfs_id"]), pins)
        present = _usable(selection)
        if (
            manifest["format"] == FORMAT
            and manifest["user"] == [uid, gid]
            and manifest["selection"] == selection.label
            and manifest["packages"] == _packages_id(selection, packages)
            and sorted(present) == manifest["found"]
            and all(str(program.source) in manifest["sources"] for program in present.values())
            and _stamps(map(Path, manifest["sources"])) == manifest["sources"]
            and (target / "usr/bin/sh").exists()
        ):
            return report
    return None
