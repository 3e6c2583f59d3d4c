"""Thoughts before an answer are taken out of it, however the pieces are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.dialects.thoughts import Thoughts

ANSWERS = [
    ("<think>let me see</think>42", "42"),
    ("<think>let me see</think>\n\n42", "42"),
    (" \n<think>\na < b </thin </think>\n42", "42"),
    ("<think></think>42", "42"),
    ("<think>it never ends", ""),
    ("<think>it never ends</think", ""),
    ("42", "42"),
    ("  42", "  42"),
    ("<thin", "<thin"),
    ("<thinker> is another tag", "<thinker> is another tag"),
    ("Write <think>x</think> yourself", "Write <think>x</think> yourself"),
    ("<think>a</think>Then <think>b</think>", "Then <think>b</think>"),
    ("", ""),
]


def read(pieces: list[str]) -> str:
    thoughts = Thoughts()
    return "".join([thoughts.feed(piece) for piece in pieces]) + thoughts.end()


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_only_thoughts_at_the_beginning_are_taken_out(text: str, answer: str) -> None:
    assert read([text]) == answer
    assert read(list(text)) == answer


@given(st.sampled_from(ANSWERS), st.lists(st.integers(0, 60), max_size=6))
def test_an_answer_reads_the_same_however_it_is_cut(case: tuple[str, str], cuts: list[int]) -> None:
    text, answer = case
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert read([text[a:b] for a, b in pairwise(at)]) == answer


def test_an_answer_without_thoughts_is_held_back_by_no_piece() -> None:
    thoughts = Thoughts()
    assert [thoughts.feed(piece) for piece in ("H", "ello", " <think>")] == ["H", "ello", " <think>"]
