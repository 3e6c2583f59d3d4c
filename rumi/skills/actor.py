"""The actor that knows which skills there are."""

import time
from collections.abc import Mapping
from typing import Protocol, TypeVar

import trio

from actors import Actor, Request, answers
from rumi.offload import Offload
from rumi.skills.catalogue import Catalogue, View
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
    SkillEntry,
    SkillError,
    SkillsMessage,
)

T = TypeVar("T")
R = TypeVar("R")

FRESH_S = 0.25
FRESH_TIMES = 3
"""How long a look at the folders is good for: so many times as long as it took, and no longer than that.

With a handful of skills it is over before anybody's next message; with thousands, looks take a quarter of a
processor at the most.
"""


class Ask(Protocol):
    """Asks the actor something: the `ask` of its reference."""

    async def __call__(self, message: Request[R]) -> R:
        """The reply."""
        ...


class Skills(Actor[SkillsMessage]):
    """Looks at the folders when it is asked something, but for a moment after the last look.

    What is asked about a skill that is not there is answered with a `SkillError`: nothing of it is a crash.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        offload: Offload,
        *,
        fresh_s: float = FRESH_S,
        fresh_times: float = FRESH_TIMES,
    ) -> None:
        self._catalogue = catalogue
        self._offload = offload
        self._fresh_s = fresh_s
        self._fresh_times = fresh_times
        self._view: View | None = None
        self._good_until = 0.0

    @answers(Listing)
    async def listing(self, message: Listing) -> Listed:
        """All skills that are on the disk now."""
        return (await self._now()).listed

    @answers(Info)
    async def info(self, message: Info) -> SkillEntry | SkillError:
        """Return what there is to say about a skill."""
        return (await self._now()).find(message.name)

    @answers(ForPrompt)
    async def for_prompt(self, message: ForPrompt) -> PromptSkills:
        """The skills that a prompt names."""
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
        return view, time.perf_counter() - begun

    @answers(Body)
    async def body(self, message: Body) -> Opened | SkillError:
        """A skill's instructions."""
        skill = (await self._now()).usable(message.name, message.about)
        if isinstance(skill, SkillError):
            return skill
        try:
            return await self._offload(lambda: open_skill(skill))
        except SkillError as error:
            return error

    @answers(FileOf)
    async def file(self, message: FileOf) -> ReadFile | SkillError:
        """A file of a skill."""
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
