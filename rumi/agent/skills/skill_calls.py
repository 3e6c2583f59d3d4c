"""Control calls for skills."""

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rumi.agent.skills.actor import AskSkills
from rumi.agent.skills.disabled import DisabledSkills, set_disabled
from rumi.agent.skills.folder import snapshot
from rumi.agent.skills.messages import Info, Listing, Skill, SkillEntry, SkillError
from rumi.agent.skills.opening import open_skill
from rumi.agent.skills.switching import switch_on, trust_skill
from rumi.agent.skills.trust import TrustedSkills
from rumi.platform.caller import Caller
from rumi.platform.calls import call
from rumi.platform.threads import Offload
from rumi.texts import Language, translate


def skill_row(entry: SkillEntry) -> dict[str, object]:
    """Return a skill as `rumi skills list --json` shows it."""
    header = entry.skill.header
    return {
        "name": entry.skill.name,
        "description": header.description,
        "version": header.version,
        "source": entry.skill.source.kind,
        "code": entry.skill.has_code,
        "on": entry.off is None,
        "off_because": entry.off,
    }


@dataclass(frozen=True, slots=True)
class SkillCalls:
    """The control calls for skills. With a `project`, a folder, the skills of that folder are included.

    `config` is the file with the disabled skills.
    """

    ask: AskSkills
    config: Path
    disabled: DisabledSkills
    trusted: TrustedSkills
    offload: Offload

    @call("skills.list", rights="all")
    async def list(self, caller: Caller, *, project: str = "", language: Language = "en") -> object:
        """Return the skills, also those that are off, and the `problems` with unreadable ones.

        `state` is `on`, `off`, or `untrusted`: a skill of a project that waits for trust.
        """
        listed = await self.ask(Listing(project))
        return {
            "skills": [self._shown(entry, language) for entry in listed.entries],
            "problems": [translate(language, problem) for problem in listed.problems],
        }

    @call("skills.show", rights="all")
    async def show(
        self, caller: Caller, *, name: str, project: str = "", language: Language = "en"
    ) -> object:
        """Return a skill with its instructions, its files, what it hides, and whether its code is trusted.

        Raises:
            SkillError: There is no such skill, or it cannot be read.
        """
        entry = await self._found(name, project)
        opened = await self.offload(partial(open_skill, entry.skill))
        header = entry.skill.header
        return {
            **self._shown(entry, language),
            "instructions": opened.body,
            "files": [asdict(file) for file in opened.files],
            "more_files": opened.more_files,
            "hides": [{"source": one.source.kind, "folder": str(one.folder)} for one in entry.hides],
            "needs": [*header.tools_required],
            "tags": [*header.tags],
            "license": header.license,
            "trusted": await self.offload(partial(self._is_trusted, entry.skill)),
        }

    @call("skills.enable", rights="all")
    async def enable(self, caller: Caller, *, name: str, project: str = "") -> object:
        """Switch a skill on, at once; `changed` says whether it was off.

        Nothing happens while `overridden`: a variable of the environment then names the disabled skills.

        Raises:
            SkillError: There is no such skill, or its own SKILL.md disables it.
            ConfigError: The file cannot be read or written.
        """
        caller.check_owner_of_home()
        found = await self.ask(Info(name, project))
        called, changed = await self.offload(partial(switch_on, self.config, name, found))
        return {"name": called, "changed": changed, "overridden": self.disabled.is_overridden}

    @call("skills.disable", rights="all")
    async def disable(self, caller: Caller, *, name: str, project: str = "") -> object:
        """Switch a skill off, at once; `changed` says whether it was on.

        Raises:
            SkillError: There is no such skill.
            ConfigError: The file cannot be read or written.
        """
        caller.check_owner_of_home()
        skill = (await self._found(name, project)).skill
        changed = await self.offload(partial(set_disabled, self.config, skill.name, off=True))
        return {"name": skill.name, "changed": changed, "overridden": self.disabled.is_overridden}

    @call("skills.trust", rights="all")
    async def trust(self, caller: Caller, *, name: str, project: str) -> object:
        """Trust a skill of a project as it is now, and return the files and the digest that are trusted.

        Raises:
            SkillError: There is no such skill, or its folder cannot be trusted.
        """
        caller.check_owner_of_home()
        skill = (await self._found(name, project)).skill
        if skill.source.kind != "project":
            raise SkillError("{name} needs no trust: it is not from a project.", name=skill.name)
        content, changed = await self.offload(partial(trust_skill, self.trusted, skill))
        files = [{"path": path, "bytes": len(raw)} for path, _, raw in content.files]
        return {"name": skill.name, "changed": changed, "files": files, "sha256": content.digest}

    async def _found(self, name: str, project: str) -> SkillEntry:
        found = await self.ask(Info(name, project))
        if isinstance(found, SkillError):
            raise found
        return found

    def _shown(self, entry: SkillEntry, language: Language) -> dict[str, object]:
        skill = entry.skill
        return {
            **skill_row(entry),
            "state": "off" if entry.off else "on" if skill.vouched else "untrusted",
            "folder": str(skill.folder),
            "notes": [translate(language, note) for note in skill.header.notes],
        }

    def _is_trusted(self, skill: Skill) -> bool:
        """Return True if a skill's code may run: only a project's needs trust."""
        if skill.source.kind != "project":
            return True
        try:
            return self.trusted.is_trusted(skill.folder, snapshot(skill.folder))
        except SkillError:
            return False
