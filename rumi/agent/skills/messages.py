"""The data types of skills, and the requests and replies of the skills actor."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError, UsageError

SourceKind: TypeAlias = Literal["bundled", "home", "dirs", "project"]
"""The origin of a skill. The installation's owner chose the first three; a project is untrusted."""

WhyOff: TypeAlias = Literal["config", "environment", "itself"]
"""The setting that disables a skill: `[skills] disabled`, its environment variable, or the skill itself."""


OwnResult: TypeAlias = Literal["", "all", "parts"]
"""What of its code's result a skill declares as its own."""


class SkillError(RumiError):
    """A skill cannot be loaded, found or run."""


class UnknownSkill(SkillError, UsageError):
    """No skill has the requested name. The advice names similar ones."""

    advises_models = True


class SkillFailed(SkillError):
    """A skill's code failed. The error may contain text that the code produced."""


class SkillsUnwritable(SkillError, UsageError):
    """A skill file cannot be written: the disk is full or read-only, or another user owns the file."""


@dataclass(frozen=True, slots=True)
class SkillSource:
    """A folder that contains skills: in its subfolders, or itself."""

    kind: SourceKind
    folder: Path


@dataclass(frozen=True, slots=True)
class Header:
    """The front matter of a `SKILL.md`. `name` is empty if the front matter has no usable name.

    `title` is the name as written in the file. With `own_result`, the skill declares that its code's result
    contains no content that the code itself has fetched: `all` of it, or the `parts` that the code marks with
    `Context.made`. `notes` describe accepted deviations from the format.
    """

    name: str
    description: str
    title: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    tools_required: tuple[str, ...] = ()
    enabled: bool = True
    own_result: OwnResult = ""
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill on the disk. `has_code` is True if the skill's folder contains a `skill.py`.

    `vouched` is True if the `SKILL.md` is trusted. A project's skill becomes trusted only when the user
    trusts its content. `words` is the SHA-256 of the `SKILL.md` that was read. `own_name` is the name that
    the skill's class is called after; it differs from `name` if another skill has that name.
    """

    name: str
    header: Header
    source: SkillSource
    folder: Path
    has_code: bool
    vouched: bool
    words: str
    own_name: str = ""


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill in the catalogue.

    `off` is the reason if the skill is disabled. `hides` are the skills of the same name that it replaces.
    """

    skill: Skill
    off: WhyOff | None = None
    hides: tuple[Skill, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """All skills, sorted by name, and one line of text about each skill that cannot be loaded."""

    entries: tuple[SkillEntry, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FurtherFile:
    """An additional file of a skill: its path relative to the skill's folder, and its size."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A skill opened for use.

    `files` lists the skill's additional files; `more_files` is the number of files that are not listed.

    `sandbox_folder` is the skill's folder in the sandbox. If the sandbox has no folder for the skill,
    `sandbox_folder` is empty and `why_not` is the reason.
    """

    skill: Skill
    body: str
    files: tuple[FurtherFile, ...] = ()
    more_files: int = 0
    sandbox_folder: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class SkillFile:
    """The text of an additional file of a skill. `cut_bytes` is the number of bytes cut off at the end."""

    skill: Skill
    path: str
    text: str
    cut_bytes: int = 0


@dataclass(frozen=True, slots=True)
class InPrompt:
    """A skill as it is listed in a prompt."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class PromptSkills:
    """Skills for a prompt, the best matches first; `more` is the number of other skills.

    `tainted` is True if a description is from an untrusted project; a turn with this prompt is then tainted.
    `gone` contains skills that the prompt already lists but that can no longer be used.
    """

    shown: tuple[InPrompt, ...] = ()
    more: int = 0
    tainted: bool = False
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallReply:
    """The result of a tool call by a code skill. `exit_code` is set if the tool ran a command."""

    ok: bool
    content: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Listing(Request[Listed]):
    """Request for all skills, including those of the `project` folder if one is given."""

    project: str = ""


@dataclass(frozen=True, slots=True)
class Info(Request["SkillEntry | SkillError"]):
    """Request for one skill, enabled or not."""

    name: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class ReadInstructions(Request["Opened | SkillError"]):
    """Request for the instructions of an enabled skill, in their current version on the disk.

    `about` is text that helps to suggest similar skills if no skill has that name.
    """

    name: str
    about: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class FileOf(Request["SkillFile | SkillError"]):
    """Request for the text of an additional file of an enabled skill."""

    name: str
    path: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class ForPrompt(Request[PromptSkills]):
    """Request for up to `limit` skills for the prompt of a turn whose message is `query`.

    `noted` contains the names of the skills that the prompt already lists.
    """

    query: str
    limit: int
    noted: tuple[str, ...] = ()
    project: str = ""


SkillsMessage: TypeAlias = Listing | Info | ReadInstructions | FileOf | ForPrompt
