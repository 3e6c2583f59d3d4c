"""A pseudo-terminal with a person in front of it: types, resizes, and reads the screen."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pyte
import trio

from rumi.channels.terminal.streams import StandardStreams

WAIT_S = 60.0


class Terminal:
    """`master` is the person's end, `streams` the program's. Time is real: a terminal has no other."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.master, self.slave = os.openpty()
        self.screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=0.001)
        self.raw = b""
        self._feed = pyte.ByteStream(self.screen)
        self._changed = trio.Event()
        self._set_size(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.streams = StandardStreams(self.slave, self.slave, self.slave)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def read(self) -> None:
        """Draw what the program writes, until cancelled or hung up."""
        while True:
            await trio.lowlevel.wait_readable(self.master)
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.raw += data
            self._feed.feed(data)
            self._changed.set()
            self._changed = trio.Event()

    @property
    def shown(self) -> list[str]:
        """The screen, without empty lines at its end."""
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def everything(self) -> list[str]:
        """What has scrolled away, and the screen."""
        columns = self.screen.columns
        past = ["".join(line[x].data for x in range(columns)).rstrip() for line in self.screen.history.top]
        return past + self.shown

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for the screen to be so; the screen is in the error if that never comes."""
        with trio.move_on_after(WAIT_S):
            while not condition():
                with trio.move_on_after(0.05):  # the condition need not be about the screen
                    await self._changed.wait()
            return
        raise AssertionError("never came; the screen:\n" + "\n".join(self.shown))

    async def see(self, text: str) -> None:
        """Wait until `text` is on the screen."""
        await self.until(lambda: any(text in line for line in self.shown))

    async def type(self, keys: str) -> None:
        """Press keys, at once."""
        await trio.lowlevel.checkpoint()
        os.write(self.master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Change the window. (This screen does not wrap old lines again, as some terminals do.)"""
        self.screen.resize(rows, columns)
        self._set_size(columns, rows)

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self.master)
        self.master = -1

    @property
    def restored(self) -> bool:
        """Whether the program left the terminal as it found it."""
        return termios.tcgetattr(self.slave) == self.before and not self.screen.cursor.hidden

    def close(self) -> None:
        os.close(self.slave)
        if self.master >= 0:
            os.close(self.master)


@asynccontextmanager
async def terminal(columns: int = 80, rows: int = 24) -> AsyncIterator[Terminal]:
    """A terminal whose screen is read within the block."""
    window = Terminal(columns, rows)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(window.read)
            yield window
            nursery.cancel_scope.cancel()
    finally:
        window.close()
