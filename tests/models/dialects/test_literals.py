"""Python literals and calls are read without Python's parser, within limits."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.dialects.literals import LiteralReader, literal

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_every_literal_that_python_prints_is_read(value: object) -> None:
    assert literal(repr(value)) == value


@given(st.text(alphabet="{}[]()'\"\\,:=1aTruNone. \n-", max_size=60))
def test_whatever_it_is_it_is_a_literal_or_refused(text: str) -> None:
    value = literal(text)
    assert value is None or json.loads(json.dumps(value)) == value
    with suppress(ValueError):
        LiteralReader(text).calls()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 99_000,
        "{'a':" * 19_000,
        "-" * 99_000,
        "'" + "\\" * 99_000,
        "1+" * 40_000,
        "a." * 40_000 + "(",
        "(" * 999,
    ],
    ids=lambda text: text[:5],
)
def test_what_is_long_and_deep_is_no_literal(text: str) -> None:
    assert literal(text) is None
    with pytest.raises(ValueError, match=r"\w"):
        LiteralReader(text).calls()


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("bash(command='ls', n=3)", [("bash", {"command": "ls", "n": 3})]),
        ("[a(x=[1, 'two']), b()]", [("a", {"x": [1, "two"]}), ("b", {})]),
        ('print(default_api.bash(command="""a\nb""",))', [("bash", {"command": "a\nb"})]),
        ("brave.call(q=r'\\d', on=True)", [("brave", {"q": "\\d", "on": True})]),
    ],
)
def test_calls_with_literals_are_read(text: str, calls: object) -> None:
    assert LiteralReader(text).calls() == calls


@pytest.mark.parametrize(
    "text", ["bash('ls')", "bash(command=x)", "bash(", "import os", "bash(a=1)(b=2", "[bash()", "1"]
)
def test_anything_else_is_no_call(text: str) -> None:
    reader = LiteralReader(text)
    try:
        reader.calls()
    except ValueError:
        return
    assert text[reader.at :]
