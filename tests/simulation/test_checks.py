"""The checks themselves: what they must see, and what only looks like it."""

import pytest

from tests.simulation.checks import of_a_stranger


@pytest.mark.parametrize(
    "words", ["xav#hello hang", "tg6661", "6662 wrote", "-6661", '{"content":"xav#edited"}', "1 tg6662_5 x"]
)
def test_what_a_stranger_wrote_and_a_strangers_number_are_seen(words: str) -> None:
    assert of_a_stranger(words)


@pytest.mark.parametrize("words", ["echo bob#0.6661234", "echo cyn#0.26661", "166620", "500006661", "bob#6"])
def test_a_number_that_contains_a_strangers_is_not_taken_for_it(words: str) -> None:
    assert not of_a_stranger(words)
