"""The prompt_toolkit layout: live region, input line, completion, key bindings, and the status bar."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import (
    CompleteEvent,
    Completer,
    Completion,
    ThreadedCompleter,
    merge_completers,
)
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, FormattedTextControl, HSplit, Layout, VerticalAlign, Window
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar
from typing_extensions import override

from rumi.channels.terminal.words import Reader, commands
from rumi.texts import gettext

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
    """A typed message; it may have several lines."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A press of Ctrl-C. `cleared` is True if the press cleared text in the input line."""

    cleared: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The end of the input: Ctrl-D was pressed, or the terminal was closed."""


Typed: TypeAlias = Line | Interrupt | End


class CommandCompleter(Completer):
    """Completes chat commands, but only at the beginning of a one-line message."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the commands that begin with the text before the cursor."""
        before = document.text_before_cursor
        if not before.startswith("/") or "\n" in document.text:
            return
        for command, meaning in commands(self._reader.language):
            if command.startswith(before.lower()) and command != before:
                yield Completion(command, start_position=-len(before), display_meta=meaning)


def open_history(path: Path | None) -> History:
    """Return the input history, stored in a file that only its owner can read.

    If the file cannot be used, the history exists only in memory.
    """
    if path is None:
        return InMemoryHistory()
    try:
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError:
        return InMemoryHistory()
    return _History(str(path))


class _History(FileHistory):
    """Input history in a file. A line that cannot be written, for example on a full disk, is dropped."""

    @override
    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


@dataclass(frozen=True, slots=True)
class Glance:
    """Functions with which the interface reads the session's state while it draws.

    The functions are called in the interface's thread, so they must not change anything. `toolbar` returns
    the text of the status bar. `asking` returns True if a question to the user is pending. `working` returns
    True if Ctrl-C stops the turn instead of clearing the input line.
    """

    toolbar: Callable[[], str]
    asking: Callable[[], bool]
    working: Callable[[], bool]


class Interface:
    """The input line, below the lines of `live`. Calls `post` with typed input, and `suspend` on Ctrl-Z."""

    def __init__(
        self,
        reader: Reader,
        history_path: Path | None,
        glance: Glance,
        post: Callable[[Typed], None],
        suspend: Callable[[], None],
    ) -> None:
        self.live: list[str] = []
        self.buffer = Buffer()
        self._reader = reader
        self._history_path = history_path
        self._glance = glance
        self._post = post
        self._suspend = suspend

    def application(self) -> Application[None]:
        """Return a new prompt_toolkit application, for one run."""
        # Imported here, so that the window opens before what it needs only for the first key.
        from rumi.channels.terminal.paths import PathCompleter

        self.buffer = buffer = Buffer(
            multiline=True,
            history=open_history(self._history_path),
            completer=merge_completers([CommandCompleter(self._reader), ThreadedCompleter(PathCompleter())]),
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

        def visible() -> list[str]:
            # Cut at the upper end, so that the input line always fits on the screen.
            taken = min(_MAX_INPUT_ROWS, buffer.document.line_count) + 2
            free_rows = app.output.get_size().rows - taken
            return self.live[max(0, len(self.live) - free_rows) :]

        def toolbar() -> StyleAndTextTuples:
            return [("class:toolbar", self._glance.toolbar()[: max(0, app.output.get_size().columns - 1)])]

        interface = HSplit(
            [
                Window(
                    FormattedTextControl(lambda: ANSI("\n".join(visible()))),
                    height=lambda: Dimension.exact(len(visible())),
                    dont_extend_height=True,
                ),
                entry,
                search,
                CompletionsMenu(max_height=6, extra_filter=has_focus(buffer)),
                Window(FormattedTextControl(toolbar), height=1, dont_extend_height=True),
            ],
            align=VerticalAlign.TOP,
        )
        app: Application[None] = Application(
            layout=Layout(interface, focused_element=entry),
            key_bindings=self._keys(buffer),
            style=_STYLE,
            erase_when_done=True,
            terminal_size_polling_interval=0.2,  # this thread is not the main thread, which gets SIGWINCH
        )
        return app

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        label = f"({gettext(self._reader.language, 'yes/no')}) › " if self._glance.asking() else "› "
        return [("class:prompt", label)]

    def _keys(self, buffer: Buffer) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(buffer)
        empty = Condition(lambda: not buffer.text)

        @keys.add("enter", filter=typing)
        def _send(event: KeyPressEvent) -> None:
            text = buffer.text.strip()
            if text:
                buffer.append_to_history()
                self._post(Line(text))
            buffer.reset()

        @keys.add("escape", "enter", filter=typing)
        def _new_line(event: KeyPressEvent) -> None:
            buffer.insert_text("\n")

        @keys.add(Keys.BracketedPaste, filter=typing)
        def _paste(event: KeyPressEvent) -> None:
            # Terminals paste the paths of files that are dropped onto them.
            from rumi.channels.terminal.paths import pasted

            buffer.insert_text(pasted(event.data, buffer.document))

        @keys.add("tab", filter=typing)
        def _complete(event: KeyPressEvent) -> None:
            if buffer.complete_state:
                buffer.complete_next()
            else:
                buffer.start_completion(insert_common_part=True)

        @keys.add("s-tab", filter=typing)
        def _complete_back(event: KeyPressEvent) -> None:
            buffer.complete_previous()

        @keys.add("c-c", filter=typing)
        def _interrupt(event: KeyPressEvent) -> None:
            if self._glance.working():
                self._post(Interrupt())
            else:
                self._post(Interrupt(cleared=bool(buffer.text)))
                buffer.reset()

        @keys.add("c-d", filter=typing & empty)
        def _end(event: KeyPressEvent) -> None:
            self._post(End())

        @keys.add("c-z")
        def _put_aside(event: KeyPressEvent) -> None:
            self._suspend()

        return keys
