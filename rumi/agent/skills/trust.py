"""The project skills that the user trusts: `skills-trusted.json` stores digests of their trusted content."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from rumi.agent.skills.folder import Snapshot, signature
from rumi.agent.skills.format import FILE
from rumi.agent.skills.messages import SkillError
from rumi.platform.atomic_write import atomic_write, folder_lock
from rumi.texts import Text, os_error

MOST_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class SkillPin:
    """The trusted content of a skill: SHA-256 of the whole folder, and of its `SKILL.md` alone."""

    digest: str
    words: str


class TrustedSkills:
    """The file that stores a `SkillPin` for each trusted skill folder. Each method reads the file again.

    If the file is unreadable, no skill is trusted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def pins(self) -> dict[str, SkillPin]:
        """Return the stored pin of each trusted skill, by folder."""
        try:
            with self._path.open("rb") as file:
                found = json.loads(file.read(MOST_BYTES))["skills"]
            return {folder: SkillPin(str(pin["digest"]), str(pin["words"])) for folder, pin in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def signature(self) -> object:
        """Return a value that changes whenever the file changes."""
        return signature(self._path)

    def is_trusted(self, folder: Path, content: Snapshot) -> bool:
        """Return True if the user trusts exactly this content of the folder."""
        pin = self.pins().get(str(folder))
        return pin is not None and pin.digest == content.digest

    def trust(self, folder: Path, content: Snapshot) -> None:
        """Store the content of a skill's folder as trusted.

        Raises:
            SkillError: The file cannot be written.
        """
        words = next((raw for path, _, raw in content.files if path == FILE), b"")
        try:
            with folder_lock(self._path.parent):
                pins = {**self.pins(), str(folder): SkillPin(content.digest, digest_of(words))}
                skills = {name: {"digest": pin.digest, "words": pin.words} for name, pin in pins.items()}
                text = json.dumps({"skills": dict(sorted(skills.items()))}, indent=1, ensure_ascii=True)
                atomic_write(self._path, f"{text}\n".encode())
        except OSError as error:
            raise SkillError(
                Text("{path} cannot be written: {strerror}."), path=self._path, strerror=os_error(error)
            ) from error


def digest_of(raw: bytes) -> str:
    """Return the SHA-256 of a `SKILL.md` in hexadecimal digits."""
    return hashlib.sha256(raw).hexdigest()
