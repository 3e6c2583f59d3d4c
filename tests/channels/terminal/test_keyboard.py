"""Longer forms of keys, and what a terminal says of its background."""

import pytest

from rumi.channels.terminal.keyboard import NEW_LINE, asking, legacy, resetting
from rumi.channels.terminal.screen import is_light, is_light_by_environment


@pytest.mark.parametrize(
    ("code", "modifiers", "sent"),
    [
        (13, 1, "\r"),
        *((13, modifiers, NEW_LINE) for modifiers in (2, 3, 5, 6, 66, 130)),
        (27, 1, "\x1b"),
        *((ord(letter), 5, chr(ord(letter) - 96)) for letter in "acdegorxz"),
        (98, 3, "\x1bb"),
        (98, 4, "\x1bB"),
        (98, 7, "\x1b\x02"),
        (9, 2, "\x1b[Z"),
        (127, 3, "\x1b\x7f"),
        (32, 5, "\0"),
        (0xE9, 1, "é"),
        (0xE9, 5, ""),
        (57414, 1, "\r"),
        (57400, 1, "1"),
        (57441, 2, ""),  # Shift alone
        (0x110000, 1, ""),
        (0xD800, 1, ""),
    ],
)
def test_longer_keys_become_those_of_old(code: int, modifiers: int, sent: str) -> None:
    assert legacy(code, modifiers) == sent


@pytest.mark.parametrize(
    ("answer", "light"),
    [
        ("rgb:ffff/ffff/ffff", True),
        ("rgb:fd/f6/e3", True),
        ("rgba:f/f/f/8000", True),
        ("rgb:0000/0000/0000", False),
        ("rgb:0000/2b2b/3636", False),
        ("rgb:gggg/0/0", None),
        ("white", None),
        ("", None),
    ],
)
def test_a_background_is_light_or_dark_or_unknown(answer: str, light: bool | None) -> None:
    assert is_light(answer) is light


@pytest.mark.parametrize(
    ("value", "light"),
    [
        ("0;15", True),
        ("0;default;7", True),
        ("15;0", False),
        ("7;8", False),
        ("15;default", None),
        ("", None),
    ],
)
def test_the_environment_may_say_it_too(value: str, light: bool | None) -> None:
    assert is_light_by_environment({"COLORFGBG": value}) is light


def test_only_terminals_that_know_them_get_the_keys_of_xterm() -> None:
    assert "\x1b[>4;1m" not in asking({"TERM": "linux"}, background=True)
    tmux = {"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"}
    assert "\x1b[>4;1m" in asking(tmux, background=False)
    assert "\x1b[>4m" in resetting(tmux, extended=False)
