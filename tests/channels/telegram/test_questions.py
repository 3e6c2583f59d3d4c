"""A question as the chat sees it: in its place, with buttons as long as it waits, with the verdict after."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from rumi.agent.events import ConfirmationAsked, ConfirmationEnded
from rumi.channels.telegram.formatting.spans import LIMIT_UNITS, units
from rumi.channels.telegram.messages import Press, Pressed, Toast
from rumi.channels.telegram.sending.questions import FINISH_S, VERDICT_UNITS, question_part
from rumi.channels.telegram.sending.sender import Sender
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import telegram as telegram_texts
from rumi.platform.texts.questions import Verdict
from rumi.texts import gettext
from tests.channels.telegram.readings import seen
from tests.channels.telegram.sending import PostOffice, Turn, bot_in_memory, post_office, unmarked
from tests.channels.telegram.test_sender_in_bad_weather import DISHONEST, HONEST
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Broken, Error, Flood, Late, Reset, Silent, Slow
from tests.fakes.bot_api_world import Chat, Message
from tests.fakes.telegram_exchange import until

ID = "00112233445566aa"
TEXT = "May I open this address?\n  address: https://example.org/?q=1\n  server: example.org"


@pytest.fixture
def api() -> BotApi:
    api = BotApi(trio.current_time, drafts=False)
    for number in (1, 2, 3):
        api.user(number)
    return api


def asks(turn: Turn, id: str = ID, text: str = TEXT) -> None:
    turn.publish(ConfirmationAsked(id, text))


def settles(turn: Turn, verdict: Verdict = "yes", id: str = ID) -> None:
    turn.publish(ConfirmationEnded(id, verdict))


async def shown(api: BotApi, chat: int = 1, within_s: float = 60) -> Message:
    """Wait for the question; its message."""
    with trio.fail_after(within_s):
        await until(api, lambda: any(message.buttons for message in api.chats[chat].said))
    return next(message for message in api.chats[chat].said if message.buttons)


def document_of(message: Message) -> str:
    """What is in the file of a message."""
    assert message.document is not None
    return message.document.content.decode()


async def verdict(api: BotApi, message: Message, within_s: float = 60) -> str:
    """Wait until it has no buttons; what it says."""
    with trio.fail_after(within_s):
        await until(api, lambda: not message.buttons)
    return message.text


def press_of(api: BotApi, message: Message, *, counts: bool, id: str = ID) -> tuple[Any, Pressed]:
    """A press, and what the poller makes of it."""
    query = api.press(api.people[1], message, f"{id}:y")
    chat = f"tg{message.chat.id}"
    press = Press(1, query.id, api.people[1].id, True, chat, message.chat.id, message.id, id, True, "en")
    return query, Pressed(press, counts)


# As it looks


async def test_a_question_is_plain_text_whose_details_are_no_links(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        message = await shown(api)
    assert message.text == TEXT
    assert message.options["link_preview_options"] == {"is_disabled": True}
    assert [entity["type"] for entity in message.entities] == ["code", "code"]
    assert [button["text"] for button in message.buttons] == ["✅ Yes", "❌ No"]


def test_each_line_below_the_first_is_code() -> None:
    part = question_part("¿Puedo? 🙂\n  clave: 🙂 *x*\n\n  valor: _y_", "es")
    assert part.text == "¿Puedo? 🙂\n  clave: 🙂 *x*\n\n  valor: _y_"
    assert [(kind, words) for kind, words, _ in seen(part)] == [
        ("code", "clave: 🙂 *x*"),
        ("code", "valor: _y_"),
    ]


@pytest.mark.parametrize("letter", ["a", "ñ", "🙂"])
@pytest.mark.parametrize("verdict", ["yes", "no", "expired"])
def test_a_long_question_is_cut_in_its_middle_and_has_room_for_the_verdict(
    letter: str, verdict: Verdict
) -> None:
    part = question_part(f"May I?\n  value: {letter * 9000}\n  key: end", "es")
    assert part.text.startswith("May I?\n  value: ")
    assert part.text.endswith(f"{letter}\n  key: end")
    left = sum(part.text.count(mark) for mark in (letter,)) - "May I?key: endvalue: aquí faltan".count(letter)
    seen(part, LIMIT_UNITS - VERDICT_UNITS)
    assert "… (aquí faltan " in part.text
    said = int(part.text.split("(aquí faltan ")[1].split(" ")[0])
    assert 9000 - left - 10 <= said <= 9000 - left + 10
    assert units(f"{part.text}\n\n{question_texts.verdict('es', verdict)}") <= LIMIT_UNITS


@pytest.mark.parametrize("language", ["es", "en"])
def test_toasts_are_as_short_as_telegram_wants_them(language: Any) -> None:
    for text in (
        telegram_texts.question_closed(language),
        gettext(language, "This question is for somebody else."),
        telegram_texts.stranger(language, 2**52),
        *(question_texts.verdict(language, verdict) for verdict in ("yes", "no", "expired")),
    ):
        assert 0 < units(text) <= 200


# What is longer than a message


async def test_a_question_that_is_longer_than_a_message_comes_whole_as_a_file_before_its_buttons(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    text = "May I?\n" + "\n".join(f"  hosts[{number}]: {'h' * 90}{number}.example" for number in range(90))
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn, text=text)
        message = await shown(api)
        file, last = api.chats[1].said
        assert (last, document_of(file)) == (message, text)
        assert "they are in the file above" in message.text
        settles(turn)
        assert (await verdict(api, message)).endswith("✅ Yes.")
        await turn.ends("done")
        await office.all_sent(60)


async def test_a_question_that_shortens_a_value_has_all_of_it_in_a_file(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.publish(ConfirmationAsked(ID, TEXT, f"{TEXT}\n  text: all of it"))
        message = await shown(api)
        assert message.text == TEXT
        assert [document_of(sent) for sent in api.chats[1].said[:-1]] == [f"{TEXT}\n  text: all of it"]


async def test_a_question_whose_file_telegram_refuses_is_not_asked_and_that_is_said(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Error(400, "Bad Request: PHOTO_INVALID"), "sendDocument", times=9)
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn, text=f"May I?\n  value: {'x' * 9000}")
        await until(api, lambda: any("I can't ask you" in sent.text for sent in api.chats[1].said))
        (message,) = api.chats[1].said
        assert not message.buttons
        assert not office.hub.could_be_read(ID, None)  # so that no typed yes counts


# Its place


async def test_the_growing_answer_goes_away_and_what_follows_stands_below(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("I will look it up.")
        await trio.sleep(3)
        assert api.chats[1].texts == ["I will look it up."]
        done = turn.tool("web_fetch", url="https://example.org")
        asks(turn)
        question = await shown(api)
        assert api.chats[1].said == [question]
        await trio.sleep(30)
        assert api.chats[1].said == [question]  # nothing is shown below it while it waits
        settles(turn)
        await trio.sleep(3)
        assert api.chats[1].texts[1] == "I will look it up.\n\n🔧 working: web_fetch: https://example.org"
        done()
        await turn.ends("Here it is.")
        await office.all_sent(10)
    assert api.chats[1].texts == [f"{TEXT}\n\n✅ Yes.", "Here it is."]
    assert not api.rates.refused


async def test_a_draft_is_not_shown_while_a_question_waits(tmp_path: Path, autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time)
    api.user(1)
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("one moment")
        await trio.sleep(3)
        assert api.chats[1].drafts
        asks(turn)
        await shown(api)
        drafts = len(api.chats[1].drafts)
        await trio.sleep(120)
        assert len(api.chats[1].drafts) == drafts
        settles(turn)
        turn.says(", and more")
        await trio.sleep(3)
        assert api.chats[1].drafts[-1].text == "one moment, and more"
        await turn.ends("whole")
        await office.all_sent(10)
    assert api.chats[1].texts == [f"{TEXT}\n\n✅ Yes.", "whole"]


async def test_a_preview_that_could_not_be_removed_at_first_is_removed_behind_the_question(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Broken(), "deleteMessage")
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("growing")
        await trio.sleep(3)
        asks(turn)
        question = await shown(api)
        await trio.sleep(2)
        assert api.chats[1].said == [question]


async def test_a_later_process_knows_what_stands_there(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("growing")
        await trio.sleep(3)
        asks(turn)
        await shown(api)
        await trio.sleep(1)
        await office.reply("tg1", "untold", turn.message, published=False)
        [reply] = await office.undelivered("tg1")
        assert reply.preview is None


async def test_what_grows_below_a_question_waits_until_what_grew_above_is_gone(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Slow(8), "deleteMessage")
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        turn.says("growing")
        await trio.sleep(3)
        asks(turn)
        await trio.sleep(1)
        settles(turn)
        turn.says(" again")
        await trio.sleep(15)
        assert api.chats[1].texts == ["growing again"]
        await office.reply("tg1", "untold", turn.message, published=False)
        [reply] = await office.undelivered("tg1")
        assert reply.preview == api.chats[1].said[-1].id


async def test_a_turn_asks_again_and_again(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    verdicts: list[Verdict] = ["yes", "no", "expired", "yes"]
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        for number, verdict in enumerate(verdicts):
            id = f"{number:016x}"
            asks(turn, id, f"question {number}")
            with trio.fail_after(60):
                await until(api, lambda number=number: f"question {number}" in api.chats[1].texts)  # type: ignore[misc]
            settles(turn, verdict, id)
            if number % 2:
                turn.says("thinking ")
                await trio.sleep(4)
        await turn.ends("the end")
        await office.all_sent(60)
        await office.flush(60)
    said = [
        f"question {number}\n\n{question_texts.verdict('en', outcome)}"
        for number, outcome in enumerate(verdicts)
    ]
    assert api.chats[1].texts == [*said, "the end"]
    assert not api.rates.refused


async def test_other_replies_go_on_while_a_question_waits(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        question = await shown(api)
        await office.reply("tg1", "busy")
        await office.all_sent(5)
        await office.flush(5)  # a question that waits is nothing to wait for
        assert api.chats[1].texts == [TEXT, "busy"]
        assert question.buttons


# It waits no more


async def test_what_was_not_sent_when_its_question_ended_is_not_sent(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Flood(30), "sendMessage")
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        await trio.sleep(10)
        settles(turn, "no")
        await turn.ends("stopped")
        await office.all_sent()
        await trio.sleep(60)
    assert api.chats[1].texts == ["stopped"]


async def test_what_telegram_says_of_the_chat_is_heeded_though_the_question_has_ended(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Flood(30), "sendMessage")
    async with post_office(tmp_path, api, bot_in_memory(api, latency=(1, 1))) as office:
        turn = await office.begin("tg1")
        asks(turn)
        await trio.sleep(0.7)  # refused by now, and the answer is on its way
        settles(turn, "no")
        await trio.sleep(0.5)
        began = trio.current_time()
        await turn.ends("stopped")
        await office.all_sent()
        assert trio.current_time() - began > 29
    assert api.chats[1].texts == ["stopped"]


@pytest.mark.parametrize("fault", [Slow(6), Late(6)])
async def test_what_was_under_way_when_its_question_ended_loses_its_buttons(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    api.faults.next(fault, "sendMessage")
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        await trio.sleep(3)
        settles(turn, "no")
        await turn.ends("stopped")
        await trio.sleep(20)
        assert sorted(api.chats[1].texts) == sorted([f"{TEXT}\n\n❌ No.", "stopped"])
        assert not any(message.buttons for message in api.chats[1].said)


async def test_a_question_whose_end_was_not_told_ends_with_its_turn(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        question = await shown(api)
        await office.reply("tg1", "crashed", turn.message)
        assert await verdict(api, question) == f"{TEXT}\n\n❌ No."
        await office.flush(5)
        assert office.actor.activity() == ""


async def test_a_question_ends_when_its_turn_asks_another(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        first = await shown(api)
        asks(turn, f"{2:016x}", "another")
        assert await verdict(api, first) == f"{TEXT}\n\n❌ No."
        assert (await shown(api)).text == "another"


async def test_the_flush_at_the_end_waits_for_the_verdict(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        question = await shown(api)
        api.faults.next(Slow(3), "editMessageText")
        api.faults.next(Broken(), "editMessageText")
        settles(turn, "no")
        await turn.ends("interrupted")
        await office.flush(20)
        assert not question.buttons


async def test_a_verdict_that_cannot_be_shown_is_left_and_holds_nobody_up(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        question = await shown(api)
        api.faults.often(1.0, Broken(), "editMessageText")
        began = trio.current_time()
        settles(turn, "yes")
        await turn.ends("the end")
        await office.all_sent(10)
        await trio.sleep(FINISH_S)
        assert office.actor.activity() == ""
        attempts = [call for call in api.faults.injected if call.method == "editMessageText"]
        assert 2 < len(attempts) <= 6
        assert attempts[-1].time - began < FINISH_S
        assert question.buttons
        api.faults.clear()
        query, press = press_of(api, question, counts=False)
        await office.sender.tell(press)
        assert await verdict(api, question) == TEXT
        assert query.toast == "This question is no longer open."


@pytest.mark.parametrize(
    "words", ["Bad Request: message to edit not found", "Bad Request: message can't be edited"]
)
async def test_a_question_that_somebody_deleted_is_left(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, words: str
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        await shown(api)
        api.faults.often(1.0, Error(400, words), "editMessageText")
        settles(turn)
        await trio.sleep(60)
        assert len(api.faults.injected) == 1


# It has to be seen


@pytest.mark.parametrize(
    "fault", [Flood(5), Broken(502), Broken(500), Reset(), Silent(), Error(401), Error(400, "Bad Request: ?")]
)
async def test_it_is_sent_again_for_as_long_as_it_waits(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    api.faults.next(fault, "sendMessage", times=3)
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        question = await shown(api, within_s=300)
        settles(turn)
        assert await verdict(api, question) == f"{TEXT}\n\n✅ Yes."
        assert len(api.chats[1].said) == 1


async def test_a_refused_formatting_is_left_out(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Error(400, "Bad Request: can't parse entities: x"), "sendMessage")
    async with post_office(tmp_path, api) as office:
        asks(await office.begin("tg1"))
        question = await shown(api, within_s=1)
        assert (question.text, question.entities) == (TEXT, [])


async def test_in_a_group_it_answers_the_message_as_long_as_that_is_there(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    group = api.group(-5, members=[api.people[1]])
    message = api.say(api.people[1], "@rumi_test_bot hi", group)
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg-5", origin=message.id)
        asks(turn)
        assert (await shown(api, -5)).reply_to is message
        message.deleted = True
        other = await office.begin("tg-5", origin=message.id)
        asks(other, f"{2:016x}", "another")
        with trio.fail_after(60):
            await until(api, lambda: "another" in group.texts)


async def test_where_nobody_can_be_reached_the_turn_is_ended(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        api.block(api.people[1])
        asks(turn)
        await trio.sleep(5)
        assert set(office.ended) == {"tg1"}
        settles(turn, "no")
        await turn.ends("stopped")
        await office.all_sent(10)


# An answer of Telegram's was lost


@pytest.mark.parametrize("first", [True, False])
async def test_a_question_that_stands_there_twice_may_be_answered_at_either(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, first: bool
) -> None:
    api.faults.next(Reset(after=True), "sendMessage")
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        asks(turn)
        with trio.fail_after(60):
            await until(api, lambda: len(api.chats[1].said) == 2)
        pressed, other = api.chats[1].said if first else reversed(api.chats[1].said)
        query, press = press_of(api, pressed, counts=True)
        await office.sender.tell(press)
        settles(turn)
        assert await verdict(api, pressed) == f"{TEXT}\n\n✅ Yes."
        await turn.ends("the end")
        await trio.sleep(10)
        assert query.toast == "✅ Yes."
        if not other.buttons:  # the one whose number is known
            return
        query, press = press_of(api, other, counts=False)
        await office.sender.tell(press)
        assert await verdict(api, other) == TEXT
        assert query.toast == "This question is no longer open."


# Toasts


async def test_a_press_that_nobody_can_be_told_of_is_left(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        asks(await office.begin("tg1"))
        question = await shown(api)
        query, _ = press_of(api, question, counts=False)
        api.faults.often(1.0, Broken(), "answerCallbackQuery")
        await office.sender.tell(Toast(query.id, "hello"))
        await trio.sleep(30)
        assert len(api.faults.injected) == 3
        api.faults.clear()
        await office.sender.tell(Toast("no such press", "hello"))
        await trio.sleep(30)
        calls = [call for call in api.calls if call.method == "answerCallbackQuery"]
        assert [call.status for call in calls] == [400]
        assert len(office.incarnations) == 1


async def test_a_crowd_of_presses_keeps_no_reply_waiting(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.often(1.0, Silent(), "answerCallbackQuery")
    async with post_office(tmp_path, api) as office:
        for number in range(3 * Sender.concurrency):
            await office.sender.tell(Toast(str(number), "hello"))
        await office.reply("tg1", "here")
        await office.all_sent(2)
        await office.flush(2)
    assert api.chats[1].texts == ["here"]


# Whatever goes wrong


async def talk(office: PostOffice, chat: str, random: Random, outcome: Callable[[str], None]) -> None:
    """Turns with questions; each is answered when it is seen, or some time after it was asked."""
    number = int(chat.removeprefix("tg"))
    index: Chat = office.api.chats[number]
    for turn_number in range(4):
        turn = await office.begin(chat)
        for _ in range(random.randint(1, 3)):
            turn.says("growing ")
            await trio.sleep(random.uniform(0, 4))
            id = f"{random.getrandbits(64):016x}"
            asks(turn, id, f"{chat} {id}?")
            verdict: Verdict = random.choice(("yes", "no", "expired"))
            with trio.move_on_after(random.choice((0.0, 0.5, 5.0, 600.0))):
                await until(
                    office.api,
                    lambda id=id: any(f"{id}?" in text for text in index.texts),  # type: ignore[misc]
                )
                outcome("seen")
            settles(turn, verdict, id)
        await turn.ends(f"{chat} reply {turn_number}")
        await trio.sleep(random.uniform(0, 3))


@pytest.mark.parametrize("honest", [True, False])
@pytest.mark.parametrize("drafts", [True, False])
@pytest.mark.parametrize("seed", range(3))
async def test_in_any_weather_no_button_outlives_its_question_and_every_reply_arrives(
    tmp_path: Path, autojump_clock: MockClock, seed: int, drafts: bool, honest: bool
) -> None:
    random = Random(seed)
    api = BotApi(trio.current_time, drafts=drafts, seed=seed)
    for number in (1, 2, 3):
        api.user(number)
    faults = HONEST if honest else HONEST + DISHONEST
    for fault in faults:
        api.faults.often(0.2 / len(faults), fault)
    outcomes: list[str] = []
    async with post_office(tmp_path, api, random=random) as office:
        async with trio.open_nursery() as nursery:
            for number in (1, 2, 3):
                nursery.start_soon(talk, office, f"tg{number}", Random(f"{seed}{number}"), outcomes.append)
        api.faults.clear()
        await office.all_sent(7200)
        await trio.sleep(2 * FINISH_S)
        api.catch_up()
        assert office.actor.activity() == ""
        assert len(office.incarnations) == 1
        left = [message for chat in api.chats.values() for message in chat.said if message.buttons]
        assert not (honest and left)
        for message in left:  # where an answer was lost nobody knows of them: a press takes them away
            _, press = press_of(api, message, counts=False)
            await office.sender.tell(press)
        await office.flush(60)
        await trio.sleep(60)
    assert outcomes
    for number in (1, 2, 3):
        said = api.chats[number].said
        questions = [message for message in said if "?" in message.text]
        texts = [unmarked(message.text) for message in said]
        replies = [text for text in texts if text.startswith(f"tg{number} reply")]
        assert list(dict.fromkeys(replies)) == [f"tg{number} reply {turn}" for turn in range(4)]
        assert not [message for message in questions if message.buttons]
        if honest:
            assert all("\n\n" in message.text for message in questions)
            assert len({message.text.partition("?")[0] for message in questions}) == len(questions)
