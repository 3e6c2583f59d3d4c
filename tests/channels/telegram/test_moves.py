"""A group becomes a supergroup: Telegram gives it another number, and here it stays the same chat."""

import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest
import trio
from telegram import Bot
from trio.testing import MockClock

from rumi.channels.telegram.address import Moves, TelegramAddress
from rumi.channels.telegram.receiving.updates import moves_in, update_of
from rumi.channels.telegram.sending.destination import Destination, SharedDelivery
from rumi.channels.telegram.sending.limits import Rate, SendLimits
from rumi.models.model import Emit, ModelRequest, Reply, TextDelta
from rumi.store.journal.inbox import accept_messages, moved_groups, record_move, record_preview
from rumi.store.journal.outbox import settle, undelivered_replies
from rumi.store.journal.records import FinalReply, Incoming
from rumi.store.journal.store import Store
from tests.channels.telegram.house import ANA, BEN, EVE, telegram_house
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_world import Chat

OLD, NEW = -5, -1005
TO = "@rumi_test_bot"


@pytest.fixture
def api(autojump_clock: MockClock) -> BotApi:
    api = BotApi(trio.current_time)
    for person in (ANA, BEN, EVE):
        api.user(person)
    return api


@pytest.fixture
def group(api: BotApi) -> Chat:
    return api.group(OLD, basic=True, members=list(api.people.values()))


async def slow(request: ModelRequest, emit: Emit) -> Reply:
    """`wait N` takes that long; the answer is what was said so far."""
    said = [message.content for message in request.messages if message.role == "user"]
    if said[-1].startswith("wait"):
        await trio.sleep(float(said[-1].split()[1]))
    return Reply(" / ".join(said))


def chats_stored(path: Path) -> set[str]:
    db = sqlite3.connect(path / "state.db")
    try:
        return {chat for (chat,) in db.execute("SELECT DISTINCT chat FROM messages")}
    finally:
        db.close()


async def test_a_stop_in_the_new_group_stops_the_turn_of_the_old_one(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, answer=slow) as house:
        api.say(api.people[ANA], f"{TO} wait 500", group)
        await house.until(lambda: house.inbox.chats.works("tg-5"))
        await trio.sleep(5)
        new = api.migrate(group, NEW)
        api.say(api.people[ANA], f"/stop{TO}", new)
        await house.until(lambda: new.texts)
        assert new.texts == ["⏹ Stopped."]
        api.say(api.people[ANA], f"{TO} and now", new)
        await house.until(lambda: len(new.texts) == 2)
        assert new.texts[1] == "wait 500 / and now"
        await house.idle()
    assert chats_stored(tmp_path) == {"tg-5"}


async def test_a_worker_knows_a_move_that_another_one_has_stored(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    """Telegram has told the other worker of it: this one got the messages, and not the move. It looked a
    moment ago, for another group."""
    journals: list[Any] = []
    group = api.group(NEW, members=list(api.people.values()))
    other = api.group(-7, members=list(api.people.values()))
    async with telegram_house(
        tmp_path, api, add=lambda root, inbox, journal, hub: journals.append(journal)
    ) as house:
        house.telegram.among_workers(cast(Any, None))
        api.say(api.people[ANA], f"{TO} hello", other)
        await house.until(lambda: other.texts)
        await journals[0].ask(record_move(f"tg{OLD}", f"tg{NEW}"))
        api.say(api.people[ANA], f"{TO} hello", group)
        await house.until(lambda: group.texts)
        await house.idle()
    assert chats_stored(tmp_path) == {"tg-5", "tg-7"}


async def test_a_reply_on_its_way_reaches_the_new_group_and_changes_no_message_there(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    """The answer grew in message 2 of the old group; in the new one that number is somebody's."""

    async def grows(request: ModelRequest, emit: Emit) -> Reply:
        for number in range(20):
            emit(TextDelta(f"{number} "))
            await trio.sleep(2)
        return Reply("done")

    async with telegram_house(tmp_path, api, answer=grows) as house:
        api.say(api.people[ANA], f"{TO} go", group)
        await house.until(lambda: group.texts)
        new = api.migrate(group, NEW)
        for number in range(5):
            api.say(api.people[BEN], f"chatter {number}", new)
        await house.until(lambda: "done" in new.texts, within_s=200)
        await house.idle()
    assert [message.text for message in new.seen if not message.from_bot and message.text] == [
        f"chatter {number}" for number in range(5)
    ]
    assert new.texts == ["done"]


async def test_the_answer_of_a_running_turn_overwrites_no_reply_of_its_number_in_the_new_group(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    """The answer grew in message 3 of the old group; in the new one that is the bot's own reply."""

    async def grows(request: ModelRequest, emit: Emit) -> Reply:
        for number in range(10):
            emit(TextDelta(f"{number} "))
            await trio.sleep(3)
        return Reply("done")

    async with telegram_house(tmp_path, api, answer=grows) as house:
        api.say(api.people[BEN], "chatter", group)
        api.say(api.people[ANA], f"{TO} go", group)
        await house.until(lambda: group.texts)
        new = api.migrate(group, NEW)
        api.say(api.people[ANA], f"/help{TO}", new)
        await house.until(lambda: "done" in new.texts, within_s=200)
        await house.idle()
    help_text = next(message for message in new.said if message.text != "done")
    assert group.said[0].id == help_text.id
    assert not help_text.edits


async def test_the_new_number_leads_to_the_chat_after_a_restart(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, answer=slow) as house:
        api.say(api.people[ANA], f"{TO} one", group)
        await house.until(lambda: group.texts)
        new = api.migrate(group, NEW)
        await house.until(lambda: not api.pending)
        await house.idle()
    async with telegram_house(tmp_path, api, answer=slow) as house:
        api.say(api.people[ANA], f"{TO} two", new)
        await house.until(lambda: new.texts)
        await house.idle()
    assert new.texts == ["one / two"]
    assert chats_stored(tmp_path) == {"tg-5"}
    assert not [call for call in api.calls if call.method == "sendMessage" and call.chat == OLD][1:]


async def test_messages_of_both_numbers_may_come_in_any_order_in_a_batch(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    new = api.migrate(group, NEW, notified=False)
    api.say(api.people[ANA], f"{TO} first", new)
    api.say(api.people[ANA], f"{TO} second", group)
    api.deliver(api.write(new, api.people[ANA], content={"migrate_from_chat_id": OLD}))
    api.deliver(api.write(group, api.people[ANA], content={"migrate_to_chat_id": NEW}))
    api.say(api.people[ANA], f"/status{TO}", new)
    async with telegram_house(tmp_path, api, answer=slow) as house:
        await house.until(lambda: len(new.texts) == 3)
        await house.idle()
    assert new.texts[0].startswith("⏳")
    assert chats_stored(tmp_path) == {"tg-5"}
    assert not group.texts


async def test_a_chat_that_began_under_the_new_number_finishes_there_and_then_becomes_one(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, answer=slow) as house:
        api.say(api.people[ANA], f"{TO} one", group)
        await house.until(lambda: group.texts)
        new = api.migrate(group, NEW, notified=False)
        api.say(api.people[ANA], f"{TO} wait 100", new)
        await house.until(lambda: house.inbox.chats.works("tg-1005"))
        api.deliver(api.write(new, api.people[ANA], content={"migrate_from_chat_id": OLD}))
        await trio.sleep(5)
        api.say(api.people[ANA], f"/stop{TO}", new)
        await house.until(lambda: new.texts == ["⏹ Stopped."])
        api.say(api.people[ANA], f"{TO} two", new)
        await house.until(lambda: len(new.texts) == 2)
        assert new.texts[1] == "one / two"
        await house.idle()


async def test_a_group_whose_move_was_missed_is_found_by_writing_to_it(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, answer=slow) as house:
        api.say(api.people[ANA], f"{TO} wait 10", group)
        await house.until(lambda: house.inbox.chats.works("tg-5"))
        new = api.migrate(group, NEW, notified=False)
        await house.until(lambda: new.texts == ["wait 10"])
        api.say(api.people[ANA], f"{TO} two", new)
        await house.until(lambda: len(new.texts) == 2)
        await house.idle()
    assert new.texts[1] == "wait 10 / two"
    assert chats_stored(tmp_path) == {"tg-5"}


async def test_a_typed_yes_in_the_new_group_answers_the_question_of_the_old_one(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api) as house:
        for number in range(9):  # in the new group messages have lower numbers
            api.say(api.people[BEN], f"chatter {number}", group)
        api.say(api.people[ANA], f"{TO} send a.txt", group)
        await house.asked(group)
        new = api.migrate(group, NEW)
        await house.until(lambda: not api.pending)
        api.say(api.people[ANA], f"{TO} yes", new)
        await house.until(lambda: "done: sent" in new.texts)
        assert house.sending.sent == ["a.txt"]
        await house.idle()


async def test_who_may_not_talk_gains_nothing_by_a_move(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, answer=slow) as house:
        api.say(api.people[ANA], f"{TO} wait 50", group)
        await house.until(lambda: house.inbox.chats.works("tg-5"))
        new = api.migrate(group, NEW)
        api.say(api.people[EVE], f"/stop{TO}", new)
        await house.until(lambda: new.texts)
        assert new.texts[0].startswith("I don't know you yet.")
        assert house.inbox.chats.works("tg-5")
        await house.until(lambda: len(new.texts) == 2, within_s=100)
        assert new.texts[1] == "wait 50"


async def test_topics_of_the_new_group_are_chats_of_the_old_one(
    tmp_path: Path, api: BotApi, group: Chat, autojump_clock: MockClock
) -> None:
    async with telegram_house(tmp_path, api, answer=slow) as house:
        api.say(api.people[ANA], f"{TO} one", group)
        await house.until(lambda: group.texts)
        new = api.migrate(group, NEW, forum=True)
        topic = api.topic(new, api.people[ANA])
        api.say(api.people[ANA], f"{TO} two", new, topic=topic)
        await house.until(lambda: new.texts)
        assert new.said[0].topic == topic
        await house.idle()
    assert chats_stored(tmp_path) == {"tg-5", f"tg-5_{topic}"}


async def test_who_waits_for_a_turn_while_the_group_moves_waits_for_one_in_the_new_group(
    autojump_clock: MockClock,
) -> None:
    moves, limits = Moves(), SendLimits(chat=(Rate(1, 10.0),), group=(Rate(1, 10.0),), margin=1.0)
    to = Destination(SharedDelivery(cast(Bot, None), limits, moves=moves), TelegramAddress(OLD))
    await to.turn()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(to.turn)
        await trio.sleep(8)
        moves.note_move(OLD, NEW)
        await limits.turn(NEW)
    assert trio.current_time() == 18.0
    assert not to.take()


# What is stored


def test_a_move_is_stored_with_its_update_once_and_chains_lead_to_the_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    old, new, newest = "tg-5", "tg-1005", "tg-2005"
    store.run(
        [
            accept_messages(
                (Incoming(update_of(1), moved=(old, new)), Incoming(update_of(2), moved=(old, new)))
            )
        ]
    )
    store.run(
        [
            accept_messages(
                (Incoming(update_of(1), moved=(old, new)), Incoming(update_of(3), moved=(new, newest)))
            )
        ]
    )
    assert store.run([moved_groups()]) == [((old, new), (old, newest))]
    store.run([accept_messages((Incoming(update_of(4), moved=(new, old)),))])
    assert store.run([moved_groups()]) == [((old, new), (old, newest))]
    store.close()


def test_what_a_message_was_called_in_the_old_group_counts_no_more(tmp_path: Path) -> None:
    store = Store(tmp_path / "state.db")
    store.run([accept_messages(tuple(Incoming(None, chat, "hi", origin=50) for chat in ("tg-5", "tg-55")))])
    store.run(
        [
            record_preview(1, 51),
            record_preview(2, 51),
            accept_messages((Incoming(update_of(3), moved=("tg-5", "tg-1005")),)),
        ]
    )
    store.run([settle("tg-5", FinalReply((1,), "done")), settle("tg-55", FinalReply((2,), "done"))])
    ((moved,), (other,)) = store.run([undelivered_replies("tg-5"), undelivered_replies("tg-55")])  # type: ignore[misc]
    assert (moved.origin, moved.preview) == (0, None)
    assert (other.origin, other.preview) == (50, 51)
    store.close()


def test_a_new_number_with_messages_of_its_own_keeps_its_chat_after_a_refusal(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "state.db")
    store.run(
        [
            accept_messages(
                (Incoming(update_of(1), "tg-1005_7", "hi"), Incoming(update_of(2), "tg-2006x", "hi"))
            )
        ]
    )
    assert store.run([record_move("tg-5", "tg-1005")]) == [False]
    assert store.run([record_move("tg-6", "tg-2006")]) == [True]
    assert store.run([record_move("tg-6", "tg-2006")]) == [True]
    assert store.run([moved_groups()]) == [(("tg-6", "tg-2006"),)]
    store.close()


def test_moves_are_read_from_either_group_and_from_no_private_chat() -> None:
    def update(number: int, chat: int, **content: object) -> dict[str, object]:
        return {"update_id": number, "message": {"chat": {"id": chat}, **content}}

    updates = [
        update(1, OLD, migrate_to_chat_id=NEW),
        update(2, NEW, migrate_from_chat_id=OLD),
        update(3, 11, migrate_to_chat_id=NEW),
        update(4, OLD, migrate_to_chat_id="x"),
        update(5, OLD, text="hi"),
        {"update_id": 6, "callback_query": {}},
    ]
    assert moves_in(updates) == {1: (OLD, NEW), 2: (OLD, NEW)}


def test_a_second_move_leads_to_the_same_chat_and_replies_go_to_the_last_number() -> None:
    moves = Moves()
    told: list[tuple[int, int]] = []
    moves.on_move = lambda old, new: told.append((old, new))
    for _ in range(2):
        moves.note_move(OLD, NEW)
        moves.note_move(NEW, -2005)
    assert [moves.here(TelegramAddress(number, 7)).chat for number in (OLD, NEW, -2005)] == ["tg-5_7"] * 3
    assert moves.now(OLD) == -2005
    assert told == [(OLD, NEW), (OLD, -2005)]
