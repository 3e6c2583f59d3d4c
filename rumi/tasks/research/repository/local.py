"""A reader for local repositories, used by the command line.

The reader only reads objects and references, follows no link, and never runs git in the repository's folder.
"""

import io
import os
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final

from rumi.platform.openat import FOLDER, is_ordinary, openat2, opened
from rumi.tasks.research.repository.errors import CloneError
from rumi.tasks.research.repository.refs import BRANCH, TAG, Ref, Refs, is_oid, with_head
from rumi.tasks.research.repository.remote import MOST_REFS, ObjectFormat
from rumi.texts import os_error

_BATCH_BYTES: Final = 8 * 1024 * 1024
_MOST_TEXT_BYTES: Final = 64 * 1024 * 1024
_MOST_LOOSE: Final = 1_000_000
_FAN_OUT: Final = re.compile(r"[0-9a-f]{2}")
_LOOSE: Final = re.compile(r"[0-9a-f]{38}(?:[0-9a-f]{24})?")
_PACK: Final = re.compile(r"pack-[0-9a-f]{40}(?:[0-9a-f]{24})?\.pack")
_MAX_DEPTH: Final = 20
_SYMBOLIC: Final = "ref:"
_MOST_SYMBOLIC: Final = 5  # as git: a chain of symbolic references is no longer


@dataclass(frozen=True, slots=True)
class LocalRepository:
    """A local repository in `folder`. Every method blocks."""

    folder: Path

    def refs(self) -> tuple[Refs, set[str], ObjectFormat]:
        """Return the references, the boundary commits of a shallow clone, and the object format.

        Raises:
            CloneError: The folder is not a repository, or has an unsupported format.
        """
        try:
            with opened(self._open()) as top:
                return _refs(top)
        except OSError as error:
            raise _unreadable(self.folder, error) from error

    def packs(self, most_bytes: int) -> Iterator[BinaryIO]:
        """Yield the pack files. Each is open for reading until the next one is requested.

        Raises:
            CloneError: The packs have more than `most_bytes` in total, or cannot be read.
        """
        total = 0
        try:
            with opened(self._open()) as top:
                for name in _names(top, "objects/pack"):
                    if _PACK.fullmatch(name) and (file := _file(top, f"objects/pack/{name}")) is not None:
                        with open(file, "rb") as pack:
                            total += os.fstat(file).st_size
                            if total > most_bytes:
                                raise _too_large(most_bytes)
                            yield pack
        except OSError as error:
            raise _unreadable(self.folder, error) from error

    def loose(self, most_bytes: int) -> Iterator[bytes]:
        """Yield the loose objects as tar files of a few megabytes each.

        Raises:
            CloneError: There are too many objects, they have more than `most_bytes` in total, or they cannot
                be read.
        """
        total = count = 0
        batch = _Batch()
        try:
            with opened(self._open()) as top:
                for start in filter(_FAN_OUT.fullmatch, _names(top, "objects")):
                    for rest in filter(_LOOSE.fullmatch, _names(top, f"objects/{start}")):
                        name = f"objects/{start}/{rest}"
                        if (file := _file(top, name)) is None:
                            continue
                        with open(file, "rb") as source:
                            size = os.fstat(file).st_size
                            total, count = total + size, count + 1
                            if total > most_bytes or count > _MOST_LOOSE:
                                raise _too_large(most_bytes)
                            batch.add(name, source.read(size))
                        if batch.size > _BATCH_BYTES:
                            yield batch.end()
                            batch = _Batch()
            yield batch.end()
        except OSError as error:
            raise _unreadable(self.folder, error) from error

    def _open(self) -> int:
        """Open the folder with the objects: `.git` of a working copy, or the bare repository itself."""
        folder = os.open(self.folder, FOLDER & ~os.O_NOFOLLOW)
        try:
            inner = openat2(folder, b".git", FOLDER)
        except FileNotFoundError:
            return folder
        except NotADirectoryError:
            os.close(folder)
            raise CloneError(
                "{folder} is a linked working copy.",
                "Give the folder of the repository itself.",
                folder=self.folder,
            ) from None
        except OSError:
            os.close(folder)
            raise
        os.close(folder)
        return inner


class _Batch:
    def __init__(self) -> None:
        self._data = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._data, mode="w")  # noqa: SIM115
        self.size = 0

    def add(self, name: str, content: bytes) -> None:
        about = tarfile.TarInfo(name)
        about.size, about.mode = len(content), 0o400
        self._tar.addfile(about, io.BytesIO(content))
        self.size += len(content) + 1024

    def end(self) -> bytes:
        self._tar.close()
        return self._data.getvalue()


def _refs(top: int) -> tuple[Refs, set[str], ObjectFormat]:
    head = _text(top, "HEAD").strip()
    if not head or not _names(top, "objects"):
        raise CloneError("The folder is not a git repository.", "Give the folder that has .git in it.")
    found = dict[str, Ref]()
    symbolic = dict[str, str]()
    last = ""
    for line in _text(top, "packed-refs").splitlines():
        oid, _, name = line.partition(" ")
        if line.startswith("^") and last in found and is_oid(line[1:]):
            found[last] = Ref(last, found[last].oid, line[1:])
        elif is_oid(oid) and name.startswith((BRANCH, TAG)):
            found[name] = Ref(name, oid, oid)
            last = name
    for name in (*_below(top, "refs/heads"), *_below(top, "refs/tags")):
        oid = _text(top, name).strip()
        if is_oid(oid):
            found[name] = Ref(name, oid, oid)
        elif oid.startswith(_SYMBOLIC):
            symbolic[name] = _target(oid)
    for name, target in symbolic.items():
        for _ in range(_MOST_SYMBOLIC):
            if target in found:
                found[name] = replace(found[target], name=name)
                break
            target = symbolic.get(target, "")
    name = _target(head) if head.startswith(_SYMBOLIC) else ""
    refs = with_head(name, head if is_oid(head) else "", found)
    if not refs.head_oid:
        if _names(top, "reftable"):
            raise CloneError("The repository keeps its references in a form that Rumi does not read.")
        raise CloneError("The repository is empty.")
    shallow = set(filter(is_oid, _text(top, "shallow").split()))
    return refs, shallow, "sha256" if len(refs.head_oid) == 64 else "sha1"


def _target(text: str) -> str:
    """Return the name of the reference that a symbolic reference names."""
    return text.removeprefix(_SYMBOLIC).strip()


def _below(top: int, folder: str, depth: int = 0) -> Iterator[str]:
    count = 0
    for name in _names(top, folder):
        path = f"{folder}/{name}"
        try:
            with opened(openat2(top, os.fsencode(path), os.O_PATH | os.O_CLOEXEC)) as entry:
                kind = os.fstat(entry).st_mode
        except OSError:  # deleted meanwhile, or a link
            continue
        count += 1
        if count > MOST_REFS:
            raise CloneError(
                "The repository has more than {most_refs} branches and tags.", most_refs=MOST_REFS
            )
        if stat.S_ISDIR(kind) and depth < _MAX_DEPTH:
            yield from _below(top, path, depth + 1)
        elif stat.S_ISREG(kind):
            yield path


def _names(top: int, folder: str) -> list[str]:
    try:
        with opened(openat2(top, os.fsencode(folder), FOLDER)) as inner:
            return sorted(
                name for name in os.listdir(inner) if not any("\ud800" <= c <= "\udfff" for c in name)
            )
    except (FileNotFoundError, NotADirectoryError):
        return []


def _file(top: int, name: str) -> int | None:
    """Open a regular file; return None for anything else."""
    try:
        file = openat2(top, os.fsencode(name))
    except FileNotFoundError:
        return None
    if is_ordinary(file):
        return file
    os.close(file)
    return None


def _text(top: int, name: str) -> str:
    if (file := _file(top, name)) is None:
        return ""
    with open(file, "rb") as source:
        return source.read(_MOST_TEXT_BYTES).decode("utf-8", "replace")


def _too_large(most_bytes: int) -> CloneError:
    from rumi.platform.texts.operating import short_size

    return CloneError("The repository is larger than {most_bytes}.", most_bytes=short_size(most_bytes))


def _unreadable(folder: Path, error: OSError) -> CloneError:
    return CloneError(
        "The repository {folder} cannot be read: {reason}.", folder=folder, reason=os_error(error)
    )
