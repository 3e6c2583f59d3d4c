"""Telegram's chats while nothing can be written: on a real small disk, and under another program's lock."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from rumi.channels.telegram.receiving.updates import update_of
from rumi.errors import NotTaken
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.store import backend as store_module
from rumi.store.journal.records import Attachment, Incoming
from tests.channels.telegram.house import ANA, BEN, telegram_house
from tests.fakes.bot_api import BotApi

KEPT = "⚠️ I cannot store messages right now. Telegram keeps yours for me"
WORKING = "⏳"


@pytest.fixture
def api(autojump_clock: MockClock) -> BotApi:
    api = BotApi(trio.current_time)
    api.user(ANA)
    api.user(BEN)
    return api


class Working:
    """A model that thinks for long over `work`; `stopped` counts how often it was called off."""

    def __init__(self) -> None:
        self.stopped = 0
        self.stopped_at = 0.0
        self.at_work = 0

    async def __call__(self, request: ModelRequest, emit: Emit) -> Reply:
        said = [message.content for message in request.messages if message.role == "user"][-1]
        if said.startswith("work"):
            self.at_work += 1
            try:
                await trio.sleep(float(said.split()[1]))
            except trio.Cancelled:
                self.stopped += 1
                self.stopped_at = trio.current_time()
                raise
            finally:
                self.at_work -= 1
        return Reply(f"re: {said}")


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return filler


async def test_on_a_full_disk_messages_stay_at_telegram_and_a_stop_stops(
    small_disk: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    model = Working()
    async with telegram_house(small_disk, api, answer=model) as house:
        ana, ben = api.people[ANA], api.people[BEN]
        api.say(ana, "work 5000")
        await house.until(lambda: model.at_work)
        filler = fill(small_disk)
        api.say(ben, "hello")
        api.say(ben, "are you there?")
        await house.until(lambda: api.chats[BEN].texts)
        assert api.chats[BEN].texts[0].startswith(KEPT)
        api.say(ana, "/stop")
        await house.until(lambda: model.stopped)
        await trio.sleep(600)
        assert len(api.chats[BEN].texts) == 1, "once is enough"
        assert len(api.pending) == 3, "what was not stored is not confirmed"
        assert house.root.status().children[0].restarts == 0
        filler.unlink()
        await house.until(lambda: len(api.chats[BEN].texts) == 3, within_s=60)
        await house.until(lambda: not api.pending)
        await house.idle()
        assert sorted(api.chats[BEN].texts[1:])[0].startswith("re: hello")
        assert "⏹ Stopped." in api.chats[ANA].texts
        assert model.stopped == 1
        assert all(child.restarts == 0 for child in house.root.status().children)


async def test_a_turn_that_ends_while_the_disk_is_full_is_answered_when_there_is_room(
    small_disk: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(small_disk, api, answer=Working()) as house:
        api.say(api.people[ANA], "work 30")
        await house.until(lambda: house.inbox.chats.works(f"tg{ANA}"))
        await trio.sleep(5)
        filler = fill(small_disk)
        await trio.sleep(3600)
        assert api.chats[ANA].texts == []
        assert house.activity("journal").startswith("state.db is not written: full, 1 waiting")
        filler.unlink()
        await house.until(lambda: api.chats[ANA].texts == ["re: work 30"])
        await house.idle()


async def test_a_short_lock_delays_messages_and_no_stop(
    tmp_path: Path, api: BotApi, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "LOCKED_S", 0.001)
    model = Working()
    async with telegram_house(tmp_path, api, answer=model) as house:
        api.say(api.people[ANA], "work 5000")
        await house.until(lambda: model.at_work)
        with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            api.say(api.people[ANA], "/stop")
            begun = trio.current_time()
            await house.until(lambda: model.stopped)
            assert model.stopped_at - begun < 3
            await trio.sleep(20)
            assert api.chats[ANA].texts == []
            other.execute("ROLLBACK")
        await house.until(lambda: api.chats[ANA].texts)
        assert "⏹ Stopped." in api.chats[ANA].texts
        await house.idle()


async def test_a_restart_of_the_program_on_a_full_disk_loses_no_message(
    small_disk: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    async with telegram_house(small_disk, api, answer=Working()) as house:
        api.say(api.people[ANA], "hello")
        await house.until(lambda: api.chats[ANA].texts)
        await house.idle()
        filler = fill(small_disk)
        api.say(api.people[BEN], "hello")
        await house.until(lambda: api.chats[BEN].texts)
    filler.unlink()
    async with telegram_house(small_disk, api, answer=Working()) as house:
        await house.until(lambda: "re: hello" in api.chats[BEN].texts)
        await house.idle()
    assert api.chats[ANA].texts == ["re: hello"]


async def test_a_stop_that_brings_something_along_stops_nothing_on_a_full_disk(
    small_disk: Path, api: BotApi, autojump_clock: MockClock
) -> None:
    """It is no command when it can be stored either."""
    model = Working()
    async with telegram_house(small_disk, api, answer=model) as house:
        api.say(api.people[ANA], "work 5000")
        await house.until(lambda: model.at_work)
        filler = fill(small_disk)
        file = Attachment("file", "ref", "a.txt")
        with pytest.raises(NotTaken):
            for number in range(100):  # until the last page of the log is full as well
                sent = Incoming(update_of(number + 1), f"tg{ANA}", "/stop", attachments=(file,))
                await house.inbox.accept_all([sent])
        await trio.sleep(60)
        assert model.stopped == 0
        with pytest.raises(NotTaken):
            await house.inbox.accept_all([Incoming(update_of(1000), f"tg{ANA}", "/stop")])
        await trio.sleep(1)
        assert model.stopped == 1
        filler.unlink()
