"""What a message refers to reaches the model as data: with its author, its time and its file."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from rumi.channels.telegram.address import Moves
from rumi.channels.telegram.channel import Telegram
from rumi.channels.telegram.receiving.reading import read_batch
from rumi.channels.telegram.receiving.references import MOST_CHARS
from rumi.errors import FileError
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.platform.untrusted_text import WARNING
from rumi.store.journal.inbox import accept_messages
from rumi.store.journal.records import Attachment, Incoming
from tests.channels.telegram.house import ANA, EVE, TelegramHouse, telegram_house
from tests.channels.telegram.test_entities import POST, at
from tests.channels.telegram.test_reading import ME, WHO, World, arrival, world
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Json, Message

__all__ = ["world"]

FERRY = "The ferry leaves at 8:15 from pier 4"


def answers(world: World, replied: Json, text: str = "is this right?", **fields: Any) -> Sequence[Attachment]:
    """What a private message of Ana's says that answers this; her own words always arrive."""
    world.comes(world.ana, text=text, reply_to_message=replied, **fields)
    found = arrival(world.last())
    assert found.text == text
    return found.attachments


def message(number: int = 902, author: Json | None = None, **content: Any) -> Json:
    """A message of Bo's, as it comes with the answer to it."""
    bo = {"id": 77, "is_bot": False, "first_name": "Bo"}
    chat = {"id": ANA, "type": "private", "first_name": "Ana"}
    return {"message_id": number, "date": 1_790_000_000, "chat": chat, "from": author or bo, **content}


# Who said it, and what


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({}, "a message of Bo"),
        ({"author": {"id": ME.id, "is_bot": True, "first_name": "Rumi"}}, "your message"),
        ({"author": {"id": ANA, "is_bot": False, "first_name": "Ana"}}, "the user's own message"),
        ({"sender_chat": {"id": -5, "type": "channel", "title": "News"}}, "a message of the channel News"),
        (
            {"sender_chat": {"id": -100777, "type": "supergroup", "title": "Trip"}},
            "a message of the group Trip",
        ),
        (
            {"forward_origin": {"type": "hidden_user", "sender_user_name": "Eve"}},
            "a message forwarded from Eve",
        ),
        (
            {"via_bot": {"id": 5, "is_bot": True, "first_name": "Gif", "username": "gif"}},
            "a message made by Gif (@gif)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_text_of_an_answered_message_comes_with_its_author(
    world: World, fields: Json, source: str
) -> None:
    (words,) = answers(world, message(text=FERRY, **fields))
    assert words == Attachment("words", source=source, text=FERRY, answered=902, sent=1_790_000_000.0)
    assert words.tainted


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"poll": {"question": "Where?", "options": [{"text": "sea"}]}}, "poll: Where?\n- sea"),
        ({"location": {"latitude": 1.5, "longitude": 2.5}}, "location 1.5, 2.5"),
        ({"contact": {"phone_number": "1", "first_name": "Bo"}}, "contact: Bo, 1"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "dice 🎲: 4"),
        ({"sticker": {"file_id": "S", "emoji": "👍"}}, "sticker 👍"),
        ({"checklist": {"title": "T", "tasks": [{"id": 1, "text": "a"}]}}, "checklist: T\n- [ ] a"),
        ({"rich_message": {"blocks": [{"type": "paragraph", "text": FERRY}]}}, FERRY),
        ({"something_new": {}}, "(A message without words.)"),
        ({"document": {"file_id": 5}, "caption": "see"}, "see\n(A file that could not be read.)"),
        (
            {"video": {"file_id": "V", "file_name": "film.mp4", "file_size": 10**9}, "caption": "see"},
            "see\n(The file film.mp4, which is too large: more than 20 MB.)",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_answered_message_of_another_kind_comes_as_text(world: World, content: Json, words: str) -> None:
    assert [(one.kind, one.text) for one in answers(world, message(**content))] == [("words", words)]


@pytest.mark.parametrize(
    ("content", "kind", "name"),
    [
        ({"photo": [{"file_id": "F", "width": 9, "height": 9}]}, "file", "photo-902.jpg"),
        ({"document": {"file_id": "F", "file_name": "offer.pdf"}}, "file", "offer.pdf"),
        ({"voice": {"file_id": "F", "mime_type": "audio/ogg"}}, "voice", "voice-902.ogg"),
        ({"audio": {"file_id": "F", "file_name": "a.mp3"}}, "file", "a.mp3"),
        ({"video": {"file_id": "F"}}, "file", "video-902.mp4"),
        ({"video_note": {"file_id": "F"}}, "file", "video-message-902.mp4"),
        ({"animation": {"file_id": "F"}, "document": {"file_id": "D"}}, "file", "animation-902.mp4"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_file_of_an_answered_message_is_fetched(
    world: World, content: Json, kind: str, name: str
) -> None:
    words, file = answers(world, message(caption="look", **content))
    assert (words.kind, words.text, words.answered) == ("words", "look", 902)
    assert (file.kind, file.name, file.reference, file.answered) == (kind, name, "F", 902)
    assert (file.source, file.tainted, file.own_file) == ("a message of Bo", True, False)
    world.comes(world.ana, text="mine", external_reply={"origin": {}, **content})
    (elsewhere,) = arrival(world.last()).attachments
    assert (elsewhere.kind, elsewhere.reference) == (kind, "F")


def test_an_answered_recording_that_nobody_can_transcribe_is_named(world: World) -> None:
    world.comes(world.ana, text="mine", reply_to_message=message(voice={"file_id": "F"}))
    (words,) = arrival(world.last(hears=False)).attachments
    assert words.text == "(A voice message, which cannot be transcribed here.)"


@pytest.mark.parametrize(
    ("replied", "mark"),
    [
        (
            {"poll": {"question": "Where?", "options": [{"text": "sea", "persistent_id": "p1"}]}},
            {"reply_to_poll_option_id": "p1"},
        ),
        (
            {"checklist": {"title": "T", "tasks": [{"id": 7, "text": "sea"}]}},
            {"reply_to_checklist_task_id": 7},
        ),
    ],
    ids=["option", "task"],
)
def test_an_answer_to_an_option_or_a_task_says_which(world: World, replied: Json, mark: Json) -> None:
    (words,) = answers(world, message(**replied), **mark)
    assert words.text.endswith("\n(The answer is to: sea)")


def test_a_story_that_is_answered_is_named(world: World) -> None:
    chat = {"id": EVE, "type": "private", "first_name": "Eve"}
    world.comes(world.ana, text="nice", reply_to_story={"id": 3, "chat": chat})
    (words,) = arrival(world.last()).attachments
    assert (words.source, words.answered) == ("a story of Eve", 0)


def test_a_link_of_another_chats_message_comes_along(world: World) -> None:
    reply = {
        "origin": {"type": "hidden_user", "sender_user_name": "Eve", "date": 5},
        "link_preview_options": {"url": POST},
    }
    world.comes(world.ana, text="mine", external_reply=reply)
    (words,) = arrival(world.last()).attachments
    assert (words.source, words.text, words.sent) == ("a message in another chat, from Eve", POST, 5.0)


# What is no answer


@pytest.mark.parametrize(
    "replied",
    [
        {"new_chat_title": "Trip"},
        {"pinned_message": {"message_id": 5}},
        {"forum_topic_created": {"name": "T"}},
        {"video_chat_started": {}},
        {"date": 0},
    ],
    ids=str,
)
def test_an_event_or_an_unseen_message_hands_nothing_on(world: World, replied: Json) -> None:
    assert answers(world, message() | replied) == ()


def test_in_a_topic_the_topics_beginning_is_no_answered_message(world: World) -> None:
    topic = world.api.topic(world.forum, world.api.bot)
    world.api.say(world.ana, "/status", world.forum, topic=topic)
    assert world.updates()[-1]["message"]["reply_to_message"]
    assert arrival(world.last()).attachments == ()
    said = world.api.write(world.forum, world.eve, FERRY, topic=topic)
    world.api.say(world.ana, "@rumi_test_bot right?", world.forum, topic=topic, reply_to=said)
    assert [one.text for one in arrival(world.last()).attachments] == [FERRY]


@pytest.mark.parametrize(
    "odd",
    [
        "?",
        5,
        [],
        {"message_id": "x", "text": 5},
        {"from": "?", "text": {}},
        {"date": "now", "photo": "?"},
        {"photo": [{}]},
    ],
    ids=str,
)
@pytest.mark.parametrize("field", ["reply_to_message", "external_reply", "quote", "reply_to_story"])
def test_an_odd_part_costs_that_part_only(world: World, field: str, odd: object) -> None:
    world.comes(world.ana, text="mine", **{field: odd})
    found = arrival(world.last())
    assert (found.text, found.answer) == ("mine", None)
    assert all(one.kind == "words" for one in found.attachments)


def test_a_command_that_answers_something_is_a_command(world: World) -> None:
    words, file = answers(world, message(caption=FERRY, document={"file_id": "F"}), "/remind tomorrow: this")
    assert not words.own_file
    assert not file.own_file


# Bounds


def test_a_long_answered_text_is_cut_and_marked(world: World) -> None:
    (words,) = answers(world, message(text="😀" * 5000))
    assert (len(words.text), words.cut) == (MOST_CHARS, True)
    (words,) = answers(world, message(text="\ud83d half \udc00"))
    assert (words.text, words.cut) == ("\ud83d half \udc00", False)


def test_what_all_parts_of_an_album_answer_comes_once(world: World) -> None:
    said = world.api.write(world.api.chat(ANA), world.eve, FERRY)
    world.api.send_album(world.ana, [("a.txt", b"1"), ("b.txt", b"2")], caption="these", reply_to=said)
    found = arrival(world.all()[-1])
    assert [one.text or one.name for one in found.attachments] == [FERRY, "a.txt", "b.txt"]


# Quotes


@pytest.mark.parametrize(
    ("text", "part", "position", "rest"),
    [
        (FERRY, "8:15", 20, "The ferry leaves at […] from pier 4"),
        ("👍👍 yes 👍", "yes", 5, ""),
        ("one 😀 two one", "one", 11, "one 😀 two […]"),
        ("one two one", "one", 99, "[…] two one"),
        ("one two one", "one", "?", "[…] two one"),
        ("one two", "three", 0, "one two"),
        (FERRY, FERRY, 0, ""),
    ],
)
def test_the_rest_of_a_quoted_message_comes_beside_the_quote(
    world: World, text: str, part: str, position: object, rest: str
) -> None:
    found = answers(world, message(text=text), quote={"text": part, "position": position})
    assert [(one.source, one.text) for one in found] == [
        *([("a message of Bo", rest)] if rest else []),
        ("quoted from a message of Bo", part),
    ]


def test_links_in_an_answered_message_and_in_its_quote_are_shown(world: World) -> None:
    text = "😀 read this article or that one"
    links = [at(text, "this article", url=POST), at(text, "that one", url="http://a.example/")]
    (words,) = answers(world, message(text=text, entities=links))
    assert words.text == f"😀 read this article ({POST}) or that one (http://a.example/)"
    (words,) = answers(world, message(caption=text, caption_entities=links, photo=[]))
    assert words.text.startswith(f"😀 read this article ({POST})")
    rest, quote = answers(
        world, message(text=text, entities=links), quote={"text": "this article", "position": 8}
    )
    assert quote.text == f"this article ({POST})"
    assert rest.text == "😀 read […] or that one (http://a.example/)"
    own = {"text": "x this", "position": 0, "entities": [at("x this", "this", url=POST)]}
    world.comes(world.ana, text="mine", external_reply={"origin": {}}, quote=own)
    (words,) = arrival(world.last()).attachments
    assert words.text == f"x this ({POST})"


def test_links_of_a_forward_and_of_a_caption_are_shown(world: World) -> None:
    text = "read this"
    entities = [at(text, "this", url=POST)]
    world.api.send(world.ana, text=text, entities=entities, forward_origin=world.api.origin_of("Eve"))
    (words,) = arrival(world.last()).attachments
    assert (words.source, words.text) == ("forwarded from Eve", f"read this ({POST})")
    world.api.send_photo(world.ana, b"1234", caption=text, caption_entities=entities)
    assert arrival(world.last()).text == f"read this ({POST})"
    world.api.say(world.ana, text, entities=entities)
    assert arrival(world.last()).text == f"read this ({POST})"


# Edits


def corrected(world: World) -> Incoming | None:
    read = world.last()
    assert read is None or (isinstance(read, Incoming) and read.corrects)
    return read


def test_an_edited_message_corrects_the_stored_one(world: World) -> None:
    said = world.api.say(world.ana, "buy milk")
    world.api.edit(said, "buy oat milk")
    found = corrected(world)
    assert found is not None
    assert (found.text, found.chat, found.origin, found.user) == ("buy oat milk", "tg11", said.id, ANA)
    file = world.api.send_document(world.ana, "a.txt", b"x", caption="sum up", media_group_id="7")
    file.content["caption"] = "translate"
    world.api.edit(file, "")
    found = corrected(world)
    assert found is not None
    assert (found.text, found.origin, found.album, len(found.attachments)) == ("translate", file.id, "", 1)


def test_an_edit_in_a_group_counts_if_it_is_for_the_bot(world: World) -> None:
    said = world.api.say(world.ana, "what time is it?", world.group)
    world.api.edit(said, "what time is it now?")
    assert world.last() is None
    world.api.edit(said, "@rumi_test_bot what time is it?")
    found = corrected(world)
    assert found is not None
    assert (found.text, found.origin) == ("what time is it?", said.id)


def test_edits_that_say_nothing_to_the_bot_are_passed_over(world: World) -> None:
    world.api.edit(world.api.say(world.eve, "let me in"), "please")
    assert world.last() is None
    world.api.edit(world.api.say(world.eve, "@rumi_test_bot hi", world.group), "@rumi_test_bot please")
    assert world.last() is None
    for content in (
        {"location": {"latitude": 1.0, "longitude": 2.0, "live_period": 60}},
        {"something_new": {}},
        {"new_chat_title": "T"},
        {"text": ""},
    ):
        world.api.edit(world.api.send(world.ana, **content), "")
        assert world.last() is None, content


def test_a_message_and_its_edit_in_one_batch_stay_in_order(world: World) -> None:
    world.api.edit(world.api.say(world.ana, "one"), "two")
    read = [arrival(one) for one in world.all()]
    assert [(one.text, one.corrects) for one in read] == [("one", False), ("two", True)]


# The whole way


class Bringing(Telegram):
    """Brings a file as its content, without a workspace."""

    def __init__(self, api: BotApi) -> None:
        super().__init__()
        self._api = api

    async def bring(self, chat: str, attachment: Attachment) -> str:
        await trio.lowlevel.checkpoint()
        if attachment.reference not in self._api.files:
            raise FileError("Telegram no longer has it.")
        return f"{attachment.name}: {self._api.files[attachment.reference].content.decode()}"


@asynccontextmanager
async def talking(path: Path, **how: Any) -> AsyncIterator[tuple[TelegramHouse, list[list[str]]]]:
    """A house whose model says `answer N`; and what it was told, one list a request."""
    told: list[list[str]] = []

    async def answer(request: ModelRequest, emit: Emit) -> Reply:
        await trio.lowlevel.checkpoint()
        told.append([one.content for one in request.messages if one.role != "system"])
        return Reply(f"Answer **{len(told)}** of [many](https://a.example/x)")

    api = BotApi(trio.current_time)
    api.user(ANA, first_name="Ana")
    api.user(EVE, first_name="Bo")
    async with telegram_house(path, api, answer=answer, telegram=Bringing(api), **how) as house:
        yield house, told


async def turn(house: TelegramHouse, told: list[list[str]], send: Callable[[], Message]) -> list[str]:
    """Send something and wait for the reply; what the model was told of it, without what it knew."""
    before, known = len(told), len(told[-1]) + 1 if told else 0
    chat = send().chat
    await house.until(lambda: f"Answer {before + 1} of many" in chat.texts)
    return told[-1][known:]


async def test_the_model_reads_what_a_message_in_a_group_answers(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking(tmp_path) as (house, told):
        api = house.api
        group = api.group(-100500, title="Trip", members=[api.people[ANA], api.people[EVE]])
        said = api.say(api.people[EVE], FERRY, group)
        block, own = await turn(
            house,
            told,
            lambda: api.say(api.people[ANA], "@rumi_test_bot is this right?", group, reply_to=said),
        )
        assert own == "is this right?"
        head, warning, *inside = block.split("\n")
        assert (head, warning) == ("[The user's message answers this.]", WARNING)
        assert inside == [
            '<page source="a message of Bo, 2026-09-21 14:13, which the user\'s message answers">',
            FERRY,
            "</page>",
        ]


async def test_an_answer_to_the_last_exchange_adds_nothing_and_an_older_one_does(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking(tmp_path) as (house, told):
        api, ana = house.api, house.api.people[ANA]
        first = api.say(ana, "one")
        assert await turn(house, told, lambda: first) == ["one"]
        reply = api.chat(ana).said[-1]
        assert await turn(house, told, lambda: api.say(ana, "two", reply_to=reply)) == ["two"]
        last = next(one for one in api.chat(ana).messages if one.text == "two")
        assert await turn(house, told, lambda: api.say(ana, "three", reply_to=last)) == ["three"]
        block, own = await turn(house, told, lambda: api.say(ana, "four", reply_to=reply))
        assert own == "four"
        assert "your message of 2026-09-21 14:13, which the user's message answers" in block
        assert "\nAnswer 1 of many (https://a.example/x)\n" in block
        block, own = await turn(house, told, lambda: api.say(ana, "five", reply_to=first))
        assert "the user's own message of 2026-09-21" in block
        assert "\none\n" in block


async def test_an_answer_to_the_last_exchange_of_a_former_session_comes_along(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking(tmp_path) as (house, told):
        api, ana = house.api, house.api.people[ANA]
        await turn(house, told, lambda: api.say(ana, "one"))
        reply = api.chat(ana).said[-1]
        api.say(ana, "/new")
        await house.until(lambda: len(api.chat(ana).said) > 1)
        api.say(ana, "two", reply_to=reply)
        await house.until(lambda: len(told) == 2)
        assert told[-1][-1] == "two"
        assert "Answer 1 of many" in told[-1][-2]


async def test_a_fired_reminder_is_history_and_an_older_one_is_quoted(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    parts: list[Any] = []
    async with talking(tmp_path, add=lambda root, *added: parts.extend(added)) as (house, told):
        api, ana = house.api, house.api.people[ANA]
        await turn(house, told, lambda: api.say(ana, "hello"))
        inbox, journal, _ = parts
        for number, text in enumerate(("Take the pill", "Call Bo")):
            message = Incoming(chat=f"tg{ANA}", text=text, schedule=7 + number, notice=True)
            (stored,) = await journal.ask(accept_messages((message,)))
            inbox.chats.wake(stored)
            await house.until(lambda text=text: any(text in one for one in api.chat(ana).texts))
        pill, call = api.chat(ana).said[-2:]
        known = len(told[-1]) + 1
        api.say(ana, "snooze this", reply_to=call)
        await house.until(lambda: len(told) == 2)
        assert told[-1][known:] == [
            "[The schedule 7 fires. What it says follows.]",
            "Take the pill",
            "[The schedule 8 fires. What it says follows.]",
            "Call Bo",
            "snooze this",
        ]
        api.say(ana, "and this", reply_to=pill)
        await house.until(lambda: len(told) == 3)
        assert "your message of" in told[-1][-2]
        assert "\nTake the pill\n" in told[-1][-2]


async def test_the_file_of_an_answered_message_reaches_the_model(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking(tmp_path) as (house, told):
        api, ana = house.api, house.api.people[ANA]
        offer = api.file("offer.txt", b"42 euros")
        sent = api.write(api.chat(ana), api.people[EVE], content={"caption": "my offer"})
        sent.document = offer
        words, note, file, own = await turn(house, told, lambda: api.say(ana, "is it cheap?", reply_to=sent))
        assert "\nmy offer\n" in words
        assert note == "[The user's message answers files.]"
        assert "\noffer.txt: 42 euros\n" in file
        assert "which the user's message answers" in file
        assert own == "is it cheap?"


async def test_a_file_of_an_answered_message_that_is_gone_costs_only_itself(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with talking(tmp_path) as (house, told):
        api, ana = house.api, house.api.people[ANA]
        sent = api.write(api.chat(ana), api.people[EVE])
        sent.document = api.file("offer.txt", b"42 euros")
        del api.files[sent.document.id]
        _, file, own = await turn(house, told, lambda: api.say(ana, "is it cheap?", reply_to=sent))
        assert "(The file offer.txt could not be fetched: Telegram no longer has it.)" in file
        assert own == "is it cheap?"


def test_a_reply_in_a_group_of_the_public_kind_is_read() -> None:
    group = {"id": -100500, "type": "supergroup", "title": "Trip"}
    ana = {"id": ANA, "is_bot": False, "first_name": "Ana"}
    update = {
        "update_id": 5,
        "message": {
            "message_id": 903,
            "date": 2,
            "chat": group,
            "from": ana,
            "text": "@rumi_test_bot is this right?",
            "entities": [{"type": "mention", "offset": 0, "length": 14}],
            "reply_to_message": {**message(text=FERRY), "chat": group},
        },
    }
    (read,) = read_batch([update], ME, WHO, Moves(), hears=True)
    assert [one.text for one in arrival(read).attachments] == [FERRY]


async def test_a_command_and_a_yes_stay_one_in_an_answer_to_a_file(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    api = BotApi(trio.current_time)
    ana, bo = api.user(ANA, first_name="Ana"), api.user(EVE, first_name="Bo")
    async with telegram_house(tmp_path, api, telegram=Bringing(api)) as house:
        offer = api.write(api.chat(ana), bo, content={"caption": "yes, do it"})
        offer.document = api.file("offer.txt", b"42 euros")
        api.say(ana, "send a.txt")
        question = await house.asked(api.chat(ana))
        await trio.sleep(5)
        api.say(ana, "yes", reply_to=offer)
        await house.until(lambda: "done: sent" in api.chat(ana).texts)
        api.say(ana, "send b.txt")
        await house.asked(api.chat(ana))
        api.say(ana, "/stop", reply_to=offer)
        await house.until(lambda: any("⏹" in text for text in api.chat(ana).texts))
        api.say(ana, "/retry", reply_to=question)
        await house.asked(api.chat(ana))
        assert house.sending.sent == ["a.txt"]
