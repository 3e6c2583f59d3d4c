import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from rumi.channels.terminal.paint import AnswerMarkdown, Painter, QuestionLines
from rumi.platform.printable import clean

COLOURS = Painter({"TERM": "xterm-256color"})
PLAIN = Painter({"TERM": "dumb"})
SGR = re.compile(r"\x1b\[[0-9;]*m")


def plain(markdown: str, width: int = 80) -> list[str]:
    return [SGR.sub("", line) for line in COLOURS.paint(AnswerMarkdown(markdown), width)]


def test_markdown_is_laid_out_for_reading_in_80_columns() -> None:
    markdown = """# Report

Text with `code`, a [link](https://example.com/a) and a line that is much longer than eighty columns are.
A second line stays one.

```python
def f(x):

    return x  # ok
```

| name | size |
|---|--:|
| 日本 | 1 |
| a.txt | 22 |

1. one
2. two
   - nested

> quoted

<b>not hidden</b> ![chart](https://example.com/c.png) <https://example.com/b>
"""
    assert plain(markdown) == [
        "Report",
        "",
        "Text with code, a link (https://example.com/a) and a line that is much longer",
        "than eighty columns are.",
        "A second line stays one.",
        "",
        "  def f(x):",
        "",
        "      return x  # ok",
        "",
        "name    size",
        "────────────",
        "日本       1",
        "a.txt     22",
        "",
        " 1 one",
        " 2 two",
        "    • nested",
        "",
        "▌ quoted",
        "",
        "<b>not hidden</b> chart (https://example.com/c.png) https://example.com/b",
    ]


def test_colours_follow_the_environment() -> None:
    text = Text("red", style="bold red")
    assert COLOURS.paint(text, 80) == ["\x1b[1;31mred\x1b[0m"]
    assert Painter({"TERM": "xterm-256color", "NO_COLOR": "1"}).paint(text, 80) == ["\x1b[1mred\x1b[0m"]
    assert PLAIN.paint(text, 80) == ["red"]


@pytest.mark.parametrize(
    "hostile",
    [
        "&#27;[2J",
        "&#x9b;2J",
        "&#x202e;gpj.exe",
        "`\x1b[2J`",
        "```\x1b]0;t\x07\n\x1b[2J\n```",
        "[a](<http://x.example/\x1b[2J>)",
        "![\x1b[2J](http://x.example)",
        "| \x1b[2J |\n|---|\n| \x9b2J |",
    ],
)
def test_no_way_through_markdown_leads_an_escape_sequence_to_the_terminal(hostile: str) -> None:
    painted = SGR.sub("", "\n".join(COLOURS.paint(AnswerMarkdown(hostile), 80)))
    assert not set(painted) & {"\x1b", "\x07", "\x9b", "\u202e"}


@given(st.text(st.characters(codec=None), max_size=200), st.integers(4, 100))
def test_no_line_is_wider_than_the_terminal_and_only_colours_are_sequences(text: str, width: int) -> None:
    for line in COLOURS.paint(Text(clean(text)), width):
        bare = SGR.sub("", line)
        assert cell_len(bare) <= width
        assert bare.rstrip(" ") == bare
        assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in bare)


def test_no_line_of_a_question_passes_for_another_when_it_is_wrapped() -> None:
    text = (
        "May I send this mail?\n  to:\n    1: a@example.org\n  text:\n    │ Hello "
        + "x" * 20
        + " to: b@example.org"
    )
    shown = [SGR.sub("", line) for line in COLOURS.paint(QuestionLines(text), 30)]
    assert shown[4:] == ["    │ Hello", f"    │ {'x' * 20} to:", "    │ b@example.org"]
    wrapped = COLOURS.paint(QuestionLines(f"  subject: {'y' * 60}"), 30)
    assert len(wrapped) > 2 and all(line.startswith("    y") for line in wrapped[1:])  # noqa: PT018
