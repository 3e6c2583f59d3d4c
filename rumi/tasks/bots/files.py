"""The files of bots: a folder per bot in the home's `bots/`, with `config.md`, `skills/` and `workspace`."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rumi.agent.skills import front_matter
from rumi.agent.skills.messages import SkillError
from rumi.errors import RumiError
from rumi.platform.atomic_write import atomic_write, new_folder
from rumi.platform.chat_ids import bot_key
from rumi.platform.home import workspaces_in
from rumi.platform.openat import read_foreign
from rumi.tasks.bots.config import CONFIG, MOST_CHARS, BotConfig, BotError, check_name, read_config, written
from rumi.tasks.bots.foreign import MOST_SKILL_BYTES, MOST_SKILLS, SKILL, foreign_folder
from rumi.tasks.bots.project.link import Project
from rumi.texts import Text, os_error

IMPORTED: Final = ".imported"
"""Name of the marker file in the folder of a bot that was imported from another program."""

MOST_SKILL_CHARS: Final = 20_000


@dataclass(frozen=True, slots=True)
class BotSkill:
    """A skill in a bot's prompt.

    The skill comes from the bot's folder `skills/`. If the skill is for all bots, it comes from a file
    `NAME.md` in the home.
    """

    name: str
    description: str
    text: str
    path: Path


@dataclass(frozen=True, slots=True)
class BotFiles:
    """The bots' folders in the home `root`. Methods block briefly."""

    root: Path
    files: Path | None = None
    """The folder that contains all workspaces, if it is outside the home."""

    @property
    def folder(self) -> Path:
        """Return the folder that contains one folder per bot."""
        return self.root / "bots"

    def names(self) -> list[str]:
        """Return the sorted names of all bots. A folder with a `config.md` is a bot."""
        found = self.folder.iterdir() if self.folder.is_dir() else ()
        return sorted(folder.name for folder in found if self.has(folder.name))

    def has(self, name: str) -> bool:
        """Return True if the bot exists."""
        with contextlib.suppress(BotError, OSError):
            return (self.folder / check_name(name) / CONFIG).is_file()
        return False

    def read(self, name: str) -> BotConfig:
        """Return the configuration of a bot.

        Raises:
            BotError: The bot is unknown, or its `config.md` is invalid.
        """
        if not self.has(name):
            names = ", ".join(self.names())
            advice = (
                Text("There are: {names}.", names=names)
                if names
                else Text("Make one with: rumi bot create NAME")
            )
            raise BotError("Unknown bot {name}.", advice, name=f"{name[:80]!r}")
        folder = self.folder / name
        try:
            text = read_foreign(folder / CONFIG, 4 * MOST_CHARS, own_link=True).decode()
        except (OSError, UnicodeError) as error:
            raise BotError(
                "{folder} cannot be read: {error}.", "Save it as UTF-8.", folder=folder / CONFIG, error=error
            ) from error
        return read_config(name, text, imported=(folder / IMPORTED).exists())

    def create(self, name: str, description: str = "") -> Path:
        """Create a bot, completely or not at all; return the bot's folder.

        Raises:
            BotError: The bot exists already, or the folder cannot be written.
        """
        with self._made(name) as draft:
            (draft / CONFIG).write_text(written(name, description), encoding="utf-8")
            (draft / "skills").mkdir(mode=0o700)
        return self.folder / name

    def take_over(self, name: str, config: bytes, skills: Sequence[tuple[str, bytes]]) -> Path:
        """Store the `config.md` and the skills of an imported bot, completely or not at all.

        Raises:
            BotError: A bot of this name exists, or the folder cannot be written.
        """
        with self._made(name) as draft:
            (draft / CONFIG).write_bytes(config)
            (draft / IMPORTED).touch()
            (draft / "skills").mkdir(mode=0o700)
            for path, content in skills:
                copy = draft / "skills" / path
                copy.parent.mkdir(mode=0o700, exist_ok=True)
                copy.write_bytes(content)
        return self.folder / name

    @contextlib.contextmanager
    def _made(self, name: str) -> Iterator[Path]:
        """Yield a draft of the bot's folder, which becomes the folder when the block ends."""
        folder = self.folder / check_name(name)
        if folder.exists() or folder.is_symlink():
            raise BotError(
                "There is a bot {name} already.", "Its folder is {folder}.", name=name, folder=folder
            )
        try:
            with new_folder(folder) as draft:
                yield draft
        except OSError as error:
            raise BotError(
                "{folder} cannot be made: {reason}.",
                "Check the home's owner.",
                folder=folder,
                reason=os_error(error),
            ) from error
        self.link_workspace(name)

    def workspace(self, name: str) -> Path:
        """Return the folder that is mounted as /workspace in the bot's sandbox."""
        return (self.files or workspaces_in(self.root)) / bot_key(name)

    def project(self, name: str) -> Project:
        """Return the object that manages a bot's project; the project need not exist yet."""
        return Project(name, self.folder / check_name(name) / "project", self.workspace(name))

    def link_workspace(self, name: str) -> None:
        """Create the link `workspace` in the bot's folder, which leads to the bot's workspace.

        Errors are ignored, for example if the link already exists.
        """
        to = self.workspace(name) if self.files else Path("..", "..", "workspace", bot_key(name))
        with contextlib.suppress(OSError):
            os.symlink(to, self.folder / name / "workspace")

    def delete(self, name: str) -> None:
        """Delete a bot's folder.

        Raises:
            BotError: Some files could not be deleted.
        """
        folder = self.folder / check_name(name)
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise BotError(
                "{folder} is left: {reason}.",
                "Delete it yourself.",
                folder=folder,
                reason=os_error(error),
            ) from error

    def skills(self, name: str) -> tuple[list[BotSkill], list[str]]:
        """Return a bot's skills and the skills for all bots, sorted by name, and the problems with them.

        A skill in the bot's folder replaces a skill for all bots that has the same name.
        """
        shared = _files(self.root / "skills", nested=False)
        found, problems = _read_all([*shared, *_files(self.folder / name / "skills", nested=True)])
        return [found[skill_name] for skill_name in sorted(found)][:MOST_SKILLS], problems

    def write_skill(self, name: str, skill: str, description: str, text: str) -> Path:
        """Write a skill into the bot's folder, completely or not at all; return the file's path.

        Raises:
            BotError: The name is invalid, the text is too long, or the file cannot be written.
        """
        check_name(skill)
        if len(text) > MOST_SKILL_CHARS:
            raise BotError(
                "A skill has at most {most_skill_chars} characters.",
                "Write a shorter one.",
                most_skill_chars=MOST_SKILL_CHARS,
            )
        about = " ".join(description.split()).replace("\\", "\\\\").replace('"', '\\"')
        folder = self.folder / name / "skills"
        path, draft = folder / f"{skill}.md", folder / f".{skill}-{secrets.token_hex(4)}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            try:
                with open(draft, "x", encoding="utf-8") as file:
                    file.write(f'---\nname: {skill}\ndescription: "{about}"\n---\n\n{text.strip()}\n')
                    # On the disk before the rename: a power failure must not leave an empty skill.
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(draft, path)
            finally:
                draft.unlink(missing_ok=True)
        except (OSError, UnicodeError) as error:
            raise BotError(
                "{path} cannot be written: {error}.", "Check the disk.", path=path, error=error
            ) from error
        return path

    def add_global(self, name: str, content: bytes) -> bool:
        """Write a skill for all bots as `NAME.md`; return False if a skill of that name already exists."""
        path = self.root / "skills" / name
        if path.exists() or path.is_symlink():
            return False
        path.parent.mkdir(mode=0o700, exist_ok=True)
        atomic_write(path, content)
        return True

    def skills_in(self, folder: Path) -> tuple[list[BotSkill], list[str]]:
        """Return the skills in a folder, or in a single file, and the problems with unreadable skills.

        Raises:
            BotError: The path does not exist, or contains no skills.
        """
        try:
            contents, problems = _foreign_skills(folder)
        except OSError as error:
            raise BotError(
                "{folder} cannot be read: {reason}.",
                "Name a folder or a file of yours.",
                folder=folder,
                reason=os_error(error),
            ) from error
        found: dict[str, BotSkill] = {}
        for path, content in contents:
            try:
                skill = _skill_of(path, content.decode())
                found[skill.name] = skill
            except (UnicodeError, RumiError) as error:
                problems.append(f"{path}: {error}")
        if not found and not problems:
            raise BotError(
                "{folder} has no skills.", "Name a folder with files such as tidy.md.", folder=folder
            )
        return sorted(found.values(), key=lambda bot_skill: bot_skill.name), problems

    def remove_skill(self, name: str, skill: str) -> None:
        """Delete a skill in the bot's folder.

        Raises:
            BotError: The bot's folder has no skill of that name, or the skill cannot be deleted.
        """
        own = self.folder / name / "skills"
        path = next((bot_skill.path for bot_skill in self.skills(name)[0] if bot_skill.name == skill), None)
        if path is None or own not in path.parents:
            raise BotError(
                "{name} has no skill {skill} of its own.",
                "rumi bot skills {name} list",
                name=name,
                skill=f"{skill[:80]!r}",
            )
        try:
            if path.name == SKILL:
                shutil.rmtree(path.parent)
            else:
                path.unlink()
        except OSError as error:
            raise BotError(
                "{path} is left: {reason}.", "Delete it yourself.", path=path, reason=os_error(error)
            ) from error


def _files(folder: Path, *, nested: bool) -> list[Path]:
    """Return a folder's skill files `NAME.md` and, if `nested`, also its files `NAME/SKILL.md`."""
    with contextlib.suppress(OSError):
        flat = [file for file in folder.glob("*.md") if not file.name.startswith(".") and file.is_file()]
        return sorted([*flat, *(folder.glob(f"*/{SKILL}") if nested else ())])
    return []


def _read_all(paths: Sequence[Path]) -> tuple[dict[str, BotSkill], list[str]]:
    """Read skill files; return the skills by name, and the problems with unreadable files.

    If a name repeats, the last skill wins.
    """
    found: dict[str, BotSkill] = {}
    problems: list[str] = []
    for path in paths:
        try:
            skill = _read_skill(path)
        except (OSError, UnicodeError, RumiError) as error:
            problems.append(f"{path}: {error}")
        else:
            found[skill.name] = skill
    return found, problems


def _foreign_skills(folder: Path) -> tuple[list[tuple[Path, bytes]], list[str]]:
    """Return each skill's path and content, and the problems with unreadable skills.

    `folder` may also be a single skill file.

    Raises:
        OSError: The folder or the file cannot be read.
    """
    if not folder.is_dir():
        return [(folder, read_foreign(folder, MOST_SKILL_BYTES, own_link=True))], []
    with foreign_folder(folder) as top:
        found, problems = top.skills(".")
        if not found:
            with contextlib.suppress(FileNotFoundError):
                found = [(SKILL, top.read(SKILL, MOST_SKILL_BYTES))]
    return [(folder / path, content) for path, content in found], problems


def _read_skill(path: Path) -> BotSkill:
    return _skill_of(path, read_foreign(path, MOST_SKILL_BYTES, own_link=True).decode())


def _skill_of(path: Path, text: str) -> BotSkill:
    name = path.parent.name if path.name == SKILL else path.stem
    keys: dict[str, object] = {}
    try:
        found = front_matter.parse(text)
        keys, body = dict(found.values), found.body
    except SkillError:
        if text.lstrip("\ufeff").startswith("---"):
            raise
        body = text
    title, about = keys.get("name"), keys.get("description")
    return BotSkill(
        title if isinstance(title, str) and title.strip() else name,
        about if isinstance(about, str) else "",
        body.strip()[:MOST_SKILL_CHARS],
        path,
    )
