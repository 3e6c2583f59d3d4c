"""What stands in the outbox reaches Telegram: whole, in order, once, and within its limits."""

import sqlite3
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from telegram import Bot
from trio.testing import MockClock

from rumi.channels.sending import DeliverFile, LeaveChats, LookFor, TakeChats
from rumi.channels.telegram.messages import Say
from rumi.channels.telegram.sending.limits import Rate, SendLimits
from rumi.channels.telegram.sending.preview import PreviewTimes
from rumi.errors import RumiError
from rumi.store.journal.outbox import mark_delivered, mark_undeliverable
from rumi.store.journal.store import JournalError, Store
from rumi.store.journal.transaction import JournalMessage
from rumi.store.ownership import partition_of
from tests.channels.telegram.sending import PostOffice, post_office
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_api_faults import Broken, Error, Flood, Reset, Silent, Slow
from tests.fakes.telegram_exchange import until
from tests.fakes.telegram_server import serve_telegram
from tests.web.readers.files import picture


@pytest.fixture
def api(autojump_clock: MockClock) -> BotApi:
    api = BotApi(trio.current_time)
    for number in (1, 2, 3):
        api.user(number)
    return api


def times(api: BotApi, method: str, chat: int | None = None) -> list[float]:
    """When a method was called."""
    return [call.time for call in api.calls if call.method == method and chat in (None, call.chat)]


def failures(path: Path) -> list[tuple[str, str]]:
    """The replies that were given up: what they said, and why."""
    with sqlite3.connect(path / "state.db") as db:
        rows = db.execute("SELECT text, failure FROM outbox WHERE failure IS NOT NULL ORDER BY id").fetchall()
    db.close()
    return rows


# Delivery


async def test_a_reply_is_sent_and_marked(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "hello")
        await office.all_sent(5)
    assert api.chats[1].texts == ["hello"]


async def test_a_reply_keeps_its_formatting_and_shows_no_link_preview(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "**yes**, see https://example.org")
        await office.all_sent(5)
    [message] = api.chats[1].said
    assert message.text == "yes, see https://example.org"
    assert message.entities[0] == {"type": "bold", "offset": 0, "length": 3}
    assert message.options["link_preview_options"] == {"is_disabled": True}


async def test_replies_of_a_chat_come_in_order(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    wanted = [f"reply {number}" for number in range(12)]
    async with post_office(tmp_path, api) as office:
        for text in wanted:
            await office.reply("tg1", text)
        await office.all_sent()
    assert api.chats[1].texts == wanted
    assert not api.rates.refused


async def test_a_long_reply_comes_whole_in_parts(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    lines = [f"line {number} of something long" for number in range(900)]
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "\n".join(lines))
        await office.all_sent()
    assert len(api.chats[1].said) > 3
    assert "".join("\n".join(api.chats[1].texts).split()) == "".join("".join(lines).split())


async def test_what_waits_from_before_is_sent_at_the_start(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.often(1.0, Broken(), "sendMessage")
    async with post_office(tmp_path, api) as office:
        for chat in (1, 2):
            await office.reply(f"tg{chat}", f"for {chat}")
        await trio.sleep(5)
    api.faults.clear()
    async with post_office(tmp_path, api) as office:
        await office.all_sent(5)
    assert [api.chats[chat].texts for chat in (1, 2)] == [["for 1"], ["for 2"]]


async def test_what_is_left_to_another_worker_is_not_sent_any_more(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    numbers = frozenset({partition_of("tg1")})
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "waits", published=False)
        await office.sender.ask(TakeChats(numbers))
        await office.sender.ask(LeaveChats(numbers, 5.0))
        assert api.chats[1].texts == ["waits"]
        assert not await office.undelivered("tg1"), "sent, and not marked"
        await office.reply("tg1", "of a turn that ended behind it")
        await office.sender.tell(LookFor(("tg1",)))
        await trio.sleep(60)
        assert api.chats[1].texts == ["waits"], "the next worker sends the other"
        await office.sender.ask(TakeChats(numbers))
        await office.all_sent(5)
    assert api.chats[1].texts == ["waits", "of a turn that ended behind it"]


async def test_a_reply_to_somebody_outside_is_not_sent(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "for the terminal", origin=None)
        await office.reply("tg1", "for the chat")
        await trio.sleep(5)
        assert [reply.text for reply in await office.undelivered("tg1")] == ["for the terminal"]
    assert api.chats[1].texts == ["for the chat"]


async def test_other_chats_than_telegrams_are_left_alone(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        await office.reply("cli", "for the terminal")
        turn = await office.begin("tg1_x")
        turn.says("…")
        await office.flush()
        assert len(await office.undelivered("cli")) == 1
    assert not api.calls


async def test_in_a_group_the_first_message_answers_who_asked(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    group = api.group(-100, members=[api.people[1]])
    question = api.say(api.people[1], "@rumi_test_bot hi", group)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg-100", "words " * 1500, origin=question.id)
        await office.reply("tg-100", "another", origin=9_999)  # whose question is gone by now
        await office.all_sent()
    first, *others = group.said
    assert first.reply_to is question
    assert len(others) == 3
    assert not any(message.reply_to for message in others)


async def test_in_private_a_reply_needs_no_quotation(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    question = api.say(api.people[1], "hi")
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "hello", origin=question.id)
        await office.all_sent()
    assert api.chats[1].said[0].reply_to is None


async def test_a_reply_goes_into_its_topic_and_into_the_chat_when_there_is_no_such_topic(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    forum = api.group(-100, forum=True, members=[api.people[1]])
    topic = api.topic(forum, api.people[1])
    async with post_office(tmp_path, api) as office:
        await office.reply(f"tg-100_{topic}", "in the topic")
        await office.reply("tg-100_999", "**anywhere**")
        await office.all_sent()
    assert [(message.text, message.topic) for message in forum.said] == [
        ("in the topic", topic),
        ("anywhere", 1),  # the topic that every forum has
    ]


async def test_a_topic_that_has_gone_is_noticed_by_the_preview_and_the_reply_at_once(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    forum = api.group(-100, forum=True, members=[api.people[1]])
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg-100_999")
        turn.says("growing")
        await trio.sleep(0.99)
        await office.reply("tg-100_999", "busy")
        await trio.sleep(5)
        await turn.ends("grown")
        await office.all_sent(10)
    assert sorted(forum.texts) == ["busy", "grown"]


async def test_a_reply_without_words_is_something_to_see(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", " \n ")
        await office.all_sent(5)
    assert api.chats[1].texts == ["…"]


async def test_a_reply_that_is_withdrawn_while_it_waits_is_not_sent(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        api.faults.next(Flood(30), "sendMessage")
        await office.reply("tg1", "taken back")
        await trio.sleep(5)
        await office.journal.ask(mark_undeliverable("tg1", "this turn was taken back"))
        await trio.sleep(60)
        await office.reply("tg1", "the next one")
        await office.all_sent(60)
    assert api.chats[1].texts == ["the next one"]


# Ends and restarts


async def test_parts_go_on_where_a_killed_sender_stopped(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    text = "\n".join(f"{number:05}" for number in range(4000))
    for seconds in (0.3, 0.9, 2.0, 4.0):
        with trio.move_on_after(seconds):
            async with post_office(tmp_path, api) as office:
                if not await office.undelivered("tg1") and not api.chats[1].said:
                    await office.reply("tg1", text)
                await trio.sleep_forever()
    async with post_office(tmp_path, api) as office:
        await office.all_sent()
    assert "\n".join(api.chats[1].texts).split() == text.split()


async def test_what_is_under_way_at_the_end_is_sent_and_marked(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Slow(2.0), "sendMessage")
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "hello")
        await trio.sleep(0.5)
    async with post_office(tmp_path, api) as office:
        await office.flush()
    assert api.chats[1].texts == ["hello"]


async def test_the_end_does_not_wait_for_telegram_for_ever(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.often(1.0, Silent(), "sendMessage")
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "hello")
        await trio.sleep(0.5)
        began = trio.current_time()
    assert trio.current_time() - began < 10


async def test_a_sender_that_crashes_goes_on(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    async with post_office(tmp_path, api) as office:
        api.faults.next(Flood(20), "sendMessage")
        await office.reply("tg1", "hello")
        await trio.sleep(1)

        async def crash() -> None:
            raise ValueError("on purpose")

        office.actor.start_soon(crash)
        await office.all_sent()
        assert len(office.incarnations) == 2
    assert api.chats[1].texts == ["hello"]


# Limits


async def test_a_hundred_chats_are_answered_without_being_told_to_slow_down(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    api = BotApi(trio.current_time)
    chats = [api.user(number).id for number in range(1, 91)]
    chats += [api.group(-number).id for number in range(1, 11)]

    async def talk(office: PostOffice, chat: int) -> None:
        turn = await office.begin(f"tg{chat}")
        for word in range(8):
            turn.says(f"word {word} ")
            await trio.sleep(0.7)
        await turn.ends("the end " * 700)  # two messages
        for number in range(2):
            await office.reply(f"tg{chat}", f"again {number}")

    async with post_office(tmp_path, api) as office:
        async with trio.open_nursery() as nursery:
            for chat in chats:
                nursery.start_soon(talk, office, chat)
        await office.all_sent(120)
    assert api.rates.refused == []
    for chat in chats:
        first, second, *others = api.chats[chat].texts
        assert first.split() + second.split() == ["the", "end"] * 700
        assert others == ["again 0", "again 1"]


async def test_a_group_gets_no_more_than_it_may(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    group = api.group(-100)
    async with post_office(tmp_path, api) as office:
        for number in range(50):
            await office.reply("tg-100", str(number))
        await office.all_sent()
    assert group.texts == [str(number) for number in range(50)]
    assert api.rates.refused == []
    assert trio.current_time() < 200


async def test_a_chat_that_has_to_wait_delays_no_other(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        api.faults.next(Flood(300), "sendMessage", chat=1)
        await office.reply("tg1", "late")
        for number in range(5):
            await office.reply("tg2", str(number))
        await trio.sleep(10)
        assert api.chats[2].texts == ["0", "1", "2", "3", "4"]
        assert api.chats[1].texts == []
        assert "1 reply waits in 1 chat; tg1 waits 2" in office.actor.activity()
        assert office.actor.activity().endswith("s: Telegram's limit")
        await office.all_sent()
        assert office.actor.activity() == ""
    assert times(api, "sendMessage", 1)[0] == pytest.approx(300, abs=1)
    assert api.chats[1].texts == ["late"]


# Trouble


@pytest.mark.parametrize("fault", [Broken(502), Reset(), Silent(), Error(500), Error(401)])
async def test_trouble_on_the_way_is_waited_for(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    api.faults.next(fault, "sendMessage", times=6)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "**hello**")
        await office.all_sent()
    (said,) = api.chats[1].texts
    # A reset connection or silence leaves open whether the message arrived.
    assert said.startswith("🔁") == isinstance(fault, Reset | Silent)
    assert said.endswith("hello")
    assert api.chats[1].said[0].entities


async def test_it_tries_again_more_and_more_slowly(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Broken(), "sendMessage", times=12)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "hello")
        await office.all_sent()
    at = times(api, "sendMessage")
    at = [injected.time for injected in api.faults.injected] + at
    pauses = [later - earlier for earlier, later in pairwise(at)]
    assert pauses[0] < 1.5
    assert all(0.45 * 2**n < pause < 1.1 * 2**n + 0.3 for n, pause in enumerate(pauses[:6]))
    assert all(29 < pause < 61 for pause in pauses[6:])


async def test_formatting_that_is_refused_is_left_out(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Error(400, "Bad Request: can't parse entities: no"), "sendMessage")
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "**hello**")
        await office.reply("tg1", "**hello again**")
        await office.all_sent(10)
    first, second = api.chats[1].said
    assert (first.text, first.entities) == ("hello", [])
    assert second.entities


async def test_formatting_that_fails_leaves_the_words(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(text: str) -> None:
        raise RecursionError

    monkeypatch.setattr("rumi.channels.telegram.sending.delivery.format_reply", failing)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "**hello**\n" * 1000)
        await office.all_sent(30)
    assert "\n".join(api.chats[1].texts).split() == ["**hello**"] * 1000


async def test_a_part_that_is_refused_goes_plain_and_then_in_shorter_pieces(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.next(Error(400, "Bad Request: message is too long"), "sendMessage", times=3)
    words = [f"{number}" for number in range(800)]
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "**first** " + " ".join(words))
        await office.reply("tg1", "next")
        await office.all_sent(60)
    *pieces, last = api.chats[1].texts
    assert len(pieces) >= 3
    assert " ".join(pieces).split() == ["first", *words]
    assert last == "next"


async def test_a_reply_that_telegram_takes_in_no_form_is_recorded_and_blocks_nothing(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        api.faults.next(Error(400, "Bad Request: no reason at all"), "sendMessage", chat=1, times=2)
        await office.reply("tg1", "**poison**")
        await office.reply("tg1", "food")
        await office.all_sent(10)
        assert len(office.incarnations) == 1
    assert api.chats[1].texts == ["food"]
    assert failures(tmp_path) == [("**poison**", "Telegram refuses: No reason at all")]


async def test_a_reply_that_breaks_our_own_code_is_recorded_and_blocks_nothing(
    tmp_path: Path,
    api: BotApi,
    autojump_clock: MockClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    real = Bot.send_message

    async def send(self: Bot, number: int, text: str, **options: Any) -> Any:
        if "poison" in text:
            raise TypeError(text)
        return await real(self, number, text, **options)

    monkeypatch.setattr(Bot, "send_message", send)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "poison")
        await office.reply("tg1", "food")
        await office.reply("tg2", "other food")
        await office.all_sent(60)
        assert len(office.incarnations) == 1
    assert [api.chats[chat].texts for chat in (1, 2)] == [["food"], ["other food"]]
    assert failures(tmp_path) == [("poison", "it failed 3 times: TypeError")]
    assert TOKEN not in caplog.text


async def test_the_journal_may_be_away_for_a_moment(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash of it restarts the sender too, and what Telegram has is then sent once more at most."""
    real = Store.run
    failing = [True]

    def run(self: Store, requests: Sequence[JournalMessage]) -> list[object]:
        if failing and any(request.step is mark_delivered for request in requests):
            failing.clear()
            raise JournalError("state.db cannot be written: disk I/O error.")
        return real(self, requests)

    monkeypatch.setattr(Store, "run", run)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg1", "hello")
        await office.all_sent()
        assert not failing
    first, *again = api.chats[1].texts
    assert first == "hello"
    assert [text.startswith("🔁") and text.endswith("hello") for text in again] in ([], [True])


# Nobody there


def block(api: BotApi) -> None:
    api.block(api.people[1])


def deactivate(api: BotApi) -> None:
    api.people[1].gone = True


def never_started(api: BotApi) -> None:
    api.chats[1].started = False


@pytest.mark.parametrize("leave", [block, deactivate, never_started])
async def test_who_left_gets_nothing_more_and_their_chat_is_ended(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, leave: Callable[[BotApi], None]
) -> None:
    leave(api)
    async with post_office(tmp_path, api) as office:
        for text in ("a", "b", "c"):
            await office.reply("tg1", text)
        await office.reply("tg2", "d")
        await office.all_sent(10)
        assert office.ended == ["tg1"]
        assert len(office.incarnations) == 1
    assert api.chats[2].texts == ["d"]
    assert [text for text, _ in failures(tmp_path)] == ["a", "b", "c"]
    assert len(times(api, "sendMessage", 1)) == 1


async def test_a_group_that_threw_the_bot_out_is_ended(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    group = api.group(-100, members=[api.people[1]])
    api.kick(group, api.people[1])
    async with post_office(tmp_path, api) as office:
        await office.reply("tg-100", "a")
        await office.all_sent(10)
    assert office.ended == ["tg-100"]


async def test_a_group_where_the_bot_may_not_speak_is_ended(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.group(-100)
    words = "Bad Request: not enough rights to send text messages to the chat"
    api.faults.often(1.0, Error(400, words), chat=-100)
    async with post_office(tmp_path, api) as office:
        await office.reply("tg-100", "a")
        await office.all_sent(10)
    assert office.ended == ["tg-100"]
    assert [text for text, _ in failures(tmp_path)] == ["a"]


async def test_the_last_reply_of_a_chat_that_is_ended_comes_back_here_and_ends_there(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.block(api.people[1])
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")

        async def stopped(chat: str) -> None:
            delivery = await turn.ends("stopped")
            await office.sent(chat, delivery)

        office.on_ended = stopped
        with trio.fail_after(60):
            await office.reply("tg1", "busy")
            await trio.sleep(30)
        assert office.actor.activity() == ""
        assert office.ended == ["tg1"]
    assert [text for text, _ in failures(tmp_path)] == ["busy", "stopped"]


async def test_a_chat_that_cannot_be_ended_stops_nothing(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.block(api.people[1])

    async def fails(chat: str) -> None:
        raise RuntimeError("on purpose")

    async with post_office(tmp_path, api) as office:
        office.on_ended = fails
        await office.reply("tg1", "a")
        await office.reply("tg2", "b")
        await office.all_sent(10)
        assert len(office.incarnations) == 1
    assert api.chats[2].texts == ["b"]


async def test_a_group_that_moved_gets_its_replies_at_its_new_number(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    group = api.group(-5, basic=True, members=[api.people[1]])
    question = api.say(api.people[1], "hi", group)
    new = api.migrate(group, -100)
    async with post_office(tmp_path, api) as office:
        for number in range(5):
            await office.reply("tg-5", str(number), origin=question.id)
        await office.all_sent(10)
    assert new.texts == [str(number) for number in range(5)]
    assert len(times(api, "sendMessage", -5)) == 1
    assert not api.rates.refused


# Flush


async def test_a_flush_waits_for_what_can_be_sent_also_where_nobody_told_of_it(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        for number in range(6):
            await office.reply("tg1", str(number), published=number % 2 == 0)
        await office.flush()
        assert api.chats[1].texts == [str(number) for number in range(6)]
        assert not await office.undelivered("tg1")


@pytest.mark.parametrize("fault", [Flood(600), Broken()])
async def test_a_flush_does_not_wait_for_who_has_to_wait(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, fault: Any
) -> None:
    async with post_office(tmp_path, api) as office:
        api.faults.often(1.0, fault, "sendMessage", chat=1)
        await office.reply("tg1", "late")
        await office.reply("tg2", "now")
        await office.flush(30)
        assert api.chats[2].texts == ["now"]
        assert len(await office.undelivered("tg1")) == 1


async def test_a_flush_of_nothing_is_answered_at_once(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        await office.flush(0.1)


# Files


async def test_a_file_comes_behind_what_was_sent_before_it(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        for number in range(5):
            await office.reply("tg1", str(number), published=number < 3)  # what is stored is about to be told
        async with trio.open_nursery() as nursery:
            nursery.start_soon(office.sender.ask, DeliverFile("tg1", "report.pdf", b"%PDF"))
            await trio.sleep(0.01)
            await office.reply("tg1", "behind")
        await office.all_sent()
    said = api.chats[1].said
    assert [message.text for message in said] == ["0", "1", "2", "3", "4", "", "behind"]
    assert said[5].document is not None
    assert (said[5].document.name, said[5].document.content) == ("report.pdf", b"%PDF")


@pytest.mark.parametrize(
    ("content", "method"),
    [
        pytest.param(picture(640, 480), "sendPhoto", id="a chart"),
        pytest.param(picture(640, 480, "JPEG"), "sendPhoto", id="a photo"),
        pytest.param(picture(640, 480, "WEBP"), "sendPhoto", id="webp"),
        pytest.param(picture(5000, 5000, mode="1"), "sendPhoto", id="the largest"),
        pytest.param(picture(5001, 5000, mode="1"), "sendDocument", id="too large"),
        pytest.param(picture(2100, 100, mode="1"), "sendDocument", id="too thin"),
        pytest.param(picture(64, 64)[:60], "sendDocument", id="broken"),
        pytest.param(picture(64, 64) + bytes(10 * 1024 * 1024), "sendDocument", id="too many bytes"),
        pytest.param(picture(64, 64, "GIF", mode="P"), "sendDocument", id="gif"),
        pytest.param(picture(64, 64, "BMP"), "sendDocument", id="bmp"),
        pytest.param(b"<svg/>", "sendDocument", id="svg"),
    ],
)
async def test_pictures_are_shown_as_pictures_and_sent_as_files_if_telegram_refuses_them(
    content: bytes, method: str, tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        await office.sender.ask(DeliverFile("tg1", "chart", content))
    (sent,) = [message for message in api.chats[1].said if message.document is not None]
    assert sent.document is not None
    assert ("sendPhoto" if "photo" in sent.content else "sendDocument") == method
    assert sent.document.content == content


async def test_a_file_that_telegram_does_not_take_is_told(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with post_office(tmp_path, api) as office:

        async def refusal(chat: str, name: str, content: bytes) -> RumiError:
            with pytest.raises(RumiError) as refused:
                await office.sender.ask(DeliverFile(chat, name, content))
            return refused.value

        empty = await refusal("tg1", "empty", b"")
        api.faults.next(Reset(), "sendDocument")
        cut_off = await refusal("tg1", "cut", b"x")
        nowhere = await refusal("cli", "x", b"x")
        await office.sender.ask(DeliverFile("tg1", "whole", b"x"))
    for error, words in (
        (empty, "non-empty"),
        (cut_off, "could not be sent"),
        (nowhere, "not a Telegram chat"),
    ):
        assert words in str(error)
        assert TOKEN not in str(error)
    assert TOKEN not in caplog.text


async def test_a_file_waits_when_telegram_says_so(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        api.faults.next(Flood(30), "sendDocument")
        await office.sender.ask(DeliverFile("tg1", "a", b"x"))
        assert trio.current_time() > 30


async def test_an_upload_ends_with_who_asked_for_it(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with post_office(tmp_path, api) as office:
        for cancel_s in (0.0, 0.5, 3.0):
            api.faults.next(Silent(), "sendDocument")
            with trio.move_on_after(cancel_s):
                await office.sender.ask(DeliverFile("tg1", "a", b"x"))
            api.faults.clear()
        await office.reply("tg1", "hello")
        await office.all_sent(5)
        assert len(office.incarnations) == 1
    assert api.chats[1].texts == ["hello"]


# Words that stand in no outbox


async def test_words_are_said_once_and_lost_if_they_cannot_be(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    group = api.group(-100, members=[api.people[1]])
    question = api.say(api.people[1], "hi", group)
    async with post_office(tmp_path, api) as office:
        for fault in (Flood(5), Broken(), Error(403, "Forbidden: bot was blocked by the user")):
            api.faults.next(fault, "sendMessage", chat=1)
            await office.sender.tell(Say("tg1", "a secret"))
            await trio.sleep(10)
        await office.sender.tell(Say("cli", "nowhere"))
        await office.sender.tell(Say("tg-100", "I don't know you", question.id))
        await trio.sleep(10)
        assert len(office.incarnations) == 1
        assert office.ended == []
    assert api.chats[1].texts == []
    assert group.texts == ["I don't know you"]
    assert group.said[0].reply_to is question
    assert "words were not said" in caplog.text
    assert "a secret" not in caplog.text
    assert "tg1" not in caplog.text  # of strangers nothing is kept, their number neither


async def test_words_for_many_strangers_hold_up_no_reply(tmp_path: Path, autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time)
    for number in range(1, 501):
        api.user(number)
    async with post_office(tmp_path, api) as office:
        for number in range(2, 501):
            await office.sender.tell(Say(f"tg{number}", "who are you?"))
        began = trio.current_time()
        await office.reply("tg1", "hello")
        await office.all_sent()
        assert trio.current_time() - began < 3
    assert not api.rates.refused


# What is kept


async def test_nothing_is_kept_of_chats_that_are_done(tmp_path: Path, autojump_clock: MockClock) -> None:
    api = BotApi(trio.current_time, keep_calls=10)
    for number in range(1, 201):
        api.user(number)
    async with post_office(tmp_path, api) as office:
        for number in range(1, 201):
            turn = await office.begin(f"tg{number}")
            turn.says("hm")
            await turn.ends("hello")
        await office.all_sent()
        await trio.sleep(200)
        await office.reply("tg1", "hello again")
        await office.all_sent()
        actor = office.actor
        assert not actor._outboxes
        assert len(actor._wire.limits) == 1
    assert api.rates.refused == []


async def test_the_sender_counts_what_it_does(tmp_path: Path, api: BotApi, autojump_clock: MockClock) -> None:
    async with post_office(tmp_path, api) as office:
        api.faults.next(Flood(2), "sendMessage")
        api.faults.next(Broken(), "sendMessage")
        await office.reply("tg1", "hello")
        await office.all_sent()
        counted = office.actor.statistics
        assert (counted.sent, counted.retried, counted.limited) == (1, 2, 1)


# Over HTTP


async def test_it_works_over_http(tmp_path: Path) -> None:
    api = BotApi(trio.current_time)
    api.user(1)
    async with serve_telegram(api) as server:
        from rumi.channels.telegram.api.bot import open_bot

        async with open_bot(TOKEN, server.root) as bot:
            pace = PreviewTimes(quick_s=0.05, chat_s=0.1)
            quick = SendLimits(chat=[Rate(30, 1.0)])
            async with post_office(tmp_path, api, bot, pace=pace, limits=quick) as office:
                api.faults.next(Broken(), "sendMessage")
                turn = await office.begin("tg1")
                turn.says("growing")
                with trio.fail_after(20):
                    await until(api, lambda: bool(api.chats[1].drafts and api.chats[1].actions))
                await turn.ends("**grown**")
                await office.sender.ask(DeliverFile("tg1", "a.txt", b"text"))
                await office.all_sent(20)
    assert api.chats[1].texts == ["grown", ""]
    assert [draft.text for draft in api.chats[1].drafts] == ["growing"]


@pytest.mark.parametrize("leave", [block, deactivate])
async def test_a_turn_for_a_chat_that_nobody_can_read_ends_before_it_costs_much(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, leave: Callable[[BotApi], None]
) -> None:
    leave(api)
    async with post_office(tmp_path, api) as office:
        await office.begin("tg1")
        await trio.sleep(2)
        assert office.ended == ["tg1"]
    assert not times(api, "sendMessage", 1)


async def test_a_turn_goes_on_where_only_its_preview_is_refused(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    api.faults.often(1.0, Error(400, "Bad Request: not enough rights to send it"), "sendChatAction")
    async with post_office(tmp_path, api) as office:
        turn = await office.begin("tg1")
        await trio.sleep(10)
        assert office.ended == []
        await turn.ends("the answer")
        await office.all_sent()
    assert api.chats[1].texts == ["the answer"]
