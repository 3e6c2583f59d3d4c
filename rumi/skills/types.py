"""What a skill is, what the skills actor is asked, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from actors import Request
from rumi.errors import RumiError, UsageError

SourceKind: TypeAlias = Literal["bundled", "home", "dirs", "project"]
"""Where a skill is from. Who installed Rumi chose the first three; a project may be anybody's."""

WhyOff: TypeAlias = Literal["config", "environment", "itself"]
"""What switched a skill off: `[skills] disabled`, the variable over it, or `enabled: false` in the skill."""


class SkillError(RumiError):
    """A skill that cannot be loaded, found or run."""


class SkillsUnwritable(SkillError, UsageError):
    """A file of the skills cannot be written: the disk is full or read-only, or the owner is another user."""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder with skills in it, one a folder."""

    kind: SourceKind
    folder: Path


@dataclass(frozen=True, slots=True)
class Header:
    """What the front matter of a `SKILL.md` says. `name` is empty where it gives none that can be used.

    `title` is the name as it was written. `notes` are what was not as it should be and is taken all the same.
    """

    name: str
    description: str
    title: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    tools_required: tuple[str, ...] = ()
    enabled: bool = True
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill on the disk. `has_code`: a `skill.py` stands beside its `SKILL.md`.

    `vouched`: its words are not a stranger's. Those of a project are until its content is trusted. `words` is
    the SHA-256 of the `SKILL.md` that was read.
    """

    name: str
    header: Header
    source: Source
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
    """A skill to be used now. `files` are those beside it, `more_files` how many are not listed."""

    skill: Skill
    body: str
    files: tuple[FurtherFile, ...] = ()
    more_files: int = 0


@dataclass(frozen=True, slots=True)
class ReadFile:
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
    """Skills for a prompt, the best matches first, and how many more there are.

    `outside`: a description is the words of a project that nobody has vouched for, so the turn whose prompt
    has them is tainted. `gone` are those that were told before and cannot be used now.
    """

    shown: tuple[InPrompt, ...] = ()
    more: int = 0
    outside: bool = False
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool came to that a code skill called; `exit_code` where it ran a command."""

    ok: bool
    content: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Listing(Request[Listed]):
    """What skills there are."""


@dataclass(frozen=True, slots=True)
class Info(Request["SkillEntry | SkillError"]):
    """One skill, whether it is on or off."""

    name: str


@dataclass(frozen=True, slots=True)
class Body(Request["Opened | SkillError"]):
    """The instructions of a skill that is on, as they stand on the disk now.

    `about` helps to name the nearest ones where there is none of the name.
    """

    name: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class FileOf(Request["ReadFile | SkillError"]):
    """The text of a file beside a skill that is on."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ForPrompt(Request[PromptSkills]):
    """Up to `limit` skills for the prompt of a turn that begins with `query`.

    `told` are the names of those that the prompt lists already.
    """

    query: str
    limit: int
    told: tuple[str, ...] = ()


SkillsMessage: TypeAlias = Listing | Info | Body | FileOf | ForPrompt
