"""The actor that answers questions about the installed skills."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

import trio

from actors import Actor, Request, answers
from rumi.offload import Offload
from rumi.skills.catalogue import Catalogue, View
from rumi.skills.mounting import INSIDE, Mounts
from rumi.skills.opening import open_skill, read_file
from rumi.skills.types import (
    Body,
    FileOf,
    ForPrompt,
    Info,
    Listed,
    Listing,
    Opened,
    PromptSkills,
    ReadFile,
    Skill,
    SkillEntry,
    SkillError,
    SkillsMessage,
)

T = TypeVar("T")
R = TypeVar("R")

FRESH_S = 0.25
FRESH_TIMES = 3
"""The result of a look at the folders is used for this many times its duration, at most for `FRESH_S`.

With a few skills it is over before the next message; with thousands, looks take at most a quarter of a
processor.
"""


class Ask(Protocol):
    """Asks the actor: the `ask` of its reference."""

    async def __call__(self, message: Request[R]) -> R:
        """The reply."""
        ...


class Skills(Actor[SkillsMessage]):
    """Looks at the folders for each question, except in a short time after the last look.

    `mounts` is the folder that sandboxes see: it follows each look, and each use of a skill.

    The answer about an unknown skill is a `SkillError`, not a crash.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        offload: Offload,
        *,
        mounts: Mounts | None = None,
        fresh_s: float = FRESH_S,
        fresh_times: float = FRESH_TIMES,
    ) -> None:
        self._catalogue = catalogue
        self._offload = offload
        self._mounts = mounts
        self._mounted: View | None = None
        self._fresh_s = fresh_s
        self._fresh_times = fresh_times
        self._view: View | None = None
        self._good_until = 0.0

    @answers(Listing)
    async def listing(self, message: Listing) -> Listed:
        """Return all skills that are on the disk now."""
        return (await self._now()).listed

    @answers(Info)
    async def info(self, message: Info) -> SkillEntry | SkillError:
        """Return the entry of a skill."""
        return (await self._now()).find(message.name)

    @answers(ForPrompt)
    async def for_prompt(self, message: ForPrompt) -> PromptSkills:
        """Return the skills for a prompt."""
        return (await self._now()).for_prompt(message.query, message.limit, message.told)

    async def _now(self) -> View:
        if self._view is None or trio.current_time() >= self._good_until:
            begun = trio.current_time()
            view, took_s = await self._offload(self._look)
            self._good_until = begun + min(self._fresh_s, took_s + self._fresh_times * took_s)
            self._view = view
            return view
        return self._view

    def _look(self) -> tuple[View, float]:
        begun = time.perf_counter()
        view = self._catalogue.look()
        if self._mounts is not None and view is not self._mounted:
            self._mounts.keep(view.enabled())
            self._mounted = view
        return view, time.perf_counter() - begun

    @answers(Body)
    async def body(self, message: Body) -> Opened | SkillError:
        """Return a skill's instructions."""
        skill = (await self._now()).usable(message.name, message.about)
        if isinstance(skill, SkillError):
            return skill
        try:
            return await self._offload(lambda: self._opened(skill))
        except SkillError as error:
            return error

    def _opened(self, skill: Skill) -> Opened:
        opened = open_skill(skill)
        if self._mounts is None:
            return opened
        why_not = self._mounts.place(opened.skill)
        return replace(opened, place="" if why_not else f"{INSIDE}/{skill.name}", why_not=why_not)

    @answers(FileOf)
    async def file(self, message: FileOf) -> ReadFile | SkillError:
        """Return a file of a skill."""
        skill = (await self._now()).usable(message.name)
        if isinstance(skill, SkillError):
            return skill
        try:
            return await self._offload(lambda: read_file(skill, message.path))
        except SkillError as error:
            return error

    def activity(self) -> str:
        """Return how many skills there are."""
        return f"{len(self._view.listed.entries)} skills" if self._view else ""

    def metrics(self) -> Mapping[str, object]:
        """Return how many skills there are; nothing before the first look."""
        return {"skills": len(self._view.listed.entries)} if self._view else {}
