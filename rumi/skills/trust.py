"""Which skills of projects their user has looked at, and with what content: `skills-trusted.json`."""

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rumi.skills.folder import Snapshot
from rumi.skills.format import FILE
from rumi.skills.types import SkillError

MOST_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class Pin:
    """The content that was trusted: SHA-256 over the whole folder, and over its `SKILL.md` alone."""

    digest: str
    words: str


class TrustedSkills:
    """The file with the pins, by the skills' folders. Read when asked; what cannot be read trusts nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pins(self) -> dict[str, Pin]:
        """All of them."""
        try:
            with self._path.open("rb") as file:
                found = json.loads(file.read(MOST_BYTES))["skills"]
            return {folder: Pin(str(pin["digest"]), str(pin["words"])) for folder, pin in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def signature(self) -> object:
        """What changes whenever the file does."""
        try:
            status = self._path.stat()
        except OSError:
            return None
        return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)

    def is_trusted(self, folder: Path, content: Snapshot) -> bool:
        """Whether this very content of the folder was trusted."""
        pin = self.pins().get(str(folder))
        return pin is not None and pin.digest == content.digest

    def trust(self, folder: Path, content: Snapshot) -> None:
        """Pin the content.

        Raises:
            SkillError: the file cannot be written.
        """
        words = next((raw for path, _, raw in content.files if path == FILE), b"")
        try:
            with locked(self._path.parent):
                pins = {**self.pins(), str(folder): Pin(content.digest, digest_of(words))}
                skills = {name: {"digest": pin.digest, "words": pin.words} for name, pin in pins.items()}
                text = json.dumps({"skills": dict(sorted(skills.items()))}, indent=1, ensure_ascii=True)
                replace_file(self._path, f"{text}\n".encode())
        except OSError as error:
            raise SkillError(f"{self._path} cannot be written: {error.strerror}.") from error


def digest_of(raw: bytes) -> str:
    """SHA-256 of a `SKILL.md`: hexadecimal digits."""
    return hashlib.sha256(raw).hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else who asks for it changes files of the folder meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Put the content in the file's place, whole or not at all, with the mode that the file has had.

    A path that is a link goes on being one. Raises OSError.
    """
    place = Path(os.path.realpath(path))
    draft = place.with_name(f".{place.name}-{secrets.token_hex(4)}")
    try:
        mode = place.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o600
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        os.replace(draft, place)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
