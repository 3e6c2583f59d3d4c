import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.channels.markdown import finished_lines
from rumi.channels.terminal.growing import GrowingAnswer, rest_of

PIECES = st.lists(
    st.sampled_from(
        [
            "word ",
            "**bold** ",
            "`code` ",
            "\n",
            "\n\n",
            "# Title\n",
            "- item\n",
            "  - nested\n",
            "1. one\n",
            "```python\n",
            "```\n",
            "x = 1\n",
            "| a | b |\n",
            "|---|---|\n",
            "> quote\n",
            "---\n",
            "===\n",
            "    indented\n",
            "<div>\n",
            "[a]: http://x.example\n",
            "\x1b[31m",
            "\r\n",
            "\x1b",
            "]0;t\x07",
        ]
    ),
    max_size=40,
)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", 0),
        ("one paragraph\nstill", 0),
        ("one\n\ntwo", 2),
        ("one\n\n", 0),
        ("- a\n- b\n\n- c", 0),
        ("- a\n\ntext", 2),
        ("```\nx\n\ny\n", 0),
        ("```\nx\n```\nafter", 3),
        ("| a |\n|---|\n| 1 |\n\nafter", 4),
        ("# Title\ntext", 1),
    ],
)
def test_all_blocks_but_the_last_are_finished(text: str, lines: int) -> None:
    assert finished_lines(text) == lines


@given(PIECES)
def test_what_was_taken_for_good_never_changes_and_nothing_is_lost_or_repeated(pieces: list[str]) -> None:
    answer = GrowingAnswer()
    taken: list[str] = []
    for piece in pieces:
        answer.add(piece)
        if finished := answer.take_finished():
            taken.append(finished)
    taken.append(answer.take_rest())
    whole = GrowingAnswer()
    whole.add("".join(pieces))
    assert "\n".join(taken) == whole.take_rest()


@pytest.mark.parametrize(
    ("answer", "shown", "rest"),
    [
        ("all of it", "all of it", ""),
        ("all of it\n\n⚠️ Stopped.", "all of it\n", "⚠️ Stopped."),
        ("a b c", "a  b\n", "c"),
        ("other", "all of it", None),
        ("short", "shorter than this", None),
    ],
)
def test_only_what_was_not_shown_is_left_of_an_answer(answer: str, shown: str, rest: str | None) -> None:
    assert rest_of(answer, shown) == rest


def test_an_answer_of_several_pieces_or_of_the_last_one_is_recognised() -> None:
    answer = GrowingAnswer()
    for piece in ("Let me look.", "Found it."):
        answer.add(piece)
        answer.take_rest()
    assert answer.missing("Found it.\n\nmore") == "more"
    for piece in ("Let me look.", "Found it."):
        answer.add(piece)
        answer.take_rest()
    assert answer.missing("Let me look.\n\nFound it.") == ""


def test_the_live_end_of_a_long_block_is_short_and_code_stays_code() -> None:
    answer = GrowingAnswer()
    answer.add("Before\n\n```python\n" + "".join(f"line {number}\n" for number in range(5000)) + "last")
    answer.take_finished()
    assert answer.end(4, 80).split("\n") == ["```python", "line 4997", "line 4998", "line 4999", "last"]
    answer.begin()
    answer.add("word " * 10_000)
    assert len(answer.end(4, 80)) == 4 * 80
