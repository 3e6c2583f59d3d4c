import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rumi.platform.printable import clean, one_line

ESCAPES = st.sampled_from(
    [
        "\x1b",
        "\x1b[",
        "\x1b]0;",
        "\x07",
        "\x1b\\",
        "\x9b",
        "\x9d",
        "\x90",
        "31m",
        "\r",
        "\n",
        "\r\n",
        "\x08",
        "\x1bc",
    ]
)
HOSTILE = st.lists(st.one_of(ESCAPES, st.text(max_size=5), st.characters(codec=None))).map("".join)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[1;1Hhome", "home"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;aGVsbG8=\x07clipboard", "clipboard"),
        ("\x1bP+q544e\x1b\\x", "x"),
        ("\x1bcreset", "reset"),
        ("\x1b(0lines", "lines"),
        ("\x9b31mc1", "c1"),
        ("bell\x07 back\x08space", "bell backspace"),
        ("one\r\ntwo\rthree\vfour", "one\ntwo\nthree\nfour"),
        ("rm \u202egpj.exe", "rm gpj.exe"),
        ("half \ud83d pair", "half \ufffd pair"),
        ("unfinished \x1b[31", "unfinished [31"),
        ("unfinished \x1b]0;title\nnext line", "unfinished ]0;title\nnext line"),
        ("tab\tñandú 日本 👩‍👩‍👧 ⚠️", "tab\tñandú 日本 👩‍👩‍👧 ⚠️"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out_and_the_rest_stays(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned


@given(HOSTILE)
def test_nothing_that_a_terminal_obeys_is_left(raw: str) -> None:
    for character in clean(raw):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")
        assert character not in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029"
    clean(raw).encode()


@given(HOSTILE)
def test_cleaning_twice_is_cleaning_once(raw: str) -> None:
    assert clean(clean(raw)) == clean(raw)


@given(HOSTILE, HOSTILE)
@example("\x1b]0;\x85", "\x07")
def test_the_lines_of_a_growing_text_do_not_change_any_more_except_for_the_last(raw: str, more: str) -> None:
    before, after = clean(raw).split("\n"), clean(raw + more).split("\n")
    assert after[: len(before) - 1] == before[:-1]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Cf", "Zl", "Zp"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert clean(text) == text


@given(HOSTILE)
def test_one_line_is_one_line(raw: str) -> None:
    assert "\n" not in one_line(raw)
    assert "\t" not in one_line(raw)
