"""The project skills that the user trusts: `skills-trusted.json` stores digests of their trusted content."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rumi.agent.pin_file import PinFile
from rumi.agent.skills.folder import Snapshot, signature
from rumi.agent.skills.format import FILE
from rumi.agent.skills.messages import SkillError


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
        self._file = PinFile(path, "skills", _pin, SkillError)

    def pins(self) -> dict[str, SkillPin]:
        """Return the stored pin of each trusted skill, by folder."""
        try:
            return self._file.pins()
        except SkillError:
            return {}

    def signature(self) -> object:
        """Return a value that changes whenever the file changes."""
        return signature(self._file.path)

    def is_trusted(self, folder: Path, content: Snapshot) -> bool:
        """Return True if the user trusts exactly this content of the folder."""
        pin = self.pins().get(str(folder))
        return pin is not None and pin.digest == content.digest

    def trust(self, folder: Path, content: Snapshot) -> None:
        """Store the content of a skill's folder as trusted.

        Raises:
            SkillError: The file cannot be read or written.
        """
        words = next((raw for path, _, raw in content.files if path == FILE), b"")
        self._file.set(str(folder), SkillPin(content.digest, digest_of(words)))


def _pin(found: dict[str, Any]) -> SkillPin:
    return SkillPin(str(found["digest"]), str(found["words"]))


def digest_of(raw: bytes) -> str:
    """Return the SHA-256 of a `SKILL.md` in hexadecimal digits."""
    return hashlib.sha256(raw).hexdigest()
