"""The actor that knows which skills there are."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

import trio

from actors import Actor, Request
from rumi.skills.catalogue import Catalogue, View
from rumi.skills.opening import open_skill, read_file
from rumi.skills.types import (
    Body,
    FileOf,
    ForPrompt,
    Info,
    Listing,
    Opened,
    ReadFile,
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


class Offload(Protocol):
    """Runs blocking work. Threads in a process; in place, under a virtual clock, in a simulation."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """Run `work` and return what it returns."""
        ...


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

    async def receive(self, message: SkillsMessage) -> object:
        """Answer from what is on the disk now."""
        view = await self._now()
        match message:
            case Listing():
                return view.listed
            case Info(name):
                return view.find(name)
            case ForPrompt(query, limit, told):
                return view.for_prompt(query, limit, told)
            case Body(name, about):
                return await self._opened(view, name, about)
            case FileOf(name, path):
                return await self._read(view, name, path)

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

    async def _opened(self, view: View, name: str, about: str) -> Opened | SkillError:
        skill = view.usable(name, about)
        if isinstance(skill, SkillError):
            return skill
        try:
            return await self._offload(lambda: open_skill(skill))
        except SkillError as error:
            return error

    async def _read(self, view: View, name: str, path: str) -> ReadFile | SkillError:
        skill = view.usable(name)
        if isinstance(skill, SkillError):
            return skill
        try:
            return await self._offload(lambda: read_file(skill, path))
        except SkillError as error:
            return error

    def doing(self) -> str:
        """How many skills there are."""
        return f"{len(self._view.listed.entries)} skills" if self._view else ""

    def figures(self) -> Mapping[str, object]:
        """How many skills there are; nothing before the first look."""
        return {"skills": len(self._view.listed.entries)} if self._view else {}
