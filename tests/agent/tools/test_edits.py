"""Edits of a text, without a sandbox."""

import json

import pytest

from rumi.agent.tools.edits import MOST_EDITS, Edit, Edited, apply_edits, edits_in
from rumi.agent.tools.text_file import TextFile

TEXT = "def one():\n    return 1\n\ndef two():\n    return 2\n"


def edited(text: str, *edits: Edit) -> Edited:
    return apply_edits("f", TextFile(text), edits, 10_000)


@pytest.mark.parametrize(
    "arguments",
    [
        {"old_text": "a", "new_text": "b"},
        {"old_string": "a", "new_string": "b", "replace_all": None},
        {"old_str": "a", "new_str": "b", "edits": []},
        {"old": "a", "new": "b", "replace_all": "false"},
        {"edits": [{"old_text": "a", "new_text": "b"}]},
        {"edits": {"old_text": "a", "new_text": "b"}},
        {"edits": json.dumps([{"search": "a", "replace": "b"}])},
    ],
)
def test_each_form_that_models_write_is_one_edit(arguments: dict[str, object]) -> None:
    assert edits_in(arguments) == (Edit("a", "b"),)


def test_a_list_comes_before_the_single_edit_beside_it() -> None:
    both = {"edits": [{"old_text": "a\r\n", "new_text": "b"}], "old_text": "b", "new_text": "", "path": "f"}
    assert edits_in(both) == (Edit("a\n", "b"), Edit("b", ""))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "needs `old_text` and `new_text`"),
        ({"edits": "no JSON"}, "as a list of objects"),
        ({"edits": ["x"]}, "as a list of objects"),
        ({"edits": [{"old_text": "a"}]}, "needs `old_text` and `new_text`"),
        ({"edits": [{"old_text": "", "new_text": "b"}]}, "not empty"),
        ({"old_text": "a", "new_text": "b", "replace_all": "maybe"}, "true or false"),
        ({"edits": [{"old_text": "a", "new_text": "b"}] * (MOST_EDITS + 1)}, "at most"),
    ],
)
def test_what_is_no_edit_is_told(arguments: dict[str, object], why: str) -> None:
    found = edits_in(arguments)
    assert isinstance(found, str)
    assert why in found


def test_edits_are_applied_in_order_each_to_the_text_before_it() -> None:
    done = edited(TEXT, Edit("return 1", "return 3"), Edit("return 3\n", "return 4\n"), Edit("two", "deux"))
    assert done.content.decode() == TEXT.replace("return 1", "return 4").replace("two", "deux")
    assert done.count == 3
    assert done.difference is not None
    assert done.difference.counts == "+2 −2"


def test_one_miss_and_nothing_is_edited() -> None:
    done = edited(TEXT, Edit("return 1", "return 3"), Edit("return 1", "return 5"))
    assert (done.content, done.difference) == (b"", None)
    assert done.why_not.startswith("edit 2 of 2 misses, and none was made: old_text is not there.")
    assert "2\t    return 1" not in done.why_not, "the nearest lines are those of the text so far"
    assert "2\t    return 3" in done.why_not
    twice = edited(TEXT, Edit("one", "uno"), Edit("return", "yield"))
    assert "edit 2 of 2 misses, and none was made: old_text is there 2 times, at lines 2, 5" in twice.why_not
    assert "cancel each other out" in edited(TEXT, Edit("one", "uno"), Edit("uno", "one")).why_not


def test_spaces_at_line_ends_need_not_be_copied() -> None:
    spaced = TEXT.replace("():\n", "():  \n").replace("return 2", "return 2\t")
    done = edited(spaced, Edit("def two():\n    return 2\n", "def two():\n    return 3\n"))
    assert done.content.decode() == "def one():  \n    return 1\n\ndef two():\n    return 3\n"
    the_other_way = edited(TEXT, Edit("def two(): \n    return 2  \n", "x\n"))
    assert the_other_way.content.decode() == "def one():\n    return 1\n\nx\n"
    assert "not there" in edited("a \na  \n", Edit("a\n", "b\n")).why_not, "two places are like it"
    assert "not there" in edited(TEXT, Edit("  return 1 \n  return", "x")).why_not, "the indent counts"
    assert "not there" in edited("a\n", Edit("   ", "x")).why_not


def test_line_ends_of_the_file_stay_with_loose_and_listed_edits() -> None:
    file = TextFile("a \r\nb\r\nc\r\n")
    done = apply_edits("f", file, (Edit("a\nb\n", "a\nB\nB\n"), Edit("c\n", "d\n")), 10_000)
    assert done.content == b"a\r\nB\r\nB\r\nd\r\n"


def test_many_spaces_do_not_take_long() -> None:
    text = (" " * 2000 + "\n") * 500
    assert "not there" in edited(text, Edit("\n \nx", "y")).why_not
    assert "more than 10000 bytes" in edited("a", Edit("a", "b" * 20_000)).why_not
