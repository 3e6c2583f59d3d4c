"""The prompt_toolkit layout: live region, input line, completion, key bindings, and the status bar."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter, merge_completers
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_completions, has_focus, vi_insert_mode, vi_navigation_mode
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    DynamicContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.styles import DynamicStyle, Style

from rumi.channels.terminal.completion import CommandCompleter
from rumi.channels.terminal.history import open_history
from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.status_bar import MODE, BarPart, cut, fitted
from rumi.channels.terminal.words import Reader, keys_of
from rumi.platform.config.providers import pasted_secret
from rumi.texts import gettext

if TYPE_CHECKING:
    from rumi.channels.terminal.pasting import PastedTexts
    from rumi.channels.terminal.picker import Picker, Picking

_MAX_INPUT_ROWS = 10

_ESCAPE_S = 0.1
"""How long Esc waits for a key: together they are Alt and that key. Terminals send both at once."""

_TWICE_S = 0.8
"""Maximum time between the two presses of Esc Esc, in seconds."""


def _style(prompt: str) -> Style:
    return Style.from_dict(
        {
            "prompt": prompt,
            "toolbar": "ansibrightblack",
            "completion-menu": "noinherit",
            "completion-menu.completion.current": "noinherit reverse",
            "completion-menu.meta.completion": "noinherit ansibrightblack",
            "completion-menu.meta.completion.current": "noinherit reverse",
        }
    )


_ON_DARK, _ON_LIGHT = _style("bold ansicyan"), _style("bold ansiblue")


@dataclass(frozen=True, slots=True)
class Line:
    """A typed message; it may have several lines."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A press of Ctrl-C, or of Esc during a turn.

    `cleared` is True if the press cleared text in the input line. Repeated presses leave the chat if `leaves`
    is True.
    """

    cleared: bool = False
    leaves: bool = True


@dataclass(frozen=True, slots=True)
class Said:
    """A notice of the input line to the person."""

    text: str


@dataclass(frozen=True, slots=True)
class Unfold:
    """A press of Ctrl-O: the person wants to see the folded outputs."""


@dataclass(frozen=True, slots=True)
class End:
    """The end of the input: Ctrl-D was pressed, or the terminal was closed."""


Typed: TypeAlias = Line | Interrupt | End | Said | Unfold


@dataclass(frozen=True, slots=True)
class Glance:
    """Functions with which the interface reads the session's state while it draws.

    The functions are called in the interface's thread, so they must not change anything. `toolbar` returns
    the parts of the status bar. `asking` returns True if a question to the user is pending. `working` returns
    True if Ctrl-C stops the turn instead of clearing the input line.
    """

    toolbar: Callable[[], Sequence[BarPart]]
    asking: Callable[[], bool]
    working: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Aside:
    """What gives the terminal to something else for a while.

    `suspend` stops this process, as a shell expects of Ctrl-Z. `edit` opens the person's editor on a text,
    and calls its second argument with the new text if the editor ends well.
    """

    suspend: Callable[[], None]
    edit: Callable[[str, Callable[[str], None]], None]


class _App(Application[None]):
    """An application in which Esc alone takes effect soon, and other sequences can be typed slowly."""

    @property
    def timeoutlen(self) -> float:
        """How long the keys that were pressed wait for more, in seconds."""
        pressed = self.key_processor.key_buffer
        return _ESCAPE_S if pressed and pressed[0].key == Keys.Escape else 1.0

    @timeoutlen.setter
    def timeoutlen(self, value: float) -> None:
        return  # the default of prompt_toolkit


class Interface:
    """The input line, below the lines of `live`. Calls `post` with typed input.

    `light` is True if the terminal has a light background.
    """

    def __init__(
        self,
        reader: Reader,
        options: TerminalOptions,
        glance: Glance,
        post: Callable[[Typed], None],
        aside: Aside,
    ) -> None:
        self.live: list[str] = []
        self.light = False
        self._picker: Picker | None = None
        self.buffer = Buffer()
        self._reader = reader
        self._options = options
        self._glance = glance
        self._post = post
        self._aside = aside
        self._pasted: PastedTexts | None = None  # the folded texts of the message, if there are any
        self._helping = False
        self._last_sent = ""
        self._escaped_at = -_TWICE_S

    def application(self) -> Application[None]:
        """Return a new prompt_toolkit application, for one run."""
        # Imported here, so that the window opens before what it needs only for the first key.
        from rumi.channels.terminal.changes import ChangeCompleter
        from rumi.channels.terminal.paths import PathCompleter

        self.buffer = buffer = Buffer(
            multiline=True,
            history=open_history(self._options.history_path),
            completer=merge_completers(
                [
                    CommandCompleter(self._reader, self._options.models),
                    ThreadedCompleter(PathCompleter()),
                    ThreadedCompleter(ChangeCompleter(self._options.changed)),
                ]
            ),
            complete_while_typing=True,
        )
        entry = Window(
            BufferControl(buffer),
            height=lambda: Dimension(min=1, max=_MAX_INPUT_ROWS),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=self._prefix,
        )

        def help_lines() -> list[str]:
            if not self._helping:
                return []
            size = app.output.get_size()
            table = keys_of(self._reader.language, self._vi)
            width = max(len(keys) for keys, _ in table)
            lines = [cut(f"  {keys:<{width}}  {does}", size.columns - 1) for keys, does in table]
            return lines[: max(0, size.rows - 3)]

        def visible() -> list[str]:
            # Cut at the upper end, so that the input line always fits on the screen.
            taken = min(_MAX_INPUT_ROWS, buffer.document.line_count) + 2 + len(help_lines())
            if (picker := self._opened) is not None:
                taken = picker.rows + 1
            free_rows = app.output.get_size().rows - taken
            return self.live[max(0, len(self.live) - free_rows) :] if free_rows > 0 else []

        def toolbar() -> StyleAndTextTuples:
            parts = [BarPart(self._mode(app), MODE), *self._glance.toolbar()]
            return [("class:toolbar", fitted(parts, max(0, app.output.get_size().columns - 1)))]

        nothing = Window(height=0)
        interface = HSplit(
            [
                Window(
                    FormattedTextControl(lambda: ANSI("\n".join(visible()))),
                    height=lambda: Dimension.exact(len(visible())),
                    dont_extend_height=True,
                ),
                ConditionalContainer(entry, Condition(lambda: self._opened is None)),
                DynamicContainer(lambda: nothing if self._opened is None else self._opened.container),
                CompletionsMenu(max_height=6, extra_filter=has_focus(buffer)),
                Window(
                    FormattedTextControl(lambda: [("class:toolbar", "\n".join(help_lines()))]),
                    height=lambda: Dimension.exact(len(help_lines())),
                    dont_extend_height=True,
                ),
                Window(FormattedTextControl(toolbar), height=1, dont_extend_height=True),
            ],
            align=VerticalAlign.TOP,
        )
        app = _App(
            layout=Layout(interface, focused_element=entry),
            key_bindings=self._keys(buffer),
            style=DynamicStyle(lambda: _ON_LIGHT if self.light else _ON_DARK),
            editing_mode=EditingMode.VI if self._vi else EditingMode.EMACS,
            erase_when_done=True,
            terminal_size_polling_interval=0.2,  # this thread is not the main thread, which gets SIGWINCH
        )
        app.ttimeoutlen = 0.05  # an escape sequence of a key comes at once, also over a slow connection

        def close_help(_: object) -> None:
            self._helping = False

        app.key_processor.before_key_press += close_help
        return app

    def open_picker(self, picking: "Picking") -> None:
        """Show a picker in the place of the input line."""
        from rumi.channels.terminal.picker import Picker

        self._picker = self._picker or Picker(self._reader)
        self._picker.open(picking)

    def offer(self, text: str) -> None:
        """Put a text into the input line, unless there is one already."""
        if not self.buffer.text:
            self.buffer.document = Document(self._fold(text))

    def close_picker(self) -> None:
        """Close an open picker without a choice."""
        if self._picker is not None:
            self._picker.close(None)

    @property
    def _opened(self) -> "Picker | None":
        return self._picker if self._picker is not None and self._picker.is_open else None

    def _fold(self, text: str) -> str:
        """Return what stands for a text in the input line: the text itself, or a mark if it is long."""
        from rumi.channels.terminal.pasting import PastedTexts

        self._pasted = self._pasted or PastedTexts(self._reader)
        return self._pasted.fold(text)

    def _whole(self, shown: str) -> str:
        return shown if self._pasted is None else self._pasted.whole(shown)

    @property
    def _vi(self) -> bool:
        return self._options.editing == "vi"

    def _mode(self, app: Application[None]) -> str:
        if not self._vi:
            return ""
        modes = {InputMode.NAVIGATION: "NORMAL", InputMode.REPLACE: "REPLACE"}
        mode = modes.get(app.vi_state.input_mode, "INSERT")
        return "VISUAL" if app.current_buffer.selection_state is not None else mode

    def _prefix(self, line: int, wrapped: int) -> StyleAndTextTuples:
        if line or wrapped:
            return [("", "  ")]
        label = f"({gettext(self._reader.language, 'yes/no')}) › " if self._glance.asking() else "› "
        return [("class:prompt", label)]

    def _keys(self, buffer: Buffer) -> KeyBindings:
        keys = KeyBindings()
        typing = has_focus(buffer)
        empty = Condition(lambda: not buffer.text)
        emacs = Condition(lambda: not self._vi)

        def put(text: str) -> None:
            buffer.set_document(Document(text), bypass_readonly=True)

        @keys.add("enter", filter=typing)
        def _send(event: KeyPressEvent) -> None:
            document = buffer.document
            line = document.current_line
            if document.is_cursor_at_the_end_of_line and (len(line) - len(line.rstrip("\\"))) % 2:
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
                return
            text = self._whole(buffer.text).strip()
            if text:
                if [*buffer.history.get_strings()][-1:] != [text] and not pasted_secret(text):
                    buffer.history.append_string(text)
                self._last_sent = "" if pasted_secret(text) else text
                self._post(Line(text))
            self._pasted = None
            buffer.reset()

        @keys.add("escape", "enter", filter=typing)
        @keys.add("c-j", filter=typing)
        def _new_line(event: KeyPressEvent) -> None:
            buffer.insert_text("\n")

        @keys.add(Keys.BracketedPaste, filter=typing)
        def _paste(event: KeyPressEvent) -> None:
            # Terminals paste the paths of files that are dropped onto them.
            from rumi.channels.terminal.paths import pasted

            buffer.insert_text(self._fold(pasted(event.data, buffer.document)))

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
                self._pasted = None
                buffer.reset()

        @keys.add("escape", filter=typing & emacs)
        def _escape(event: KeyPressEvent) -> None:
            last, self._escaped_at = self._escaped_at, -_TWICE_S
            if buffer.complete_state is not None:
                buffer.cancel_completion()
            elif self._glance.working():
                self._post(Interrupt(leaves=False))
            elif time.monotonic() - last < _TWICE_S:
                edit_last()
            else:
                self._escaped_at = time.monotonic()

        @keys.add("escape", "escape", filter=typing & emacs & ~has_completions)
        def _escape_twice(event: KeyPressEvent) -> None:
            if self._glance.working():
                self._post(Interrupt(leaves=False))
            else:
                edit_last()

        def edit_last() -> None:
            last = self._last_sent or next(reversed([*buffer.history.get_strings()]), "")
            if last and not buffer.text:
                put(self._fold(last))
                self._post(
                    Said(
                        gettext(
                            self._reader.language,
                            "Enter sends it as a new message; /undo takes the last turn back.",
                        )
                    )
                )

        @keys.add("c-r", filter=typing)
        @keys.add("/", filter=typing & vi_navigation_mode)
        def _search(event: KeyPressEvent) -> None:
            from rumi.channels.terminal.choices import Choice
            from rumi.channels.terminal.picker import Picking

            past = dict.fromkeys(reversed([*buffer.history.get_strings()]))

            def chosen(text: str | None) -> None:
                if text is not None:
                    put(self._fold(text))
                    event.app.vi_state.input_mode = InputMode.INSERT

            self.open_picker(
                Picking(
                    gettext(self._reader.language, "Earlier messages"),
                    [Choice(text, text) for text in past],
                    chosen,
                )
            )

        @keys.add("c-g", filter=typing)
        @keys.add("c-x", "c-e", filter=typing)
        def _edit(event: KeyPressEvent) -> None:
            self._aside.edit(self._whole(buffer.text), lambda text: put(self._fold(text)))

        @keys.add("c-o", filter=typing)
        def _unfold(event: KeyPressEvent) -> None:
            self._post(Unfold())

        @keys.add("?", filter=typing & empty & (emacs | vi_insert_mode | vi_navigation_mode))
        def _help(event: KeyPressEvent) -> None:
            self._helping = True

        @keys.add("c-d", filter=typing & empty)
        def _end(event: KeyPressEvent) -> None:
            self._post(End())

        @keys.add("c-z")
        def _put_aside(event: KeyPressEvent) -> None:
            self._aside.suspend()

        return keys
