"""Blocks of a text that grows: each closes once, and nothing of the text is missing or sent twice."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.channels.page.rendering.blocks import ClosedBlock, GrowingMarkdown, blocks_of


def grown(text: str, step: int = 6) -> tuple[GrowingMarkdown, list[ClosedBlock]]:
    """Return a text that grew by `step` characters, and the blocks that it gave."""
    growing, given_blocks = GrowingMarkdown(), []
    for end in range(0, len(text), step):
        given_blocks += growing.advance(text[:end])
    return growing, given_blocks + growing.advance(text, ended=True)


PIECES = (
    "word ",
    "\n",
    "\n\n",
    "- a\n",
    "1. b\n",
    "```\n",
    "> q\n",
    "# t\n",
    "***",
    "|a|\n",
    "|-|\n",
    "  ",
    "😀",
)
MORE = (
    "$$\n",
    "\\[\n",
    "\\]\n",
    "<details>\n",
    "</details>\n",
    "[x]\n",
    "[x]: http://a.test\n",
    "[^1]: n\n",
    "\r\n",
    "---\n",
)


@given(st.lists(st.sampled_from(PIECES + MORE), max_size=25), st.integers(1, 9))
def test_a_text_that_grew_has_the_blocks_of_the_whole_text(pieces: list[str], step: int) -> None:
    text = "".join(pieces)
    growing, told = grown(text, step)
    assert tuple(growing.blocks) == blocks_of(text)
    assert growing.restated or told == growing.blocks
    ends = [0, *(block.to for block in growing.blocks)]
    assert ends == sorted(ends)
    assert ends[-1] == len(text.encode("utf-16-le")) // 2


@given(st.lists(st.sampled_from(PIECES), max_size=25))
def test_closed_blocks_never_change_without_definitions(pieces: list[str]) -> None:
    assert not grown("".join(pieces))[0].restated


def test_blocks_close_as_soon_as_the_next_one_begins() -> None:
    growing = GrowingMarkdown()
    assert growing.advance("# Title\n\nwor") == []
    assert [block.to for block in growing.advance("# Title\n\nword\n\n")] == [9]
    assert [block.to for block in growing.advance("# Title\n\nword\n\n```py\n")] == [15]
    assert growing.advance("# Title\n\nword\n\n```py\nx = 1\n\n# no title\n") == []
    (code,) = growing.advance("# Title\n\nword\n\n```py\nx = 1\n\n# no title\n```\nend\n")
    assert code.form() == {"to": 43, "code": [21, 38], "lang": "py", "colours": "4,1M2,aC"}


def test_offsets_are_those_of_a_browsers_strings() -> None:
    text = "😀😀\n\n```js\nlet x = '😀' // 1\n```\n"
    data = text.encode("utf-16-le")
    first, code = blocks_of(text)
    assert code.code is not None
    assert data[2 * code.code[0] : 2 * code.code[1]].decode("utf-16-le") == "let x = '😀' // 1"
    assert (first.to, code.to) == (6, len(data) // 2)
    assert code.colours == "3K5,4S1,4C"


def test_code_that_is_indented_or_in_a_list_is_html() -> None:
    for text in ("  ```\n  x\n  ```", "- ```\n  x\n  ```", "```\r\nx\r\n```"):
        (block,) = blocks_of(text)
        assert block.code is None
        assert "x\n</code></pre>" in block.html


def test_later_definitions_are_stated_again_at_the_end() -> None:
    text = "See [it][1] and this[^n].\n\nMore.\n\n[1]: http://a.test\n\n[^n]: Note.\n"
    growing, told = grown(text)
    assert "[it][1]" in told[0].html
    assert growing.restated
    assert "http://a.test" in growing.blocks[0].html
    assert "<sup" in growing.blocks[0].html


def sized(text: str) -> float:
    """Return the bytes that a reader of a growing text gets, as a multiple of the text."""
    _, told = grown(text)
    form = [json.dumps(block.form(), ensure_ascii=False, separators=(",", ":")) for block in told]
    return 1 + len("".join(form).encode()) / len(text.encode())


CODE = (
    'def area(width: int, height: int = 2) -> int:\n    """Return it."""\n    return width * height  # cm\n\n'
)
PROSE = (
    "The **first** result is in [the table](https://example.org/table), and `x` is *not* what we expected. "
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Here:\n\n```python\n" + CODE * (22_000 // len(CODE)) + "```\n", id="22 KB of code"),
        pytest.param("| a | b | c |\n|---|--:|---|\n" + "| 1 | 2 | x |\n" * 360, id="5 KB of table"),
        pytest.param((PROSE * 4 + "\n\n") * 20, id="8 KB of prose"),
        pytest.param("- one\n- two\n- three\n" * 80, id="2 KB of a list"),
    ],
)
def test_a_reader_gets_at_most_three_times_the_text(text: str) -> None:
    assert sized(text) <= 3


def test_a_growing_block_takes_linear_time() -> None:
    begun = time.process_time()
    grown("```python\n" + CODE * 230 + "```\n", 40)
    grown("|a|b|\n|-|-|\n" + "| word | two |\n" * 1_000, 15)  # parsed at each row: over a minute
    assert time.process_time() - begun < 8
