"""Chat ids: the channels' prefixes, owners, and names that clients may choose."""

import pytest

from rumi.errors import UsageError
from rumi.platform.chat_ids import BUILT_IN, MAIL, MATRIX, TELEGRAM, VIA, ChannelPrefix, ChatIds

LINES = ChannelPrefix("ln", "the line server")


@pytest.mark.parametrize("others", [("t",), ("tgx",), ("tg",), ("",), ("a", "ab")])
def test_no_chat_belongs_to_two_channels(others: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="does not tell one channel's chats"):
        BUILT_IN.including(ChannelPrefix(other, "another") for other in others)


def test_channels_that_run_are_added_once() -> None:
    assert BUILT_IN.including([TELEGRAM, None, LINES]).prefixes == (TELEGRAM, MAIL, MATRIX, VIA, LINES)


def test_an_owner_is_named_by_itself_by_a_chat_or_by_a_number() -> None:
    ids = BUILT_IN.including([LINES])
    assert [ids.owner(one) for one in ("tgwork-5", "tgwork--100777_5")] == ["tgwork-5", "tgwork--100777"]
    named = ("local", "tg5", "tg-100777_5", "-100777", "11", "lnana", "lnana_5")
    assert [ids.owner(one) for one in named] == [
        "local", "tg5", "tg-100777", "tg-100777", "tg11", "lnana", "lnana",
    ]  # fmt: skip
    assert ChatIds((LINES,)).owner("11") == "11"


@pytest.mark.parametrize("chat", ["tg", "tgfoo", "lnana", "", "a b", "x" * 65])
def test_a_client_chooses_no_id_of_a_channel_and_nothing_that_is_none(chat: str) -> None:
    with pytest.raises(UsageError):
        BUILT_IN.including([LINES]).check_chosen(chat)
    assert BUILT_IN.check_chosen("work-notes") == "work-notes"


@pytest.mark.parametrize(
    ("chat", "may"),
    [
        *(("tg123", False), ("tg123_5", False), ("tg-100777", True), ("tg-100777_5", True), ("cli", False)),
        *(("tgwork-123", False), ("tgwork-123_5", False), ("tgwork--100777", True), ("tgwork--1_5", True)),
    ],
)
def test_the_number_of_a_telegram_chat_says_if_it_is_a_group(chat: str, may: bool) -> None:
    assert BUILT_IN.may_be_group(chat) is may


def test_a_person_is_the_same_with_each_bot_and_has_facts_with_each() -> None:
    chats = ("tg12", "tg12_3", "tgwork-12", "tgwork-12_3", "tg-12", "tgwork--12", "tgwork-x", "cli")
    assert [BUILT_IN.user_of(chat) for chat in chats] == [12, 12, 12, 12, None, None, None, None]
    groups = ("tg-100777_5", "tgwork--100777")
    assert [BUILT_IN.private_owner(chat, 12) for chat in groups] == ["tg12", "tgwork-12"]


def test_where_a_channel_does_not_say_every_chat_may_be_a_group() -> None:
    assert BUILT_IN.including([LINES]).may_be_group("ln5")
