"""A list to choose from, and a line that filters it, in the place of the input line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import (
    BufferControl,
    FormattedTextControl,
    HSplit,
    UIControl,
    Window,
)
from rich.cells import cell_len

from rumi.channels.terminal.choices import Choice, matches
from rumi.channels.terminal.status_bar import cut
from rumi.channels.terminal.words import Reader
from rumi.platform.printable import one_line
from rumi.texts import gettext

MOST_ROWS = 10
"""Maximum number of choices on the screen at the same time."""

_OTHER_ROWS = 4  # the title, the filter, the line below the list, the status bar
_LABEL_CHARS = 1000  # of a longer label, only so much is shown and searched


@dataclass(frozen=True, slots=True)
class Picking:
    """What to choose from. `filter` is the initial text of the filter.

    `chosen` is called once, in the interface's thread: with the chosen value, or None if nothing is chosen.
    """

    title: str
    choices: Sequence[Choice]
    chosen: Callable[[str | None], None]
    filter: str = ""


class Picker:
    """The widget. `container` is its place in the layout; `rows` says how many rows it takes.

    All methods are called in the interface's thread.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._picking: Picking | None = None
        self._labels: list[tuple[str, str]] = []  # shown label, and the text that is searched
        self._found: list[int] = []
        self._at = 0
        self._before: UIControl | None = None
        self._mode = InputMode.INSERT
        self._filter = Buffer(multiline=False, on_text_changed=lambda _: self._search())
        self._control = BufferControl(self._filter, key_bindings=self._keys())
        self.container = HSplit(
            [
                Window(FormattedTextControl(self._title), height=1),
                Window(
                    self._control, height=1, get_line_prefix=lambda line, wrapped: [("class:prompt", "⌕ ")]
                ),
                Window(FormattedTextControl(self._list), height=lambda: self._shown, dont_extend_height=True),
                Window(FormattedTextControl(self._end), height=1),
            ]
        )

    @property
    def is_open(self) -> bool:
        """Return True if the person is choosing."""
        return self._picking is not None

    @property
    def rows(self) -> int:
        """The number of rows that the open picker takes."""
        return self._shown + _OTHER_ROWS - 1

    def open(self, picking: Picking) -> None:
        """Show the choices, with the one in use selected. An open picker is closed without a choice."""
        self.close(None)
        app = get_app()
        self._before, self._mode = app.layout.current_control, app.vi_state.input_mode
        self._picking = picking
        self._labels = []
        for choice in picking.choices:
            label = one_line(choice.label[:_LABEL_CHARS])
            self._labels.append((label, f"{label} {choice.detail[:_LABEL_CHARS]}".casefold()))
        app.vi_state.input_mode = InputMode.INSERT
        app.layout.focus(self._control)
        self._filter.set_document(Document(picking.filter), bypass_readonly=True)
        self._search()
        if not picking.filter:
            of_current = (place for place, choice in enumerate(picking.choices) if choice.current)
            self._at = next(of_current, 0)

    def close(self, value: str | None) -> None:
        """Close the picker, with this result. Does nothing if it is not open."""
        picking, self._picking = self._picking, None
        if picking is None:
            return
        app = get_app()
        app.vi_state.input_mode = self._mode
        if self._before is not None:
            app.layout.focus(self._before)
        self._labels, self._found = [], []
        picking.chosen(value)
        app.invalidate()

    def _search(self) -> None:
        text = self._filter.text.casefold()
        self._found, self._at = matches(text, [searched for _, searched in self._labels]), 0

    # Drawing

    @property
    def _shown(self) -> int:
        most = min(MOST_ROWS, get_app().output.get_size().rows - _OTHER_ROWS - 1)
        return max(1, min(most, len(self._found)))

    def _title(self) -> StyleAndTextTuples:
        return [("bold", self._cut(one_line(self._picking.title if self._picking else "")))]

    def _list(self) -> StyleAndTextTuples:
        picking = self._picking
        if picking is None:
            return []
        if not self._found:
            return [("class:toolbar", self._cut(f"  {gettext(self._reader.language, 'No match.')}"))]
        rows = self._shown
        first = max(0, min(self._at - rows // 2, len(self._found) - rows))
        parts: StyleAndTextTuples = []
        for place in range(first, min(len(self._found), first + rows)):
            choice = picking.choices[self._found[place]]
            label = f"{'›' if place == self._at else ' '} {'✓ ' if choice.current else ''}"
            label += self._labels[self._found[place]][0]
            chosen = "reverse" if place == self._at else ""
            parts.append((chosen, self._cut(label)))
            left = self._columns - cell_len(label) - 2
            if choice.detail and left > 3:
                detail = f"  {cut(one_line(choice.detail[:_LABEL_CHARS]), left)}"
                parts.append((chosen or "class:toolbar", detail))
            parts.append(("", "\n"))
        return parts[:-1]

    def _end(self) -> StyleAndTextTuples:
        text = gettext(
            self._reader.language,
            "{number} of {count} · Enter chooses · Esc leaves",
            number=self._at + 1 if self._found else 0,
            count=len(self._found),
        )
        return [("class:toolbar", self._cut(text))]

    @property
    def _columns(self) -> int:
        return max(1, get_app().output.get_size().columns - 1)

    def _cut(self, text: str) -> str:
        return cut(text, self._columns)

    # Keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        def move(by: int) -> None:
            if self._found:
                self._at = max(0, min(len(self._found) - 1, self._at + by))

        @keys.add("up", eager=True)
        @keys.add("c-p", eager=True)
        def _up(event: KeyPressEvent) -> None:
            move(-1)

        @keys.add("down", eager=True)
        @keys.add("c-n", eager=True)
        @keys.add("c-r", eager=True)  # as in a shell: the next older one
        def _down(event: KeyPressEvent) -> None:
            move(1)

        @keys.add("pageup", eager=True)
        def _page_up(event: KeyPressEvent) -> None:
            move(-self._shown)

        @keys.add("pagedown", eager=True)
        def _page_down(event: KeyPressEvent) -> None:
            move(self._shown)

        @keys.add("enter", eager=True)
        def _choose(event: KeyPressEvent) -> None:
            if self._picking is not None and self._found:
                self.close(self._picking.choices[self._found[self._at]].value)

        @keys.add("escape", eager=True)
        @keys.add("c-c", eager=True)
        @keys.add("c-g", eager=True)
        def _leave(event: KeyPressEvent) -> None:
            self.close(None)

        @keys.add("<bracketed-paste>", eager=True)
        def _paste(event: KeyPressEvent) -> None:
            self._filter.insert_text(one_line(event.data[:_LABEL_CHARS]))

        return keys
