"""Switching skills on and off, and trusting a project's skills: what a command and a control call share."""

from pathlib import Path

from rumi.agent.skills.disabled import set_disabled
from rumi.agent.skills.folder import Snapshot, snapshot
from rumi.agent.skills.format import FILE
from rumi.agent.skills.messages import Skill, SkillEntry, SkillError
from rumi.agent.skills.trust import TrustedSkills


def switch_on(config: Path, name: str, found: SkillEntry | SkillError) -> tuple[str, bool]:
    """Remove a skill from the disabled ones; return its name, and False if it was on already. Blocking.

    `found` is the skill of that name, or the error that there is none: a disabled skill may be gone.

    Raises:
        SkillError: There is no such skill, or its own SKILL.md disables it.
        ConfigError: The file cannot be read or written.
    """
    called = found.skill.name if isinstance(found, SkillEntry) else name
    changed = set_disabled(config, called, off=False)
    if isinstance(found, SkillError) and not changed:
        raise found
    if isinstance(found, SkillEntry) and found.off == "itself":
        raise SkillError(
            "{name} stays off: its own SKILL.md says enabled: false.",
            "Change that line in {folder}",
            name=called,
            folder=found.skill.folder / FILE,
        )
    return called, changed


def trust_skill(trusted: TrustedSkills, skill: Skill) -> tuple[Snapshot, bool]:
    """Trust a project's skill as it is now; return what is trusted, and False if it was already. Blocking.

    Raises:
        SkillError: The folder cannot be trusted, or the file cannot be read or written.
    """
    try:
        content = snapshot(skill.folder)
    except SkillError as error:
        raise SkillError(
            "{folder} cannot be trusted: {message}.", folder=skill.folder, message=error.message
        ) from None
    if trusted.is_trusted(skill.folder, content):
        return content, False
    trusted.trust(skill.folder, content)
    return content, True
