"""Skills that tests write, and the actor over them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio

from actors import ActorRef, ChildSpec, Supervisor
from rumi.agent.skills.actor import Skills
from rumi.agent.skills.catalogue import Catalogue, sources
from rumi.agent.skills.messages import SkillsMessage, SkillSource

T = TypeVar("T")


class Threads:
    """Blocking work in threads, as in a process."""

    async def __call__(self, work: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(work)


def write_skill(
    root: Path,
    name: str,
    description: str = "Does something.",
    *,
    body: str = "Do it.",
    more: str = "",
    code: str = "",
) -> Path:
    """Write a skill into a folder of skills; return its own."""
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    front = f"name: {name}\ndescription: {description}\n{more}"
    (folder / "SKILL.md").write_text(f"---\n{front.rstrip()}\n---\n\n{body}\n", encoding="utf-8")
    if code:
        (folder / "skill.py").write_text(code, encoding="utf-8")
    return folder


def home_only(home: Path) -> tuple[SkillSource, ...]:
    """The sources of a home, without what is bundled."""
    return sources(home)[1:]


@asynccontextmanager
async def asked(
    catalogue: Catalogue, *, fresh_s: float = 0.0, **more: Any
) -> AsyncIterator[ActorRef[SkillsMessage]]:
    """The actor, running; it looks at the folders each time that it is asked, unless told otherwise."""
    root = Supervisor("root")
    made = partial(Skills, catalogue, Threads(), fresh_s=fresh_s, fresh_times=1e9, **more)
    ref = root.add(ChildSpec("skills", made))
    async with root.running():
        yield ref
