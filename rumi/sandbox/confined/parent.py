"""The parent's side of confined processes, which run page readers, searches and code of skills.

A child starts without Rumi's environment, reports when it is ready, exchanges frames, and ends in bounded
time when its owner no longer needs it. `rumi.sandbox.confined.child` is the child's side.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, TypeAlias

import trio
from trio.abc import ReceiveStream

from rumi.errors import RumiError
from rumi.sandbox.confined.child import (
    LENGTH_BYTES,
    PAUSE_S,
    framed,
    framed_json,
    kill_descendants,
    processes,
)
from rumi.texts import Text, os_error

START_S: Final = 30.0  # for imports, on a busy machine
END_S: Final = 5.0
_ENVIRONMENT: Final = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}

NONSENSE: Final = Text("it wrote something into the pipe that is not its own")

Why: TypeAlias = Literal["not started", "late", "signal", "exited", "closed", "too long", "nonsense"]


class ChildFailed(RumiError):
    """A child gave no valid answer. The error message is a clause that callers put into a sentence.

    `number` is the signal that killed the child, its exit code, or the errno of the failed start.
    """

    def __init__(self, message: str, /, why: Why, number: int = 0, **fields: object) -> None:
        super().__init__(message, **fields)
        self.why = why
        self.number = number


class NoFrame(Exception):
    """The other end has closed the pipe, so no more frames will come."""


class FrameTooLong(NoFrame):
    """The other end announced a frame that exceeds the limit."""


class Frames:
    """Reader of frames of at most `most_bytes` from a stream."""

    def __init__(self, stream: ReceiveStream, most_bytes: float) -> None:
        self._stream = stream
        self._most_bytes = most_bytes

    async def next(self) -> bytes:
        """Return the next frame. A cancellation in the middle of a frame makes the stream unusable.

        Raises:
            NoFrame: The stream has ended.
            FrameTooLong: The frame exceeds the limit; the stream is unusable.
        """
        size = int.from_bytes(await self._exactly(LENGTH_BYTES), "big")
        if size > self._most_bytes:
            raise FrameTooLong
        return await self._exactly(size)

    async def _exactly(self, size: int) -> bytes:
        got = bytearray()
        while len(got) < size:
            try:
                more = await self._stream.receive_some(min(size - len(got), 1 << 18))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                more = b""
            if not more:
                raise NoFrame
            got += more
        return bytes(got)


class Child:
    """A confined process. Its owner must end it, for example with `async with`, or pass it to another owner.

    `life` is the write end of a pipe: when it is closed, by `end` or because this process has died, the
    kernel ends the child. `left_s` is the remaining time that `say` and `hear` may wait for the child.
    """

    def __init__(self, process: trio.Process, life: int, most_bytes: int, family: bool) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.left_s = math.inf
        self.printed = process.stderr
        """The child's output, if requested. It must be read continuously, or the child blocks."""
        self._process = process
        self._to = process.stdin
        self._from = process.stdout
        self._frames = Frames(process.stdout, most_bytes)
        self._most_bytes = most_bytes
        self._life = life
        self._family = family

    @classmethod
    async def start(
        cls,
        program: Sequence[str],
        *,
        most_bytes: int,
        environment: Mapping[str, str] | None = None,
        family: bool = False,
        printed: bool = False,
    ) -> Child:
        """Start a program (a file, or `-m` and a module); return when it is ready.

        A frame from the child may have at most `most_bytes`. With `family`, the child may start processes,
        which end with it. If cancelled, no process is left.

        Raises:
            ChildFailed: The child cannot be started, exits too early, or is not ready within `START_S`.
        """
        theirs, ours = os.pipe()
        try:
            process = await trio.lowlevel.open_process(
                # -I: Python loads no code from the working folder, and none that the environment names.
                [sys.executable, "-I", *program, str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if printed else subprocess.DEVNULL,
                pass_fds=(theirs,),
                cwd="/",
                env={**_ENVIRONMENT, **(environment or {})},
                start_new_session=True,  # a process group of its own, which a Ctrl-C does not reach
            )
        except BaseException as error:
            os.close(ours)
            if isinstance(error, OSError):
                number = error.errno or 0
                raise ChildFailed(
                    "{reason}", why="not started", number=number, reason=os_error(error)
                ) from None
            raise
        finally:
            os.close(theirs)
        one = cls(process, ours, most_bytes, family)
        one.left_s = START_S
        try:
            await one.hear()
        except BaseException:
            await one.end()
            raise
        one.left_s = math.inf
        return one

    async def __aenter__(self) -> Child:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.end()

    @property
    def alive(self) -> bool:
        """Return True if the process still runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """Return the process's id."""
        return self._process.pid

    async def say(self, what: object, *contents: bytes) -> None:
        """Send a frame of JSON, followed by frames of bytes. A cancellation makes the child unusable.

        Raises:
            ChildFailed: The child has closed its input, or does not read in time.
        """
        try:
            with self._in_time():
                await self._to.send_all(framed_json(what) + b"".join(map(framed, contents)))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise await self._ended() from None

    async def hear(self) -> dict[str, Any]:
        """Return the child's next JSON object. A cancellation makes the child unusable.

        Raises:
            ChildFailed: The child sent nothing in time, or sent something other than a JSON object.
        """
        try:
            with self._in_time():
                heard = json.loads(await self._frames.next())
        except FrameTooLong:
            raise ChildFailed(
                "it sent more than {most_bytes} bytes at once", most_bytes=self._most_bytes, why="too long"
            ) from None
        except NoFrame:
            raise await self._ended() from None
        except (ValueError, RecursionError):
            heard = None
        if not isinstance(heard, dict):
            raise ChildFailed(NONSENSE, why="nonsense")
        return heard

    async def end(self) -> None:
        """Kill the child and the processes it started; wait for its end, shielded, for at most `END_S`."""
        with trio.CancelScope(shield=True):
            with trio.move_on_after(END_S):
                await self._kill()
            # If killing took too long, the kernel ends the child because of this pipe.
            os.close(self._life)
            for pipe in (self._to, self._from, self.printed):
                if pipe is not None:
                    await trio.aclose_forcefully(pipe)

    async def _kill(self) -> None:
        pid = self._process.pid
        if not self._family:
            self._process.kill()
            await self._process.wait()
            return
        await kill_family(pid, self._process.wait)

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        begun = trio.current_time()
        with trio.move_on_at(begun + self.left_s) as scope:
            yield
        self.left_s -= trio.current_time() - begun
        if scope.cancelled_caught:
            raise ChildFailed("it took too much time", why="late")

    async def _ended(self) -> ChildFailed:
        """Return the error for a child that has closed its end of a pipe."""
        with trio.move_on_after(END_S):
            code = await self._process.wait()
            if code < 0:
                return ChildFailed(
                    "its process was ended by {code}", code=signal_name(-code), why="signal", number=-code
                )
            return ChildFailed(
                "it ended its process with exit code {code}", code=code, why="exited", number=code
            )
        return ChildFailed("it closed its pipe to Rumi", why="closed")


async def kill_family(pid: int, exited: Callable[[], Awaitable[object]]) -> None:
    """Kill a process, its group and its descendants; return when none is left.

    The process must lead its group and must not have been reaped. `exited` waits for its end.
    """
    with suppress(ProcessLookupError):  # not reaped yet, so the pid is still its own
        os.killpg(pid, signal.SIGSTOP)  # so that it starts no more processes
        try:
            while kill_descendants(pid):  # noqa: ASYNC110  # no event for the end of descendants
                await trio.sleep(PAUSE_S)
        finally:  # also if cancelled, or the stopped group would remain
            os.killpg(pid, signal.SIGKILL)
    await exited()
    while any(group == pid and state not in "ZX" for state, _, group in processes().values()):  # noqa: ASYNC110  # no event for others' children
        await trio.sleep(PAUSE_S)


def signal_name(number: int) -> str:
    """Return a signal's name, or "signal N" for real-time signals, which have no names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
