"""Pressed buttons: what an update with one means, and that each counts once, for its chat and its person."""

import copy
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from actors import Actor, ChildSpec, Supervisor
from rumi.channels.telegram.callback import answer_in, data_of
from rumi.channels.telegram.messages import Press, Pressed, Toast
from rumi.channels.telegram.receiving.presses import ANSWER_S, MOST, Presses, read_press, read_presses
from rumi.channels.telegram.receiving.reading import Who
from rumi.channels.telegram.receiving.strangers import Strangers
from rumi.channels.telegram.receiving.updates import update_of
from rumi.store.journal.records import Incoming, Update
from tests.channels.telegram.test_poller import ANA, EVE, RecordingInbox, polling
from tests.channels.telegram.test_poller import api as api
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_api_faults import Doubled, Redelivered
from tests.fakes.bot_api_world import Json, Message

ID = "00112233445566aa"
WHO = Who(frozenset({ANA}))


class World:
    """A Telegram where the bot has asked something in several places."""

    def __init__(self) -> None:
        self.api = BotApi(lambda: 0.0)
        self.ana = self.api.user(ANA, language_code="es")
        self.eve = self.api.user(EVE)
        self.group = self.api.group(-100777, members=[self.ana, self.eve])
        self.forum = self.api.group(-100888, forum=True, members=[self.ana])
        self.api.updates.allowed = frozenset({"message", "callback_query"})

    def asked(self, where: Any, **how: Any) -> Message:
        return self.api.write(self.api.chat(where), self.api.bot, "May I?", **how)

    def press(self, person: Any, where: Any, data: str = f"{ID}:y", **how: Any) -> Json:
        """Somebody presses a button; the update."""
        self.api.press(person, self.asked(where, **how), data)
        return self.api.updates.pending[-1][1]


@pytest.fixture
def world() -> World:
    return World()


# What an update means


def test_a_press_is_read(world: World) -> None:
    update = world.press(world.ana, world.ana)
    query = update["callback_query"]
    assert read_press(update, WHO) == Press(
        update=update["update_id"],
        query=query["id"],
        user=ANA,
        known=True,
        chat="tg11",
        number=ANA,
        message=query["message"]["message_id"],
        question=ID,
        yes=True,
        language="es",
    )


def test_a_press_in_a_group_or_a_topic_is_that_chats(world: World) -> None:
    found = read_press(world.press(world.ana, world.group, f"{ID}:n"), WHO)
    assert found is not None
    assert (found.chat, found.yes) == ("tg-100777", False)
    topic = world.api.topic(world.forum, world.ana)
    found = read_press(world.press(world.ana, world.forum, topic=topic), WHO)
    assert found is not None
    assert found.chat == f"tg-100888_{topic}"


def test_people_are_known_by_their_number_alone(world: World) -> None:
    world.eve.username = world.eve.first_name = "User 11"
    found = read_press(world.press(world.eve, world.group), WHO)
    assert found is not None
    assert (found.known, found.user, found.language) == (False, EVE, "en")


def test_an_old_message_is_known_by_its_number_only(world: World) -> None:
    update = world.press(world.ana, world.ana)
    message = update["callback_query"]["message"]
    old = {"chat": message["chat"], "message_id": message["message_id"], "date": 0}
    update["callback_query"]["message"] = old
    found = read_press(update, WHO)
    assert found is not None
    assert (found.chat, found.message) == ("tg11", message["message_id"])


@pytest.mark.parametrize(
    "data",
    [
        "",
        "y",
        ID,
        f"{ID}:",
        f"{ID}:yes",
        f"{ID}:Y",
        f"{ID}:y ",
        f"{ID}:y\n",
        f"{ID.upper()}:y",
        f"{ID[1:]}:y",
        f"0{ID}:y",
        "tg12:00112233445566aa:y",
        "٠٠١١٢٢٣٣٤٤٥٥٦٦aa:y",
        '{"id": 1}',
    ],
)
def test_what_no_button_of_ours_carries_means_nothing(world: World, data: str) -> None:
    assert read_press(world.press(world.ana, world.ana, data), WHO) is None


def test_what_a_button_carries_is_read_as_it_was_written() -> None:
    for yes in (True, False):
        data = data_of(ID, yes)
        assert answer_in(data) == (ID, yes)
        assert len(data.encode()) <= 64


def test_what_hangs_on_no_message_of_a_chat_means_nothing(world: World) -> None:
    update = world.press(world.ana, world.ana)
    for change in (
        {"message": None, "inline_message_id": "AAAA"},
        {"message": {"message_id": 1, "date": 1, "chat": {"id": -5, "type": "channel"}}},
        {"data": None, "game_short_name": "chess"},
        {"from": {**update["callback_query"]["from"], "is_bot": True}},
        {"id": ""},
    ):
        assert read_press({**update, "callback_query": {**update["callback_query"], **change}}, WHO) is None
    assert read_press({"update_id": 1, "message": {"text": "hi"}}, WHO) is None


def test_what_cannot_be_read_is_logged_without_what_it_says(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    update = world.press(world.ana, world.ana)
    update["callback_query"]["from"] = "canary"
    good = world.press(world.ana, world.ana)
    with caplog.at_level(logging.DEBUG):
        assert list(read_presses([update, good], WHO)) == [good["update_id"]]
    assert "the field from is odd" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize("seed", range(200))
def test_whatever_stands_in_an_update_no_reading_fails(world: World, seed: int) -> None:
    chance = random.Random(seed)
    update = copy.deepcopy(world.press(world.ana, world.forum))
    odd = (None, True, -1, 1.5, "x", [], {}, [{}], {"id": "x"}, 2**70)
    for _ in range(chance.randint(1, 3)):
        spot: Any = update["callback_query"]
        while (deeper := [value for value in spot.values() if isinstance(value, dict) and value]) and (
            chance.random() < 0.6
        ):
            spot = chance.choice(deeper)
        spot[chance.choice(list(spot))] = chance.choice(odd)
    for press in read_presses([update], WHO).values():
        assert type(press.user) is type(press.message) is int
        assert (press.question, press.yes) == (ID, True)


# Who is asked


@dataclass
class Door:
    """Chats that answer slowly, or not at all: `asked` lists what they were asked."""

    asked: list[tuple[str, str, bool, int | None]] = field(default_factory=list)
    slow_s: dict[str, float] = field(default_factory=dict)
    counts: bool = True

    async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
        await trio.sleep(self.slow_s.get(chat, 0.01))
        self.asked.append((chat, id, yes, user))
        return self.counts


class MessageRecorder(Actor[Any]):
    def __init__(self, heard: list[Any]) -> None:
        self._heard = heard

    async def receive(self, message: Any) -> None:
        self._heard.append(message)


@dataclass
class Judging:
    presses: Presses
    nursery: trio.Nursery
    door: Door
    heard: list[Any]
    numbers: int = 0

    def press(self, chat: str = "tg11", *, yes: bool = True, known: bool = True, user: int = ANA) -> None:
        self.numbers += 1
        press = Press(self.numbers, f"q{self.numbers}", user, known, chat, 11, 7, ID, yes, "en")
        self.presses.take(press, self.nursery.start_soon)


@asynccontextmanager
async def judging() -> AsyncIterator[Judging]:
    heard: list[Any] = []
    root = Supervisor("root")
    sender = root.add(ChildSpec("sender", lambda: MessageRecorder(heard), capacity=4096))
    door = Door()
    async with root.running(), trio.open_nursery() as nursery:
        yield Judging(Presses(door, sender, Strangers(sender)), nursery, door, heard)


async def test_a_press_is_asked_for_whom_made_it_and_told_to_the_sender(autojump_clock: MockClock) -> None:
    async with judging() as at:
        at.press(yes=False)
        await trio.sleep(1)
        assert at.door.asked == [("tg11", ID, False, ANA)]
        assert at.heard == [Pressed(Press(1, "q1", ANA, True, "tg11", 11, 7, ID, False, "en"), True)]


async def test_presses_of_a_chat_are_judged_in_their_order(autojump_clock: MockClock) -> None:
    async with judging() as at:
        for number in range(20):
            at.press(yes=bool(number % 3))
        await trio.sleep(1)
        assert [yes for _, _, yes, _ in at.door.asked] == [bool(number % 3) for number in range(20)]
        assert [said.press.query for said in at.heard] == [f"q{number + 1}" for number in range(20)]


async def test_a_chat_that_does_not_answer_holds_up_no_other(autojump_clock: MockClock) -> None:
    async with judging() as at:
        at.door.slow_s["tg1"] = 1e6
        at.press("tg1")
        at.press("tg2")
        await trio.sleep(0.1)
        assert [chat for chat, *_ in at.door.asked] == ["tg2"]
        await trio.sleep(ANSWER_S)
        assert [(said.press.chat, said.counts) for said in at.heard] == [("tg2", True), ("tg1", False)]


async def test_a_flood_of_presses_is_bounded(autojump_clock: MockClock) -> None:
    async with judging() as at:
        for _ in range(10 * MOST):
            at.press()
        await trio.sleep(60)
        assert len(at.heard) == MOST
        at.press()  # and later ones are served
        await trio.sleep(1)
        assert len(at.heard) == MOST + 1


async def test_a_stranger_who_presses_is_told_once_and_no_chat_hears_of_it(autojump_clock: MockClock) -> None:
    async with judging() as at:
        for _ in range(5):
            at.press(known=False, user=EVE)
        await trio.sleep(1)
        words = "I don't know you yet. Your id is 66; ask the owner to add it to allowed_users."
        assert at.heard == [Toast("q1", words)]
        assert not at.door.asked


# The poller


class Judge(RecordingInbox):
    """A shelf that answers as chats do; `asked` lists what it was asked, `stored` what was stored by then."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, bool, int | None]] = []
        self.stored: list[set[Update | None]] = []

    async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
        await trio.lowlevel.checkpoint()
        self.asked.append((chat, id, yes, user))
        self.stored.append(set(self.seen))
        return True


def ana_presses(api: BotApi, data: str = f"{ID}:y") -> int:
    """Ana presses a button; the update's number."""
    api.press(api.people[ANA], api.write(api.chat(ANA), api.bot, "May I?"), data)
    return int(api.updates.pending[-1][1]["update_id"])


async def test_the_number_of_a_press_is_stored_and_nothing_else_before_it_is_judged(
    autojump_clock: MockClock, api: BotApi
) -> None:
    inbox = Judge()
    number = ana_presses(api)
    async with polling(api, inbox) as poller:
        await trio.sleep(1)
        assert inbox.batches == [[Incoming(update_of(number))]]
        assert inbox.asked == [("tg11", ID, True, ANA)]
        assert inbox.stored == [{update_of(number)}]
        assert [type(said) for said in poller.said] == [Pressed]
        assert not api.pending


async def test_a_press_that_could_not_be_stored_is_judged_when_it_comes_again(
    autojump_clock: MockClock, api: BotApi
) -> None:
    inbox = Judge()
    inbox.failures = 1
    ana_presses(api)
    async with polling(api, inbox):
        await trio.sleep(60)
    assert len(inbox.asked) == 1


@pytest.mark.parametrize("fault", [Doubled(), Redelivered()])
async def test_a_press_that_comes_again_is_judged_once(
    autojump_clock: MockClock, api: BotApi, fault: Any
) -> None:
    inbox = Judge()
    ana_presses(api)
    if isinstance(fault, Doubled):
        api.faults.next(fault, "getUpdates")
    async with polling(api, inbox) as poller:
        await trio.sleep(1)
        if isinstance(fault, Redelivered):
            api.faults.next(fault, "getUpdates", times=3)
        api.say(api.people[ANA], "hello")
        await inbox.got("hello")
        await trio.sleep(60)
        assert len(inbox.asked) == len(poller.said) == 1


async def test_the_poller_waits_for_no_press(autojump_clock: MockClock, api: BotApi, tmp_path: Path) -> None:
    class Stuck(Judge):
        async def answer(self, chat: str, id: str, yes: bool, user: int | None = None) -> bool:
            await trio.sleep_forever()
            raise AssertionError

    inbox = Stuck()
    async with polling(api, inbox):
        for _ in range(300):
            ana_presses(api)
        await trio.sleep(1)
        api.say(api.people[ANA], "hello")
        began = trio.current_time()
        await inbox.got("hello")
        assert trio.current_time() - began < 1
