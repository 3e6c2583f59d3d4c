"""The terminal that a person types into: an input line below a live region, always there.

prompt_toolkit owns the terminal while this runs. It needs an asyncio loop, so it lives in a thread of its
own, which draws what it is told and posts what is typed; no other module meets asyncio. The terminal is in
raw mode, so Ctrl-C is a key like any other and is read in every phase of a turn.
"""

import asyncio
import os
import termios
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import trio
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.data_structures import Size
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VerticalAlign, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from rumi.terminal.screen import BEGIN, END
from rumi.terminal.streams import OutputClosedError, Streams
from rumi.terminal.words import Words

_CLOSING_S = 2.0
_MAX_INPUT_ROWS = 10
_STYLE = Style.from_dict(
    {
        "prompt": "bold ansicyan",
        "toolbar": "ansibrightblack",
        "completion-menu": "noinherit",
        "completion-menu.completion.current": "noinherit reverse",
        "completion-menu.meta.completion": "noinherit ansibrightblack",
        "completion-menu.meta.completion.current": "noinherit reverse",
    }
)


@dataclass(frozen=True, slots=True)
class Line:
    """A message was sent; it may have several lines."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Ctrl-C. `cleared` says that it took away what stood in the input line."""

    cleared: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """Ctrl-D, or the terminal is gone."""


Typed: TypeAlias = Line | Interrupt | End


class CommandCompleter(Completer):
    """Completes chat commands, in the first word only."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The commands that begin with what stands before the cursor."""
        before = document.text_before_cursor
        if not before.startswith("/") or "\n" in document.text:
            return
        for command, meaning in self._words.commands:
            if command.startswith(before.lower()) and command != before:
                yield Completion(command, start_position=-len(before), display_meta=meaning)


def open_history(path: Path | None) -> History:
    """The history file, readable by its owner only; in memory where there is none or it can't be used."""
    if path is None:
        return InMemoryHistory()
    try:
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


class PromptScreen:
    """A `Screen` with an input line. `run` must be running; what is typed goes to its channel.

    `toolbar` gives the line at the bottom, `asking` says whether a yes or a no is awaited, and `working`
    whether Ctrl-C is meant for the turn rather than for the input line; all three are called in the thread
    and only read.
    """

    def __init__(
        self,
        streams: Streams,
        words: Words,
        history_path: Path | None,
        *,
        toolbar: Callable[[], str],
        asking: Callable[[], bool],
        working: Callable[[], bool],
    ) -> None:
        self._streams = streams
        self._words = words
        self._history_path = history_path
        self._toolbar = toolbar
        self._asking = asking
        self._working = working
        self._lock = threading.Lock()  # guards the next three, which both threads touch
        self._above: list[str] = []
        self._live: list[str] = []
        self._drawn: list[trio.Event] = []
        self._shown: list[str] = []
        self._app: Application[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wake: asyncio.Event | None = None
        self._ended = False

    def size(self) -> tuple[int, int]:
        """Columns and rows, now."""
        return self._streams.output.columns_and_rows()

    async def draw(self, above: Sequence[str], live: Sequence[str]) -> None:
        """Print `above` for good and show `live` between it and the input line."""
        drawn = trio.Event()
        with self._lock:
            if self._ended:
                raise OutputClosedError
            self._above += above
            self._live = list(live)
            self._drawn.append(drawn)
        self._poke()
        await drawn.wait()

    async def run(
        self,
        typed: trio.MemorySendChannel[Typed],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Own the terminal until the person ends the input, or until cancelled; it is left as it was found.

        `typed` needs an unlimited buffer: a person who types is never kept waiting.
        """
        token = trio.lowlevel.current_trio_token()
        fd = self._streams.input.fd
        before = termios.tcgetattr(fd)
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

        # The thread gets to restore the terminal before it is left, and not forever: a write to a terminal
        # that was stopped with Ctrl-S returns no sooner than it is continued.
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
            termios.tcsetattr(fd, termios.TCSANOW, before)

    # Called from trio, seen by the thread

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
                # The position of the cursor is not asked for: the answer would arrive between what is typed.
                output = Vt100_Output(stdout, size, term=os.environ.get("TERM"), enable_cpr=False)
                with create_app_session(input=Vt100Input(stdin), output=output):
                    self._app = app = self._build(post)

                    def started() -> None:
                        self._loop = asyncio.get_running_loop()
                        self._wake = asyncio.Event()
                        self._wake.set()
                        app.create_background_task(self._keep_drawing(app, token))
                        begun()

                    app.run(handle_sigint=False, set_exception_handler=False, pre_run=started)
        except (EOFError, OSError):
            pass  # the terminal is gone
        finally:
            with self._lock:
                self._ended = True
                waiting, self._drawn = self._drawn, []
            try:
                for drawn in waiting:
                    token.run_sync_soon(drawn.set)
                post(End())
            except trio.RunFinishedError:
                pass

    async def _keep_drawing(self, app: Application[None], token: trio.lowlevel.TrioToken) -> None:
        assert self._wake is not None
        while True:
            await self._wake.wait()
            self._wake.clear()
            with self._lock:
                above, self._above = self._above, []
                drawn, self._drawn = self._drawn, []
                self._shown, ended = self._live, self._ended
            if above:
                self._print(app, above)
            else:
                app.invalidate()
            for event in drawn:
                token.run_sync_soon(event.set)
            if ended:
                self._shown = []
                app.exit()
                return

    def _print(self, app: Application[None], lines: list[str]) -> None:
        """Print above the interface, which is taken away and drawn again below, in one go."""
        app.output.write_raw(BEGIN)
        app.renderer.erase()
        app.output.write_raw("".join(f"{line}\r\n" for line in lines))
        app.render_counter += 1  # what the interface shows is cached under this number
        app.renderer.render(app, app.layout)
        app.output.write_raw(END)
        app.output.flush()

    def _build(self, post: Callable[[Typed], None]) -> Application[None]:
        buffer = Buffer(
            multiline=True,
            history=open_history(self._history_path),
            completer=CommandCompleter(self._words),
            complete_while_typing=True,
        )
        search = SearchToolbar()
        entry = Window(
            BufferControl(buffer, search_buffer_control=search.control),
            height=lambda: Dimension(min=1, max=_MAX_INPUT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._prefix,
        )

        def live() -> ANSI:
            # What does not fit gives way at its upper end; the input line stays.
            taken = min(_MAX_INPUT_ROWS, buffer.document.line_count) + 2
            room = max(0, app.output.get_size().rows - taken)
            return ANSI(
                "\n".join(self._shown[len(self._shown) - room :] if room < len(self._shown) else self._shown)
            )

        def toolbar() -> StyleAndTextTuples:
            return [("class:toolbar", self._toolbar()[: max(0, app.output.get_size().columns - 1)])]

        def rows_of_live() -> Dimension:
            return Dimension.exact(len(self._shown))

        interface = HSplit(
            [
                Window(FormattedTextControl(live), height=rows_of_live, dont_extend_height=True),
                entry,
                search,
                CompletionsMenu(max_height=6, extra_filter=has_focus(buffer)),
                Window(FormattedTextControl(toolbar), height=1, dont_extend_height=True),
            ],
            align=VerticalAlign.TOP,
        )
        app: Application[None] = Application(
            layout=Layout(interface, focused_element=entry),
            key_bindings=self._keys(buffer, post),
            style=_STYLE,
            erase_when_done=True,
            terminal_size_polling_interval=0.2,
        )
        return app

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        label = f"({self._words.yes_or_no}) › " if self._asking() else "› "
        return [("class:prompt", label)]

    def _keys(self, buffer: Buffer, post: Callable[[Typed], None]) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(buffer)
        empty = Condition(lambda: not buffer.text)

        @keys.add("enter", filter=typing)
        def _send(event: KeyPressEvent) -> None:
            text = buffer.text.strip()
            if text:
                buffer.append_to_history()
                post(Line(text))
            buffer.reset()

        @keys.add("escape", "enter", filter=typing)
        def _new_line(event: KeyPressEvent) -> None:
            buffer.insert_text("\n")

        @keys.add("c-c", filter=typing)
        def _interrupt(event: KeyPressEvent) -> None:
            if self._working():
                post(Interrupt())
            else:
                post(Interrupt(cleared=bool(buffer.text)))
                buffer.reset()

        @keys.add("c-d", filter=typing & empty)
        def _end(event: KeyPressEvent) -> None:
            post(End())

        return keys
