"""The Bot API of the tests refuses what Telegram refuses, in Telegram's words: `telegram.Bot` in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio
from telegram import (
    Bot,
    BotCommand,
    BotCommandScopeChat,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MessageEntity,
    ReplyParameters,
)
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Conflict,
    Forbidden,
    InvalidToken,
    RetryAfter,
    TelegramError,
)
from trio.testing import MockClock

from tests.fakes.bot_api import TOKEN, Answer, BotApi
from tests.fakes.bot_api_rates import UNLIMITED, Limits
from tests.fakes.telegram_request import InMemoryRequest


@pytest.fixture(autouse=True)
def timedeltas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a `RetryAfter` cannot even be made without a deprecation warning."""
    monkeypatch.setenv("PTB_TIMEDELTA", "1")


def bot_for(api: BotApi, token: str = TOKEN) -> Bot:
    return Bot(token, request=InMemoryRequest(api), get_updates_request=InMemoryRequest(api, seed=1))


@pytest.fixture
def api(autojump_clock: MockClock) -> BotApi:
    api = BotApi(trio.current_time, limits=UNLIMITED)
    api.user(1, username="ann")
    return api


@pytest.fixture
def bot(api: BotApi) -> Bot:
    return bot_for(api)


@contextmanager
def refused(kind: type[TelegramError], words: str) -> Iterator[None]:
    with pytest.raises(kind) as caught:
        yield
    assert type(caught.value) is kind
    assert words.lower() in str(caught.value).lower()


# Texts


async def test_a_text_is_trimmed_and_its_entities_move_along(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    bold = [MessageEntity("bold", 4, 3), MessageEntity("italic", 8, 4)]
    sent = await bot.send_message(1, " \n👍 yes no \n ", entities=bold)
    assert sent.text == "👍 yes no"
    assert [sent.parse_entity(entity) for entity in sent.entities] == [" ye", " no"]
    assert api.chat(1).texts == ["👍 yes no"]


async def test_a_tab_becomes_a_space_and_a_carriage_return_nothing(
    autojump_clock: MockClock, bot: Bot
) -> None:
    sent = await bot.send_message(1, "a\tb\r\nc", entities=[MessageEntity("code", 5, 1)])
    assert sent.text == "a b\nc"
    assert sent.parse_entity(sent.entities[0]) == "c"
    sent = await bot.send_message(1, "👍\r👍\u2028 x ", entities=[MessageEntity("code", 5, 4)])
    assert (sent.text, sent.parse_entity(sent.entities[0])) == ("👍👍 x", " x")


@pytest.mark.parametrize("text", ["", " \n ", "\u200b", "\u2800 \ufeff"])
async def test_a_text_without_anything_to_see_is_refused(
    autojump_clock: MockClock, bot: Bot, text: str
) -> None:
    with refused(BadRequest, "Message text is empty"):
        await bot.send_message(1, text)
    message = await bot.send_message(1, "something")
    with refused(BadRequest, "Message text is empty"):
        await bot.edit_message_text(text, 1, message.message_id)
    with refused(BadRequest, "Message text is empty"):
        await bot.send_message_draft(1, 7, text)


async def test_a_length_is_counted_in_utf16(autojump_clock: MockClock, api: BotApi, bot: Bot) -> None:
    await bot.send_message(1, "👍" * 2048)
    await bot.send_message(1, " " * 10 + "ñ" * 4096)
    for text in ("x" * 4097, "👍" * 2048 + "x"):
        with refused(BadRequest, "Message is too long"):
            await bot.send_message(1, text)
    assert len(api.chat(1).said) == 2


async def test_a_text_that_is_no_unicode_is_refused(autojump_clock: MockClock, api: BotApi) -> None:
    answer = api.handle("sendMessage", {"chat_id": 1, "text": "half: \ud83d"})
    assert answer.status == 400
    assert answer.body["description"] == "Bad Request: strings must be encoded in UTF-8"


# Entities


@pytest.mark.parametrize(
    ("entity", "words"),
    [
        (
            {"type": "bold", "offset": 1, "length": 1},
            "begins in a middle of a UTF-16 symbol at byte offset 4",
        ),
        ({"type": "bold", "offset": 0, "length": 1}, "ends in a middle of a UTF-16 symbol at byte offset 4"),
        ({"type": "bold", "offset": 2, "length": 4}, "ends after the end of the text at UTF-16 offset 6"),
        ({"type": "bold", "offset": 9, "length": 1}, "begins after the end of the text at UTF-16 offset 9"),
        ({"type": "bold", "offset": -1, "length": 1}, "incorrect offset -1"),
        ({"type": "bold", "offset": 0, "length": -1}, "incorrect length -1"),
        (
            {"type": "sparkle", "offset": 0, "length": 2},
            "can't parse MessageEntity: Unsupported type specified",
        ),
        ({"type": "bold", "length": 2}, "can't parse MessageEntity: Can't find field \"offset\""),
        ({"type": "bold", "offset": "0", "length": 2}, 'Field "offset" must be of type Number'),
        ({"type": "text_link", "offset": 0, "length": 2}, 'Can\'t find field "url"'),
        ({"type": "text_link", "offset": 0, "length": 2, "url": "localhost"}, "is invalid: Wrong HTTP URL"),
        ({"type": "text_link", "offset": 0, "length": 2, "url": "ftp://a.b"}, "Unsupported URL protocol"),
        ("bold", "expected an Object"),
    ],
)
async def test_a_wrong_entity_is_refused(
    autojump_clock: MockClock, api: BotApi, entity: Any, words: str
) -> None:
    params = {"chat_id": "1", "text": "👍 ab", "entities": [entity]}
    answer = api.handle("sendMessage", params)
    assert answer.status == 400
    assert words.lower() in answer.body["description"].lower()
    assert api.chat(1).said == []


@pytest.mark.parametrize(
    ("outer", "inner", "fits"),
    [
        ("bold", "italic", True),
        ("blockquote", "code", True),
        ("blockquote", "text_link", True),
        ("bold", "text_link", True),
        ("text_link", "bold", True),
        ("pre", "bold", False),
        ("bold", "code", False),
        ("bold", "bold", False),
        ("blockquote", "expandable_blockquote", False),
        ("text_link", "custom_emoji", False),
    ],
)
async def test_only_some_entities_may_stand_in_others(
    autojump_clock: MockClock, api: BotApi, outer: str, inner: str, fits: bool
) -> None:
    more = {"text_link": {"url": "https://a.b"}, "custom_emoji": {"custom_emoji_id": "5"}}
    entities = [
        {"type": outer, "offset": 0, "length": 5, **more.get(outer, {})},
        {"type": inner, "offset": 1, "length": 2, **more.get(inner, {})},
    ]
    answer = api.handle("sendMessage", {"chat_id": 1, "text": "abcde", "entities": entities})
    assert answer.status == (200 if fits else 400)


async def test_entities_that_overlap_are_refused_unless_the_bot_api_repairs_them(
    autojump_clock: MockClock, api: BotApi
) -> None:
    entities = [{"type": "bold", "offset": 0, "length": 3}, {"type": "italic", "offset": 2, "length": 2}]
    params = {"chat_id": 1, "text": "abcde", "entities": entities}
    assert api.handle("sendMessage", params).status == 400
    lenient = BotApi(trio.current_time, strict_nesting=False)
    lenient.user(1)
    assert lenient.handle("sendMessage", params).status == 200


async def test_what_telegram_finds_by_itself_may_be_given_and_is_ignored(
    autojump_clock: MockClock, bot: Bot
) -> None:
    sent = await bot.send_message(1, "/help", entities=[MessageEntity("bot_command", 0, 5)])
    assert sent.entities == ()


async def test_only_the_first_hundred_entities_are_kept(autojump_clock: MockClock, bot: Bot) -> None:
    entities = [MessageEntity("bold", 2 * number, 1) for number in range(120)]
    assert len((await bot.send_message(1, "a " * 120, entities=entities)).entities) == 100


async def test_there_is_no_parse_mode_here(autojump_clock: MockClock, bot: Bot) -> None:
    with refused(BadRequest, "unsupported parse_mode"):
        await bot.send_message(1, "*a*", parse_mode="Markdown")


# Edits, deletes, drafts, actions


async def test_an_edit_shows_and_what_was_there_is_remembered(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    sent = await bot.send_message(1, "one", entities=[MessageEntity("bold", 0, 3)])
    await bot.edit_message_text("two", 1, sent.message_id)
    [message] = api.chat(1).said
    assert message.text == "two"
    assert [(edit.text, edit.entities) for edit in message.edits] == [
        ("one", [{"type": "bold", "offset": 0, "length": 3}])
    ]


async def test_an_edit_that_changes_nothing_is_refused(autojump_clock: MockClock, bot: Bot) -> None:
    sent = await bot.send_message(1, "one")
    with refused(BadRequest, "Message is not modified: specified new message content"):
        await bot.edit_message_text(" one ", 1, sent.message_id)
    await bot.edit_message_text("one", 1, sent.message_id, entities=[MessageEntity("bold", 0, 3)])


async def test_only_messages_of_its_own_that_are_there_can_be_edited(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    theirs = api.say(api.people[1], "mine")
    with refused(BadRequest, "message can't be edited"):
        await bot.edit_message_text("x", 1, theirs.id)
    with refused(BadRequest, "message to edit not found"):
        await bot.edit_message_text("x", 1, 99)
    sent = await bot.send_message(1, "one")
    await bot.delete_message(1, sent.message_id)
    with refused(BadRequest, "message to edit not found"):
        await bot.edit_message_text("x", 1, sent.message_id)
    with refused(BadRequest, "message to delete not found"):
        await bot.delete_message(1, sent.message_id)
    assert api.chat(1).texts == []


async def test_messages_are_numbered_through_in_private_and_apart_in_supergroups(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    api.user(2)
    api.group(-100777)
    numbers = [(await bot.send_message(chat, "x")).message_id for chat in (1, 2, -100777, 1, -100777)]
    assert numbers == [1, 2, 1, 3, 2]


async def test_a_draft_shows_for_half_a_minute_or_until_the_message(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    chat = api.chat(1)
    assert await bot.send_message_draft(1, 7, "typing this")
    assert chat.draft(api.now()).text == "typing this"
    await trio.sleep(31)
    assert chat.draft(api.now()) is None
    await bot.send_message_draft(1, 7, "again")
    await bot.send_message(1, "done")
    assert chat.draft(api.now()) is None
    assert [draft.text for draft in chat.drafts] == ["typing this", "again"]


async def test_a_draft_needs_a_number_and_a_private_chat(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    with refused(BadRequest, "draft_id must be non-zero"):
        await bot.send_message_draft(1, 0, "x")
    api.group(-100777)
    with refused(BadRequest, "TEXTDRAFT_PEER_INVALID"):
        await bot.send_message_draft(-100777, 7, "x")


async def test_there_may_be_no_drafts_at_all(autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time, drafts=False)
    api.user(1)
    with refused(InvalidToken, "Not Found"):
        await bot_for(api).send_message_draft(1, 7, "x")


async def test_an_action_has_to_be_one_that_there_is(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    await bot.send_chat_action(1, "typing")
    with refused(BadRequest, "wrong parameter action in request"):
        await bot.send_chat_action(1, "dancing")
    assert [action.action for action in api.chat(1).actions] == ["typing"]


# Files


async def test_a_document_is_kept_with_its_name_and_bytes(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    sent = await bot.send_document(1, b"%PDF", filename="año.pdf", caption="here")
    document = api.chat(1).said[0].document
    assert (document.name, document.content, document.media_type) == ("año.pdf", b"%PDF", "application/pdf")
    assert sent.caption == "here"
    again = await bot.send_document(1, sent.document.file_id)
    assert again.document.file_name == "año.pdf"


async def test_a_file_is_fetched_unless_it_is_too_big_or_none(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    ann = api.people[1]
    sent = api.send_document(ann, "notes.txt", b"hello")
    file = await bot.get_file(sent.document.id)
    assert bytes(await file.download_as_bytearray()) == b"hello"
    large = api.send_document(ann, "film.mkv", b"", size=20 * 1024 * 1024 + 1)
    with refused(BadRequest, "File is too big"):
        await bot.get_file(large.document.id)
    with refused(BadRequest, "wrong file_id"):
        await bot.get_file("nothing")
    with refused(BadRequest, "file must be non-empty"):
        await bot.send_document(1, b"", filename="empty")


# Where


async def test_a_topic_has_to_exist(autojump_clock: MockClock, api: BotApi, bot: Bot) -> None:
    ann = api.people[1]
    forum = api.group(-100777, forum=True)
    topic = api.topic(forum, ann)
    sent = await bot.send_message(-100777, "in it", message_thread_id=topic)
    assert (sent.message_thread_id, sent.is_topic_message) == (topic, True)
    for chat in (-100777, 1):
        with refused(BadRequest, "message thread not found"):
            await bot.send_message(chat, "x", message_thread_id=99)
    said = api.say(ann, "hey", forum, topic=topic)
    assert said.json()["reply_to_message"]["forum_topic_created"]["name"] == "Topic"


async def test_a_thread_of_answers_in_a_group_is_no_topic(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    group = api.group(-100777)
    first = await bot.send_message(-100777, "question?")
    answer = api.say(api.people[1], "yes", group, reply_to=group.by_id[first.message_id])
    assert answer.json()["message_thread_id"] == first.message_id
    assert "is_topic_message" not in answer.json()
    with refused(BadRequest, "message thread not found"):
        await bot.send_message(-100777, "x", message_thread_id=first.message_id)


async def test_a_reply_needs_its_message_or_leave_to_do_without(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    said = api.say(api.people[1], "hello")
    sent = await bot.send_message(1, "hi", reply_parameters=ReplyParameters(said.id))
    assert sent.reply_to_message.message_id == said.id
    assert api.chat(1).said[0].reply_to is said
    with refused(BadRequest, "Message to be replied not found"):
        await bot.send_message(1, "hi", reply_parameters=ReplyParameters(99))
    await bot.send_message(1, "hi", reply_parameters=ReplyParameters(99, allow_sending_without_reply=True))
    assert api.chat(1).said[1].reply_to is None


async def test_whom_the_bot_cannot_reach(autojump_clock: MockClock, api: BotApi, bot: Bot) -> None:
    with refused(BadRequest, "Chat not found"):
        await bot.send_message(404, "x")
    api.user(2, started=False)
    with refused(BadRequest, "Chat not found"):
        await bot.send_message(2, "x")
    api.block(api.people[1])
    for call in (
        bot.send_message(1, "x"),
        bot.send_chat_action(1, "typing"),
        bot.edit_message_text("x", 1, 1),
    ):
        with refused(Forbidden, "bot was blocked by the user"):
            await call
    api.unblock(api.people[1])
    await bot.send_message(1, "x")
    api.people[1].gone = True
    with refused(Forbidden, "user is deactivated"):
        await bot.send_message(1, "x")


async def test_groups_throw_out_and_migrate(autojump_clock: MockClock, api: BotApi, bot: Bot) -> None:
    ann = api.people[1]
    group = api.group(-5, basic=True, members=[ann])
    api.migrate(group, -100555)
    with pytest.raises(ChatMigrated) as caught:
        await bot.send_message(-5, "x")
    assert caught.value.new_chat_id == -100555
    await bot.send_message(-100555, "x")
    api.kick(api.chat(-100555), ann)
    with refused(Forbidden, "bot was kicked from the supergroup chat"):
        await bot.send_message(-100555, "x")


async def test_options_and_buttons_are_kept_and_a_press_is_told(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    keys = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]])
    sent = await bot.send_message(1, "sure?", reply_markup=keys, disable_notification=True)
    [message] = api.chat(1).said
    assert message.options["disable_notification"] is True
    query = api.press(api.people[1], message)
    [update] = await bot.get_updates()
    assert (update.callback_query.data, update.callback_query.id) == ("y", query.id)
    assert query.toast is None
    with refused(BadRequest, "Message_too_long"):
        await bot.answer_callback_query(query.id, text="x" * 201)
    assert await bot.answer_callback_query(query.id, text="done")
    assert query.toast == "done"
    with refused(BadRequest, "query is too old"):
        await bot.answer_callback_query(query.id)
    await bot.edit_message_reply_markup(1, sent.message_id)
    assert message.reply_markup is None
    with refused(BadRequest, "Button_data_invalid"):
        await bot.send_message(
            1, "x", reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("x", callback_data="x" * 65)]])
        )


@pytest.mark.parametrize(
    ("button", "words"),
    [
        ({"text": " ", "callback_data": "y"}, "Text must be non-empty"),
        ({"text": "x"}, "Text buttons are unallowed in the inline keyboard"),
        ({"text": "x", "callback_data": "y", "url": "https://example.org"}, "BUTTON_TYPE_INVALID"),
        ({"text": "x", "callback_data": ""}, "BUTTON_DATA_INVALID"),
        ({"text": "x", "callback_data": "ñ" * 33}, "BUTTON_DATA_INVALID"),
        ("x", "expected an Object"),
    ],
)
def test_a_keyboard_is_refused_where_telegram_refuses_it(button: Any, words: str) -> None:
    api = BotApi(lambda: 0.0)
    api.user(1)
    keys = {"inline_keyboard": [[button]]}
    answer = api.handle("sendMessage", {"chat_id": 1, "text": "x", "reply_markup": keys})
    assert isinstance(answer, Answer)
    assert answer.body is not None
    assert words in answer.body["description"]


async def test_an_edit_takes_the_buttons_away_unless_it_brings_some(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    keys = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y" * 64)]])
    sent = await bot.send_message(1, "sure?", reply_markup=keys)
    [message] = api.chat(1).said
    await bot.edit_message_text("really?", 1, sent.message_id, reply_markup=keys)
    assert [button["text"] for button in message.buttons] == ["Yes"]
    await bot.edit_message_text("really?", 1, sent.message_id)
    assert not message.buttons
    with refused(BadRequest, "Message is not modified"):
        await bot.edit_message_reply_markup(1, sent.message_id)
    await bot.edit_message_reply_markup(1, sent.message_id, reply_markup=keys)
    assert message.buttons


async def test_a_press_is_forgotten_after_a_while(autojump_clock: MockClock, api: BotApi, bot: Bot) -> None:
    keys = InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="y")]])
    await bot.send_message(1, "sure?", reply_markup=keys)
    query = api.press_word(api.people[1], api.chat(1).said[0], "yes")
    with pytest.raises(ValueError, match="no button says 'no'"):
        api.press_word(api.people[1], api.chat(1).said[0], "no")
    await trio.sleep(1000)
    with refused(BadRequest, "query is too old"):
        await bot.answer_callback_query(query.id)


# The bot itself


async def test_a_wrong_token_is_401_and_a_malformed_one_404(autojump_clock: MockClock, api: BotApi) -> None:
    with refused(InvalidToken, "Unauthorized"):
        await bot_for(api, "7000000002:AAtest-token_0123456789abcdefghijkl").get_me()
    with refused(InvalidToken, "Not Found"):
        await bot_for(api, "nonsense").get_me()
    assert (await bot_for(api).get_me()).username == "rumi_test_bot"


async def test_a_method_that_there_is_not_is_404(autojump_clock: MockClock, api: BotApi) -> None:
    assert api.handle("sendTelepathy").status == 404
    assert api.handle("getme").status == 200


async def test_commands_are_kept_by_scope_and_language(autojump_clock: MockClock, bot: Bot) -> None:
    stop = BotCommand("stop", "Stop")
    await bot.set_my_commands([stop])
    await bot.set_my_commands([BotCommand("stop", "Parar")], language_code="es")
    await bot.set_my_commands([], scope=BotCommandScopeChat(1))
    assert await bot.get_my_commands() == (stop,)
    assert (await bot.get_my_commands(language_code="es"))[0].description == "Parar"
    assert await bot.get_my_commands(scope=BotCommandScopeChat(1)) == ()
    assert await bot.get_my_commands(language_code="fr") == ()


@pytest.mark.parametrize(
    ("command", "description", "words"),
    [("Stop", "x", "BOT_COMMAND_INVALID"), ("a" * 33, "x", "BOT_COMMAND_INVALID"), ("a", "", "DESCRIPTION")],
)
async def test_a_command_is_a_word_with_a_description(
    autojump_clock: MockClock, bot: Bot, command: str, description: str, words: str
) -> None:
    with refused(BadRequest, words):
        await bot.set_my_commands([(command, description)])


# Rates


async def test_a_chat_takes_a_burst_and_then_a_message_a_second(autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time)
    api.user(1)
    bot = bot_for(api)
    for number in range(3):
        await bot.send_message(1, str(number))
    with pytest.raises(RetryAfter) as caught:
        for number in range(10):
            await bot.send_message(1, str(number))
    wait_s = caught.value.retry_after.total_seconds()
    assert wait_s == 1
    told = len(api.chat(1).said)
    with pytest.raises(RetryAfter):
        await bot.send_message(1, "early")
    assert [one.early for one in api.rates.refused] == [False, True]
    await trio.sleep(api.rates.refused[-1].retry_after)
    await bot.send_message(1, "patient")
    assert len(api.chat(1).said) == told + 1


async def test_a_group_takes_twenty_a_minute(autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time)
    api.group(-100777)
    bot = bot_for(api)
    with pytest.raises(RetryAfter) as caught:
        for number in range(21):
            await bot.send_message(-100777, str(number))
            await trio.sleep(1)
    assert len(api.chat(-100777).said) == 20
    assert 30 < caught.value.retry_after.total_seconds() <= 40


async def test_all_chats_together_take_thirty_a_second_and_actions_are_free(
    autojump_clock: MockClock,
) -> None:
    api = BotApi(trio.current_time, limits=Limits(chat_burst=5))
    for number in range(1, 41):
        api.user(number)
        api.handle("sendChatAction", {"chat_id": number, "action": "typing"})
    answers = [api.handle("sendMessage", {"chat_id": number, "text": "x"}) for number in range(1, 41)]
    assert [answer.status for answer in answers] == [200] * 30 + [429] * 10
    assert answers[-1].body["parameters"] == {"retry_after": 1}


# Updates


async def test_an_update_comes_again_until_it_is_confirmed(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    first, second = (api.say(api.people[1], text) for text in ("one", "two"))
    for _ in range(2):
        assert [update.update_id for update in await bot.get_updates()] == [first.update_id, second.update_id]
    [again] = await bot.get_updates(offset=first.update_id + 1)
    assert again.message.text == "two"
    assert api.confirmed == [first.update_id]
    assert api.pending == [second.update_id]


async def test_a_negative_offset_forgets_all_but_the_last(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    for text in "abcde":
        api.say(api.people[1], text)
    assert [update.message.text for update in await bot.get_updates(offset=-2)] == ["d", "e"]
    assert len(api.pending) == 2


async def test_a_limit_limits_and_a_kind_that_was_not_asked_for_does_not_come(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    said = api.say(api.people[1], "one")
    api.say(api.people[1], "two")
    assert len(await bot.get_updates(limit=1)) == 1
    await bot.get_updates(allowed_updates=["edited_message"])
    assert api.say(api.people[1], "three").update_id is None
    api.edit(said, "one!")
    updates = await bot.get_updates(offset=said.update_id + 2)
    assert [update.edited_message.text for update in updates] == ["one!"]


async def test_a_poll_waits_for_an_update_and_not_longer(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    start = trio.current_time()
    assert await bot.get_updates(timeout=10) == ()
    assert trio.current_time() - start == pytest.approx(10, abs=0.3)
    async with trio.open_nursery() as nursery:

        async def later() -> None:
            await trio.sleep(3)
            api.say(api.people[1], "there")

        nursery.start_soon(later)
        start = trio.current_time()
        [update] = await bot.get_updates(timeout=10)
        assert trio.current_time() - start == pytest.approx(3, abs=0.3)
    assert update.message.text == "there"


async def test_of_two_polls_the_older_ends_with_a_conflict(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    async with trio.open_nursery() as nursery:

        async def older() -> None:
            with refused(Conflict, "terminated by other getUpdates request"):
                await bot.get_updates(timeout=30)

        nursery.start_soon(older)
        await trio.sleep(1)
        assert await bot_for(api).get_updates(timeout=5) == ()


async def test_with_a_webhook_there_is_no_polling(autojump_clock: MockClock, api: BotApi, bot: Bot) -> None:
    await bot.set_webhook("https://example.org/hook")
    with refused(Conflict, "can't use getUpdates method while webhook is active"):
        await bot.get_updates()
    assert (await bot.get_webhook_info()).url
    api.say(api.people[1], "x")
    await bot.delete_webhook(drop_pending_updates=True)
    assert await bot.get_updates() == ()


async def test_a_poll_that_was_cancelled_ousts_nobody_and_takes_nothing(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    with trio.move_on_after(2):
        await bot.get_updates(timeout=30)
    api.say(api.people[1], "after")
    assert len(await bot.get_updates(timeout=30)) == 1
    assert api.confirmed == []


async def test_numbers_restart_lower_and_an_offset_from_before_confirms_nothing(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    said = api.say(api.people[1], "one")
    await bot.get_updates()
    assert api.restart_ids() < said.update_id
    new = api.say(api.people[1], "two")
    for _ in range(2):
        [update] = await bot.get_updates(offset=said.update_id + 1)
        assert update.update_id == new.update_id
    assert await bot.get_updates(offset=new.update_id + 1) == ()
    assert api.confirmed == [new.update_id]


async def test_after_a_day_nobody_gets_an_update_any_more(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    said = api.say(api.people[1], "one")
    await trio.sleep(25 * 3600)
    assert await bot.get_updates() == ()
    assert api.updates.expired == [said.update_id]


# People


async def test_what_people_send_arrives_as_telegram_tells_it(
    autojump_clock: MockClock, api: BotApi, bot: Bot
) -> None:
    ann = api.user(3, username="bea", language_code="es")
    group = api.group(-100777, title="Club")
    text = api.say(ann, "👍 /stop@rumi_test_bot now @rumi_test_bot", group)
    api.send_document(ann, "a.pdf", b"%PDF", caption="read")
    api.send_photo(ann, b"jpeg")
    api.send_voice(ann, b"OggS", duration=4)
    api.send_sticker(ann)
    api.send_poll(ann, "when?")
    api.send_location(ann, 1.5, 2.5)
    api.send_album(ann, [("1.txt", b"1"), ("2.txt", b"2")], caption="both")
    api.edit(text, "never mind")
    updates = await bot.get_updates()
    messages = [update.message for update in updates[:-1]]
    first = messages[0]
    assert (first.chat.title, first.from_user.language_code) == ("Club", "es")
    assert [first.parse_entity(entity) for entity in first.entities] == [
        "/stop@rumi_test_bot",
        "@rumi_test_bot",
    ]
    assert messages[1].document.mime_type == "application/pdf"
    assert messages[2].photo[-1].file_size == 4
    assert (messages[3].voice.duration.total_seconds(), messages[3].voice.mime_type) == (4, "audio/ogg")
    assert messages[4].sticker.emoji == "👍"
    assert messages[5].poll.question == "when?"
    assert messages[6].location.latitude == 1.5
    assert messages[7].media_group_id == messages[8].media_group_id
    assert [message.caption for message in messages[7:]] == ["both", None]
    assert updates[-1].edited_message.text == "never mind"


async def test_with_privacy_a_bot_sees_in_groups_what_is_meant_for_it(autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time, privacy=True)
    ann, group = api.user(1), api.group(-100777)
    sent = await bot_for(api).send_message(-100777, "hello")
    for text in ("chatter", "/stop@other_bot"):
        assert api.say(ann, text, group).update_id is None
    for text in ("/stop", "/stop@rumi_test_bot", "look, @rumi_test_bot"):
        assert api.say(ann, text, group).update_id is not None
    assert api.say(ann, "yes", group, reply_to=group.by_id[sent.message_id]).update_id is not None
    assert api.say(ann, "chatter").update_id is not None
