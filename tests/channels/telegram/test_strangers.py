"""Strangers are told their number once an hour."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from actors import Actor, ActorRef, ChildSpec, Supervisor
from rumi.channels.telegram.messages import Say
from rumi.channels.telegram.receiving.reading import Stranger
from rumi.channels.telegram.receiving.strangers import Strangers
from rumi.platform.texts import telegram as telegram_texts


class Sender(Actor[Say]):
    """Keeps what it is told to say."""

    def __init__(self, said: list[Say]) -> None:
        self._said = said

    async def receive(self, message: Say) -> None:
        self._said.append(message)


@asynccontextmanager
async def sender(capacity: int = 64) -> AsyncIterator[tuple[ActorRef[Say], list[Say]]]:
    said: list[Say] = []
    root = Supervisor("root")
    ref = root.add(ChildSpec("sender", lambda: Sender(said), capacity=capacity))
    async with root.running():
        yield ref, said


def stranger(user: int = 66, *, group: bool = False) -> Stranger:
    return Stranger(1, user, "tg-100777", "es", 5) if group else Stranger(1, user, f"tg{user}", "en")


async def test_a_stranger_is_told_their_number(autojump_clock: MockClock) -> None:
    async with sender() as (ref, said):
        Strangers(ref).meet(stranger())
        await trio.testing.wait_all_tasks_blocked()
        assert said == [Say("tg66", telegram_texts.stranger("en", 66))]
        assert "66" in said[0].text


async def test_in_a_group_the_words_answer_the_strangers_message(autojump_clock: MockClock) -> None:
    async with sender() as (ref, said):
        Strangers(ref).meet(stranger(group=True))
        await trio.testing.wait_all_tasks_blocked()
        assert said == [Say("tg-100777", telegram_texts.stranger("es", 66), 5)]


async def test_a_stranger_is_told_again_after_an_hour_and_not_before(autojump_clock: MockClock) -> None:
    async with sender() as (ref, said):
        strangers = Strangers(ref)
        for _ in range(120):
            strangers.meet(stranger())
            strangers.meet(stranger(group=True))
            await trio.sleep(60)
        assert len(said) == 2


async def test_who_writes_anonymously_is_told_why_and_again_after_a_minute(autojump_clock: MockClock) -> None:
    """They may be people on the list, so an hour of silence would be too long."""
    async with sender() as (ref, said):
        strangers = Strangers(ref)
        for _ in range(4):
            strangers.meet(Stranger(1, -100777, "tg-100777", "es", 5, anonymous=True))
            await trio.sleep(30)
        assert said == [Say("tg-100777", telegram_texts.anonymous("es"), 5)] * 2


async def test_each_stranger_is_told(autojump_clock: MockClock) -> None:
    async with sender() as (ref, said):
        strangers = Strangers(ref)
        for user in (66, 67, 66, 68):
            strangers.meet(stranger(user))
        await trio.testing.wait_all_tasks_blocked()
        assert [say.chat for say in said] == ["tg66", "tg67", "tg68"]


async def test_a_crowd_of_strangers_fills_no_memory(autojump_clock: MockClock) -> None:
    async with sender(capacity=1000) as (ref, said):
        strangers = Strangers(ref, most=10)
        for user in range(100):
            strangers.meet(stranger(user))
        await trio.testing.wait_all_tasks_blocked()
        said.clear()
        for user in (99, 90, 89):  # the ten last are remembered
            strangers.meet(stranger(user))
        await trio.testing.wait_all_tasks_blocked()
        assert [say.chat for say in said] == ["tg89"]


async def test_who_was_told_last_is_remembered_longest(autojump_clock: MockClock) -> None:
    async with sender() as (ref, said):
        strangers = Strangers(ref, most=2)
        strangers.meet(stranger(1))
        strangers.meet(stranger(2))
        await trio.sleep(3600)
        for user in (1, 3, 1):
            strangers.meet(stranger(user))
        await trio.testing.wait_all_tasks_blocked()
        assert [say.chat for say in said] == ["tg1", "tg2", "tg1", "tg3"]


async def test_who_finds_the_sender_full_is_told_the_next_time(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with sender(capacity=1) as (ref, said):
        strangers = Strangers(ref)
        strangers.meet(stranger(66))
        strangers.meet(stranger(67))
        await trio.testing.wait_all_tasks_blocked()
        strangers.meet(stranger(67))
        await trio.testing.wait_all_tasks_blocked()
        assert [say.chat for say in said] == ["tg66", "tg67"]
    assert "a stranger was not told" in caplog.text
    assert "67" not in caplog.messages[0]


async def test_a_sender_that_has_stopped_harms_nobody(autojump_clock: MockClock) -> None:
    async with sender() as (ref, said):
        pass
    Strangers(ref).meet(stranger())
    assert not said
