"""Messages that are neither text nor files: what they say as text, and whose words it is."""

import math

import pytest

from rumi.channels.telegram.receiving.kinds import MOST_CHARS, location_of
from rumi.channels.telegram.receiving.references import STORY
from rumi.platform.texts import telegram as telegram_texts
from tests.channels.telegram.test_reading import ANA, EVE, World, arrival, world
from tests.fakes.bot_api_world import Json

__all__ = ["world"]

FILE = {"file_id": "S", "file_unique_id": "u"}
TASKS = [
    {"id": 1, "text": "buy milk", "completion_date": 1_790_000_000},
    {"id": 2, "text": "call Bo"},
]


def poll(*options: str, **more: object) -> Json:
    return {
        "id": "1",
        "question": "Where?",
        "type": "regular",
        "options": [{"text": o} for o in options],
        **more,
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"location": {"latitude": 40.4168, "longitude": -3.7038}}, "location 40.4168, -3.7038"),
        ({"location": {"latitude": -36, "longitude": 174.76}}, "location -36.0, 174.76"),
        ({"location": {"latitude": 1e-05, "longitude": 0.0}}, "location 0.00001, 0.0"),
        (
            {"location": {"latitude": 51.4778, "longitude": -0.0015, "horizontal_accuracy": 9.5}},
            "location 51.4778, -0.0015",
        ),
        ({"location": {"latitude": 1.5, "longitude": 2.5, "live_period": 900}}, "live location 1.5, 2.5"),
        ({"poll": poll("sea", "hills")}, "poll: Where?\n- sea\n- hills"),
        ({"poll": poll("7", "8", type="quiz", correct_option_ids=[1])}, "quiz: Where?\n- 7\n- 8"),
        ({"poll": poll("a", options=[{"text": "a", "voter_count": 3}])}, "poll: Where?\n- a (3 votes)"),
        ({"poll": poll("a", description="In May")}, "poll: Where?\nIn May\n- a"),
        ({"dice": {"emoji": "🎲", "value": 3}}, "dice 🎲: 3"),
        ({"dice": {"emoji": "🎰", "value": 64}}, "dice 🎰: 64"),
        ({"sticker": {**FILE, "emoji": "👍", "set_name": "x"}}, "sticker 👍"),
        ({"sticker": FILE}, "sticker"),
        ({"checklist": {"title": "Trip", "tasks": TASKS}}, "checklist: Trip\n- [x] buy milk\n- [ ] call Bo"),
        (
            {
                "rich_message": {
                    "blocks": [
                        {"type": "heading", "text": ["Pl", {"text": "an"}]},
                        {"type": "paragraph", "text": "go"},
                    ]
                }
            },
            "Plan\ngo",
        ),
    ],
    ids=str,
)
def test_what_a_sender_makes_in_the_client_is_the_senders_words(
    world: World, content: Json, words: str
) -> None:
    world.comes(world.ana, **content)
    found = arrival(world.last())
    assert (found.text, found.attachments, found.answer) == (words, (), None)
    world.comes(world.ana, forward_origin=world.api.origin_of("Eve"), **content)
    found = arrival(world.last())
    assert [(one.source, one.text) for one in found.attachments] == [("forwarded from Eve", words)]
    assert (found.text, found.attachments[0].tainted) == ("", True)


VCARD = "BEGIN:VCARD\nFN:Bo\nEMAIL:bo@a.example\nPHOTO;ENCODING=b:" + "A" * 9000 + "\nEND:VCARD"


@pytest.mark.parametrize(
    ("content", "source", "words"),
    [
        (
            {"contact": {"phone_number": "+34 600", "first_name": "Bo", "last_name": "Ek"}},
            "a contact that the user shares",
            "contact: Bo Ek, +34 600",
        ),
        (
            {"contact": {"phone_number": "1", "first_name": "A", "vcard": VCARD}},
            "a contact that the user shares",
            "contact: A, 1\nEMAIL:bo@a.example",
        ),
        (
            {"story": {"id": 1, "chat": {"id": EVE, "type": "private", "first_name": "Eve"}}},
            "a story of Eve",
            STORY,
        ),
        (
            {"story": {"id": 1, "chat": {"id": -5, "type": "channel", "title": "News"}}},
            "a story of the channel News",
            STORY,
        ),
        ({"game": {"title": "T", "description": "D", "photo": []}}, "a game", "game: T: D"),
        (
            {"invoice": {"title": "T", "description": "D", "currency": "EUR", "total_amount": 150}},
            "an invoice",
            "invoice: T: D (150 EUR, in its smallest unit)",
        ),
        (
            {"paid_media": {"star_count": 5, "paid_media": [{"type": "photo"}, {"type": "video"}]}},
            "paid media",
            "paid media for 5 stars: photo, video",
        ),
        (
            {
                "giveaway": {
                    "chats": [{"id": -5, "type": "channel", "title": "News"}],
                    "winner_count": 3,
                    "prize_description": "cake",
                }
            },
            "a giveaway",
            "giveaway: the channel News, 3 winners, cake",
        ),
    ],
    ids=str,
)
def test_what_others_chose_is_data_of_others(world: World, content: Json, source: str, words: str) -> None:
    world.comes(world.ana, **content)
    found = arrival(world.last())
    assert [(one.source, one.text, one.tainted) for one in found.attachments] == [(source, words, True)]
    assert (found.text, found.answer) == ("", None)
    world.comes(world.ana, forward_origin=world.api.origin_of("Eve"), **content)
    assert [one.source for one in arrival(world.last()).attachments] == ["forwarded from Eve"]


def test_a_venue_is_a_location_of_the_sender_and_a_name_from_a_directory(world: World) -> None:
    place = {"latitude": 40.4168, "longitude": -3.7038}
    world.comes(world.ana, location=place, venue={"location": place, "title": "Sol", "address": "Madrid"})
    found = arrival(world.last())
    assert found.text == "location 40.4168, -3.7038"
    assert [(one.source, one.text) for one in found.attachments] == [
        ("a place that the user shares", "Sol, Madrid")
    ]


@pytest.mark.parametrize(
    "place",
    [
        {},
        {"latitude": 91, "longitude": 0},
        {"latitude": 0, "longitude": -181},
        {"latitude": "40", "longitude": 3},
        {"latitude": True, "longitude": 3},
        {"latitude": math.nan, "longitude": 3.0},
        {"latitude": 1.0},
    ],
    ids=str,
)
def test_a_place_that_is_none_is_answered(world: World, place: Json) -> None:
    world.comes(world.ana, location=place)
    assert arrival(world.last()).answer == telegram_texts.unsupported("es", "location")
    assert location_of({"location": place}) is None


def test_the_place_of_a_location_and_of_a_venue_can_be_read() -> None:
    place = {"latitude": 40, "longitude": -3.7}
    assert location_of({"location": place}) == location_of({"venue": {"location": place}}) == (40.0, -3.7)
    for message in ({}, {"location": 5}, {"venue": {}}, {"text": "40, 3"}):
        assert location_of(message) is None


@pytest.mark.parametrize(
    "content",
    [
        {"poll": poll(*["o" * 10_000] * 500, question="q" * 10_000)},
        {"contact": {"phone_number": "1", "first_name": "x" * 10_000, "vcard": "NOTE:x\n" * 100_000}},
        {"checklist": {"title": "t", "tasks": [{"text": "x" * 5000}] * 1000}},
        {"rich_message": {"blocks": [{"text": ["x" * 5000] * 100}] * 1000}},
        {"game": {"title": "x" * 10_000, "description": "x" * 10_000}},
    ],
    ids=lambda content: next(iter(content)),
)
def test_the_text_of_every_kind_is_bounded(world: World, content: Json) -> None:
    world.comes(world.ana, **content)
    found = arrival(world.last())
    assert (
        0
        < sum(len(text) for text in (found.text, *(one.text for one in found.attachments)))
        <= MOST_CHARS + 1
    )


def test_a_kind_is_neither_a_command_nor_an_answer(world: World) -> None:
    world.comes(world.ana, poll=poll("yes", question="/reset files"))
    assert arrival(world.last()).text.startswith("poll: /reset files")


def test_in_a_group_a_location_is_for_the_bot_if_it_answers_it(world: World) -> None:
    world.api.send_location(world.ana, 1.0, 2.0, world.group)
    assert world.last() is None
    world.api.send_location(world.ana, 1.0, 2.0, world.group, reply_to=world.of_bot(world.group))
    assert arrival(world.last()).text == "location 1.0, 2.0"
    assert arrival(world.last()).user == ANA
