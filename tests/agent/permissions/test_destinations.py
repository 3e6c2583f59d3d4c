"""Which arguments of a call say where it goes."""

import time

import pytest

from rumi.agent.permissions.destinations import destinations_first, is_destination


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, "word") for name in ("to", "recipients", "cc", "userEmail", "file_path", "IBAN", "channel")],
        *[
            (name, "word")
            for name in ("message_id", "textFile", "note_url", "account", "unknown", "", "título_x")
        ],
        ("participants", ["ana@example.org"]),
        ("amount", 12),
        ("body", "https://example.org/hook"),
        ("text", " ana@example.org "),
        ("description", "DE89 3704 0044 0532 0130 00"),
        ("notes", ["words", "+598 99 123 456"]),
        ("content", 5),
        ("text", True),
        ("event", {"title": "words", "guests": ["ana"]}),
        ("content", {"body": {"link": "words"}}),
        ("title", {}),
    ],
)
def test_an_argument_is_a_destination_unless_it_is_known_as_content(name: str, value: object) -> None:
    assert is_destination(name, {}, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("body", "Dear Ana, see https://example.org/a. Yours"),
        ("subject", "Minutes"),
        ("title", "Dinner"),
        ("startTime", "2026-12-03 20:00"),
        ("due_date", 1764547200),
        ("notes", ["one", "two"]),
        ("content", {"title": "one", "text": "two"}),
        ("description", None),
        ("description", ""),
    ],
)
def test_texts_and_times_are_content(name: str, value: object) -> None:
    assert not is_destination(name, {}, value)


def test_the_schema_says_what_a_name_does_not() -> None:
    assert is_destination("text", {"type": "string", "format": "uri"}, "words")
    assert is_destination("content", {"enum": ["public", "private"]}, "public")
    assert not is_destination("start", {"type": "string", "format": "date-time"}, "2026-12-03T20:00:00Z")


def test_destinations_come_first_otherwise_the_order_of_the_call_stays() -> None:
    arguments = {"body": "words", "to": "ana@example.org", "subject": "s", "cc": ["leo@example.org"]}
    assert destinations_first(arguments, {}) == ["to", "cc", "body", "subject"]


@pytest.mark.parametrize("value", ["a@" + "." * 100_000 + " x", "a@" * 50_000 + " x", "a." * 50_000 + "!"])
def test_no_argument_takes_long_to_judge(value: str) -> None:
    began = time.monotonic()
    assert not is_destination("body", {}, value)
    assert time.monotonic() - began < 1
