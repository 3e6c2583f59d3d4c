"""The folder that sandboxes see as /skills: a copy of each enabled and trusted skill.

A copy stays the same until its skill changes, so commands never see half-written files or changes made by a
chat. All calls block briefly, and must come from one thread at a time.
"""

import contextlib
import hashlib
import json
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rumi.agent.skills.folder import Snapshot, signature_of_files, snapshot
from rumi.agent.skills.messages import Skill, SkillError
from rumi.agent.skills.trust import TrustedSkills
from rumi.platform.atomic_write import atomic_write
from rumi.texts import Text, os_error

logger = logging.getLogger(__name__)

INSIDE = "/skills"
PROJECTS = ".projects"
"""The name of the folder with the copies of projects' skills. A project is an attached client's folder.

The folder cannot be listed, so a command must know the name of a subfolder to open it.
"""

MOST_PROJECTS = 1_000
MOST_RECORD_BYTES = 10_000_000


class Mounts:
    """The folder with copies of skills. A file next to it records the version of each copied skill.

    `inside` is the folder's path in a sandbox.
    """

    def __init__(self, folder: Path, trusted: TrustedSkills, inside: str = INSIDE) -> None:
        self.inside = inside
        self._folder = folder
        self._trusted = trusted
        self._record = folder.with_name(f"{folder.name}.json")
        self._mounted = self._recorded()
        self._stored = dict(self._mounted)

    def of_project(self, project: str) -> "Mounts":
        """Return the folder for one project's skills, a subfolder of the folder with copies.

        The subfolder has a random name, and listing the parent folder does not reveal the name. The name
        stays the same across restarts, because conversations mention it.
        """
        names = self._folder.with_name(f"{self._folder.name}-projects.json")
        known = _read_names(names)
        projects = self._folder / PROJECTS
        with contextlib.suppress(OSError):  # then making the copies fails too, and each reports the reason
            projects.mkdir(parents=True, exist_ok=True)
            projects.chmod(0o311)  # no read permission: folders in it can be entered by name, not listed
        if project not in known:
            known[project] = secrets.token_hex(8)
            latest = list(known.items())[-MOST_PROJECTS:]
            with contextlib.suppress(OSError):
                atomic_write(names, json.dumps(dict(latest)).encode())
        return Mounts(projects / known[project], self._trusted, f"{self.inside}/{PROJECTS}/{known[project]}")

    def sync(self, skills: Iterable[Skill]) -> None:
        """Make the folder contain exactly these skills; remove disabled, untrusted and deleted skills."""
        wanted = {skill.name: skill for skill in skills}
        try:
            for name in {entry.name for entry in self._folder.iterdir()} - {*wanted, PROJECTS}:
                self._drop(name)
        except FileNotFoundError:
            pass
        except OSError as error:
            logger.warning("%s cannot be read: %s", self._folder, error)
        for skill in wanted.values():
            if why := self._mount(skill):
                logger.info("the folder of the skill %s is not in the sandbox: %s", skill.name, why)
        self._write_record()

    def mount(self, skill: Skill) -> str:
        """Update the copy of a skill. Return the reason if this fails, and "" if it succeeds."""
        why = self._mount(skill)
        self._write_record()
        return why

    def _mount(self, skill: Skill) -> str:
        try:
            made_from = self._made_from(skill)
            if self._mounted.get(skill.name) == made_from and (self._folder / skill.name).is_dir():
                return ""
            self._swap(skill.name, self._content(skill))
            self._mounted[skill.name] = made_from
        except SkillError as error:
            why: str = error.message
        except OSError as error:
            why = Text("it cannot be copied: {reason}", reason=os_error(error))
        else:
            return ""
        # An old copy must not stay either: it may be of content that the user no longer trusts.
        with contextlib.suppress(OSError):
            self._drop(skill.name)
        return why

    def _made_from(self, skill: Skill) -> str:
        """Return a value that changes whenever the skill's files or the user's trust in the skill change."""
        pin = self._trusted.pins().get(str(skill.folder)) if skill.source.kind == "project" else None
        seen = signature_of_files(skill.folder, own_link=skill.source.kind != "project")
        words = f"{skill.folder}\0{seen}\0{pin and pin.digest}\0{skill.vouched}"
        return hashlib.sha256(words.encode("utf-8", "surrogateescape")).hexdigest()

    def _content(self, skill: Skill) -> Snapshot:
        if skill.source.kind != "project":
            return snapshot(skill.folder, own_link=True, lenient=True)
        content = snapshot(skill.folder)
        if not self._trusted.is_trusted(skill.folder, content):
            raise SkillError("the user has not trusted it")
        return content

    def _swap(self, name: str, content: Snapshot) -> None:
        """Replace a skill's folder with a new copy.

        Commands see the old or the new copy or, briefly, no copy.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        # Built in the parent folder: on the same file system, for the renames, but invisible in sandboxes.
        with tempfile.TemporaryDirectory(prefix=".skills-", dir=self._folder.parent) as building:
            made = Path(building, "new")
            made.mkdir()
            content.write(made, shared=True)
            with contextlib.suppress(FileNotFoundError):
                (self._folder / name).rename(Path(building, "old"))
            made.rename(self._folder / name)

    def _drop(self, name: str) -> None:
        self._mounted.pop(name, None)
        with tempfile.TemporaryDirectory(prefix=".skills-", dir=self._folder.parent) as building:
            with contextlib.suppress(FileNotFoundError):
                (self._folder / name).rename(Path(building, "old"))
            shutil.rmtree(Path(building, "old"), ignore_errors=True)

    def _recorded(self) -> dict[str, str]:
        return _read_names(self._record)

    def _write_record(self) -> None:
        """Record the versions of new copies. If this fails, the skills are copied again at the next start."""
        if self._mounted != self._stored:
            with contextlib.suppress(OSError):
                atomic_write(self._record, json.dumps(self._mounted).encode())
                self._stored = dict(self._mounted)


def _read_names(file: Path) -> dict[str, str]:
    """Return the mapping of names to texts in a JSON file; empty if the file cannot be read."""
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as opened:
            found = json.loads(opened.read(MOST_RECORD_BYTES))
            return {str(name): str(value) for name, value in found.items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
