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
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import trio
from prompt_toolkit.application import Application, create_app_session, in_terminal
from prompt_toolkit.data_structures import Size
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from rumi.channels.terminal.interface import Aside, End, Glance, Interface, Said, Typed
from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.screen import BEGIN, END, is_light_by_environment
from rumi.channels.terminal.streams import OutputClosedError, StandardStreams
from rumi.channels.terminal.words import Reader

if TYPE_CHECKING:
    from rumi.channels.terminal.choices import Choice
    from rumi.channels.terminal.keyboard import Keyboard

_CLOSING_S = 2.0
"""Maximum time for the thread to restore the terminal and end, in seconds."""

_ANSWER_S = 0.3
"""Maximum time for the terminal to answer what it is, in seconds. An answer that comes after the end would
appear in the shell, and in an editor as text."""


@dataclass(slots=True, eq=False)
class _Drawing:
    """A pending call of `draw`. `over` is set when the call ends; `drawn` is True if the call succeeded."""

    over: trio.Event = field(default_factory=trio.Event)
    drawn: bool = False


@dataclass(slots=True, eq=False)
class _Request:
    """A pending call that gives the terminal, or the place of the input line, to something else.

    `run` is called in the thread. `over` is set when the call ends, and then `value` is its result.
    """

    run: "Callable[[_Thread, _Request], None]"
    over: trio.Event = field(default_factory=trio.Event)
    value: str | None = None


@dataclass(slots=True)
class _Thread:
    """What exists only while the thread runs, and is used only there."""

    app: Application[None]
    interface: Interface
    keyboard: "Keyboard"
    post: Callable[[Typed], None]
    token: trio.lowlevel.TrioToken
    extended: bool = False
    asked_at: float = 0.0
    answered: asyncio.Event = field(default_factory=asyncio.Event)

    def resolve(self, request: _Request, value: str | None) -> None:
        """End a request, and wake its task."""
        request.value = value
        with suppress(trio.RunFinishedError):
            self.token.run_sync_soon(request.over.set)


class PromptScreen:
    """A `Screen` with an input line. `run` must be running; it sends the input to its channel.

    `light` is True if the terminal has a light background. While `away` is True, another program has the
    terminal, such as an editor.
    """

    def __init__(
        self, streams: StandardStreams, reader: Reader, options: TerminalOptions, glance: Glance
    ) -> None:
        self.light = options.theme == "light" or (
            options.theme == "auto" and bool(is_light_by_environment(os.environ))
        )
        self._streams = streams
        self._reader = reader
        self._options = options
        self._glance = glance
        self._lock = threading.Lock()  # guards what both threads use: the next five, and `_ended`
        self._above: list[str] = []
        self._live: list[str] = []
        self._drawings: list[_Drawing] = []
        self._requests: list[_Request] = []
        self._sequences = ""
        self._open: set[_Request] = set()  # the requests that are shown; only of the thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._interface: Interface | None = None
        self._wake: asyncio.Event | None = None
        self._closing: asyncio.Event | None = None
        self._keyboard: Keyboard | None = None
        self._suspended = False
        self._dismissed = False
        self._before: list[Any] = []  # the terminal's modes
        self._ended = False

    @property
    def away(self) -> bool:
        """Return True while another program has the terminal."""
        return self._suspended

    @property
    def focused(self) -> bool | None:
        """Return whether the terminal's window has the focus; None if the terminal has not said so."""
        return None if self._keyboard is None else self._keyboard.focused

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

    def send(self, sequence: str) -> None:
        """Send a control sequence that moves nothing, such as a bell, with the next drawing."""
        with self._lock:
            self._sequences += sequence
        self._poke()

    async def pick(self, title: str, choices: "Sequence[Choice]", filter: str = "") -> str | None:
        """Let the person choose; return the value of the choice, or None if they leave the picker.

        `filter` is the initial text of the picker's filter. If this call is cancelled, the picker closes.

        Raises:
            OutputClosedError: the interface has ended.
        """

        def show(thread: _Thread, request: _Request) -> None:
            def chosen(value: str | None) -> None:
                self._open.discard(request)
                thread.resolve(request, value)

            from rumi.channels.terminal.picker import Picking

            self._open.add(request)
            thread.interface.open_picker(Picking(title, choices, chosen, filter))

        return await self._requested(show)

    def dismiss(self) -> None:
        """Close an open picker without a choice, or an open pager."""
        with self._lock:
            self._requests.append(_Request(lambda thread, _: thread.interface.close_picker()))
            self._dismissed = True
        self._poke()

    async def page(self, text: str) -> None:
        """Show a text in the person's pager until they leave it; without a pager, print it.

        The text must be safe to print; it may contain colours. What is drawn meanwhile appears afterwards. If
        this call is cancelled, the pager stays open until `run` ends.

        Raises:
            OutputClosedError: the interface has ended.
        """

        def show(thread: _Thread, request: _Request) -> None:
            if self._suspended:
                thread.resolve(request, None)
            else:
                self._suspended = True
                thread.app.create_background_task(self._page(thread, text, request))

        await self._requested(show)

    async def _requested(self, run: "Callable[[_Thread, _Request], None]") -> str | None:
        request = _Request(run)
        with self._lock:
            if self._ended:
                raise OutputClosedError
            self._requests.append(request)
        self._poke()
        try:
            await request.over.wait()
        finally:
            if not request.over.is_set():
                self.dismiss()
        return request.value

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

        if self._loop is not None and self._interface is not None:
            with suppress(RuntimeError):  # the loop has just been closed
                self._loop.call_soon_threadsafe(self._interface.offer, text)

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
        from rumi.channels.terminal.keyboard import EXTENDED, Keyboard

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

                def background(light: bool) -> None:
                    self.light = interface.light = light
                    app.invalidate()

                def extended() -> None:
                    if not thread.extended:
                        thread.extended = True
                        output.write_raw(EXTENDED)
                        output.flush()

                keyboard = self._keyboard = Keyboard(
                    stdin, background, extended, lambda: thread.answered.set()
                )
                with create_app_session(input=keyboard, output=output):
                    aside = Aside(
                        suspend=lambda: self._suspend(thread),
                        edit=lambda text, edited: self._edit(thread, text, edited),
                    )
                    interface = Interface(self._reader, self._options, self._glance, post, aside)
                    interface.light = self.light
                    app = interface.application()
                    thread = _Thread(app, interface, keyboard, post, token)
                    self._interface = interface

                    def started() -> None:
                        self._loop = asyncio.get_running_loop()
                        self._wake, self._closing = asyncio.Event(), asyncio.Event()
                        self._wake.set()
                        app.create_background_task(self._keep_drawing(thread))
                        begun()

                    try:
                        app.run(handle_sigint=False, set_exception_handler=False, pre_run=started)
                    finally:
                        self._reset(thread)
        except (EOFError, OSError):
            pass  # the terminal is closed
        finally:
            # Under the lock, so that no `draw` can add a drawing afterwards, which would wait forever.
            with self._lock:
                self._ended = True
                waiting, self._drawings = self._drawings, []
                requests, self._requests = [*self._requests, *self._open], []
            try:
                for over in [*(call.over for call in waiting), *(call.over for call in requests)]:
                    token.run_sync_soon(over.set)
                post(End())
            except trio.RunFinishedError:
                pass

    def _ask(self, thread: _Thread) -> None:
        """Switch on the terminal's reports. They come at any time, and no task waits for them."""
        from rumi.channels.terminal.keyboard import EXTENDED, asking

        thread.answered.clear()
        thread.asked_at = time.monotonic()
        output = thread.app.output
        output.write_raw(asking(os.environ, background=self._options.theme == "auto"))
        if thread.extended:
            output.write_raw(EXTENDED)
        output.flush()

    async def _answers(self, thread: _Thread) -> None:
        """Wait for the terminal's answers: whatever gets the terminal next would take them for keys."""
        with suppress(TimeoutError):
            async with asyncio.timeout(thread.asked_at + _ANSWER_S - time.monotonic()):
                await thread.answered.wait()

    def _reset(self, thread: _Thread) -> None:
        """Take back what `_ask` has switched on."""
        from rumi.channels.terminal.keyboard import resetting

        thread.app.output.write_raw(resetting(os.environ, extended=thread.extended))
        thread.app.output.flush()

    async def _keep_drawing(self, thread: _Thread) -> None:
        assert self._wake is not None
        assert self._closing is not None
        app, interface = thread.app, thread.interface
        ended = False
        # Only now: this task runs when the terminal is in raw mode, and does not show its own answers.
        self._ask(thread)
        while not ended:
            await self._wake.wait()
            self._wake.clear()
            if self._suspended:
                if self._ended or self._dismissed:
                    self._closing.set()  # what has the terminal must end now; then this loop goes on
                continue
            self._closing.clear()
            self._dismissed = False
            with self._lock:
                above, self._above = self._above, []
                drawings = list(self._drawings)
                requests, self._requests = self._requests, []
                sequences, self._sequences = self._sequences, ""
                interface.live, ended = self._live, self._ended
            try:
                if sequences:
                    app.output.write_raw(sequences)
                    app.output.flush()
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
                thread.token.run_sync_soon(drawing.over.set)
            for request in requests:
                request.run(thread, request)
        interface.close_picker()
        await self._answers(thread)
        interface.live = []
        if not app.is_done:
            app.exit()

    def _suspend(self, thread: _Thread) -> None:
        """Stop the process group until the shell continues it: this is what a shell expects of Ctrl-Z."""
        if not self._suspended:
            self._suspended = True
            thread.app.create_background_task(self._apart(thread, lambda: self._stop(thread)))

    async def _stop(self, thread: _Thread) -> None:
        loop, continued = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            # In the main thread, which gets the signal before the call returns. Another thread would run on
            # for a moment, and take the terminal back.
            os.kill(0, signal.SIGTSTP)
            loop.call_soon_threadsafe(continued.set)

        thread.token.run_sync_soon(stop)
        await self._first(continued.wait())

    async def _first(self, other: Awaitable[object]) -> bool:
        """Wait for `other`, but not longer than until the interface must end; return True if it is done."""
        assert self._closing is not None
        waiting, closing = asyncio.ensure_future(other), asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait((waiting, closing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
        return waiting.done()

    async def _apart(self, thread: _Thread, body: Callable[[], Awaitable[None]]) -> None:
        """Run `body` while the terminal has its original modes. Queued lines are drawn afterwards."""
        assert self._wake is not None
        try:
            await self._answers(thread)
            async with in_terminal():
                self._reset(thread)
                termios.tcsetattr(self._streams.input.fd, termios.TCSANOW, self._before)
                await body()
            self._ask(thread)
        finally:
            self._suspended = False
            self._wake.set()

    def _edit(self, thread: _Thread, text: str, edited: Callable[[str], None]) -> None:
        """Open the person's editor on a text."""

        async def edit() -> None:
            from rumi.channels.terminal.programs import edit_text

            result = await edit_text(text, self._child_of, self._reader)
            if isinstance(result, Said):
                thread.post(result)
            else:
                edited(result)

        if not self._suspended:
            self._suspended = True
            thread.app.create_background_task(self._apart(thread, edit))

    async def _page(self, thread: _Thread, text: str, request: _Request) -> None:
        async def page() -> None:
            from rumi.channels.terminal.programs import page_text

            if not await page_text(text, self._child_of):
                with self._lock:
                    self._above += text.splitlines()

        try:
            await self._apart(thread, page)
        finally:
            thread.resolve(request, None)

    async def _child_of(
        self, argv: Sequence[str], stdin: IO[bytes] | None, environment: Mapping[str, str]
    ) -> int:
        """Run a program on the terminal; return its exit code, negative if a signal has ended it.

        If the interface must end, the program is hung up, as if the terminal had been closed, then killed.

        Raises:
            OSError: the program cannot be started.
        """
        from rumi.channels.terminal.programs import begin, clean_up, hang_up

        child = begin(argv, stdin, self._streams, environment)
        ended = asyncio.get_running_loop().run_in_executor(None, child.wait)
        if not await self._first(asyncio.shield(ended)):
            await hang_up(child, ended)
        code = await ended
        clean_up(code, self._streams)
        return code

    def _print(self, app: Application[None], lines: list[str]) -> None:
        """Print above the interface: erase it, print, and draw it again below, as one terminal update."""
        app.output.write_raw(BEGIN)
        app.renderer.erase()
        app.output.write_raw("".join(f"{line}\r\n" for line in lines))
        app.render_counter += 1  # the key of the interface's caches: draw the current live lines
        app.renderer.render(app, app.layout)
        app.output.write_raw(END)
        app.output.flush()
