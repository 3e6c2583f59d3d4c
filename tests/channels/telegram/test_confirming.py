"""A turn asks on Telegram, and people answer: by button, by word, in time or not, in good and bad weather."""

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.app.shutdown import wind_down
from rumi.platform.texts.replies import goes_on_later
from tests.channels.telegram.house import ANA, BEN, EVE, asking, telegram_house
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Broken, Flood, Redelivered, Reset, Silent, Slow
from tests.fakes.bot_api_world import Chat

ASKED = "This chat contains content from files or the web. May I send you this file?\n  file: a.txt"


@pytest.fixture
def api(autojump_clock: MockClock) -> BotApi:
    api = BotApi(trio.current_time)
    api.user(ANA)
    api.user(BEN, language_code="es")
    api.user(EVE)
    return api


@pytest.fixture
def group(api: BotApi) -> Chat:
    return api.group(-100777, members=list(api.people.values()))


# By button


async def test_a_pressed_yes_lets_the_turn_go_on(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        ana = api.people[ANA]
        api.say(ana, "send a.txt")
        question = await house.asked(ANA)
        assert question.text == ASKED
        assert [button["text"] for button in question.buttons] == ["✅ Yes", "❌ No"]
        assert not house.sending.sent
        press = api.press_word(ana, question, "yes")
        await house.until(lambda: len(api.chats[ANA].said) == 2 and not question.buttons)
        assert api.chats[ANA].texts == [f"{ASKED}\n\n✅ Yes.", "done: sent"]
        assert press.toast == "✅ Yes."
        assert house.sending.sent == ["a.txt"]
        await house.idle()
    assert not api.rates.refused


async def test_a_pressed_no_is_a_no(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[BEN], "send a.txt")
        question = await house.asked(BEN)
        assert question.text.startswith("En esta charla hay contenido de archivos o de la web. ")
        assert [button["text"] for button in question.buttons] == ["✅ Sí", "❌ No"]
        press = api.press_word(api.people[BEN], question, "no")
        await house.until(lambda: len(api.chats[BEN].said) == 2 and press.toast is not None)
        assert api.chats[BEN].texts[1].startswith("done: the user said no, and it was not done.")
        assert press.toast == "❌ No."
        assert not house.sending.sent
        await house.idle()
        assert question.text.endswith("\n\n❌ No.")


async def test_what_a_button_carries_is_a_random_name_and_a_letter(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[ANA], "send a.txt b.txt")
        first = await house.asked(ANA)
        data = [button["callback_data"] for button in first.buttons]
        names = {text.partition(":")[0] for text in data}
        assert len(names) == 1
        assert len(names.pop()) == 16
        assert [text[16:] for text in data] == [":y", ":n"]
        api.press_word(api.people[ANA], first, "yes")
        await house.until(lambda: bool(asking(api.chats[ANA])) and asking(api.chats[ANA])[-1] is not first)
        second = asking(api.chats[ANA])[-1]
        assert second.buttons[0]["callback_data"] not in data


async def test_an_old_yes_says_nothing_to_the_next_question(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        ana = api.people[ANA]
        api.say(ana, "send a.txt b.txt")
        first = await house.asked(ANA)
        old = first.buttons[0]["callback_data"]
        api.press(ana, first, old)
        await house.until(lambda: house.sending.sent == ["a.txt"] and len(asking(api.chats[ANA])) == 1)
        second = await house.asked(ANA)
        assert second is not first
        late = api.press(ana, first, old)
        await trio.sleep(5)
        assert late.toast == "This question is no longer open."
        assert house.sending.sent == ["a.txt"]
        assert asking(api.chats[ANA]) == [second]


async def test_two_presses_are_one_answer(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    async with telegram_house(tmp_path, api) as house:
        ana = api.people[ANA]
        api.say(ana, "send a.txt")
        question = await house.asked(ANA)
        yes, no = (api.press_word(ana, question, word) for word in ("yes", "no"))
        await house.until(lambda: yes.toast is not None and no.toast is not None)
        assert (yes.toast, no.toast) == ("✅ Yes.", "This question is no longer open.")
        await house.until(lambda: "done: sent" in api.chats[ANA].texts)
        await house.idle()
        assert not asking(api.chats[ANA])


async def test_an_update_that_comes_again_answers_nothing_twice(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        ana = api.people[ANA]
        api.say(ana, "send a.txt")
        question = await house.asked(ANA)
        api.press_word(ana, question, "yes")
        api.faults.next(Redelivered(), "getUpdates", times=3)
        await house.until(lambda: "done: sent" in api.chats[ANA].texts)
        await trio.sleep(120)
        answered = [call for call in api.calls if call.method == "answerCallbackQuery"]
        assert len(answered) == 1
        assert house.sending.sent == ["a.txt"]


# By word


@pytest.mark.parametrize(("word", "sent"), [("sí", ["a.txt"]), ("dale", ["a.txt"]), ("no", [])])
async def test_a_typed_answer_counts_and_shares_the_final_reply(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, word: str, sent: list[str]
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[ANA], "send a.txt")
        question = await house.asked(ANA)
        api.say(api.people[ANA], word)
        await house.until(lambda: len(api.chats[ANA].said) == 2 and not question.buttons)
        assert house.sending.sent == sent
        await trio.sleep(60)
        assert len(api.chats[ANA].said) == 2


async def test_another_word_is_busy_and_the_question_goes_on(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[ANA], "send a.txt")
        question = await house.asked(ANA)
        api.say(api.people[ANA], "which file?")
        await house.until(lambda: len(api.chats[ANA].said) == 2)
        assert api.chats[ANA].texts[1].startswith("⏳")
        assert question.buttons
        api.press_word(api.people[ANA], question, "yes")
        await house.until(lambda: "done: sent" in api.chats[ANA].texts)


# Nobody answers, or it is stopped


async def test_nobody_answers_and_that_is_a_no(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[ANA], "send a.txt")
        question = await house.asked(ANA)
        began = trio.current_time()
        await house.until(lambda: len(api.chats[ANA].said) == 2, 700)
        assert 595 < trio.current_time() - began < 605
        await house.idle()
        assert question.text.endswith("\n\n⌛ No answer: no.")
        assert not question.buttons
        assert api.chats[ANA].texts[1].startswith("done: nobody answered")
        assert not house.sending.sent


async def test_a_stop_while_it_waits_is_done_at_once(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[ANA], "send a.txt")
        question = await house.asked(ANA)
        await trio.sleep(100)
        began = trio.current_time()
        api.say(api.people[ANA], "/stop")
        await house.until(lambda: "⏹ Stopped." in api.chats[ANA].texts)
        assert trio.current_time() - began < 1.5
        await house.idle()
        assert question.text.endswith("\n\n❌ No.")
        assert not question.buttons
        assert not house.sending.sent


async def test_a_stop_works_while_telegram_takes_no_question(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.faults.next(Silent(), "sendMessage")
        api.say(api.people[ANA], "send a.txt")
        await house.until(
            lambda: any(call.method == "sendMessage" for call in api.calls) or api.faults.injected
        )
        began = trio.current_time()
        api.say(api.people[ANA], "/stop")
        await house.until(lambda: "⏹ Stopped." in api.chats[ANA].texts)
        assert trio.current_time() - began < 1.5
        await trio.sleep(60)
        assert api.chats[ANA].texts == ["⏹ Stopped."]


async def test_the_turns_time_stands_still_while_it_waits_and_nobody_seems_to_type(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, confirm_timeout_s=5000) as house:
        api.say(api.people[ANA], "send a.txt")
        question = await house.asked(ANA)
        await trio.sleep(15)
        typed = len(api.chats[ANA].actions)
        await trio.sleep(3000)
        assert len(api.chats[ANA].actions) == typed
        api.press_word(api.people[ANA], question, "yes")
        await house.until(lambda: "done: sent" in api.chats[ANA].texts)
        await house.idle()
        assert question.text.endswith("\n\n✅ Yes.")


# Whose question it is


async def test_in_a_group_only_whose_turn_it_is_may_press(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        message = api.say(api.people[ANA], "@rumi_test_bot send a.txt", group)
        question = await house.asked(group)
        assert question.reply_to is message
        ben = api.press_word(api.people[BEN], question, "yes")
        eve = api.press_word(api.people[EVE], question, "yes")
        await house.until(lambda: ben.toast is not None and eve.toast is not None)
        assert ben.toast == "Esta pregunta es para otra persona."
        assert eve.toast == "I don't know you yet. Your id is 66; ask the owner to add it to allowed_users."
        await trio.sleep(5)
        assert question.buttons
        assert not house.sending.sent
        api.press_word(api.people[ANA], question, "yes")
        await house.until(lambda: "done: sent" in group.texts)
        assert len(group.said) == 2


async def test_in_a_group_a_plain_word_counts_as_a_reply_to_the_question(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[ANA], "@rumi_test_bot send a.txt", group)
        question = await house.asked(group)
        api.say(api.people[ANA], "yes", group)
        api.say(api.people[BEN], "yes", group, reply_to=question)
        await house.until(lambda: len(group.said) == 2)
        assert group.texts[1].startswith("⏳")  # Ben's: it is not his question
        assert question.buttons
        api.say(api.people[ANA], "Yes!", group, reply_to=question)
        await house.until(lambda: "done: sent" in group.texts)


async def test_a_question_stands_in_its_topic_and_is_answered_there(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    forum = api.group(-100888, forum=True, members=[api.people[ANA]])
    topic = api.topic(forum, api.people[ANA])
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[ANA], "@rumi_test_bot send a.txt", forum, topic=topic)
        question = await house.asked(forum)
        assert question.topic == topic
        api.press_word(api.people[ANA], question, "yes")
        await house.until(lambda: "done: sent" in forum.texts)
        assert house.sending.sent == ["a.txt"]


async def test_a_button_counts_only_in_its_chat(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        ana = api.people[ANA]
        api.say(ana, "send a.txt")
        api.say(ana, "@rumi_test_bot send b.txt", group)
        mine, theirs = await house.asked(ANA), await house.asked(group)
        elsewhere = api.press(ana, theirs, mine.buttons[0]["callback_data"])
        await house.until(lambda: elsewhere.toast is not None)
        assert elsewhere.toast == "This question is no longer open."
        await trio.sleep(5)
        assert mine.buttons
        assert not house.sending.sent


async def test_a_question_in_one_chat_holds_up_no_other(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.faults.often(1.0, Flood(300), "sendMessage", ANA)
        api.say(api.people[ANA], "send a.txt")
        await trio.sleep(2)
        began = trio.current_time()
        api.say(api.people[BEN], "hola")
        await house.until(lambda: api.chats[BEN].texts == ["you said hola"])
        assert trio.current_time() - began < 1


# Trouble


async def test_a_question_comes_through_bad_weather(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        for fault in (Broken(502), Flood(7), Reset(), Slow(4)):
            api.faults.next(fault, "sendMessage")
        api.faults.next(Broken(502), "editMessageText")
        api.faults.next(Reset(after=True), "editMessageText")
        api.faults.next(Broken(502), "answerCallbackQuery")
        api.say(api.people[ANA], "send a.txt")
        question = await house.asked(ANA, within_s=100)
        press = api.press_word(api.people[ANA], question, "yes")
        await house.until(lambda: not question.buttons and "done: sent" in api.chats[ANA].texts, 100)
        await house.idle()
        assert question.text.endswith("\n\n✅ Yes.")
        assert press.toast == "✅ Yes."


async def test_a_press_after_a_restart_takes_the_buttons_away(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.faults.often(1.0, Broken(502), "editMessageText")
        api.say(api.people[ANA], "send a.txt")
        question = await house.asked(ANA)
    api.faults.clear()
    assert question.buttons
    async with telegram_house(tmp_path, api) as house:
        await house.until(lambda: len(api.chats[ANA].said) == 2)
        press = api.press_word(api.people[ANA], question, "yes")
        await house.until(lambda: press.toast is not None and not question.buttons)
        assert press.toast == "This question is no longer open."
        assert question.text == ASKED
        await trio.sleep(60)
        assert not house.sending.sent


async def test_at_the_programs_end_a_question_is_a_no_and_loses_its_buttons(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        api.say(api.people[ANA], "send a.txt")
        question = await house.asked(ANA)
        await wind_down((house.telegram,), house.inbox.chats, house.fact_extraction)
        assert not question.buttons
        assert question.text.endswith("\n\n❌ No.")
        assert api.chats[ANA].texts[1] == goes_on_later("en"), "it is asked again after the restart"
