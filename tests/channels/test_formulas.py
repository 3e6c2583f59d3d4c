"""Formulas as channels without MathML show them: the TeX as it was written."""

import re
from html import unescape

import pytest

from rumi.channels.markdown import finished_lines, parser

TEXTS = (
    r"The root \(x_1 = \frac{a}{b}\) and $a_i * b_i * c$.",
    "\\[\na_1\n+ b\n\\\\ c\n\\]",
    "$$\n- x\n$$",
    r"It costs $5 and $6.",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_terminal_shows_the_tex_as_it_was_written(text: str) -> None:
    shown = parser().render(text)
    assert unescape(re.sub("<[^>]*>", "", shown)).strip() == text


def test_a_formula_that_is_not_closed_yet_is_not_finished() -> None:
    assert finished_lines("a\n\n\\[\nx\n+ y\n") == 2
    assert finished_lines("a\n\n\\[\nx\n+ y\n\\]\nb\n") == 6
