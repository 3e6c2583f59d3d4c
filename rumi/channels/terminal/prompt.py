"""The screen of the interactive chat: an input line that is always visible, below a live region.

prompt_toolkit owns the terminal while this runs. It needs an asyncio loop, so it runs in a separate thread,
which draws the queued lines and posts the input; no other module uses asyncio. The terminal is in raw mode,
so Ctrl-C is a key like any other and is read in every phase of a turn.
"""

import asyncio
import os
import signal
import termios
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from prompt_toolkit.application import Application, create_app_session, in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from rumi.channels.terminal.interface import End, Glance, Interface, Typed
from rumi.channels.terminal.screen import BEGIN, END
from rumi.channels.terminal.streams import OutputClosedError, StandardStreams
from rumi.channels.terminal.words import Reader

_CLOSING_S = 2.0
"""Maximum time for the thread to restore the terminal and end, in seconds."""


@dataclass(slots=True, eq=False)
class _Drawing:
    """A pending call of `draw`. `over` is set when the call ends; `drawn` is True if the call succeeded."""

    over: trio.Event = field(default_factory=trio.Event)
    drawn: bool = False


class PromptScreen:
    """A `Screen` with an input line. `run` must be running; it sends the input to its channel."""

    def __init__(
        self, streams: StandardStreams, reader: Reader, history_path: Path | None, glance: Glance
    ) -> None:
        self._streams = streams
        self._reader = reader
        self._history_path = history_path
        self._glance = glance
        self._lock = threading.Lock()  # guards the next three, which both threads use, and `_ended`
        self._above: list[str] = []
        self._live: list[str] = []
        self._drawings: list[_Drawing] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._buffer: Buffer | None = None
        self._wake: asyncio.Event | None = None
        self._suspended = False
        self._before: list[Any] = []  # the terminal's modes
        self._ended = False

    def size(self) -> tuple[int, int]:
        """Return the current numbers of columns and rows."""
        return self._streams.output.columns_and_rows()

    async def draw(self, above: Sequence[str], live: Sequence[str]) -> None:
        """Print `above` permanently and show `live` between it and the input line.

        The lines are drawn even if this call is cancelled.

        Raises:
            OutputClosedError: the interface has ended.
        """
        drawing = _Drawing()
        with self._lock:
            if self._ended:
                raise OutputClosedError
            self._above += above
            self._live = list(live)
            self._drawings.append(drawing)
        self._poke()
        await drawing.over.wait()
        if not drawing.drawn:
            raise OutputClosedError

    async def run(
        self,
        typed: trio.MemorySendChannel[Typed],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Control the terminal until the person ends the input, or until cancelled; then restore its modes.

        `typed` needs an unbounded buffer, because input must never wait.
        """
        token = trio.lowlevel.current_trio_token()
        fd = self._streams.input.fd
        self._before = termios.tcgetattr(fd)
        ready, done = trio.Event(), trio.Event()

        def post(what: Typed) -> None:
            token.run_sync_soon(typed.send_nowait, what)

        def begun() -> None:
            token.run_sync_soon(ready.set)

        async def thread(scope: trio.CancelScope) -> None:
            try:
                with scope:
                    await trio.to_thread.run_sync(
                        self._run_app,
                        token,
                        post,
                        begun,
                        abandon_on_cancel=True,
                        limiter=trio.CapacityLimiter(1),
                    )
            finally:
                done.set()
                ready.set()

        # Shielded, so that the thread can restore the terminal before it is abandoned; bounded, because a
        # write to a terminal stopped with Ctrl-S blocks until the terminal is continued.
        scope = trio.CancelScope(shield=True)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(thread, scope)
                try:
                    await ready.wait()
                    task_status.started()
                    await done.wait()
                finally:
                    self._finish()
                    scope.deadline = trio.current_time() + _CLOSING_S
        finally:
            with suppress(termios.error):  # the terminal is closed
                termios.tcsetattr(fd, termios.TCSANOW, self._before)

    # Called from trio, with effect in the thread

    def offer(self, text: str) -> None:
        """Put a text into the input line, so that the person can change it, unless there is one already."""

        def put() -> None:
            if self._buffer is not None and not self._buffer.text:
                self._buffer.document = Document(text)

        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(put)

    def _poke(self) -> None:
        if self._loop is not None and self._wake is not None:
            try:
                self._loop.call_soon_threadsafe(self._wake.set)
            except RuntimeError:  # the loop has just been closed
                return

    def _finish(self) -> None:
        with self._lock:
            self._ended = True
        self._poke()

    # The thread

    def _run_app(
        self, token: trio.lowlevel.TrioToken, post: Callable[[Typed], None], begun: Callable[[], None]
    ) -> None:
        def size() -> Size:
            columns, rows = self._streams.output.columns_and_rows()
            return Size(rows=rows, columns=columns)

        try:
            with (
                open(os.dup(self._streams.input.fd), encoding="utf-8", errors="replace") as stdin,
                open(os.dup(self._streams.output.fd), "w", encoding="utf-8", errors="replace") as stdout,
            ):
                # No cursor position request: the terminal's response would arrive in the middle of the input.
                output = Vt100_Output(
                    stdout,
                    size,
                    term=os.environ.get("TERM"),
                    default_color_depth=ColorDepth.from_env(),  # NO_COLOR
                    enable_cpr=False,
                )
                with create_app_session(input=Vt100Input(stdin), output=output):

                    def suspend() -> None:
                        if not self._suspended:
                            self._suspended = True
                            app.create_background_task(self._suspend(token))

                    interface = Interface(self._reader, self._history_path, self._glance, post, suspend)
                    app = interface.application()
                    self._buffer = interface.buffer

                    def started() -> None:
                        self._loop = asyncio.get_running_loop()
                        self._wake = asyncio.Event()
                        self._wake.set()
                        app.create_background_task(self._keep_drawing(app, interface, token))
                        begun()

                    app.run(handle_sigint=False, set_exception_handler=False, pre_run=started)
        except (EOFError, OSError):
            pass  # the terminal is closed
        finally:
            # Under the lock, so that no `draw` can add a drawing afterwards, which would wait forever.
            with self._lock:
                self._ended = True
                waiting, self._drawings = self._drawings, []
            try:
                for drawing in waiting:
                    token.run_sync_soon(drawing.over.set)
                post(End())
            except trio.RunFinishedError:
                pass

    async def _keep_drawing(
        self, app: Application[None], interface: Interface, token: trio.lowlevel.TrioToken
    ) -> None:
        assert self._wake is not None
        ended = False
        while not ended:
            await self._wake.wait()
            self._wake.clear()
            if self._suspended and not self._ended:
                continue
            with self._lock:
                above, self._above = self._above, []
                drawings = list(self._drawings)
                interface.live, ended = self._live, self._ended
            try:
                if above:
                    self._print(app, above)
            except Exception as error:  # noqa: BLE001 - ends the interface, which raises it in its thread
                if not app.is_done:
                    app.exit(exception=error)
                return
            app.invalidate()
            with self._lock:
                del self._drawings[: len(drawings)]
            for drawing in drawings:
                drawing.drawn = True
                token.run_sync_soon(drawing.over.set)
        interface.live = []
        if not app.is_done:
            app.exit()

    async def _suspend(self, token: trio.lowlevel.TrioToken) -> None:
        """Stop the process group until the shell continues it: this is what a shell expects of Ctrl-Z.

        While the group is stopped, the terminal has its original modes. Queued lines are drawn afterwards.
        """
        assert self._loop is not None
        assert self._wake is not None
        loop, continued = self._loop, asyncio.Event()

        def stop() -> None:
            # In the main thread, which gets the signal before the call returns. Another thread would run on
            # for a moment, and take the terminal back.
            os.kill(0, signal.SIGTSTP)
            loop.call_soon_threadsafe(continued.set)

        try:
            async with in_terminal():
                termios.tcsetattr(self._streams.input.fd, termios.TCSANOW, self._before)
                token.run_sync_soon(stop)
                await continued.wait()
        finally:
            self._suspended = False
            self._wake.set()

    def _print(self, app: Application[None], lines: list[str]) -> None:
        """Print above the interface: erase it, print, and draw it again below, as one terminal update."""
        app.output.write_raw(BEGIN)
        app.renderer.erase()
        app.output.write_raw("".join(f"{line}\r\n" for line in lines))
        app.render_counter += 1  # the key of the interface's caches: draw the current live lines
        app.renderer.render(app, app.layout)
        app.output.write_raw(END)
        app.output.flush()
