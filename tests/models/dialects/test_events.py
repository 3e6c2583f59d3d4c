"""Bodies of any form are split into events, within limits."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rumi.models.dialects import events
from rumi.models.dialects.events import MAX_EVENT_BYTES, BadStreamError, EventReader, objects_in


def read(*pieces: bytes) -> list[str]:
    reader = EventReader()
    return [*(event for piece in pieces for event in reader.feed(piece)), *reader.end()]


@given(
    st.lists(
        st.sampled_from(["data: {}", "data:a", ": c", "event: error", "{}", "x", "", "[1]"]), max_size=8
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 80), max_size=6),
)
def test_events_are_the_same_however_the_bytes_are_cut(lines: list[str], end: str, cuts: list[int]) -> None:
    data = end.join([*lines, "", ""]).encode()
    at = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert read(*[data[a:b] for a, b in pairwise(at)]) == read("\n".join([*lines, "", ""]).encode())


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b'{"a": 1}\n{"b": 2}\n', ['{"a": 1}', '{"b": 2}']),
        (b'{\n "a": 1\n}', ['{\n "a": 1\n}']),
        (b'[{\n "a": 1\n}]', ['[{\n "a": 1\n}]']),
        (b"data: a\n\n{\n", ["a"]),
        (b'event: error\ndata: {"error": 1}\n\n', ['{"error": 1}']),
        (b"event: error\ndata: no\n\n", ['{"error": "no"}']),
        (b"event: ping\ndata: {}\n\ndata: x\n\n", ["x"]),
        (b"Service unavailable", ["Service unavailable"]),
        (b"", []),
        (b"\xef\xbb\xbfdata: a", ["a"]),
    ],
)
def test_each_form_of_a_body_is_split(body: bytes, found: list[str]) -> None:
    assert read(body) == found


@pytest.mark.parametrize(
    "piece",
    [
        b"x" * 1_000_000,
        b"data: x\n" * 100_000,
        b"y" * 99 + b"\n",
        b" {\n" * 400_000,
        b"data: " + b"x" * 10**6 + b"\n",
    ],
)
def test_a_body_without_an_end_is_refused(piece: bytes) -> None:
    reader = EventReader()
    with pytest.raises(BadStreamError, match="has no end"):
        for _ in range(200_000):
            for event in reader.feed(piece):
                assert len(event) <= MAX_EVENT_BYTES


def test_a_deep_document_is_refused() -> None:
    with pytest.raises(BadStreamError, match="not JSON"):
        objects_in('{"a":' * 100_000)


def test_an_events_objects_are_found() -> None:
    assert objects_in('{"a": 1}\n{"b": 2}') == [{"a": 1}, {"b": 2}]
    assert objects_in('[{"a": 1}]') == [{"a": 1}]
    assert objects_in("ping") == objects_in('"ping"') == objects_in("") == []
    assert json.loads(events._as_error("")) == {"error": "error"}
