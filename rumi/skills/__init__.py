"""Skills: folders with a `SKILL.md` that teach the assistant new ways of working, some with code.

`format` and `front_matter` read them, `catalogue` knows which there are, `actor` answers for it. `running`
runs a code skill in a process of its own, which `process` and `context` are; `mounting` keeps the copies that
sandboxes see. `disabled` and `trust` store people's decisions about skills; `creating` makes new ones, and
`trying` runs them in their tests.
"""

from rumi.skills.actor import Ask, Skills
from rumi.skills.catalogue import Catalogue, sources
from rumi.skills.command import skills_command
from rumi.skills.creating import create_skill, how_to_test
from rumi.skills.disabled import Disabled, DisabledSkills, set_disabled
from rumi.skills.folder import snapshot
from rumi.skills.front_matter import read as values_of
from rumi.skills.front_matter import split as split_front
from rumi.skills.mounting import Mounts
from rumi.skills.opening import open_skill
from rumi.skills.prompt import skills_block, told_skills
from rumi.skills.running import AskModel, CodeRunner, Job
from rumi.skills.trust import TrustedSkills
from rumi.skills.types import (
    Body,
    FileOf,
    ForPrompt,
    Header,
    Info,
    InPrompt,
    Listing,
    Opened,
    PromptSkills,
    ReadFile,
    Reply,
    Skill,
    SkillEntry,
    SkillError,
    SkillFailed,
    SkillsMessage,
    Source,
)

__all__ = [
    "Ask",
    "AskModel",
    "Body",
    "Catalogue",
    "CodeRunner",
    "Disabled",
    "DisabledSkills",
    "FileOf",
    "ForPrompt",
    "Header",
    "InPrompt",
    "Info",
    "Job",
    "Listing",
    "Mounts",
    "Opened",
    "PromptSkills",
    "ReadFile",
    "Reply",
    "Skill",
    "SkillEntry",
    "SkillError",
    "SkillFailed",
    "Skills",
    "SkillsMessage",
    "Source",
    "TrustedSkills",
    "create_skill",
    "how_to_test",
    "open_skill",
    "set_disabled",
    "skills_block",
    "skills_command",
    "snapshot",
    "sources",
    "split_front",
    "told_skills",
    "values_of",
]
