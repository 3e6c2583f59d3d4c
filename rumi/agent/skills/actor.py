"""The actor that answers requests about the installed skills."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

import trio

from actors import Actor, Request, answers
from rumi.agent.skills.catalogue import Catalogue, CatalogueView
from rumi.agent.skills.messages import (
    FileOf,
    ForPrompt,
    Info,
    Listed,
    Listing,
    Opened,
    PromptSkills,
    ReadInstructions,
    Skill,
    SkillEntry,
    SkillError,
    SkillFile,
    SkillsMessage,
)
from rumi.agent.skills.mounting import Mounts
from rumi.agent.skills.opening import open_skill, read_file
from rumi.platform.threads import Offload

T = TypeVar("T")
R = TypeVar("R")

FRESH_S = 0.25
FRESH_TIMES = 3
"""A scan of the folders stays valid for this multiple of its duration, but at most `FRESH_S` seconds.

With a few skills, a scan expires before the next message arrives. With thousands of skills, scans use at most
a quarter of a processor.
"""


MOST_PROJECTS = 32
"""Maximum number of project folders whose skills are cached. Attached clients bring project folders."""


class AskSkills(Protocol):
    """A function that sends a request to the skills actor: the `ask` method of the actor's reference."""

    async def __call__(self, message: Request[R]) -> R:
        """Return the actor's reply."""
        ...


class _Looking:
    """A catalogue, its last scan, and the folder in which sandboxes see copies of its skills.

    `own` is True for the catalogue of a project.
    """

    def __init__(self, catalogue: Catalogue, mounts: Mounts | None, own: bool) -> None:
        self.catalogue = catalogue
        self.mounts = mounts
        self.own = own
        self.mounted: CatalogueView | None = None
        self.view: CatalogueView | None = None
        self.good_until = 0.0

    def look(self) -> tuple[CatalogueView, float]:
        """Scan the folders, and update the sandbox folder.

        Return the skills and the scan's duration in seconds.
        """
        begun = time.perf_counter()
        view = self.catalogue.look()
        if self.mounts is not None and view is not self.mounted:
            self.mounts.sync(skill for skill in view.enabled() if _is_of_project(skill) == self.own)
            self.mounted = view
        return view, time.perf_counter() - begun


class Skills(Actor[SkillsMessage]):
    """The skills actor: answers requests, and scans the folders first unless the last scan is recent.

    `mounts` is the folder that sandboxes see; the actor updates it after each scan and each use of a skill.
    `of_project` creates a catalogue that includes the skills of a project folder; only requests that name
    this project folder see the project's skills.

    For an unknown skill, the reply is a `SkillError`; the actor does not crash.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        offload: Offload,
        *,
        mounts: Mounts | None = None,
        of_project: Callable[[Path], Catalogue] | None = None,
        fresh_s: float = FRESH_S,
        fresh_times: float = FRESH_TIMES,
    ) -> None:
        self._general = _Looking(catalogue, mounts, own=False)
        self._of_project = of_project
        self._projects: OrderedDict[str, _Looking] = OrderedDict()
        self._offload = offload
        self._fresh_s = fresh_s
        self._fresh_times = fresh_times

    @answers(Listing)
    async def listing(self, message: Listing) -> Listed:
        """Return all skills that are on the disk."""
        return (await self._now(message.project)).listed

    @answers(Info)
    async def info(self, message: Info) -> SkillEntry | SkillError:
        """Return the catalogue entry of a skill."""
        return (await self._now(message.project)).find(message.name)

    @answers(ForPrompt)
    async def for_prompt(self, message: ForPrompt) -> PromptSkills:
        """Return the skills to list in a prompt."""
        view = await self._now(message.project)
        return view.for_prompt(message.query, message.limit, message.noted)

    async def _now(self, project: str) -> CatalogueView:
        looking = await self._looking(project)
        if looking.own:
            await self._now("")  # updates the folder that all sandboxes see
        if looking.view is None or trio.current_time() >= looking.good_until:
            # The age counts from the start of the scan, because a change during it may be missed.
            begun = trio.current_time()
            view, took_s = await self._offload(looking.look)
            looking.good_until = begun + min(self._fresh_s, took_s + self._fresh_times * took_s)
            looking.view = view
            return view
        return looking.view

    async def _looking(self, project: str) -> _Looking:
        """Return the catalogue of a project, or the general one; forget the least recently used projects."""
        if not project or self._of_project is None:
            return self._general
        if (known := self._projects.get(project)) is None:
            catalogue, general = self._of_project(Path(project)), self._general.mounts
            mounts = None if general is None else await self._offload(lambda: general.of_project(project))
            known = self._projects[project] = _Looking(catalogue, mounts, own=True)
        self._projects.move_to_end(project)
        while len(self._projects) > MOST_PROJECTS:
            self._projects.popitem(last=False)
        return known

    @answers(ReadInstructions)
    async def body(self, message: ReadInstructions) -> Opened | SkillError:
        """Return a skill's instructions."""
        skill = (await self._now(message.project)).usable(message.name, message.about)
        if isinstance(skill, SkillError):
            return skill
        own = _is_of_project(skill)
        mounts = (await self._looking(message.project) if own else self._general).mounts
        try:
            return await self._offload(lambda: _opened(skill, mounts))
        except SkillError as error:
            return error

    @answers(FileOf)
    async def file(self, message: FileOf) -> SkillFile | SkillError:
        """Return a file of a skill."""
        skill = (await self._now(message.project)).usable(message.name)
        if isinstance(skill, SkillError):
            return skill
        try:
            return await self._offload(lambda: read_file(skill, message.path))
        except SkillError as error:
            return error

    def activity(self) -> str:
        """Return the number of skills as text."""
        view = self._general.view
        return f"{len(view.listed.entries)} skills" if view else ""

    def metrics(self) -> Mapping[str, object]:
        """Return the number of skills; empty before the first scan."""
        view = self._general.view
        return {"skills": len(view.listed.entries)} if view else {}


def _is_of_project(skill: Skill) -> bool:
    return skill.source.kind == "project"


def _opened(skill: Skill, mounts: Mounts | None) -> Opened:
    opened = open_skill(skill)
    if mounts is None:
        return opened
    why_not = mounts.mount(opened.skill)
    return replace(opened, sandbox_folder="" if why_not else f"{mounts.inside}/{skill.name}", why_not=why_not)
