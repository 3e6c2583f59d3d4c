"""The keys of a terminal, and the reports that arrive between them: of its background, focus and protocols.

Terminals that can tell Shift-Enter from Enter send keys in one of two longer forms: `CSI code;modifiers u` of
kitty's protocol, and xterm's `CSI 27;modifiers;code ~`. They are translated into the older forms, which
prompt_toolkit knows.
"""

import fcntl
import re
import termios
from array import array
from collections.abc import Callable, Mapping
from typing import Final, TextIO

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding import KeyPress
from typing_extensions import override

from rumi.channels.terminal.screen import is_light

NEW_LINE: Final = "\x1b\r"
"""Alt-Enter, which every terminal can send; Shift-Enter and Ctrl-Enter become this."""

_TOKENS = re.compile(
    r"\x1b\[(?P<focus>[IO])"
    r"|\x1b\]11;(?P<background>[^\x07\x1b]{0,64})(?:\x07|\x1b\\)"
    r"|\x1b\[\?[\d;]*(?P<answer>[uc])"
    r"|\x1b\[(?P<code>\d{1,7})(?::\d*)*(?:;(?P<modifiers>\d{1,4})(?::\d*)?)?(?:;[\d:]*)?u"
    r"|\x1b\[27;(?P<xterm_modifiers>\d{1,4});(?P<xterm_code>\d{1,7})~"
    r"|(?P<paste>\x1b\[200~)"
)
_BEGUN = re.compile(r"\x1b(?:\[[\d;:?]{0,40}|\][^\x07\x1b]{0,80}\x1b?)?\Z")
"""The beginning of a sequence, at the end of the data."""

_NO_KEY = re.compile(r"\x1b(?:\]11;|\[\?)")
"""The beginning of a report: no key begins like that, however slowly its rest comes."""

_PASTE_END = "\x1b[201~"

_SHIFT, _ALT, _CTRL = 1, 2, 4
_KEYPAD = {57414: "\r", 57417: "\x1b[D", 57418: "\x1b[C", 57419: "\x1b[A", 57420: "\x1b[B"} | {
    57399 + place: character for place, character in enumerate("0123456789./*-+")
}
_OF_CTRL = {" ": "\0", "2": "\0", "/": "\x1f", "-": "\x1f", "?": "\x7f"}


def legacy(code: int, modifiers: int) -> str:
    """Return what a terminal without a longer form sends for this key; empty if it has no such form.

    `code` is the key's character; `modifiers` is the field of the sequence, 1 if no modifier is pressed.
    """
    pressed = max(0, modifiers - 1)
    shift, alt, ctrl = bool(pressed & _SHIFT), bool(pressed & _ALT), bool(pressed & _CTRL)
    if code in _KEYPAD and (code != 57414 or not pressed & (_SHIFT | _ALT | _CTRL)):
        return _KEYPAD[code]
    if code in (13, 57414):
        return NEW_LINE if shift or alt or ctrl else "\r"
    if code == 9 and shift:
        return "\x1b[Z"
    if code == 127 and ctrl:
        return "\x17"  # deletes a word
    if 0xD800 <= code < 0xF900 or code > 0x10FFFF:  # surrogates, and keys without a character
        return ""
    text = chr(code)
    if ctrl and code >= 32:
        text = _OF_CTRL.get(text) or (chr(ord(text.upper()) & 0x1F) if "@" <= text.upper() <= "_" else "")
    elif shift:
        text = text.upper()
    return f"\x1b{text}" if alt and text else text


class Keyboard(Vt100Input):
    """The input of prompt_toolkit, without the reports of the terminal.

    `focused` is None until the terminal has reported whether its window has the focus. `background` is called
    with what the terminal reports of its background, `extended` if it knows kitty's protocol, and `answered`
    when it has answered all questions of `asking`.
    """

    def __init__(
        self,
        stdin: TextIO,
        background: Callable[[bool], None],
        extended: Callable[[], None],
        answered: Callable[[], None],
    ) -> None:
        super().__init__(stdin)
        self.focused: bool | None = None
        self._background = background
        self._extended = extended
        self._answered = answered
        self._held = ""  # the beginning of a sequence that is not complete yet
        self._pasting = False
        self._typed_ahead = _complete_lines(stdin.fileno())

    @override
    def read_keys(self) -> list[KeyPress]:
        """Return the keys that were pressed; called when there is something to read."""
        data = self.stdin_reader.read(65536)
        if self._typed_ahead > 0:
            # Outside of raw mode the terminal made Enter a line feed, which is the key for a new line here.
            data, size = data.replace("\n", "\r"), len(data.encode("utf-8", "replace"))
            self._typed_ahead -= max(size, 1)
        self._feed(data)
        return self._taken()

    @override
    def flush_keys(self) -> list[KeyPress]:
        """Return the keys that could have begun a longer sequence, whose rest has not come in time."""
        if self._held and not self._pasting and not _NO_KEY.match(self._held):
            self.vt100_parser.feed(self._held)
            self._held = ""
        self.vt100_parser.flush()
        return self._taken()

    def _taken(self) -> list[KeyPress]:
        keys, self._buffer = self._buffer, []
        return keys

    def _feed(self, data: str) -> None:
        text, self._held = self._held + data, ""
        while text:
            if self._pasting:
                text = self._feed_pasted(text)
                continue
            found = _TOKENS.search(text)
            if found is None:
                begun = _BEGUN.search(text)
                end = begun.start() if begun else len(text)
                self.vt100_parser.feed(text[:end])
                self._held = text[end:]
                return
            self.vt100_parser.feed(text[: found.start()])
            self._take(found)
            text = text[found.end() :]

    def _feed_pasted(self, text: str) -> str:
        """Pass on pasted text as it is; return what comes after its end."""
        if (end := text.find(_PASTE_END)) >= 0:
            self._pasting = False
            end += len(_PASTE_END)
            self.vt100_parser.feed(text[:end])
            return text[end:]
        # The end may be cut anywhere.
        cut = next((n for n in range(len(_PASTE_END) - 1, 0, -1) if text.endswith(_PASTE_END[:n])), 0)
        self.vt100_parser.feed(text[: len(text) - cut])
        self._held = text[len(text) - cut :]
        return ""

    def _take(self, found: re.Match[str]) -> None:
        if focus := found["focus"]:
            self.focused = focus == "I"
        elif (colour := found["background"]) is not None:
            if (light := is_light(colour)) is not None:
                self._background(light)
        elif answer := found["answer"]:
            if answer == "u":
                self._extended()
            else:
                self._answered()
        elif found["paste"]:
            self._pasting = True
            self.vt100_parser.feed(found[0])
        else:
            code = found["code"] or found["xterm_code"]
            modifiers = found["modifiers"] or found["xterm_modifiers"] or "1"
            self.vt100_parser.feed(legacy(int(code), int(modifiers)))


def asking(environment: Mapping[str, str], *, background: bool) -> str:
    """Return the sequence that switches on reports and longer keys, and asks the terminal what it is.

    Terminals that do not know a part of it ignore the part. All terminals answer the last question, so its
    answer is the end of the answers. `background` asks for the colour of the background.
    """
    sequence = "\x1b[?1004h"
    if background:
        sequence += "\x1b]11;?\x1b\\"
    sequence += "\x1b[?u"
    if _speaks_xterms(environment):
        sequence += "\x1b[>4;1m"
    return f"{sequence}\x1b[c"


def resetting(environment: Mapping[str, str], *, extended: bool) -> str:
    """Return the sequence that takes back what `asking` has switched on, and `EXTENDED` if it was sent."""
    sequence = "\x1b[<u" if extended else ""
    if _speaks_xterms(environment):
        sequence += "\x1b[>4m"
    return f"{sequence}\x1b[?1004l"


EXTENDED: Final = "\x1b[>1u"
"""Switches on kitty's protocol, only as far as keys that could not be told from others."""


def _speaks_xterms(environment: Mapping[str, str]) -> bool:
    # Other terminals could take the sequence for one that underlines.
    return bool(environment.get("TMUX") or environment.get("XTERM_VERSION"))


def _complete_lines(terminal: int) -> int:
    """Return the number of bytes of complete lines that were typed before the terminal is in raw mode."""
    count = array("i", [0])
    try:
        fcntl.ioctl(terminal, termios.FIONREAD, count)
    except OSError:
        return 0
    return count[0]
