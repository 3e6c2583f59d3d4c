"""Notices to a person who looks elsewhere: the terminal's bell, or a notice of the desktop."""

from collections.abc import Mapping
from typing import Final, Literal

from rumi.platform.printable import flat
from rumi.texts import Language, gettext

MOST_CHARS: Final = 120
"""Maximum length of a notice, in characters."""

_BELL = "\a"


def notice(
    chat: str,
    how: Literal["auto", "bell", "desktop", "off"],
    environment: Mapping[str, str],
    language: Language,
    *,
    asks: bool,
) -> str:
    """Return the control sequence of a notice: a question waits in a chat, or its turn has ended.

    The notice says nothing of the conversation: it may appear on a locked screen. `auto` is a notice of the
    desktop in terminals that are known to show one, otherwise the bell.
    """
    if how == "off":
        return ""
    form = "" if how == "bell" else _form(environment)
    if how == "desktop" and not form:
        form = "9"
    if not form:
        return _BELL
    text = (
        gettext(language, "Rumi asks something in the chat {chat}", chat=chat)
        if asks
        else gettext(language, "Rumi has finished in the chat {chat}", chat=chat)
    )
    text = flat(text)[:MOST_CHARS].replace(";", ",")
    sequence = {
        "9": f"\x1b]9;{text}\x1b\\",
        "99": f"\x1b]99;;{text}\x1b\\",
        "777": f"\x1b]777;notify;Rumi;{text}\x1b\\",
    }[form]
    if environment.get("TMUX"):
        # Only with `allow-passthrough on`; the bell marks the window in any case.
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\{_BELL}"
    return sequence


def _form(environment: Mapping[str, str]) -> str:
    """Return the number of the sequence that the terminal shows as a notice; empty if none is known.

    A terminal inside of tmux is known by the variables that it sets beside `TERM_PROGRAM`.
    """
    program = environment.get("TERM_PROGRAM", "")
    if environment.get("STY"):  # screen passes nothing on
        return ""
    if environment.get("KITTY_WINDOW_ID") or environment.get("TERM") == "xterm-kitty":
        return "99"
    if program in ("iTerm.app", "WezTerm", "ghostty") or environment.get("LC_TERMINAL") == "iTerm2":
        return "9"
    if environment.get("WEZTERM_PANE") or environment.get("GHOSTTY_RESOURCES_DIR"):
        return "9"
    if environment.get("TERM", "").startswith(("foot", "rxvt-unicode")):
        return "777"
    return ""
