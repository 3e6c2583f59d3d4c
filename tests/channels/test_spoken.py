"""Which part of an answer is spoken."""

import pytest

from rumi.channels.spoken import speakable

MORE = "There is more in the text."


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("It is ten o'clock.", "It is ten o'clock."),
        ("# Weather\n\nRain **today**, _sun_ tomorrow", "Weather. Rain today, sun tomorrow."),
        ("- milk\n- bread\n\nThat is all!", "milk. bread. That is all!"),
        ("1. one\n2. two", "one. two."),
        ("Done ✅ 🎉", "Done."),
        ("Open `notes.txt` first.", "Open notes.txt first."),
        ("¿Qué tal? Muy bien", "¿Qué tal? Muy bien."),
        ("first line\nsecond line", "first line second line."),
        ("a | b and 3 * 4", "a b and 3 4."),
        ("", ""),
        ("```\nrm -rf x\n```", ""),
        ("🎉", ""),
        ("---", ""),
    ],
)
def test_sentences_are_spoken_without_their_signs(text: str, spoken: str) -> None:
    assert speakable(text, 1500, "en") == spoken


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Run this:\n\n```sh\nls -la\n```\n\nThen look.", f"Run this: Then look. {MORE}"),
        ("Run this:\n\n    ls -la\n\nThen look.", f"Run this: Then look. {MORE}"),
        ("Prices:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThat's it.", f"Prices: That's it. {MORE}"),
        ("See [the page](https://example.com/x?token=1).", f"See the page. {MORE}"),
        ("It is at https://example.com/a/b_c. Good.", f"It is at. Good. {MORE}"),
        ("Write to ana@example.com today", f"Write to today. {MORE}"),
        ("A picture: ![plan](plan.png)", f"A picture: {MORE}"),
        ("Use `" + "x" * 30 + "` here", f"Use here. {MORE}"),
    ],
)
def test_code_addresses_and_tables_are_not_spoken_and_that_is_said(text: str, spoken: str) -> None:
    assert speakable(text, 1500, "en") == spoken


def test_a_long_answer_is_cut_at_a_sentence() -> None:
    text = "One two three. " * 20
    assert speakable(text, 50, "en") == f"One two three. One two three. One two three. {MORE}"
    assert speakable("word " * 100, 52, "en") == f"{('word ' * 10).strip()}… {MORE}"
    assert len(speakable("x" * 1000, 50, "en")) <= 51 + len(MORE) + 1


def test_a_very_long_or_hostile_answer_is_bounded() -> None:
    for text in ("[" * 50_000, "word " * 100_000, "> " * 10_000 + "x", "|a" * 20_000):
        assert len(speakable(text, 200, "en")) < 300
