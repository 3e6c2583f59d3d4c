"""What a message answers, beside the history that the model has: the last exchange is not told again."""

import pytest

from rumi.agent.prompts.message_entries import beyond_last_exchange, opening
from rumi.models.model import Message
from rumi.store.journal.records import Attachment, HistoryEntry, Incoming

HISTORY = (
    HistoryEntry("t1", Message("user", "clean up")),
    HistoryEntry("t1", Message("assistant", "Done.")),
    HistoryEntry("t2", Message("user", "now list the *towns*")),
    HistoryEntry("t2", Message("assistant", "")),
    HistoryEntry("t2", Message("tool", "Lugo, Vigo")),
    HistoryEntry(
        "t2", Message("assistant", "1. **Lugo**, see [its page](https://a.example/)\n2. Vigo\n\nDone.")
    ),
)
LAST = 100
"""The number of the user's last message at its source."""


def left(number: int, text: str = "", last: int = LAST, said: str = "and this?", **more: str) -> list[str]:
    """What is told of a message that a user's message answers."""
    kind = "words" if text else "file"
    answered = Attachment(kind, text=text, source="your message", answered=number, sent=1_790_000_000.0)
    message = Incoming(chat="tg1", text=said, attachments=(answered,))
    return [one.source for one in beyond_last_exchange(message, HISTORY, last, "Pacific/Auckland")]


DATED = ["your message of 2026-09-22 02:13, which the user's message answers"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (101, "1. Lugo, see its page (https://a.example/)\n2. Vigo\n\nDone."),
        (102, "2. Vigo\n\nDone."),
        (101, "1. Lugo […] Vigo"),
        (
            101,
            "1. Lugo, see its page (https://a.example/)\n2. Vigo\n\nDone.\n\nHalf of today's budget is used.",
        ),
        (100, "now list the towns"),
        (100, "whatever it was"),
        (100, ""),
    ],
)
def test_the_last_exchange_is_not_told_again(number: int, text: str) -> None:
    assert left(number, text) == []


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (99, "Done."),
        (98, "clean up"),
        (101, "The ferry leaves at 8:15"),
        (101, "Vigo […] The ferry"),
        (101, "Done. " + "And much more that nobody told the model. " * 9),
        (101, "…"),
        (101, ""),
        (0, "Done."),
    ],
)
def test_everything_else_is_told_with_its_time(number: int, text: str) -> None:
    assert left(number, text) == DATED


def test_without_a_number_of_the_last_message_its_words_decide() -> None:
    assert left(7, "Vigo", last=0) == []
    assert left(7, "The ferry", last=0) == DATED


def test_a_message_that_has_nothing_else_keeps_what_it_answers() -> None:
    assert left(101, "Vigo", said=" ") == DATED


@pytest.mark.parametrize("sent", [0.0, -5.0, 1e18, 2.0**53])
def test_a_time_that_is_none_is_left_out(sent: float) -> None:
    answered = Attachment("words", text="x", source="a message of Bo", answered=0, sent=sent)
    (told,) = beyond_last_exchange(Incoming(text="?", attachments=(answered,)), (), 0, "no such zone")
    assert told.source == "a message of Bo, which the user's message answers"


def test_what_is_answered_stands_before_the_users_words_and_taints() -> None:
    answered = Attachment("words", text="8:15", source="a message of Bo", answered=5, cut=True)
    block, own = opening("t3", Incoming(text="is this right?", attachments=(answered,)))
    assert block.message.content.startswith(
        "[The user's message answers this. Its end is missing: it was too long.]\n"
    )
    assert (block.tainted, own.tainted, own.message.content) == (True, False, "is this right?")
