"""The process in which one code skill (a skill with a `skill.py`) runs: a `rumi.sandbox.confined.child`.

The skill may start other processes, which end together with this process.
"""

import importlib.util
import inspect
import json
import math
import os
import resource
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import trio

from rumi.agent.skills.context import CannotDo, Context, Made
from rumi.agent.skills.format import CODE, class_name
from rumi.agent.skills.messages import CallReply
from rumi.errors import single
from rumi.sandbox.confined.child import ParentProcess, end_descendants, framed_json
from rumi.sandbox.confined.parent import Frames, NoFrame

MEMORY_BYTES: Final = 4_000_000_000
NICE: Final = 5

EARLIER_CONTEXT: Final = "rumi.skills.context"
"""The earlier name of the module `rumi.agent.skills.context`, from which older skills import `Context`."""


class Unfit(Exception):
    """A `skill.py` cannot be run; the error's text is the reason."""


class ParentChat:
    """A connection to the chat, which runs in the parent process. The connection must be closed."""

    def __init__(self, parent: ParentProcess) -> None:
        # Duplicates, because trio makes a stream's descriptors non-blocking and closes them with the stream.
        self._in = trio.lowlevel.FdStream(os.dup(parent.requests))
        self._out = trio.lowlevel.FdStream(os.dup(parent.answers))
        self._frames = Frames(self._in, math.inf)
        self._one_by_one = trio.Lock()

    def close(self) -> None:
        """Close the pipes. Afterwards, the skill can send no more requests."""
        self._in.close()
        self._out.close()

    async def ask(self, what: Mapping[str, Any]) -> CallReply:
        """Send a request and return the answer. Only one request runs at a time, so answers need no id.

        This is shielded from cancellation while a request is in progress, because an unread answer would be
        taken for the answer to the next request.
        """
        async with self._one_by_one:
            with trio.CancelScope(shield=True):
                await self._out.send_all(framed_json(what))
                try:
                    answer = json.loads(await self._frames.next())
                except NoFrame:
                    os._exit(1)  # the parent has gone, and nobody needs the result
        return CallReply(**answer)


def load(folder: Path, name: str) -> Any:
    """Import the skill's code and return an instance of its class.

    Raises:
        Unfit: The code has no such class, or the class has no `async def run`.
    """
    sys.path.insert(0, str(folder))
    # Skills that were written for an earlier version import the context by its earlier name.
    sys.modules.setdefault(EARLIER_CONTEXT.rpartition(".")[0], sys.modules["rumi.agent.skills"])
    sys.modules.setdefault(EARLIER_CONTEXT, sys.modules[Context.__module__])
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


async def work(parent: ParentProcess, job: Mapping[str, Any]) -> dict[str, Any]:
    """Run the skill; return its result or its error as an answer for the parent."""
    folder = Path(job["folder"])
    chat = ParentChat(parent)
    try:
        context = Context(
            input=job["input"],
            chat=job["chat"],
            workspace=Path(job["workspace"]),
            language=job["language"],
            send=chat.ask,
        )
        result = await load(folder, job["name"]).run(context)
        parts = parts_of(result)
    except Unfit as error:
        return {"failed": str(error)}
    except BaseException as error:  # noqa: BLE001 - a skill may raise what it likes, and its process ends with it
        return {"failed": described(error, folder)}
    finally:
        chat.close()
    return {"done": parts}


def parts_of(result: object) -> list[tuple[str, bool]]:
    """Return the parts of a skill's result, each with True if the skill says that it has made it.

    Raises:
        Unfit: The result is neither a text nor a list of texts.
    """
    parts = list(result) if isinstance(result, list | tuple) else [] if result is None else [result]
    for part in parts:
        if not isinstance(part, str):
            raise Unfit(f"its run returned {type(part).__name__}, and must return a text or a list of texts")
    return [(str(part), isinstance(part, Made)) for part in parts]


def described(error: BaseException, folder: Path) -> str:
    """Return a description of a skill's error, with the line of the skill's code where it occurred."""
    error = single(error)
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


def main() -> None:
    """Run a skill once. All processes that the skill started end before its result is sent."""
    parent = ParentProcess({resource.RLIMIT_AS: MEMORY_BYTES}, nice=NICE, family=True)
    sys.dont_write_bytecode = True  # a run must not add files to the skill's folder
    parent.ready()
    said = trio.run(work, parent, parent.hear())
    end_descendants()
    parent.send(said)
    os._exit(0)  # a normal exit would wait for threads that the skill left running


if __name__ == "__main__":
    main()
