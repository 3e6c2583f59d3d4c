"""One process that reads, seen from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import trio

from rumi.frames import Frames, FrameTooLong, NoFrame, framed
from rumi.web.reading.frames import MOST_ANSWER_BYTES
from rumi.web.reading.text import Text
from rumi.web.types import FetchError

START_S = 30.0  # imports, on a machine that is busy
END_S = 5.0

WORN_KB = 120_000
"""A reader that has ever held more than this reads no other page: what it got it does not give back."""


class NoAnswer(Exception):
    """The process gave no answer; says why."""


class Reader:
    """A process that reads one page after the other; whoever has started it ends it, or hands it on.

    The write end of a pipe is its life: when it is closed, by `end` or because this process is gone, the
    kernel ends the reader, also in the midst of a page.
    """

    def __init__(self, process: trio.Process, life: int) -> None:
        assert process.stdout is not None
        self._process = process
        self._answers = Frames(process.stdout, MOST_ANSWER_BYTES)
        self._life = life
        self.worn = False  # has grown, or may have been harmed, and should read no other page

    @classmethod
    async def start(cls) -> Reader:
        """Start one and wait until it is ready. Cancelled, nothing is left.

        Raises:
            FetchError: it does not start.
        """
        theirs, ours = os.pipe()
        try:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-I", "-m", "rumi.web.reading.process", str(theirs)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs,),
                cwd="/",
                env={"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
                start_new_session=True,  # a Ctrl-C in the terminal is ours to deal with
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        reader = cls(process, ours)
        try:
            with trio.fail_after(START_S):
                await reader._frame()
        except (trio.TooSlowError, NoAnswer) as error:
            await reader.end()
            raise FetchError(
                "The process that reads pages does not start.", "Run: rumi doctor", answered=True
            ) from error
        except BaseException:
            await reader.end()
            raise
        return reader

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    async def read(self, request: dict[str, object], body: bytes) -> Text:
        """Have a page read. Cancelled in the midst of it, the reader is of no more use: `end` it.

        Raises:
            NoAnswer: it could not, and is of no more use.
        """
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(framed(json.dumps(request).encode()) + framed(body))
        except trio.BrokenResourceError:
            raise NoAnswer(await self._last_words()) from None
        answer = await self._frame()
        try:
            heard = json.loads(answer)
            if heard.get("failed"):
                raise NoAnswer(str(heard["failed"]))
            self.worn = _peak_kb(self.pid) > WORN_KB
            links = tuple(str(link) for link in heard["links"])
            return Text(
                str(heard["title"]), str(heard["text"]), links, str(heard["cut"]), str(heard["described"])
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise NoAnswer("its reader said something that makes no sense") from None

    async def end(self) -> None:
        """Kill it and wait until it is gone: shielded, for at most `END_S` seconds."""
        os.close(self._life)
        self._process.kill()
        with trio.move_on_after(END_S, shield=True):
            await self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with trio.move_on_after(END_S, shield=True):
                    await pipe.aclose()

    async def _frame(self) -> bytes:
        try:
            return await self._answers.next()
        except FrameTooLong:
            raise NoAnswer("its reader said more than anybody would read") from None
        except NoFrame:
            raise NoAnswer(await self._last_words()) from None

    async def _last_words(self) -> str:
        """Why a process that has closed its end did so."""
        with trio.move_on_after(END_S):
            code = await self._process.wait()
            if code == -signal.SIGXCPU:
                return "it took too much time"
            if code < 0:  # what is written in C and C++ ends so where it gets no memory
                name = signal.Signals(-code).name
                return f"it takes too much memory, or is made to break its reader ({name})"
        return "its reader ended"


def _peak_kb(pid: int) -> int:
    """The most memory that a process has held since its program began, as the kernel counts.

    Not what `getrusage` says in it: that begins with the peak of what it was forked from.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # it is gone
        return 0
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")), 0)
