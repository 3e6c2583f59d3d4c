"""The models part: skills, the web fetcher, permits for model calls, and people's rights to use models."""

import os
from dataclasses import dataclass
from pathlib import Path

from actors import ChildSpec
from rumi.agent.skills.actor import AskSkills, Skills
from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.disabled import DisabledSkills
from rumi.agent.skills.mounting import Mounts
from rumi.agent.skills.skill_calls import SkillCalls
from rumi.agent.skills.trust import TrustedSkills
from rumi.app.bound_models import BoundModels
from rumi.app.parts.inputs import TreeInputs
from rumi.app.parts.store import StorePart
from rumi.app.settings import people_of
from rumi.chats.people.people import People
from rumi.platform.threads import Threads
from rumi.sandbox.engine import skills_folder
from rumi.web.tree import Web, add_fetcher


@dataclass(frozen=True, slots=True)
class ModelsPart:
    """The models for chats, tasks and people, and the skills and web access that turns use."""

    bound: BoundModels
    people: People
    web: Web
    skills: AskSkills
    trusted: TrustedSkills
    skill_calls: SkillCalls


def add_models(inputs: TreeInputs, store: StorePart) -> ModelsPart:
    """Add the skills, the web fetcher, and the permits for model calls."""
    root, home, loaded = inputs.root, inputs.home, inputs.loaded
    trusted = TrustedSkills(home.root / "skills-trusted.json")
    disabled = DisabledSkills(home.root / "config.toml", os.environ)

    def catalogue(project: Path | None = None) -> Catalogue:
        return Catalogue(sources(home.root, loaded.settings.skills.dirs, project), disabled, trusted)

    threads, whole = Threads(), catalogue()
    mounts = Mounts(skills_folder(home.root), trusted)
    skills = root.add(
        ChildSpec("skills", lambda: Skills(whole, threads, mounts=mounts, of_project=catalogue))
    )
    web = add_fetcher(root, loaded.settings.fetch, loaded.settings.search.provider, loaded.secrets)
    permits = root.add(inputs.models.spec(inputs.workers.part))
    people = people_of(loaded, inputs.ids)
    research = loaded.settings.research.model or ""
    bound = BoundModels(inputs.models, permits, store.budgets, inputs.ids, people, loaded.settings, research)
    calls = SkillCalls(skills.ask, home.root / "config.toml", disabled, trusted, threads)
    return ModelsPart(bound, people, web, skills.ask, trusted, calls)
