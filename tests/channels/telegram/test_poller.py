"""The poller against a Telegram in memory, in virtual time; once over real HTTP."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio
from telegram import Bot
from trio.testing import MockClock

from actors import Actor, ActorRef, Backoff, ChildSpec, RestartLimitExceeded, Supervisor
from rumi.channels.telegram.address import Moves
from rumi.channels.telegram.api.bot import Me, TokenRefused, open_bot
from rumi.channels.telegram.messages import PollerMessage, Pressed, Say, StopPolling, Toast
from rumi.channels.telegram.receiving.intake import Intake
from rumi.channels.telegram.receiving.poller import Poller
from rumi.channels.telegram.receiving.presses import Presses
from rumi.channels.telegram.receiving.reading import Who
from rumi.channels.telegram.receiving.receiver import ReceiverMemory
from rumi.channels.telegram.receiving.strangers import Strangers
from rumi.channels.telegram.receiving.updates import update_of
from rumi.chats.inbox import Inbox
from rumi.errors import RumiError
from rumi.store.journal.records import Incoming, Update
from tests.channels.telegram.memory import GuardedMemory, bot_of
from tests.chats.house import house
from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.bot_api_account import WEBHOOK
from tests.fakes.bot_api_faults import (
    Broken,
    Doubled,
    Error,
    Flood,
    Redelivered,
    Reset,
    Shuffled,
    Silent,
    Truncated,
)
from tests.fakes.bot_api_updates import CONFLICT
from tests.fakes.telegram_server import serve_telegram

ANA, EVE = 11, 66
POLL_S, GRACE_S = 25.0, 10.0


@dataclass
class RecordingInbox:
    """An inbox that keeps what it accepts, as the house's does: each number once."""

    batches: list[list[Incoming]] = field(default_factory=list)
    seen: set[Update | None] = field(default_factory=set)
    open: trio.Event = field(default_factory=trio.Event)
    failures: int = 0
    attempts: int = 0
    begins_after_s: float = 0.0
    _changed: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self.open.set()

    async def accept_all(self, arrivals: Sequence[Incoming]) -> list[bool]:
        self.attempts += 1
        self._tell()
        await trio.sleep(self.begins_after_s)
        with trio.fail_after(10_000, shield=True):  # as a disk takes its time
            await self.open.wait()
            await trio.lowlevel.checkpoint()
        if self.failures:
            self.failures -= 1
            raise RumiError("The message could not be stored.")
        self.batches.append(list(arrivals))
        new = [arrival.update not in self.seen for arrival in arrivals]
        self.seen |= {arrival.update for arrival in arrivals}
        self._tell()
        return new

    async def join_albums(self, quiet_s: float) -> float | None:
        return None

    @property
    def texts(self) -> list[str]:
        """What was accepted, in order; repetitions too."""
        return [arrival.text for batch in self.batches for arrival in batch if arrival.chat]

    async def until(self, condition: Callable[[], bool], within_s: float = 600) -> None:
        with trio.fail_after(within_s):
            while not condition():
                await self._changed.wait()

    async def got(self, *texts: str, within_s: float = 600) -> None:
        await self.until(lambda: set(texts) <= set(self.texts), within_s)

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


Words = Say | Toast | Pressed


class Sender(Actor[Words]):
    def __init__(self, said: list[Any]) -> None:
        self._said = said

    async def receive(self, message: Words) -> None:
        self._said.append(message)


@dataclass
class Polling:
    """A running poller."""

    api: BotApi
    inbox: RecordingInbox
    root: Supervisor
    ref: ActorRef[PollerMessage]
    memory: ReceiverMemory
    said: list[Any]

    def activity(self) -> str:
        return self.root.status().children[1].activity

    def polls(self) -> list[Any]:
        """The calls of getUpdates, in order."""
        return [call for call in self.api.calls if call.method == "getUpdates"]


@asynccontextmanager
async def polling(
    api: BotApi,
    inbox: Any,
    *,
    bot: Bot | None = None,
    memory: ReceiverMemory | None = None,
    max_restarts: int = 3,
    **settings: Any,
) -> AsyncIterator[Polling]:
    bot = bot or bot_of(api)
    said: list[Any] = []
    root = Supervisor("rumi", strategy="rest_for_one", max_restarts=max_restarts)
    sender = root.add(ChildSpec("sender", lambda: Sender(said)))
    strangers = Strangers(sender)
    presses = Presses(inbox, sender, strangers)
    memory = memory or ReceiverMemory()
    moves, say = settings.pop("moves", Moves()), settings.pop("say", lambda words: None)
    intake = Intake(inbox, strangers, presses, Who(frozenset({ANA})), moves=moves, hears=True, say=say)
    settings = {"poll_s": POLL_S, "grace_s": GRACE_S, **settings}
    ref = root.add(
        ChildSpec(
            "poller",
            lambda: Poller(
                bot,
                intake,
                memory,
                random=Random(1),
                **settings,
            ),
        )
    )
    async with root.running():
        yield Polling(api, inbox, root, ref, memory, said)


@pytest.fixture
def api() -> BotApi:
    api = BotApi(trio.current_time)
    api.user(ANA)
    api.user(EVE)
    return api


@pytest.fixture
def inbox() -> RecordingInbox:
    return RecordingInbox()


def ana_says(api: BotApi, *texts: str) -> None:
    for text in texts:
        api.say(api.people[ANA], text)


# What comes


async def test_messages_are_stored_in_their_order_and_then_confirmed(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    ana_says(api, "one", "two")
    async with polling(api, inbox):
        await inbox.got("one", "two")
        ana_says(api, "three")
        await inbox.got("three")
        await trio.sleep(1)
        assert inbox.texts == ["one", "two", "three"]
        assert len(api.confirmed) == 3
        assert not api.pending


async def test_nothing_is_confirmed_before_it_is_stored(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    ana_says(api, "one")
    inbox.open = trio.Event()
    async with polling(api, inbox) as poller:
        await inbox.until(lambda: inbox.attempts == 1)
        await trio.sleep(1000)
        assert len(poller.polls()) == 1
        assert poller.activity().startswith("storing 1 ")
        assert api.pending
        inbox.open.set()
        await inbox.got("one")
        await trio.sleep(1)
        assert not api.pending


async def test_a_long_poll_is_answered_as_soon_as_somebody_writes(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox) as poller:
        await trio.sleep(100)
        assert 3 <= len(poller.polls()) <= 5
        assert poller.activity() == "polling, no update yet"
        began = trio.current_time()
        ana_says(api, "hello")
        await inbox.got("hello")
        assert trio.current_time() - began < 1
        await trio.sleep(12)
        assert poller.activity() == "polling, last update 12 s ago"


async def test_only_messages_and_pressed_buttons_are_asked_for(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox) as poller:
        await trio.sleep(1)
        assert api.updates.allowed == {"message", "edited_message", "callback_query"}
        assert poller.polls()[0].params["timeout"] == 25


async def test_what_is_ignored_leaves_its_number_only(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    group = api.group(-100777)
    api.say(api.people[ANA], "to nobody in particular", group)
    async with polling(api, inbox):
        await inbox.until(lambda: bool(inbox.batches))
        assert inbox.batches == [[Incoming(update_of(500_000_000))]]


async def test_a_stranger_is_told_once_and_their_words_are_not_stored(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox) as poller:
        api.say(api.people[EVE], "let me in")
        await inbox.until(lambda: bool(inbox.batches))
        api.faults.next(Redelivered(), "getUpdates")
        api.say(api.people[EVE], "please")
        await trio.sleep(60)
        assert all(arrival == Incoming(arrival.update) for batch in inbox.batches for arrival in batch)
        assert [say.chat for say in poller.said] == ["tg66"]


async def test_a_stranger_is_not_told_of_what_came_before(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox) as poller:
        api.say(api.people[EVE], "let me in")
        await trio.sleep(3 * 3600)
        assert api.updates.redeliver(1)
        await trio.sleep(60)
        assert len(inbox.batches) == 2
        assert len(poller.said) == 1


async def test_an_album_that_comes_in_pieces_is_one_message(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox), trio.open_nursery() as nursery:
        await trio.sleep(1)

        async def send() -> None:
            for name in ("a.txt", "b.txt", "c.txt"):
                caption = {"caption": "these"} if name == "b.txt" else {}
                api.send_document(api.people[ANA], name, b"x", media_group_id="7", **caption)
                await trio.sleep(0.2)
            ana_says(api, "and?")

        nursery.start_soon(send)
        await inbox.got("these", "and?")
        accepted = [arrival for batch in inbox.batches for arrival in batch if arrival.chat]
        assert [len(arrival.attachments) for arrival in accepted] == [3, 0]


async def test_an_album_keeps_nobody_waiting_for_long(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox):
        await trio.sleep(1)
        api.send_document(api.people[ANA], "a.txt", b"x", caption="this", media_group_id="7")
        await inbox.got("this", within_s=1.5)


# Trouble


@pytest.mark.parametrize("fault", [Broken(502), Broken(500), Reset(), Truncated(), Error(400), Error(403)])
async def test_trouble_is_waited_out(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox, fault: Any
) -> None:
    api.faults.often(1.0, fault, "getUpdates")
    async with polling(api, inbox) as poller:
        ana_says(api, "hello")
        await trio.sleep(60)
        assert poller.activity().startswith("waits ")
        assert not inbox.texts
        api.faults.clear()
        await inbox.got("hello", within_s=31)
        await trio.sleep(1)
        assert poller.activity() == "polling, last update 1 s ago"


async def test_waits_grow_up_to_a_bound_and_start_over_after_success(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox):
        await trio.sleep(1)
        api.faults.next(Broken(502), "getUpdates", times=10)
        await trio.sleep(300)
        times = [injected.time for injected in api.faults.injected]
        waits = [after - before for before, after in pairwise(times)]
        assert len(waits) == 9
        assert 1 <= waits[0] <= 2.3
        assert all(15 <= wait <= 30.3 for wait in waits[4:])
        assert len(set(waits[4:])) > 1  # by chance
        api.faults.next(Broken(502), "getUpdates", times=2)
        await trio.sleep(100)
        again = [injected.time for injected in api.faults.injected][10:]
        assert 1 <= again[1] - again[0] <= 2.3


async def test_a_server_that_says_nothing_is_given_up_and_asked_again(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox):
        await trio.sleep(1)
        api.faults.next(Silent(), "getUpdates")
        ana_says(api, "hello")
        await inbox.got("hello", within_s=2 * POLL_S + GRACE_S + 5)


class Dripping(GuardedMemory):
    """An answer that never ends, in pieces that come before anybody loses patience with the silence."""

    __slots__ = ()

    async def do_request(self, url: str, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        return await super().do_request(url, *args, **{**kwargs, "read_timeout": None})


async def test_an_answer_that_never_ends_is_given_up(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.faults.next(Silent(), "getMe")
    api.faults.next(Silent(), "getUpdates")
    api.faults.next(Silent(), "setMyCommands")
    ana_says(api, "hello")
    bot = Bot(TOKEN, request=Dripping(api), get_updates_request=Dripping(api))
    async with polling(api, inbox, bot=bot):
        await inbox.got("hello", within_s=GRACE_S + POLL_S + GRACE_S + 10)


async def test_as_long_as_telegram_wants_to_be_left_alone_it_is(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox) as poller:
        await trio.sleep(1)
        api.faults.next(Flood(100), "getUpdates")
        ana_says(api, "hello")
        await inbox.got("hello")
        await trio.sleep(30)
        number = len(poller.polls())
        assert "to wait for" in poller.activity()
        await trio.sleep(60)
        assert len(poller.polls()) == number
        await trio.sleep(15)
        assert len(poller.polls()) > number


async def test_another_program_with_this_bot_is_told_of_and_waited_for(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.faults.next(Error(409, CONFLICT), "getUpdates", times=3)
    async with polling(api, inbox) as poller:
        await trio.sleep(0.5)
        assert poller.activity() == "waits 1 s: another program polls with this bot's token"
        ana_says(api, "hello")
        await inbox.got("hello", within_s=20)


async def test_two_programs_with_one_bot_lose_nothing_between_them(
    autojump_clock: MockClock, api: BotApi
) -> None:
    mine, theirs = RecordingInbox(), RecordingInbox()
    async with polling(api, mine), polling(api, theirs, waits=Backoff(3.0, 2.0, 20.0)):
        for number in range(20):
            ana_says(api, f"message {number}")
            await trio.sleep(7)
        await trio.sleep(120)
        assert not api.pending
        assert {*mine.texts, *theirs.texts} == {f"message {number}" for number in range(20)}


async def test_a_webhook_is_removed_and_what_waited_is_kept(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.account.webhook = "https://example.org/hook"
    ana_says(api, "sent while there was a webhook")
    async with polling(api, inbox):
        await inbox.got("sent while there was a webhook", within_s=10)
        assert not api.account.webhook


async def test_a_webhook_that_cannot_be_removed_is_waited_for(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.account.webhook = "https://example.org/hook"
    api.faults.next(Broken(502), "deleteWebhook", times=3)
    async with polling(api, inbox) as poller:
        await trio.sleep(2.5)
        assert "webhook" in poller.activity()
        assert WEBHOOK.partition(";")[0].removeprefix("Conflict: ") in poller.activity()
        ana_says(api, "hello")
        await inbox.got("hello", within_s=60)


async def test_who_the_bot_is_is_asked_with_patience(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.faults.next(Reset(), "getMe", times=3)
    api.faults.next(Silent(), "getMe")
    ana_says(api, "hello")
    async with polling(api, inbox) as poller:
        await trio.sleep(0.5)
        assert poller.activity().startswith("waits ")
        await inbox.got("hello", within_s=60)
        assert poller.memory.me == Me(7_000_000_001, "rumi_test_bot", reads_groups=True)


async def test_a_worker_that_was_not_to_poll_while_it_asked_who_the_bot_is_polls_later(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.faults.next(Reset(), "getMe", times=3)
    serves = trio.Event()
    async with polling(api, inbox, polls=serves.is_set):
        await trio.sleep(60)
        assert not [call for call in api.calls if call.method == "getUpdates"]
        serves.set()
        ana_says(api, "hello")
        await inbox.got("hello", within_s=60)


async def test_a_bot_that_is_known_already_is_not_asked(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox, memory=ReceiverMemory(me=Me(7_000_000_001, "rumi_test_bot"))):
        await trio.sleep(1)
        assert not [call for call in api.calls if call.method == "getMe"]


async def test_a_token_that_is_refused_later_ends_the_program(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    with pytest.raises(RestartLimitExceeded) as ended:
        async with polling(api, inbox):
            await trio.sleep(1)
            api.faults.often(1.0, Error(401), "getUpdates")
            await trio.sleep(60)
    assert isinstance(ended.value.__cause__, TokenRefused)
    assert TOKEN not in str(ended.value)


async def test_a_token_that_is_refused_for_a_moment_does_not_end_the_program(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox):
        await trio.sleep(1)
        api.faults.next(Error(404), "getUpdates", times=2)
        api.faults.next(Error(401), "getUpdates")
        await trio.sleep(60)
        ana_says(api, "hello")
        await inbox.got("hello")
        assert len(api.faults.injected) == 3


async def test_a_token_that_is_refused_at_once_ends_the_program(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.faults.often(1.0, Error(401))
    with pytest.raises(RestartLimitExceeded) as ended:
        async with polling(api, inbox):
            await trio.sleep(60)
    assert isinstance(ended.value.__cause__, TokenRefused)
    assert len(api.faults.injected) == 1  # a restart knows


async def test_what_could_not_be_stored_comes_again(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    ana_says(api, "one", "two")
    inbox.failures = 2
    async with polling(api, inbox):
        await inbox.got("one", "two")
        await trio.sleep(1)
        assert inbox.attempts == 3
        assert inbox.texts == ["one", "two"]
        assert not api.pending


async def test_an_update_that_cannot_be_read_does_not_hold_up_the_others(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    ana_says(api, "before")
    api.updates.add("message", {"message_id": [], "chat": 5, "from": {"id": ANA}})
    ana_says(api, "after")
    async with polling(api, inbox):
        await inbox.got("before", "after")
        await trio.sleep(1)
        assert len(api.confirmed) == 3


async def test_numbers_that_start_over_lower_are_taken(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox) as poller:
        ana_says(api, "before")
        await inbox.got("before")
        await trio.sleep(3600)
        assert "offset" not in poller.polls()[-1].params
        api.restart_ids(500_000_000 - 5)  # so near that an old offset would stand just above it
        ana_says(api, "after")
        await inbox.got("after", within_s=5)
        await trio.sleep(30)
        assert not api.pending


async def test_a_server_that_answers_at_once_with_nothing_is_not_asked_all_the_time(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with polling(api, inbox) as poller:
        waiting = api.updates.get
        monkeypatch.setattr(
            api.updates, "get", lambda offset, limit, timeout_s, allowed: waiting(offset, limit, 0, allowed)
        )
        await trio.sleep(10)
        assert len(poller.polls()) <= 102
        ana_says(api, "hello")
        await inbox.got("hello", within_s=0.5)


async def test_a_server_that_repeats_itself_is_not_asked_all_the_time(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana_says(api, "hello")
    monkeypatch.setattr(api.updates, "_confirm", lambda number: None)
    async with polling(api, inbox) as poller:
        await inbox.got("hello")
        await trio.sleep(100)
        assert len(poller.polls()) < 20
        assert "repeats" in poller.activity()


@dataclass
class Unsteady:
    """An inbox in front of which the poller crashes now and then, before or after the storing."""

    inbox: Inbox
    chance: Random

    async def accept_all(self, arrivals: Sequence[Incoming]) -> list[bool]:
        if self.chance.random() < 0.05:
            raise RumiError("before")
        new = await self.inbox.accept_all(arrivals)
        if self.chance.random() < 0.05:
            raise RumiError("after")
        return new

    async def join_albums(self, quiet_s: float) -> float | None:
        return await self.inbox.join_albums(quiet_s)


async def test_whatever_happens_on_the_way_everything_is_accepted_once(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """With the real journal: a hundred messages through all kinds of trouble, crashes of the poller too."""
    api = BotApi(trio.current_time, seed=5)
    api.user(ANA)
    faults = (
        *(Reset(), Reset(after=True), Broken(502), Silent(), Silent(after=True), Truncated(), Flood(3)),
        *(Redelivered(3), Doubled(), Shuffled(), Error(409, CONFLICT)),
    )
    for fault in faults:
        api.faults.often(0.04, fault, "getUpdates")
    async with house(tmp_path, now=trio.current_time) as home:
        with home.services.hub.listening() as events:
            async with polling(api, Unsteady(home.inbox, api.random), max_restarts=100):
                for number in range(100):
                    ana_says(api, f"/unknown{number}")
                    await trio.sleep(api.random.random() * 20)
                api.faults.clear()
                await trio.sleep(300)
            replies = []
            while events._queue:
                replies.append((await events.receive()).what)
        assert not api.pending
        assert sorted(reply.text for reply in replies) == sorted(  # type: ignore[union-attr]
            f"I don't know the command /unknown{number}. /help lists those that I know."
            for number in range(100)
        )


# The end


async def test_it_stops_at_once_and_never_polls_again(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox) as poller:
        ana_says(api, "before")
        await inbox.got("before")
        await trio.sleep(5)
        began = trio.current_time()
        await poller.ref.ask(StopPolling())
        assert trio.current_time() == began
        assert poller.activity() == "takes no more updates"
        await trio.sleep(5)
        number = len(poller.polls())
        ana_says(api, "after")
        await trio.sleep(1000)
        assert len(poller.polls()) == number
        assert inbox.texts == ["before"]
        await poller.ref.ask(StopPolling())


async def test_a_stop_waits_for_what_is_being_stored(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    ana_says(api, "hello")
    inbox.open = trio.Event()
    inbox.begins_after_s = 10
    async with polling(api, inbox) as poller, trio.open_nursery() as nursery:
        await inbox.until(lambda: inbox.attempts == 1)
        nursery.start_soon(poller.ref.ask, StopPolling())
        await trio.sleep(100)
        assert len(nursery.child_tasks) == 1
        inbox.open.set()
        await trio.sleep(1)
        assert not nursery.child_tasks
        assert inbox.texts == ["hello"]


async def test_after_a_stop_what_was_stored_is_confirmed_and_nothing_else(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox) as poller:
        await trio.sleep(1)
        inbox.open = trio.Event()
        ana_says(api, "hello")
        await inbox.until(lambda: inbox.attempts == 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.ref.ask, StopPolling())
            await trio.sleep(1)
            ana_says(api, "too late")
            inbox.open.set()
        await trio.sleep(2)
        assert len(api.confirmed) == 1
        assert len(api.pending) == 1


@pytest.mark.parametrize("fault", [Broken(502), Reset(), None])
async def test_a_stop_ends_every_kind_of_waiting(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox, fault: Any
) -> None:
    if fault is not None:
        api.faults.often(1.0, fault)
    async with polling(api, inbox) as poller:
        await trio.sleep(40)
        with trio.fail_after(0.1):
            await poller.ref.ask(StopPolling())


async def test_a_stop_may_come_before_the_first_poll(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.faults.often(1.0, Silent())
    for _ in range(20):  # the order of tasks is trio's choice
        async with polling(api, inbox) as poller:
            with trio.fail_after(0.1):
                await poller.ref.ask(StopPolling())


async def test_after_a_stop_a_restart_does_not_poll_again(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    memory = ReceiverMemory()
    async with polling(api, inbox, memory=memory) as poller:
        await poller.ref.ask(StopPolling())
    api.calls.clear()
    ana_says(api, "hello")
    async with polling(api, inbox, memory=memory) as poller:
        await trio.sleep(100)
        assert not api.calls
        assert poller.activity() == "takes no more updates"
        await poller.ref.ask(StopPolling())


async def test_the_end_confirms_what_was_stored(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox):
        await trio.sleep(1)
        inbox.open = trio.Event()
        ana_says(api, "hello")
        await inbox.until(lambda: inbox.attempts == 1)
        inbox.open.set()
        await inbox.got("hello")
    assert len(api.confirmed) == 1


async def test_the_end_does_not_wait_long_for_a_confirmation(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    async with polling(api, inbox):
        await trio.sleep(1)
        api.faults.often(1.0, Silent(), "getUpdates")
        ana_says(api, "hello")
        await inbox.got("hello")
        await trio.sleep(1)
        began = trio.current_time()
    assert trio.current_time() - began < 2.1


# Commands


async def test_the_commands_are_registered_once_and_nobody_waits_for_it(
    autojump_clock: MockClock, api: BotApi, inbox: RecordingInbox
) -> None:
    api.faults.next(Silent(), "setMyCommands")
    ana_says(api, "hello")
    inbox.failures = 1
    async with polling(api, inbox):
        await inbox.got("hello", within_s=5)
        await trio.sleep(120)
        assert len(api.account.commands) == 4
        inbox.failures = 1
        ana_says(api, "again")
        await inbox.got("again")
        await trio.sleep(120)
        assert sum(1 for call in api.calls if call.method == "setMyCommands") == 4


async def test_it_works_over_real_http() -> None:
    api = BotApi(trio.current_time)
    inbox = RecordingInbox()
    async with serve_telegram(api) as server, open_bot(TOKEN, server.root) as bot:
        api.user(ANA)
        api.user(EVE)
        ana_says(api, "one")
        async with polling(api, inbox, bot=bot, poll_s=1.0, grace_s=1.0) as poller:
            await inbox.got("one", within_s=10)
            ana_says(api, "two")
            await inbox.got("two", within_s=10)
            api.faults.next(Reset(), "getUpdates")
            ana_says(api, "three")
            await inbox.got("three", within_s=10)
            api.say(api.people[EVE], "let me in")
            await inbox.until(lambda: len(inbox.batches[-1]) == 1 and not inbox.batches[-1][0].chat, 10)
            await poller.ref.ask(StopPolling())
            assert [say.chat for say in poller.said] == ["tg66"]
        assert inbox.texts == ["one", "two", "three"]
        assert not api.pending
