"""Parts of the status bar, folded pastes, filters of lists, and notices."""

import pytest
from rich.cells import cell_len

from rumi.channels.terminal.choices import matches
from rumi.channels.terminal.notices import MOST_CHARS, notice
from rumi.channels.terminal.pasting import FOLDED_CHARS, FOLDED_LINES, PastedTexts
from rumi.channels.terminal.programs import argv_of, editor_of, pager_of
from rumi.channels.terminal.status_bar import BarPart, cut, fitted
from rumi.channels.terminal.words import Reader

PARTS = [
    BarPart("日本語:モデル", 50),
    BarPart("docker", 10),
    BarPart("cli", 20),
    BarPart("", 99),
    BarPart("2 queued", 40),
]


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (80, " 日本語:モデル · docker · cli · 2 queued"),
        (41, " 日本語:モデル · docker · cli · 2 queued"),
        (39, " 日本語:モデル · cli · 2 queued"),
        (28, " 日本語:モデル · 2 queued"),
        (24, " 日本語:モデル"),
        (9, " 日本語:…"),
        (1, "…"),
        (0, ""),
    ],
)
def test_a_narrow_bar_leaves_out_the_least_important_part(cells: int, shown: str) -> None:
    assert fitted(PARTS, cells) == shown
    assert cell_len(shown) <= cells


def test_nothing_is_ever_wider_than_the_bar() -> None:
    for cells in range(60):
        assert cell_len(fitted(PARTS, cells)) <= cells
        assert cell_len(cut("a日b本c", cells)) <= cells
    assert fitted([BarPart("a\nb\x1b[2J\x07", 1)], 20) == " a ⏎ b"


def test_a_filter_finds_words_first_and_letters_in_order_after_them() -> None:
    texts = ["git status", "grep setup", "status of git", "nothing"]
    assert matches("git stat", texts) == [0, 2]
    assert matches("gs", texts) == [0, 1]
    assert matches("", texts) == [0, 1, 2, 3]
    assert matches("gtsts", ["git status", "stat"]) == [0]


def test_short_pastes_stay_and_long_ones_are_folded_and_whole_again() -> None:
    pasted = PastedTexts(Reader("en"))
    short = "\n".join(["x"] * FOLDED_LINES)
    assert pasted.fold(short) == short
    long = "\r\n".join(["x"] * (FOLDED_LINES + 1))
    first = pasted.fold(long)
    second = pasted.fold(f"{first} " + "y" * FOLDED_CHARS)
    assert (first, second) == (
        "[#1: 13 lines pasted]",
        f"[#2: {len(first) + 1 + FOLDED_CHARS} characters pasted]",
    )
    whole = pasted.whole(f"a {second} b {first} c [#3: 1 lines pasted]")
    assert whole == f"a {first} {'y' * FOLDED_CHARS} b {long.replace(chr(13), '')} c [#3: 1 lines pasted]"
    assert pasted.whole("the mark is gone") == "the mark is gone"


@pytest.mark.parametrize(
    ("environment", "begins"),
    [
        ({"TERM": "xterm-256color"}, "\a"),
        ({"TERM": "xterm-kitty"}, "\x1b]99;;"),
        ({"TERM_PROGRAM": "iTerm.app"}, "\x1b]9;"),
        ({"TERM": "foot"}, "\x1b]777;notify;Rumi;"),
        ({"TERM_PROGRAM": "tmux", "TMUX": "x", "KITTY_WINDOW_ID": "1"}, "\x1bPtmux;\x1b\x1b]99;;"),
        ({"TERM": "screen", "STY": "1", "KITTY_WINDOW_ID": "1"}, "\a"),
    ],
)
def test_each_terminal_gets_the_notice_that_it_shows(environment: dict[str, str], begins: str) -> None:
    assert notice("cli", "auto", environment, "en", asks=False).startswith(begins)
    assert notice("cli", "bell", environment, "en", asks=False) == "\a"
    assert notice("cli", "off", environment, "en", asks=False) == ""
    assert notice("cli", "desktop", {}, "en", asks=True).startswith("\x1b]9;Rumi asks")


def test_a_notice_is_short_and_has_no_control_characters() -> None:
    text = notice("c\x1b\\\x07;hat" + "x" * 500, "desktop", {}, "en", asks=False)
    inner = text.removeprefix("\x1b]9;").removesuffix("\x1b\\")
    assert len(inner) <= MOST_CHARS
    assert inner.isprintable()


def test_editor_and_pager_are_chosen_as_git_does() -> None:
    assert editor_of({"VISUAL": "code --wait", "EDITOR": "nano"}) == "code --wait"
    assert editor_of({"VISUAL": " ", "EDITOR": "nano"}) == "nano"
    assert (editor_of({}), pager_of({})) == ("vi", "less")
    assert argv_of("nano", "/f") == ["nano", "/f"]
    assert argv_of("code --wait", "/f") == ["/bin/sh", "-c", 'code --wait "$@"', "code --wait", "/f"]
