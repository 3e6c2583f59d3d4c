"""The types of skills, and the requests to the skills actor and its answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError, UsageError

SourceKind: TypeAlias = Literal["bundled", "home", "dirs", "project"]
"""The origin of a skill. The owner of the installation chose the first three; a project may be a stranger's.
"""

WhyOff: TypeAlias = Literal["config", "environment", "itself"]
"""What disabled a skill: `[skills] disabled`, the variable that overrides it, or `enabled: false` in the
skill.
"""


class SkillError(RumiError):
    """A skill that cannot be loaded, found or run."""


class UnknownSkill(SkillError, UsageError):
    """No skill has that name."""


class SkillFailed(SkillError):
    """A skill's code failed. Its words may be in the error."""


class SkillsUnwritable(SkillError, UsageError):
    """A file of the skills cannot be written: the disk is full or read-only, or the owner is another user."""


@dataclass(frozen=True, slots=True)
class SkillSource:
    """A folder with skills in it, one a folder."""

    kind: SourceKind
    folder: Path


@dataclass(frozen=True, slots=True)
class Header:
    """The front matter of a `SKILL.md`. `name` is empty if it has no usable name.

    `title` is the name as it was written. `own_result`: the skill says that what its code returns is its own
    work, with nothing in it that it got from outside by itself. `notes` are deviations from the format that
    were accepted.
    """

    name: str
    description: str
    title: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    tools_required: tuple[str, ...] = ()
    enabled: bool = True
    own_result: bool = False
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill on the disk. `has_code`: a `skill.py` stands beside its `SKILL.md`.

    `vouched`: its words are not a stranger's. A project's are a stranger's until its content is trusted.
    `words` is the SHA-256 of the `SKILL.md` that was read.
    """

    name: str
    header: Header
    source: SkillSource
    folder: Path
    has_code: bool
    vouched: bool
    words: str


@dataclass(frozen=True, slots=True)
class SkillEntry:
    """A skill of the catalogue: why it is off, if it is, and the skills of the same name that it hides."""

    skill: Skill
    off: WhyOff | None = None
    hides: tuple[Skill, ...] = ()


@dataclass(frozen=True, slots=True)
class Listed:
    """Every skill by name, and a line for each that cannot be loaded."""

    entries: tuple[SkillEntry, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FurtherFile:
    """A file beside a `SKILL.md`: its path from there, and its size."""

    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Opened:
    """A skill that is used now. `files` are beside it; `more_files` is the number of unlisted ones.

    `place` is its folder in the sandbox; if that is empty, `why_not` says why it has none.
    """

    skill: Skill
    body: str
    files: tuple[FurtherFile, ...] = ()
    more_files: int = 0
    sandbox_folder: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class SkillFile:
    """The text of a file beside a skill. `cut_bytes` of its end are left out."""

    skill: Skill
    path: str
    text: str
    cut_bytes: int = 0


@dataclass(frozen=True, slots=True)
class InPrompt:
    """A skill as a prompt lists it."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class PromptSkills:
    """Skills for a prompt, the best matches first, and the number of others.

    `outside`: a description is from an untrusted project, so a turn with this prompt is tainted. `gone` are
    the skills that the prompt lists and that cannot be used now.
    """

    shown: tuple[InPrompt, ...] = ()
    more: int = 0
    tainted: bool = False
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CallReply:
    """The result of a tool that a code skill called; `exit_code` if it ran a command."""

    ok: bool
    content: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Listing(Request[Listed]):
    """Ask for all skills, with those of a folder as well, where one is named as the `project`."""

    project: str = ""


@dataclass(frozen=True, slots=True)
class Info(Request["SkillEntry | SkillError"]):
    """Ask for one skill, enabled or not."""

    name: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class ReadInstructions(Request["Opened | SkillError"]):
    """Ask for the instructions of an enabled skill, as they are on the disk now.

    `about` helps to find the nearest skills if there is none of that name.
    """

    name: str
    about: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class FileOf(Request["SkillFile | SkillError"]):
    """Ask for the text of a file beside an enabled skill."""

    name: str
    path: str
    project: str = ""


@dataclass(frozen=True, slots=True)
class ForPrompt(Request[PromptSkills]):
    """Ask for up to `limit` skills for the prompt of a turn that begins with `query`.

    `told` are the names that the prompt lists already.
    """

    query: str
    limit: int
    noted: tuple[str, ...] = ()
    project: str = ""


SkillsMessage: TypeAlias = Listing | Info | ReadInstructions | FileOf | ForPrompt
