"""Skills: folders with a `SKILL.md` that teach the assistant new ways of working, some with code.

`format` and `front_matter` read them, `catalogue` knows which there are, `actor` answers for it. `running`
runs a code skill in a process of its own, which `process` and `context` are. `disabled` and `trust` hold what
people decide about skills; `creating` makes new ones, and `trying` lets their tests run them.
"""

from rumi.skills.actor import Ask, Skills
from rumi.skills.catalogue import Catalogue, sources
from rumi.skills.command import skills_command
from rumi.skills.creating import create_skill, how_to_test
from rumi.skills.disabled import Disabled, DisabledSkills, set_disabled
from rumi.skills.folder import Snapshot, snapshot
from rumi.skills.opening import open_skill
from rumi.skills.prompt import skills_block, told_skills
from rumi.skills.running import AskModel, CallTool, CodeRunner, Job
from rumi.skills.trust import TrustedSkills
from rumi.skills.types import (
    Body,
    FileOf,
    ForPrompt,
    FurtherFile,
    Header,
    Info,
    InPrompt,
    Listed,
    Listing,
    Opened,
    PromptSkills,
    ReadFile,
    Reply,
    Skill,
    SkillEntry,
    SkillError,
    SkillsMessage,
    Source,
    SourceKind,
    WhyOff,
)

__all__ = [
    "Ask",
    "AskModel",
    "Body",
    "CallTool",
    "Catalogue",
    "CodeRunner",
    "Disabled",
    "DisabledSkills",
    "FileOf",
    "ForPrompt",
    "FurtherFile",
    "Header",
    "InPrompt",
    "Info",
    "Job",
    "Listed",
    "Listing",
    "Opened",
    "PromptSkills",
    "ReadFile",
    "Reply",
    "Skill",
    "SkillEntry",
    "SkillError",
    "Skills",
    "SkillsMessage",
    "Snapshot",
    "Source",
    "SourceKind",
    "TrustedSkills",
    "WhyOff",
    "create_skill",
    "how_to_test",
    "open_skill",
    "set_disabled",
    "skills_block",
    "skills_command",
    "snapshot",
    "sources",
    "told_skills",
]
