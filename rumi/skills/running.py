"""Running a code skill: a process of its own that can be killed, and what it may ask for meanwhile."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

from rumi.errors import RumiError
from rumi.frames import Frames, FrameTooLong, NoFrame, framed
from rumi.skills.actor import Offload
from rumi.skills.family import PAUSE_S, kill_descendants
from rumi.skills.folder import snapshot
from rumi.skills.trust import TrustedSkills
from rumi.skills.types import Reply, Skill, SkillError

logger = logging.getLogger(__name__)

OWN_S: Final = 60.0
"""How long a skill may take itself, without what it waits for tools and the model."""
AT_ONCE: Final = 8
START_S: Final = 30.0  # imports, on a machine that is busy
END_S: Final = 5.0
MOST_FRAME_BYTES: Final = 4_000_000
MOST_LOGGED: Final = 100
MOST_LOG_CHARS: Final = 1_000

CallTool: TypeAlias = Callable[[str, Mapping[str, object]], Awaitable[Reply]]
AskModel: TypeAlias = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Job:
    """A code skill and what it is to do, for which chat. `workspace` is the folder of the chat's files."""

    skill: Skill
    input: str
    chat: str
    workspace: Path
    language: str


class CodeRunner:
    """Runs code skills, at most `at_once` at a time.

    One of a project runs only where its content is trusted, and then as a copy of that content: what changes
    in the folder meanwhile is not run. `own_s` bounds the time that a skill takes itself.
    """

    def __init__(
        self, trusted: TrustedSkills, offload: Offload, *, own_s: float = OWN_S, at_once: int = AT_ONCE
    ) -> None:
        self._trusted = trusted
        self._offload = offload
        self._own_s = own_s
        self._permits = trio.Semaphore(at_once)

    async def run(self, job: Job, call: CallTool, model: AskModel) -> str:
        """Run a skill and return its text. Cancelled, it has been killed before this leaves.

        `call` and `model` are awaited one at a time; what a `RumiError` says in them the skill is told.

        Raises:
            SkillError: it is not trusted, or it failed; one sentence says how.
        """
        async with self._permits, self._folder(job.skill) as folder, _process(job.skill.name) as process:
            said = await _Talk(job, process, call, model, self._own_s).run(folder)
        if isinstance(said, SkillError):
            raise said
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
            with trio.move_on_after(END_S, shield=True):
                await self._offload(lambda: shutil.rmtree(copy, ignore_errors=True))

    def _copied(self, skill: Skill) -> Path:
        try:
            content = snapshot(skill.folder)
        except SkillError as error:
            raise SkillError(f"The skill {skill.name} is not run: {error.message}.") from None
        if not self._trusted.is_trusted(skill.folder, content):
            raise SkillError(
                f"The skill {skill.name} of this project has code that is not trusted, or that has changed "
                "since.",
                f"Look at {skill.folder}, then run: rumi skills trust {skill.name}",
            )
        copy = Path(tempfile.mkdtemp(prefix="rumi-skill-"))
        try:
            content.write(copy)
        except OSError as error:
            shutil.rmtree(copy, ignore_errors=True)
            raise SkillError(f"The skill {skill.name} cannot be copied: {error.strerror}.") from error
        return copy


@asynccontextmanager
async def _process(name: str) -> AsyncIterator[trio.Process]:
    """The process of a skill. At the end it is killed with what it has started, and reaped."""
    theirs, life = os.pipe()
    try:
        try:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-I", "-B", "-m", "rumi.skills.process", str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(theirs,),
                cwd="/",
                env={"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
                start_new_session=True,  # a group of its own, that is killed as one
            )
        finally:
            os.close(theirs)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_drain, name, process)
                yield process
                nursery.cancel_scope.cancel()
        finally:
            await _end(process)
    finally:
        os.close(life)


async def _end(process: trio.Process) -> None:
    with suppress(ProcessLookupError):  # before it is reaped, while the number is still its own
        os.killpg(process.pid, signal.SIGSTOP)  # it starts nothing more
        with trio.move_on_after(END_S, shield=True):
            while kill_descendants(process.pid):  # noqa: ASYNC110  # they go when they go
                await trio.sleep(PAUSE_S)
        os.killpg(process.pid, signal.SIGKILL)
    with trio.move_on_after(END_S, shield=True):
        await process.wait()
        await _emptied(process.pid)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with trio.move_on_after(END_S, shield=True):
                await pipe.aclose()


async def _emptied(group: int) -> None:
    """Return when no process of a group runs; those that were killed take a moment to go."""
    while _runs(group):  # noqa: ASYNC110  # nobody tells when others' children end
        await trio.sleep(0.005)


def _runs(group: int) -> bool:
    """Whether the group has a process that is no zombie: how long those stay is up to who adopts them."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            state, _, its_group = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:3]
            if its_group == str(group) and state not in "ZX":
                return True
    return False


async def _drain(name: str, process: trio.Process) -> None:
    """Take what a skill prints, however much it is; the log gets the beginning."""
    assert process.stderr is not None
    left = MOST_LOGGED * MOST_LOG_CHARS
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        async for some in process.stderr:
            if left > 0:
                logger.info("skill %s printed: %s", name, some[:left].decode("utf-8", "replace").rstrip())
                left -= len(some)


class _Talk:
    """What is said between a skill's process and us, in turns."""

    def __init__(
        self, job: Job, process: trio.Process, call: CallTool, model: AskModel, own_s: float
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._job = job
        self._process = process
        self._to = process.stdin
        self._frames = Frames(process.stdout, MOST_FRAME_BYTES)
        self._call = call
        self._model = model
        self._own_s = own_s
        self._left_s = START_S
        self._too_late = SkillError("The process that runs skills does not start.", "Run: rumi doctor")
        self._logged = 0

    async def run(self, folder: Path) -> str | SkillError:
        """The skill's text, or what went wrong with it."""
        try:
            return await self._run(folder)
        except SkillError as error:
            return error

    async def _run(self, folder: Path) -> str:
        job = self._job
        await self._hear()
        self._left_s = self._own_s
        self._too_late = SkillError(
            f"The skill {job.skill.name} was stopped: it took longer than {self._own_s:g} s by itself."
        )
        await self._say(
            name=job.skill.name,
            folder=str(folder),
            input=job.input,
            chat=job.chat,
            workspace=str(job.workspace),
            language=job.language,
        )
        while True:
            heard = await self._hear()
            if "done" in heard:
                return str(heard["done"])
            if "failed" in heard:
                raise self._failed(str(heard["failed"])[:MOST_LOG_CHARS])
            reply = await self._answer(heard)
            await self._say(ok=reply.ok, content=reply.content, exit_code=reply.exit_code)

    async def _answer(self, heard: Mapping[str, Any]) -> Reply:
        """What the skill asked for, done. This time is not its own."""
        if "tool" in heard:
            arguments = heard.get("arguments")
            return await self._call(str(heard["tool"]), arguments if isinstance(arguments, dict) else {})
        if "model" in heard:
            try:
                return Reply(True, await self._model(str(heard["model"])))
            except RumiError as error:
                return Reply(False, str(error))
        if "log" in heard and self._logged < MOST_LOGGED:
            self._logged += 1
            logger.info("skill %s: %s", self._job.skill.name, str(heard["log"])[:MOST_LOG_CHARS])
        return Reply(True, "")

    async def _say(self, **what: object) -> None:
        try:
            with self._in_time():
                await self._to.send_all(framed(json.dumps(what).encode()))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise await self._last_words() from None

    async def _hear(self) -> dict[str, Any]:
        try:
            with self._in_time():
                heard = json.loads(await self._frames.next())
            if isinstance(heard, dict):
                return heard
        except FrameTooLong:
            raise self._failed(f"it says more than {MOST_FRAME_BYTES} bytes at once") from None
        except NoFrame:
            raise await self._last_words() from None
        except (ValueError, RecursionError):
            pass
        raise self._failed("it wrote something into the pipe that is not its own")

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """What the skill keeps us waiting for counts as its own time."""
        begun = trio.current_time()
        with trio.move_on_after(self._left_s) as scope:
            yield
        self._left_s -= trio.current_time() - begun
        if scope.cancelled_caught:
            raise self._too_late

    async def _last_words(self) -> SkillError:
        """Why a process that has closed its end did so."""
        with trio.move_on_after(END_S):
            code = await self._process.wait()
            if code < 0:
                return self._failed(f"its process was ended by {signal.Signals(-code).name}")
            return self._failed(f"it ended its process with exit code {code}")
        return self._failed("it closed the pipe to us")

    def _failed(self, why: str) -> SkillError:
        return SkillError(f"The skill {self._job.skill.name} failed: {why}.")
