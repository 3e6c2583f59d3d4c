"""Plays histories: one seed, one history, the same whenever it is played."""

import logging
import math
import os
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from secrets import token_hex
from unittest.mock import patch

import trio

from actors.testing import run
from rumi.agent.permissions import gate
from rumi.channels.telegram import channel
from rumi.channels.telegram.receiving.poller import Poller
from rumi.channels.telegram.sending import delivery, sender
from rumi.channels.telegram.sending.limits import SendLimits
from rumi.chats import asking, confirming, dispatcher, services, worker
from rumi.chats import chat as chat_module
from rumi.chats.commands import ChatCommand, UnknownCommand, parse_chat_command
from rumi.models.limits import CallLimits
from rumi.platform.home import Home
from rumi.store.journal import actor as journal
from rumi.tasks.schedules import clock, firing
from tests.fakes import bot_api_updates
from tests.simulation.databases import furnish, on_the_disk_of
from tests.simulation.history import History
from tests.simulation.model import MANY
from tests.simulation.ports import wait_key
from tests.simulation.steps import cheap_steps
from tests.simulation.world import Fault, World

LONG_POLL_S = 600.0
"""Most histories poll so long: to see often that nothing has happened takes its time."""

LOOK_S = 150.0
"""Nobody takes the journal's file away here: to look at it every 15 s would be a tenth of all steps."""

SOON_S = 4.0
"""After this time a chat leaves memory where another one is stuck: it is to be started again meanwhile."""

NEW_HOMES = 4
"""One home in so many has no databases before its first process makes them."""

FORMATTED = lru_cache(maxsize=4096)(delivery.format_reply)
"""Replies resemble each other, and formatting is a pure function."""


async def no_threads(work: object, *args: object, **how: object) -> None:
    """While a thread works, virtual time jumps: nothing may be left to one."""
    raise AssertionError(f"{work} was to run in a thread")


def waits_when_few(world: World) -> Callable[[CallLimits, float], float]:
    """In place of the permits' pump: a server that refused calls gets few at once, and then chats wait for
    each other as they should, also for a call that hangs."""
    pump = CallLimits.pump

    def pump_and_tell(self: CallLimits, now: float) -> float:
        again = pump(self, now)
        servers = [(server.running, server.concurrency.now) for server in self._servers.values()]
        world.waits.hold(any(running >= most and most < MANY for running, most in servers))
        return again

    return pump_and_tell


def waits_for_turn(world: World) -> Callable[[SendLimits, int], Awaitable[None]]:
    """In place of a wait for a turn to send: in a group that may take a minute, for a file as for a reply."""
    turn = SendLimits.turn

    async def turn_and_tell(self: SendLimits, number: int) -> None:
        with world.waits.of(wait_key(number)) if number < 0 else nullcontext():
            await turn(self, number)

    return turn_and_tell


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Chance and time are the simulation's."""

    def judge(text: str) -> ChatCommand | UnknownCommand | None:
        """A chat's mailbox loop breaks over some messages."""
        often = 0.8 if world.theme == "storm" else 0.5
        if text.endswith("judge") and not world.calm and world.random.random() < often:
            raise Fault("could not judge")
        return parse_chat_command(text)

    def seeded() -> Random:
        return Random(world.random.getrandbits(32))

    names = Random(f"questions {world.seed}")

    def named(nbytes: int) -> str:
        return names.randbytes(nbytes).hex()

    poll_s = world.random.choice((25.0, LONG_POLL_S, LONG_POLL_S))
    with (
        cheap_steps(world.seed),
        patch.object(bot_api_updates, "POLL_LIMIT_S", LONG_POLL_S),
        patch.dict(Poller.__init__.__kwdefaults__ or {}, {"poll_s": poll_s}),
        patch.object(journal, "WATCH_S", LOOK_S),
        patch.object(CallLimits, "pump", waits_when_few(world)),
        patch.object(SendLimits, "turn", waits_for_turn(world)),
        patch.object(gate, "token_hex", named if gate.token_hex is token_hex else gate.token_hex),
        ExitStack() as names_of_questions,
        patch.object(channel, "Random", seeded),
        patch.object(sender, "Random", seeded),
        patch.object(chat_module, "parse_chat_command", judge),
        patch.object(dispatcher, "IDLE_CHAT_S", SOON_S if world.theme == "stuck" else dispatcher.IDLE_CHAT_S),
        patch.object(delivery, "format_reply", FORMATTED),
        patch.object(delivery, "LONG", math.inf),
        patch.object(trio.to_thread, "run_sync", no_threads),
        patch.object(sqlite3, "connect", partial(sqlite3.connect, factory=on_the_disk_of(world))),
    ):
        for module in (worker, confirming, asking, services, clock, firing):
            names_of_questions.enter_context(patch.object(module, "token_hex", named))
        yield


def play(world: World) -> World:
    """Play a world's history. What was wrong in it is in the world's `wrong`."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory(dir=memory) as folder, simulated(world):

            async def whole() -> None:
                home = Home(Path(folder)).make()
                if world.seed % NEW_HOMES:
                    furnish(home)
                await History(world, home).run()

            run(whole)
    finally:
        logging.disable(before)
    return world
