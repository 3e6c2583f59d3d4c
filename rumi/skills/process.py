"""The process of one code skill: `python -I -B -m rumi.skills.process LIFE`, one run, frames in and out.

`LIFE` is the read end of a pipe whose other end the parent holds. When that is gone the kernel ends this
process and what it has started, whatever they are doing.
"""

import importlib.util
import inspect
import json
import os
import resource
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from rumi.child import give_up, live_as_long_as
from rumi.frames import Frames, NoFrame, framed
from rumi.skills.context import CannotDo, Context
from rumi.skills.family import adopt_orphans, end_descendants
from rumi.skills.format import CODE, class_name
from rumi.skills.types import Reply

MOST_FRAME_BYTES: Final = 4_000_000
MEMORY_BYTES: Final = 4_000_000_000
NICE: Final = 5


class Unfit(Exception):
    """A `skill.py` that cannot be run; says why."""


class Parent:
    """The process that runs the chat, over standard input and a copy of standard output."""

    def __init__(self, answers: int, requests: int) -> None:
        self._frames = Frames(trio.lowlevel.FdStream(answers), MOST_FRAME_BYTES)
        self._out = trio.lowlevel.FdStream(requests)
        self._one_by_one = trio.Lock()

    async def receive(self) -> dict[str, Any]:
        """Its next frame; without one there is nobody to work for."""
        try:
            found: dict[str, Any] = json.loads(await self._frames.next())
        except NoFrame:
            os._exit(1)
        return found

    async def tell(self, what: Mapping[str, Any]) -> None:
        """Send a frame."""
        await self._out.send_all(framed(json.dumps(what).encode()))

    async def ask(self, what: Mapping[str, Any]) -> Reply:
        """Send a request, and wait for its answer: one at a time, so that answers need no number.

        Shielded from there on, as an answer that nobody took would be taken for the next one's.
        """
        async with self._one_by_one:
            with trio.CancelScope(shield=True):
                await self.tell(what)
                answer = await self.receive()
        return Reply(bool(answer["ok"]), str(answer["content"]), answer["exit_code"])


def load(folder: Path, name: str) -> Any:
    """An object of the skill's class.

    Raises:
        Unfit: there is no such class, or it has no `async def run`.
    """
    sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location("skill", folder / CODE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["skill"] = module
    spec.loader.exec_module(module)
    wanted = class_name(name)
    found = getattr(module, wanted, None)
    if not inspect.isclass(found):
        raise Unfit(f"its {CODE} has no class {wanted}")
    if not inspect.iscoroutinefunction(getattr(found, "run", None)):
        raise Unfit(f"its class {wanted} has no `async def run(self, context)`")
    return found()


async def work(parent: Parent, job: Mapping[str, Any]) -> dict[str, str]:
    """Run the skill; what it returned, or what went wrong."""
    folder = Path(job["folder"])
    try:
        context = Context(
            input=job["input"],
            chat=job["chat"],
            workspace=Path(job["workspace"]),
            language=job["language"],
            send=parent.ask,
        )
        result = await load(folder, job["name"]).run(context)
        if result is not None and not isinstance(result, str):
            raise Unfit(f"its run returned {type(result).__name__}, and must return a text")
    except Unfit as error:
        return {"failed": str(error)}
    except BaseException as error:  # noqa: BLE001 - a skill may raise what it likes, and its process ends with it
        return {"failed": described(error, folder)}
    return {"done": result or ""}


def described(error: BaseException, folder: Path) -> str:
    """What a skill raised, and the line of its own on which it did."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, SystemExit):
        return "it ended its process (SystemExit)"
    said = " ".join(str(error).split())[:500]
    if isinstance(error, CannotDo) and said:
        return said.rstrip(".")
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{what} ({Path(error.filename).name})"
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(folder)
    ]
    return f"{what} ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else what


async def serve(answers: int, requests: int) -> None:
    """One run. When it is told how it ended, nothing that it has started is left."""
    parent = Parent(answers, requests)
    await parent.tell({"ready": True})
    said = await work(parent, await parent.receive())
    end_descendants(os.getpid())
    await parent.tell(said)


def main() -> None:
    """Keep the two pipes to ourselves: what a skill prints goes to standard error."""
    live_as_long_as(int(sys.argv[1]), whole_group=True)
    adopt_orphans()
    os.nice(NICE)
    give_up({resource.RLIMIT_AS: MEMORY_BYTES, resource.RLIMIT_CORE: 0})
    answers, requests = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    trio.run(serve, answers, requests)
    os._exit(0)  # threads that a skill has left behind must not keep this waiting


if __name__ == "__main__":
    main()
