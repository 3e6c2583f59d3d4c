"""What an update means. The updates are made by the Telegram of the tests, as Telegram's own look."""

import copy
import json
import logging
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from telegram import Bot, Update

from rumi.channels.telegram.address import Moves
from rumi.channels.telegram.api.bot import Me
from rumi.channels.telegram.receiving.reading import Read, Stranger, Who, read_batch
from rumi.channels.telegram.receiving.updates import update_of
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.store.journal.records import Attachment, Incoming
from rumi.texts import Language, gettext
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Chat, Json, Message, Person

ANA, EVE, ADMIN = 11, 66, 99
ME = Me(7_000_000_001, "rumi_test_bot")
WHO = Who(frozenset({ANA}), frozenset({ADMIN}))


class World:
    """A Telegram with a few people, and what the house makes of what they do there."""

    def __init__(self) -> None:
        self.api = BotApi(lambda: 0.0)
        self.ana = self.api.user(ANA, language_code="es-MX")
        self.eve = self.api.user(EVE)
        self.admin = self.api.user(ADMIN)
        self.group = self.api.group(-100777, members=[self.ana, self.eve, self.admin])
        self.forum = self.api.group(-100888, forum=True, members=[self.ana])

    def updates(self) -> list[Json]:
        return [update for _, update in self.api.updates.pending]

    def all(self, who: Who = WHO, hears: bool = True) -> list[Read]:
        return read_batch(self.updates(), ME, who, Moves(), hears=hears)

    def last(self, who: Who = WHO, hears: bool = True) -> Read | None:
        """What the last update means; None if it means nothing."""
        raw = self.updates()[-1]
        (found,) = read_batch([raw], ME, who, Moves(), hears=hears)
        return None if found == Incoming(update_of(raw["update_id"])) else found

    def comes(self, person: Person, **fields: Any) -> int:
        """A private message with these fields in its JSON; its number."""
        message = self.api.send(person)
        self.updates()[-1]["message"].update(fields)
        return message.id

    def of_bot(self, chat: Chat | Person, **where: Any) -> Message:
        """Something that the bot said."""
        return self.api.write(self.api.chat(chat), self.api.bot, "I am here", **where)


@pytest.fixture
def world() -> World:
    return World()


def number(read: Incoming | Stranger) -> int:
    """Return the number of the update."""
    if isinstance(read, Stranger):
        return read.update
    assert read.update is not None
    return read.update.number


def arrival(read: Read | None) -> Incoming:
    assert isinstance(read, Incoming)
    return read


# Who counts


def test_a_private_message_of_somebody_on_the_list_arrives(world: World) -> None:
    message = world.api.say(world.ana, "hola")
    expected = Incoming(update_of(500_000_000), "tg11", "hola", "es", origin=message.id, user=ANA)
    assert world.last() == replace(expected, sent=float(message.date))


def test_a_message_says_when_it_was_sent_and_where_its_sender_is(world: World) -> None:
    message = world.api.say(world.ana, "hola")
    assert arrival(world.last()).sent == message.date
    place = {"latitude": 40.4168, "longitude": -3.7038}
    world.comes(world.ana, text=None, location=place)
    assert arrival(world.last()).place == (40.4168, -3.7038)
    world.comes(world.ana, text=None, location=place, venue={"location": place, "title": "A bar"})
    assert arrival(world.last()).place is None, "a venue is not where the person is"
    for odd in ({}, {"latitude": "40", "longitude": 3}, {"latitude": True, "longitude": None}):
        world.comes(world.ana, text=None, location=odd)
        assert arrival(world.last()).place is None


def test_admins_may_talk_without_being_on_the_list(world: World) -> None:
    world.api.say(world.admin, "hello")
    assert arrival(world.last()).admin


def test_an_admin_is_one_in_a_private_chat_only(world: World) -> None:
    world.api.say(world.admin, "@rumi_test_bot hello", world.group)
    assert not arrival(world.last()).admin
    world.api.say(world.ana, "hello")
    assert not arrival(world.last()).admin


def test_somebody_else_is_a_stranger_and_nothing_that_they_wrote_is_kept(world: World) -> None:
    world.api.say(world.eve, "let me in")
    assert world.last() == Stranger(500_000_000, EVE, "tg66", "en")


def test_an_empty_list_denies_everyone(world: World) -> None:
    world.api.say(world.ana, "hola")
    assert isinstance(world.last(Who(frozenset())), Stranger)


def test_a_name_opens_no_door(world: World) -> None:
    impostor = world.api.user(67, username="11", first_name="11")
    world.api.say(impostor, "I am Ana")
    assert isinstance(world.last(), Stranger)


def test_in_groups_only_those_who_call_the_bot_are_strangers(world: World) -> None:
    world.api.say(world.eve, "nice weather", world.group)
    assert world.last() is None
    message = world.api.say(world.eve, "@rumi_test_bot hello", world.group)
    assert world.last() == Stranger(500_000_001, EVE, "tg-100777", "en", message.id)


def test_bots_are_not_listened_to(world: World) -> None:
    world.api.send(Person(12, "Other", "other_bot", is_bot=True), world.group, text="/status")
    assert world.last(Who(frozenset({12}))) is None


def test_channels_posts_are_nobodys(world: World) -> None:
    world.api.send(world.ana, world.group, text="/status", is_automatic_forward=True)
    assert world.last() is None
    world.api.send(world.api.user(777000), world.group, text="/status")
    assert world.last(Who(frozenset({777000}))) is None


@pytest.mark.parametrize("kind", ["supergroup", "channel"])
def test_who_writes_in_a_chats_name_to_the_bot_is_told_why_it_cannot_answer(world: World, kind: str) -> None:
    """Anybody may hide behind the name of a group or a channel, so nothing that they wrote is kept."""
    chat = {"id": world.group.id if kind == "supergroup" else -100555, "type": kind, "title": "Group"}
    hidden = Person(1087968824, "Group", "GroupAnonymousBot", is_bot=True)
    answered = world.of_bot(world.group)
    for text, reply in (("@rumi_test_bot hello", None), ("/status", None), ("thank you", answered)):
        entities = [{"type": "mention", "offset": 0, "length": 14}] if text.startswith("@") else []
        number = world.api.send(
            hidden, world.group, text=text, entities=entities, reply_to=reply, sender_chat=chat
        ).id
        assert world.last() == Stranger(
            world.updates()[-1]["update_id"], chat["id"], "tg-100777", "en", number, anonymous=True
        )
    world.api.send(hidden, world.group, text="nice weather", sender_chat=chat)
    assert world.last() is None
    world.api.edit(world.api.send(hidden, world.group, text="/status", sender_chat=chat), "/stop")
    assert world.last() is None


def test_channel_posts_are_not_listened_to(world: World) -> None:
    world.api.say(world.ana, "hola")
    post = {**world.updates()[0]["message"], "chat": {"id": -5, "type": "channel", "title": "C"}}
    for kind in ("channel_post", "edited_channel_post", "business_message", "guest_message", "message"):
        found = read_batch([{"update_id": 9, kind: post}], ME, WHO, Moves(), hears=True)
        assert found == [Incoming(update_of(9))]


def test_the_direct_messages_of_a_channel_are_not_one_group(world: World) -> None:
    world.api.say(world.ana, "/status", world.group)
    update = copy.deepcopy(world.updates()[-1])
    update["message"]["chat"]["is_direct_messages"] = True
    assert read_batch([update], ME, WHO, Moves(), hears=True) == [Incoming(update_of(update["update_id"]))]


@pytest.mark.parametrize(
    "content",
    [
        {"new_chat_members": [{"id": ME.id, "is_bot": True, "first_name": "Rumi"}]},
        {"left_chat_member": {"id": EVE, "is_bot": False, "first_name": "Eve"}},
        {"new_chat_title": "Another title"},
        {"pinned_message": {"message_id": 1, "date": 0, "chat": {"id": -100777, "type": "supergroup"}}},
        {"forum_topic_created": {"name": "T", "icon_color": 7322096}},
        {"migrate_to_chat_id": -100999},
        {"video_chat_started": {}},
        {"forum_topic_edited": {"name": "T"}},
        {"pinned_message": {}, "something_new": {"x": 1}},
    ],
    ids=lambda content: next(iter(content)),
)
def test_service_messages_are_passed_over_in_silence(world: World, content: Json) -> None:
    world.api.send(world.ana, world.group, **content)
    assert world.last() is None
    world.api.send(world.ana, **content)
    assert world.last() is None


# Language


@pytest.mark.parametrize(
    ("code", "setting", "default", "language"),
    [
        ("es", "auto", "en", "es"),
        ("es-419", "auto", "en", "es"),
        ("ES_ar", "auto", "en", "es_AR"),
        ("et", "auto", "es", "en"),
        ("est", "auto", "es", "en"),
        ("pt-br", "auto", "es", "pt"),
        ("fr", "auto", "es", "en"),
        (None, "auto", "es", "es"),
        (None, "auto", "en", "en"),
        ("en", "es", "en", "es"),
        ("es", "en", "es", "en"),
    ],
)
def test_the_language_is_the_settings_or_the_persons(
    world: World, code: str | None, setting: Any, default: Language, language: str
) -> None:
    someone = world.api.user(12, language_code=code)
    world.api.say(someone, "x")
    assert arrival(world.last(Who(frozenset({12}), frozenset(), setting, default))).language == language
    stranger = world.last(Who(frozenset(), frozenset(), setting, default))
    assert isinstance(stranger, Stranger)
    assert stranger.language == language


# Groups


def test_in_a_group_the_bot_hears_what_is_said_to_it(world: World) -> None:
    for text, heard in [
        ("@rumi_test_bot what time is it?", "what time is it?"),
        ("@RUMI_Test_Bot what time is it?", "what time is it?"),
        ("@rumi_test_bot, what time is it?", "what time is it?"),
        ("what time is it, @rumi_test_bot", "what time is it,"),
        ("tell me @rumi_test_bot what time it is", "tell me what time it is"),
        ("@rumi_test_bot @rumi_test_bot hey", "hey"),
        ("@rumi_test_bot\nfirst line\n  second", "first line\n  second"),
        ("@rumi_test_bot ask @ana too", "ask @ana too"),
        ("👩‍👩‍👧 𝒮 @rumi_test_bot 😀 hi", "👩‍👩‍👧 𝒮 😀 hi"),
        ("@rumi_test_bot /stop", "/stop"),
        ("@rumi_test_bot /stop@rumi_test_bot", "/stop"),
        ("/stop@rumi_test_bot", "/stop"),
        ("/stop@Rumi_TEST_bot", "/stop"),
        ("/reset@rumi_test_bot files", "/reset files"),
        ("/whatever@rumi_test_bot", "/whatever"),
        ("/status", "/status"),
        ("/STATUS", "/STATUS"),
        ("/reset files", "/reset files"),
    ]:
        world.api.say(world.ana, text, world.group)
        assert arrival(world.last()).text == heard, text


def test_in_a_group_the_bot_passes_over_what_is_not_for_it(world: World) -> None:
    for text in [
        "what time is it?",
        "rumi_test_bot is a bot",
        "@rumi_test_bot2 hello",
        "@rumi_test hello",
        "mail@rumi_test_bot.example is no mention",
        "/whatever",
        "/stop@other_bot",
        "/status@rumi_test_bot2",
        "/etc/hosts is a file",
        "please /stop that",
    ]:
        world.api.say(world.ana, text, world.group)
        assert world.last() is None, text


def test_a_command_for_another_bot_is_not_for_this_one_even_in_an_answer_to_it(world: World) -> None:
    said = world.of_bot(world.group)
    world.api.say(world.ana, "/stop@other_bot", world.group, reply_to=said)
    assert world.last() is None


def test_an_answer_to_the_bot_is_for_it_and_an_answer_to_somebody_else_is_not(world: World) -> None:
    said = world.of_bot(world.group)
    world.api.say(world.ana, "thank you", world.group, reply_to=said)
    assert arrival(world.last()).text == "thank you"
    other = world.api.say(world.eve, "nice weather", world.group)
    world.api.say(world.ana, "yes", world.group, reply_to=other)
    assert world.last() is None


def test_a_bot_without_a_username_can_be_mentioned_by_its_number(world: World) -> None:
    for number, heard in ((ME.id, True), (EVE, False)):
        user = {"id": number, "is_bot": True, "first_name": "Rumi"}
        mention = {"type": "text_mention", "offset": 3, "length": 4, "user": user}
        world.api.say(world.ana, "😀 Rumi: hello", world.group, entities=[mention])
        found = read_batch(world.updates()[-1:], Me(ME.id, ""), WHO, Moves(), hears=True)[0]
        assert arrival(found).chat == ("tg-100777" if heard else "")
        assert arrival(found).text == ("😀 : hello" if heard else "")


def test_a_call_by_name_and_nothing_else_is_greeted(world: World) -> None:
    world.api.say(world.ana, "@rumi_test_bot", world.group)
    assert arrival(world.last()).answer == reply_texts.greeting("es")


def test_in_private_a_command_for_this_bot_loses_its_name_and_all_else_stays(world: World) -> None:
    for text, heard in [
        ("/stop@rumi_test_bot", "/stop"),
        ("/whatever", "/whatever"),
        ("/etc/hosts", "/etc/hosts"),
        ("  indented", "  indented"),
    ]:
        world.api.say(world.ana, text)
        assert arrival(world.last()).text == heard


# Topics


def test_a_topic_is_a_chat_of_its_own(world: World) -> None:
    topic = world.api.topic(world.forum, world.ana)
    world.api.say(world.ana, "/status", world.forum, topic=topic)
    assert arrival(world.last()).chat == f"tg-100888_{topic}"
    world.api.say(world.ana, "/status", world.forum)
    assert arrival(world.last()).chat == "tg-100888"


def test_a_thread_of_answers_in_a_group_is_no_topic(world: World) -> None:
    said = world.of_bot(world.group)
    world.api.say(world.ana, "thank you", world.group, reply_to=said)
    assert world.updates()[-1]["message"]["message_thread_id"]
    assert arrival(world.last()).chat == "tg-100777"


def test_what_is_said_in_a_topic_that_the_bot_made_is_no_answer_to_the_bot(world: World) -> None:
    topic = world.api.topic(world.forum, world.api.bot)
    world.api.say(world.ana, "hello all", world.forum, topic=topic)
    assert world.updates()[-1]["message"]["reply_to_message"]["from"]["id"] == ME.id
    assert world.last() is None


def test_a_private_chat_may_have_topics(world: World) -> None:
    friend = world.api.user(12, topics=True)
    topic = world.api.topic(world.api.chat(friend), friend)
    world.api.say(friend, "hello", topic=topic)
    assert arrival(world.last(Who(frozenset({12})))).chat == f"tg12_{topic}"


# What comes along


def test_a_file_comes_with_its_caption(world: World) -> None:
    message = world.api.send_document(world.ana, "report.pdf", b"%PDF", caption="what is this?")
    file = Attachment("file", next(iter(world.api.files)), "report.pdf", "application/pdf", 4)
    assert world.last() == Incoming(
        update_of(500_000_000),
        "tg11",
        "what is this?",
        "es",
        origin=message.id,
        attachments=(file,),
        user=ANA,
        sent=float(message.date),
    )


def test_a_file_needs_no_words(world: World) -> None:
    world.api.send_document(world.ana, "notes.txt", b"text")
    found = arrival(world.last())
    assert (found.text, found.answer, len(found.attachments)) == ("", None, 1)


def test_of_a_photo_the_largest_is_taken(world: World) -> None:
    message = world.api.send_photo(world.ana, b"12345678", caption="look")
    (photo,) = arrival(world.last()).attachments
    assert (photo.name, photo.media_type, photo.size_bytes) == (f"photo-{message.id}.jpg", "image/jpeg", 8)


def test_a_voice_message_is_written_down_where_that_can_be_done(world: World) -> None:
    message = world.api.send_voice(world.ana, b"OggS")
    (voice,) = arrival(world.last()).attachments
    assert (voice.kind, voice.name, voice.media_type) == ("voice", f"voice-{message.id}.ogg", "audio/ogg")
    deaf = arrival(world.last(hears=False))
    assert (deaf.answer, deaf.attachments, deaf.chat) == (
        gettext(
            "es",
            "I cannot listen to voice messages: there is no [voice] server, and no GROQ_API_KEY. "
            "Please write to me.",
        ),
        (),
        "tg11",
    )


@pytest.mark.parametrize(
    ("kind", "file", "name"),
    [
        ("audio", {"file_name": "song.mp3", "mime_type": "audio/mpeg"}, "song.mp3"),
        ("audio", {"mime_type": "audio/mpeg"}, "audio-{}.mp3"),
        ("audio", {}, "audio-{}.mp3"),
        ("video", {"mime_type": "video/mp4", "width": 1, "height": 1}, "video-{}.mp4"),
        ("animation", {"mime_type": "video/mp4", "width": 1, "height": 1}, "animation-{}.mp4"),
        ("document", {"mime_type": "text/plain"}, "file-{}.txt"),
        ("document", {}, "file-{}"),
    ],
)
def test_files_of_other_kinds_are_files_and_have_a_name(
    world: World, kind: str, file: Json, name: str
) -> None:
    held = {"file_id": "F", "file_unique_id": "U", "duration": 1, "file_size": 5, **file}
    if kind == "document":
        del held["duration"]
    message = world.comes(world.ana, **{kind: held})
    # Where recordings can be heard, a video message is one.
    (found,) = arrival(world.last(hears=kind != "video_note")).attachments
    assert (found.kind, found.name, found.reference) == ("file", name.format(message), "F")


def test_a_round_video_is_heard_like_a_voice_message(world: World) -> None:
    note = {"file_id": "N", "file_unique_id": "U", "length": 1, "duration": 1}
    message = world.api.send(world.ana, video_note=note)
    (voice,) = arrival(world.last()).attachments
    assert (voice.kind, voice.reference, voice.name) == ("voice", "N", f"video-note-{message.id}.mp4")
    assert (voice.media_type, voice.tainted) == ("video/mp4", False)
    assert arrival(world.last(hears=False)).attachments != (voice,)


def test_a_file_of_unknown_size_is_taken_and_measured_when_it_is_brought(world: World) -> None:
    world.comes(world.ana, document={"file_id": "F", "file_unique_id": "U", "file_name": "f"})
    assert arrival(world.last()).attachments[0].size_bytes is None


def test_what_is_larger_than_can_be_had_is_told_at_once(world: World) -> None:
    world.api.send_document(world.ana, "film.mkv", b"", size=20_971_521, caption="watch this")
    found = arrival(world.last())
    assert (found.answer, found.attachments) == (
        gettext(
            "es",
            "The file {name} is too large: I can take up to {limit_mb} MB.",
            name="film.mkv",
            limit_mb=f"{20:g}",
        ),
        (),
    )
    world.api.send_document(world.ana, "film.mkv", b"", size=20_971_520)
    assert arrival(world.last()).answer is None
    world.api.send_voice(world.ana, b"", size=20_971_521)
    assert "20 MB" in (arrival(world.last()).answer or "")


@pytest.mark.parametrize(
    "content",
    [
        {"something_that_telegram_invents_tomorrow": {"x": 1}},
        {"location": {}},
        {"sticker": "?"},
        {"photo": [{"width": 1}]},
        {"document": {"file_name": "a.txt"}, "caption": "what is this?"},
        {"text": 5},
        {},
    ],
    ids=str,
)
def test_a_kind_that_is_not_known_is_answered_in_private_and_passed_over_in_a_group(
    world: World, content: Json
) -> None:
    """Silence would look like a bot that is broken."""
    world.comes(world.ana, **content)
    kind = next(iter(content), "")
    assert arrival(world.last()).answer == telegram_texts.unsupported("es", kind)
    assert arrival(world.last()).chat == "tg11"
    world.api.send(world.ana, world.group)
    world.updates()[-1]["message"].update(content)
    assert world.last() is None


def test_in_a_group_stickers_among_people_are_not_commented(world: World) -> None:
    world.api.send_sticker(world.ana, world.group)
    assert world.last() is None


# What somebody else wrote


def handed_on(read: Read | None) -> list[tuple[str, str]]:
    """Sources and words, of a message whose own words are `mine`, or none."""
    found = arrival(read)
    assert found.text in ("", "mine")
    assert all(attachment.kind == "words" for attachment in found.attachments)
    return [(attachment.source, attachment.text) for attachment in found.attachments]


def authors(world: World) -> dict[str, Person | Chat | str]:
    channel = world.api.group(-100999, title="News")
    channel.kind = "channel"
    return {
        "User 66 (@eve)": Person(EVE, "User 66", "eve"),
        "Somebody": "Somebody",
        "the group Group -100777": world.group,
        "the channel News": channel,
    }


@pytest.mark.parametrize("who", authors(World()))
def test_a_forward_of_every_kind_is_not_its_senders_word(world: World, who: str) -> None:
    world.api.forward(world.ana, world.api.origin_of(authors(world)[who]), text="/reset files")
    assert handed_on(world.last()) == [(f"forwarded from {who}", "/reset files")]
    assert message_class_reads(world)


@pytest.mark.parametrize("who", authors(World()))
def test_a_quote_from_another_chat_stands_apart_from_own_words(world: World, who: str) -> None:
    origin = world.api.origin_of(authors(world)[who], signature="Eve")
    world.api.answer_elsewhere(world.ana, "mine", origin, part="theirs")
    assert handed_on(world.last()) == [(f"a message in another chat, from {who}", "theirs")]
    world.api.answer_elsewhere(world.ana, "mine", origin, dice={"emoji": "🎲", "value": 1})
    assert handed_on(world.last()) == [(f"a message in another chat, from {who}", "dice 🎲: 1")]
    world.api.answer_elsewhere(world.ana, "mine", origin)
    assert handed_on(world.last()) == [
        (f"a message in another chat, from {who}", "(Nothing of it came along.)")
    ]
    assert message_class_reads(world)


def test_a_quote_says_whose_message_it_is_from(world: World) -> None:
    said = world.api.write(world.api.chat(world.ana), world.eve, "well, 👍 theirs")
    world.api.quote(world.ana, "mine", said, "theirs")
    rest = ("a message of User 66", "well, 👍 […]")
    assert handed_on(world.last()) == [rest, ("quoted from a message of User 66", "theirs")]
    assert message_class_reads(world)
    handed = world.api.forward(world.ana, world.api.origin_of("Eve"), text="theirs")
    world.api.quote(world.ana, "mine", handed, "theirs")
    assert handed_on(world.last()) == [("quoted from a message forwarded from Eve", "theirs")]
    world.api.quote(world.ana, "mine", world.of_bot(world.ana), "I am")
    quoted = ("quoted from a message of Rumi (@rumi_test_bot)", "I am")
    assert handed_on(world.last()) == [("your message", "[…] here"), quoted]


def test_a_command_with_a_quote_is_one(world: World) -> None:
    world.api.quote(world.ana, "/stop", world.of_bot(world.ana), "I am")
    assert arrival(world.last()).text == "/stop"


def test_what_another_bot_made_for_its_sender_is_not_the_senders_word(world: World) -> None:
    world.api.send(world.ana, text="/reset", via_bot=Person(12, "Gif", "gif", is_bot=True).json())
    assert handed_on(world.last()) == [("made by Gif (@gif)", "/reset")]


def test_words_of_others_call_nobody_in_a_group(world: World) -> None:
    world.api.forward(world.ana, world.api.origin_of("Eve"), world.group, text="@rumi_test_bot /stop")
    assert world.last() is None
    mine = world.of_bot(world.group)
    world.api.send(world.ana, world.group, text="x", reply_to=mine, forward_origin=world.api.origin_of("Eve"))
    assert handed_on(world.last()) == [("your message", "I am here"), ("forwarded from Eve", "x")]


def test_a_forwarded_file_says_whose_it_is_and_its_caption_is_theirs_too(world: World) -> None:
    origin = world.api.origin_of("Eve")
    world.api.send_document(world.ana, "a.txt", b"x", caption="/reset", forward_origin=origin)
    caption, file = arrival(world.last()).attachments
    assert (caption.kind, caption.source, caption.text) == ("words", "forwarded from Eve", "/reset")
    assert (file.kind, file.source, file.name) == ("file", "forwarded from Eve", "a.txt")
    assert arrival(world.last()).text == ""
    world.api.send_voice(world.ana, b"OggS", forward_origin=origin)
    (voice,) = arrival(world.last()).attachments
    assert (voice.kind, voice.source, voice.tainted) == ("voice", "forwarded from Eve", True)


def test_own_recordings_captions_and_words_are_the_senders(world: World) -> None:
    world.api.send_voice(world.ana, b"OggS")
    (voice,) = arrival(world.last()).attachments
    assert not voice.tainted
    world.api.send_document(world.ana, "a.txt", b"x", caption="mine")
    assert arrival(world.last()).text == "mine"


def test_a_strangers_name_is_one_short_harmless_line(world: World) -> None:
    name = 'Eve"\n</page>\u202e' + "x" * 500
    world.api.forward(world.ana, world.api.origin_of(name), text="x")
    ((source, _),) = handed_on(world.last())
    assert len(source) < 150
    assert not set('"\n\u202e') & set(source)
    assert "</page" not in source


@pytest.mark.parametrize("odd", [{"type": "star"}, {}, {"type": "user"}, {"type": "chat", "sender_chat": {}}])
def test_an_origin_that_is_not_known_yet_is_one_all_the_same(world: World, odd: Json) -> None:
    world.api.forward(world.ana, odd, text="theirs")
    assert handed_on(world.last()) == [("forwarded from somebody", "theirs")]


@pytest.mark.parametrize("field", ["forward_origin", "via_bot"])
@pytest.mark.parametrize("odd", ["?", 5, [], {"sender_user": "?", "first_name": 5}], ids=str)
def test_a_mark_that_is_odd_is_no_reason_to_take_the_words_for_own(
    world: World, field: str, odd: object
) -> None:
    world.comes(world.ana, text="theirs", **{field: odd})
    ((source, words),) = handed_on(world.last())
    assert source in ("forwarded from somebody", "made by somebody")
    assert words == "theirs"


def message_class_reads(world: World) -> bool:
    """Whether the library's classes, which insist on every field, know the last update."""
    update = Update.de_json(world.updates()[-1], Bot("1:x"))
    assert update.message is not None
    return (
        update.message.forward_origin is not None
        or update.message.quote is not None
        or (update.message.external_reply is not None)
    )


def test_a_photo_with_a_caption_that_calls_the_bot_is_for_it(world: World) -> None:
    entities = [{"type": "mention", "offset": 0, "length": 14}]
    world.api.send_photo(
        world.ana, b"12", world.group, caption="@rumi_test_bot what is this?", caption_entities=entities
    )
    assert arrival(world.last()).text == "what is this?"


def test_a_long_text_arrives_whole(world: World) -> None:
    world.api.say(world.ana, "x" * 4096)
    assert len(arrival(world.last()).text) == 4096


# Batches


def test_a_batch_keeps_its_order_and_every_number(world: World) -> None:
    world.api.say(world.ana, "one")
    world.api.say(world.eve, "two")
    world.api.say(world.ana, "three", world.group)
    world.api.say(world.ana, "four")
    read = world.all()
    assert [number(one) for one in read] == [update["update_id"] for update in world.updates()]
    assert [type(one) for one in read] == [Incoming, Stranger, Incoming, Incoming]
    assert [arrival(read[place]).text for place in (0, 2, 3)] == ["one", "", "four"]


def test_what_stands_in_a_batch_twice_is_read_once(world: World) -> None:
    world.api.send_album(world.ana, [("a", b"1"), ("b", b"2")])
    world.api.say(world.ana, "hola")
    first, second, third = world.updates()
    read = read_batch([first, first, second, second, third, third], ME, WHO, Moves(), hears=True)
    assert read == read_batch([first, second, third], ME, WHO, Moves(), hears=True)


def test_a_message_of_a_groups_old_number_has_no_number_of_its_own(world: World) -> None:
    world.api.say(world.ana, "@rumi_test_bot yes", world.group)
    moves = Moves()
    moves.note_move(-100777, -100999)
    (read,) = read_batch(world.updates(), ME, WHO, moves, hears=True)
    assert (arrival(read).chat, arrival(read).origin) == ("tg-100777", 0)
    assert arrival(world.all()[0]).origin == 1


def test_words_that_answer_something_of_another_version_are_heard(world: World) -> None:
    number = world.comes(world.ana, text="what is that?")
    world.updates()[-1]["message"]["reply_to_message"] = {"message_id": number, "poll": {"id": "1"}}
    assert arrival(world.last()).text == "what is that?"


def test_an_album_is_one_message_with_all_its_files(world: World) -> None:
    album = world.api.send_album(
        world.ana, [("a.txt", b"1"), ("b.txt", b"2"), ("c.txt", b"3")], caption="these"
    )
    *first, last = world.all()
    assert first == [Incoming(update_of(500_000_000)), Incoming(update_of(500_000_001))]
    found = arrival(last)
    assert [file.name for file in found.attachments] == ["a.txt", "b.txt", "c.txt"]
    assert (found.update, found.text, found.origin) == (update_of(500_000_002), "these", album[0].id)


def test_an_albums_caption_may_stand_on_any_of_it(world: World) -> None:
    world.api.send_document(world.ana, "a.txt", b"1", media_group_id="7")
    second = world.api.send_document(world.ana, "b.txt", b"2", caption="these", media_group_id="7")
    found = arrival(world.all()[-1])
    assert (found.text, found.origin, len(found.attachments)) == ("these", second.id, 2)


def test_albums_of_others_are_others(world: World) -> None:
    world.api.send_document(world.ana, "a.txt", b"1", media_group_id="7")
    world.api.send_document(world.admin, "b.txt", b"2", media_group_id="7")
    world.api.send_document(world.ana, "c.txt", b"3", media_group_id="8")
    world.api.send_document(world.ana, "d.txt", b"4")
    assert [len(arrival(one).attachments) for one in world.all()] == [1, 1, 1, 1]


def test_an_album_in_a_group_is_for_the_bot_if_its_caption_is(world: World) -> None:
    entities = [{"type": "mention", "offset": 0, "length": 14}]
    world.api.send_document(
        world.ana,
        "a",
        b"1",
        world.group,
        caption="@rumi_test_bot",
        caption_entities=entities,
        media_group_id="7",
    )
    world.api.send_document(world.ana, "b", b"2", world.group, media_group_id="7")
    world.api.send_document(world.ana, "c", b"3", world.group, media_group_id="8")
    read = world.all()
    assert [len(arrival(one).attachments) for one in read] == [0, 2, 0]
    assert arrival(read[1]).answer is None


def test_a_strangers_album_is_one_stranger(world: World) -> None:
    world.api.send_album(world.eve, [("a", b"1"), ("b", b"2")])
    assert [type(one) for one in world.all()] == [Incoming, Stranger]


def test_an_album_with_a_file_that_is_too_large_is_answered_as_a_whole(world: World) -> None:
    world.api.send_document(world.ana, "a", b"1", media_group_id="7")
    world.api.send_document(world.ana, "b", b"2", size=30_000_000, media_group_id="7")
    found = arrival(world.all()[-1])
    assert (found.answer, found.attachments) == (
        gettext(
            "es",
            "The file {name} is too large: I can take up to {limit_mb} MB.",
            name="b",
            limit_mb=f"{20:g}",
        ),
        (),
    )


# What should never come


def test_an_update_that_cannot_be_read_is_passed_over_and_keeps_its_number(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.api.say(world.ana, "before")
    ana = {"id": ANA, "is_bot": False, "first_name": "Ana"}
    poison = {"update_id": 7, "message": {"message_id": 1, "from": ana, "text": "a secret", "chat": 5}}
    world.api.say(world.ana, "after")
    first, second = world.updates()
    with caplog.at_level(logging.WARNING):
        read = read_batch([first, poison, second], ME, WHO, Moves(), hears=True)
    assert [arrival(one).text for one in read] == ["before", "", "after"]
    assert read[1] == Incoming(update_of(7))
    assert "7" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("message_id",), 2**63),
        (("message_id",), "1"),
        (("chat", "id"), 2**70),
        (("from", "id"), True),
        (("from",), None),
        (("chat", "type"), "balcony"),
    ],
)
def test_odd_fields_make_no_message(world: World, place: tuple[str, ...], value: object) -> None:
    world.api.say(world.ana, "@rumi_test_bot hello")
    update = copy.deepcopy(world.updates()[0])
    spot = update["message"]
    for name in place[:-1]:
        spot = spot[name]
    spot[place[-1]] = value
    assert read_batch([update], ME, Who(frozenset({ANA, 1})), Moves(), hears=True) == [
        Incoming(update_of(update["update_id"]))
    ]


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (0, 0), (0, 900), (10**9, 14), (5, -2)])
def test_mentions_that_point_nowhere_are_none(world: World, offset: int, length: int) -> None:
    entity = {"type": "mention", "offset": offset, "length": length}
    world.api.say(world.ana, "@rumi_test_bot hello", world.group, entities=[entity])
    assert world.last() is None


def test_half_a_character_does_no_harm(world: World) -> None:
    world.api.say(world.ana, "\ud83d @rumi_test_bot \udc00x", world.group)
    assert arrival(world.last()).text == "\ud83d \udc00x"


def _seeds() -> list[Json]:
    world = World()
    world.api.say(world.ana, "hola 😀")
    world.api.say(world.ana, "@rumi_test_bot /stop@rumi_test_bot", world.group)
    topic = world.api.topic(world.forum, world.ana)
    world.api.say(
        world.ana, "/status", world.forum, topic=topic, reply_to=world.of_bot(world.forum, topic=topic)
    )
    world.api.send_album(world.ana, [("a.txt", b"1"), ("b.txt", b"2")], caption="these")
    world.api.send_photo(world.ana, b"12345678", caption="look")
    world.api.send_voice(world.ana, b"OggS")
    world.api.send_poll(world.ana, "yes?")
    world.api.say(world.eve, "let me in")
    answered = world.api.write(world.group, world.eve, "look", content={"photo": [{"file_id": "F"}]})
    link = {"type": "text_link", "offset": 15, "length": 4, "url": "http://a.example/"}
    mention = {"type": "mention", "offset": 0, "length": 14}
    text = "@rumi_test_bot look"
    world.api.say(world.ana, text, world.group, entities=[mention, link], reply_to=answered)
    world.api.quote(world.ana, "mine", world.api.say(world.eve, "one two"), "two")
    world.api.answer_elsewhere(world.ana, "mine", world.api.origin_of("Eve"), poll={"question": "?"})
    place = {"latitude": 1.0, "longitude": 2.0}
    world.api.send(world.ana, location=place, venue={"location": place, "title": "T", "address": "A"})
    world.api.send(world.ana, contact={"phone_number": "1", "first_name": "A", "vcard": "TEL:1"})
    world.api.send(world.ana, checklist={"title": "T", "tasks": [{"id": 1, "text": "a"}]})
    world.api.send(world.ana, text="nice", reply_to_story={"id": 1, "chat": {"id": EVE, "type": "private"}})
    world.api.send(world.ana, world.group, text="/status", sender_chat=world.group.json())
    return world.updates()


_ODD: list[Any] = [None, True, -1, 0, 2**31, 2**63, 1e308, "", "x", "\ud800", [], [[]], {}, {"id": 1}]


def _spoiled(update: Json, chance: random.Random) -> Json:
    """The update with one thing in it taken away or replaced; its number stays."""
    update = json.loads(json.dumps(update))
    node: Any = update
    key: Any = "message"
    while isinstance(node[key], dict | list) and node[key] and chance.random() < 0.8:
        node = node[key]
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
    if chance.random() < 0.3:
        del node[key]
    else:
        node[key] = chance.choice(_ODD)
    return update


SEEDS = _seeds()


@settings(max_examples=400, deadline=None)
@given(st.randoms(use_true_random=False), st.lists(st.sampled_from(SEEDS), min_size=1, max_size=6))
def test_whatever_comes_each_number_is_kept_once_and_all_can_be_stored(
    chance: random.Random, batch: list[Json]
) -> None:
    updates = [_spoiled(update, chance) for update in batch]
    for place, update in enumerate(updates):
        update["update_id"] = place
    read = read_batch(updates, ME, WHO, Moves(), hears=True)
    assert [number(one) for one in read] == list(range(len(updates)))
    for one in read:
        if isinstance(one, Incoming) and one.chat:
            assert isinstance(one.text, str)
            assert one.text.strip() or one.attachments or one.answer
            assert one.origin is None or abs(one.origin) < 2**63
            for attachment in one.attachments:
                assert isinstance(attachment.name, str)
                assert isinstance(attachment.media_type, str)
                assert isinstance(attachment.reference, str)
