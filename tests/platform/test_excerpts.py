"""Excerpts around searched words, with the places of the words."""

import pytest

from rumi.platform.excerpts import excerpt, marks_in
from rumi.platform.markdown import stripped


def marked(text: str, words: str) -> list[str]:
    """What a browser marks: offsets are in units of UTF-16."""
    units = text.encode("utf-16-le")
    return [units[2 * begin : 2 * end].decode("utf-16-le") for begin, end in marks_in(text, words)]


@pytest.mark.parametrize(
    ("text", "words", "shown"),
    [
        ("The Árbol and the arbol", "árbol", ["Árbol", "arbol"]),
        ("e\u0301clair 😀 ÉCLAIR", "eclair", ["e\u0301clair", "ÉCLAIR"]),
        ("apples and pears", "pear app", ["app", "pear"]),
        ("ababab", "aba bab", ["abab"]),
        ("Straße ﬁnal", "strasse final", ["Straße", "ﬁnal"]),
        ("nothing", "x", []),
        ("nothing", " ", []),
    ],
)
def test_the_words_are_marked_as_the_search_finds_them(text: str, words: str, shown: list[str]) -> None:
    assert marked(text, words) == shown


def test_an_excerpt_is_a_line_around_the_first_word() -> None:
    found = excerpt(f"{'x ' * 200}\n\nthe Needle is here {'y ' * 200}", "needle")
    assert len(found.text) == 162
    assert (found.text[0], found.text[-1]) == ("…", "…")
    ((begin, end),) = found.marks
    assert found.text[begin:end] == "Needle"
    assert excerpt("short", "short").marks == ((0, 5),)


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("# Plan\n\n- **buy** [milk](https://a.example/x)\n- `run` _it_", "Plan buy milk run _it_"),
        ("> said *she*\n\n```py\nprint(2 * 3)\n```", "said she print(2 * 3)"),
        ("2 * 3 * 4 = a_b_c", "2 * 3 * 4 = a_b_c"),
        ("- [x] done ***very***", "done very"),
        ("", ""),
    ],
)
def test_markdown_is_stripped_to_its_words(markdown: str, words: str) -> None:
    assert stripped(markdown) == words
