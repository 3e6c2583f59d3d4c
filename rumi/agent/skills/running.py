"""Runs code skills in a separate process that can be killed, and answers the process's requests."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

from rumi.agent.skills.folder import snapshot
from rumi.agent.skills.messages import CallReply, Skill, SkillError, SkillFailed
from rumi.agent.skills.trust import TrustedSkills
from rumi.errors import RumiError
from rumi.platform.threads import Offload
from rumi.sandbox.confined.parent import END_S, Child, ChildFailed
from rumi.texts import os_error

logger = logging.getLogger(__name__)

OWN_S: Final = 60.0
"""Maximum run time of a skill's own code, in seconds, not counting waits for tools and the model."""
AT_ONCE: Final = 8
MOST_FRAME_BYTES: Final = 4_000_000
MOST_LOGGED: Final = 100
MOST_LOG_CHARS: Final = 1_000
_PROGRAM: Final = ("-m", "rumi.agent.skills.process")
_PATH: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

CallTool: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[CallReply]]
AskModel: TypeAlias = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class SkillRun:
    """A run of a code skill: the skill, its input, the chat, and the `workspace` with the chat's files."""

    skill: Skill
    input: str
    chat: str
    workspace: Path
    language: str


@dataclass(frozen=True, slots=True)
class SkillPart:
    """A part of a skill's result. `made` is the skill's claim that it has made this part itself."""

    text: str
    made: bool = False


@dataclass(frozen=True, slots=True)
class SkillResult:
    """The result of a code skill."""

    parts: tuple[SkillPart, ...]

    @property
    def text(self) -> str:
        """Return the text of all parts."""
        return "\n".join(part.text for part in self.parts)


class CodeRunner:
    """A runner of code skills, at most `AT_ONCE` at the same time.

    A project's skill runs only if its content is trusted, and from a copy of the checked content, so that
    later changes in the folder have no effect. `own_s` is the maximum run time of a skill's own code.
    """

    def __init__(self, trusted: TrustedSkills, offload: Offload, *, own_s: float = OWN_S) -> None:
        self._trusted = trusted
        self._offload = offload
        self._own_s = own_s
        self._permits = trio.Semaphore(AT_ONCE)

    async def run(self, job: SkillRun, call: CallTool, model: AskModel) -> SkillResult:
        """Run a skill and return its result. On cancellation, return only when the process has been killed.

        The skill's tool calls are passed to `call`, and its prompts to `model`, one at a time. If `model`
        raises a `RumiError`, the skill gets the error's text.

        Raises:
            SkillError: The skill is not trusted.
            SkillFailed: The skill failed; the message is one sentence.
        """
        async with self._permits, self._folder(job.skill) as folder:
            said = await self._talk(job, folder, call, model)
        # Raised here, outside of the nursery of `_talk`, which would wrap the error in an exception group.
        if isinstance(said, SkillError):
            raise said
        return said

    async def _talk(
        self, job: SkillRun, folder: Path, call: CallTool, model: AskModel
    ) -> SkillResult | SkillError:
        try:
            async with (
                await Child.start(
                    _PROGRAM, most_bytes=MOST_FRAME_BYTES, environment=_PATH, family=True, printed=True
                ) as process,
                trio.open_nursery() as nursery,
            ):
                nursery.start_soon(_drain, job.skill.name, process)
                said = await _Talk(job, process, call, model, self._own_s).run(folder)
                nursery.cancel_scope.cancel()
        except ChildFailed:
            return SkillError("The process that runs skills does not start.", "Run: rumi doctor")
        return said

    @asynccontextmanager
    async def _folder(self, skill: Skill) -> AsyncIterator[Path]:
        if skill.source.kind != "project":
            yield skill.folder
            return
        copy = await self._offload(lambda: self._copied(skill))
        try:
            yield copy
        finally:
            # Shielded, so that a cancelled run removes its copy too; limited, because a disk may be slow.
            with trio.move_on_after(END_S, shield=True):
                await self._offload(lambda: shutil.rmtree(copy, ignore_errors=True))

    def _copied(self, skill: Skill) -> Path:
        try:
            content = snapshot(skill.folder)
        except SkillError as error:
            raise SkillError(
                "The skill {name} is not run: {message}.", name=skill.name, message=error.message
            ) from None
        if not self._trusted.is_trusted(skill.folder, content):
            raise SkillError(
                "The skill {name} of this project has code that is not trusted, or that has changed since.",
                "Look at {folder}, then run: rumi skills trust {name}",
                name=skill.name,
                folder=skill.folder,
            )
        copy = Path(tempfile.mkdtemp(prefix="rumi-skill-"))
        try:
            content.write(copy)
        except OSError as error:
            shutil.rmtree(copy, ignore_errors=True)
            raise SkillError(
                "The skill {name} cannot be copied: {reason}.", name=skill.name, reason=os_error(error)
            ) from error
        return copy


def _result(parts: object) -> SkillResult:
    """Read the parts of a result. Skills may have written the frame: odd parts count as from outside."""
    if not isinstance(parts, list):
        return SkillResult((SkillPart(str(parts)),))
    found = list[SkillPart]()
    for part in parts:
        match part:
            case [str(text), bool(made)]:
                found.append(SkillPart(text, made))
            case _:
                found.append(SkillPart(str(part)))
    return SkillResult(tuple(found))


async def _drain(name: str, process: Child) -> None:
    """Read all output of a skill, so that the skill never blocks on a full pipe. Log only the beginning."""
    assert process.printed is not None
    left = MOST_LOGGED * MOST_LOG_CHARS
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for some in process.printed:
            if left > 0:
                logger.info("skill %s printed: %s", name, some[:left].decode("utf-8", "replace").rstrip())
                left -= len(some)


class _Talk:
    """The dialogue with a skill's process: reads its requests and sends the answers."""

    def __init__(self, job: SkillRun, process: Child, call: CallTool, model: AskModel, own_s: float) -> None:
        self._job = job
        self._process = process
        self._call = call
        self._model = model
        self._own_s = own_s
        self._logged = 0

    async def run(self, folder: Path) -> SkillResult | SkillError:
        """Answer the skill's requests until it ends; return its result or its error."""
        try:
            return await self._run(folder)
        except ChildFailed as error:
            if error.why == "late":
                name = self._job.skill.name
                return SkillFailed(
                    "The skill {name} was stopped: it took longer than {own_s} s by itself.",
                    name=name,
                    own_s=f"{self._own_s:g}",
                )
            return self._failed(str(error))

    async def _run(self, folder: Path) -> SkillResult | SkillError:
        job, process = self._job, self._process
        process.left_s = self._own_s
        await process.say(
            {
                "name": job.skill.own_name or job.skill.name,
                "folder": str(folder),
                "input": job.input,
                "chat": job.chat,
                "workspace": str(job.workspace),
                "language": job.language,
            }
        )
        while True:
            heard = await process.hear()
            if "done" in heard:
                return _result(heard["done"])
            if "failed" in heard:
                return self._failed(str(heard["failed"])[:MOST_LOG_CHARS])
            reply = await self._answer(heard)
            await process.say(asdict(reply))

    async def _answer(self, heard: Mapping[str, Any]) -> CallReply:
        """Return the answer to a request from the skill.

        The time for the answer does not count as run time of the skill's own code.
        """
        if "tool" in heard:
            arguments = heard.get("arguments")
            return await self._call(str(heard["tool"]), arguments if isinstance(arguments, dict) else {})
        if "model" in heard:
            try:
                return CallReply(True, await self._model(str(heard["model"])))
            except RumiError as error:
                return CallReply(False, str(error))
        if "log" in heard and self._logged < MOST_LOGGED:
            self._logged += 1
            logger.info("skill %s: %s", self._job.skill.name, str(heard["log"])[:MOST_LOG_CHARS])
        return CallReply(True, "")

    def _failed(self, why: str) -> SkillError:
        return SkillFailed("The skill {name} failed: {why}.", name=self._job.skill.name, why=why)
