"""`/stop all` in the simulation: who asks for it, and what must hold when it is confirmed.

What works when it is asked for is noted then. When its answer says that nothing is left, nothing of that may
work any more, and it may not go on later.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import trio

from rumi.app.stop_all import Everything
from rumi.chats.commands import ChatCommand
from rumi.chats.events import ChatEvent, Replied
from rumi.platform.chat_ids import TASK, task_key
from rumi.store.journal.records import Incoming
from rumi.texts import Language, gettext
from tests.simulation.book import Book
from tests.simulation.containers import Daemon
from tests.simulation.sim_chats import ANN, SimChat
from tests.simulation.tasks import Doings
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.people import People
    from tests.simulation.process import Process

ALL = ("/stop all", "/stop todo")
PAUSES_S = (0, 0.01, 0.3, 1, 2, 4, 9, 25)
BEHIND = ("/status", "/stop", "/stop all", "/help", "")
"""What may come at once behind it in its chat; empty is something to work on."""

MOMENTS = ("stop all", "stop all", "stopped all")
"""When a process may die where people ask for it, besides at other times."""

LANGUAGES: tuple[Language, ...] = ("es", "en")
REFUSED = frozenset(
    f"❌ {gettext(language, 'Only an admin may stop everything. /stop stops what I am doing here.')}"
    for language in LANGUAGES
)
_CONFIRMED = re.compile(r"⏹ (?:Detuve|Stopped) \d+ (?:turn|task)")
_LEFT = re.compile(r"⚠️ (?:Todavía no terminó|Not ended yet): ")


def names_chats(text: str) -> bool:
    """Return True for the answer to a `/stop all` that names the chats that it still stops."""
    return _LEFT.match(text) is not None


@dataclass(frozen=True, slots=True)
class Working:
    """What works when a `/stop all` is asked for, in one process: messages, turns by chat, tasks."""

    process: "Process"
    messages: frozenset[tuple[str, int]]
    turns: Mapping[str, str]
    tasks: frozenset[int]


class Stops:
    """All `/stop all` of a history. `turns` are the turns that run, by chat."""

    def __init__(
        self,
        world: World,
        book: Book,
        daemon: Daemon,
        doings: Doings,
        turns: Callable[[], Mapping[str, str]],
    ) -> None:
        self._world = world
        self._book = book
        self._daemon = daemon
        self._doings = doings
        self._turns = turns
        self._asked: dict[int, Working] = {}
        self._dice = Random(f"people's stops {world.seed}")

    # People

    def draw_death(self) -> tuple[str, int] | None:
        """When a process dies, if that has to do with this."""
        if self._world.stops and self._dice.random() < 0.4:
            return self._dice.choice(MOMENTS), self._dice.choice((1, 1, 2))
        return None

    async def live(self, people: "People", sim_chats: Sequence[SimChat]) -> None:
        """Ask for it here and there: admins mostly, others in vain, and somebody outside of all chats."""
        dice = self._dice
        open_ = [place for place in sim_chats if place.people]
        admins = [(place, member) for place in open_ for member in place.people if member.id == ANN]
        others = [(place, member) for place in open_ for member in place.people if member.id != ANN]
        for _ in range(dice.choice((1, 2, 3, 4))):
            await trio.sleep(dice.choice(PAUSES_S))
            who = admins if admins and dice.random() < 0.8 else others
            if not who or dice.random() < 0.3:
                self._call_from_outside(people)
                continue
            sim_chat, person = dice.choice(who)
            people.say(sim_chat, dice.choice(ALL), person)
            if dice.random() < 0.4:
                people.say(sim_chat, dice.choice(BEHIND) or people.words(sim_chat, "echo"), person)

    def _call_from_outside(self, people: "People") -> None:
        process = people.process
        if process is not None and process.root.state == "running" and not process.life.dead:
            process.callers.start_soon(self._outside, process)

    async def _outside(self, process: "Process") -> None:
        """`rumi stop --all`, by somebody who waits for the answer."""
        self._world.note("outside", "stop --all")
        working = self._working(process, None)
        process.life.moment("stop all")
        said = await process.everything.stop(self._dice.choice(LANGUAGES))
        self._answered(working, said)

    # What works, and what must not any more

    @contextmanager
    def asked(self, process: "Process", message: Incoming) -> Iterator[None]:
        """A chat asks for it: its next messages wait for the answer, and that for others."""
        self._world.counts["stop all"] += 1
        self._world.note(message.chat, f"asks to stop everything with {message.id}")
        self._asked[message.id] = self._working(process, message)
        with self._world.waits.of(message.chat):
            process.life.moment("stop all")
            yield
            process.life.moment("stopped all")

    def _working(self, process: "Process", asks: Incoming | None) -> Working:
        """Note what works. What stands behind a `/stop all` in its chat waits for the answer to that."""
        asking = {chat: number for number, chat in self._open_stops()}
        if asks is not None:
            asking[asks.chat] = min(asks.id, asking.get(asks.chat, asks.id))
        return Working(
            process,
            frozenset(
                (chat, number)
                for chat, numbers in process.pending.unreplied.items()
                for number in numbers
                if number < asking.get(chat, number + 1)
            ),
            dict(self._turns()),
            frozenset(
                id for (id,) in self._book.ask("SELECT id FROM tasks WHERE ended IS NULL AND NOT attached")
            ),
        )

    def _open_stops(self) -> list[tuple[int, str]]:
        """Return the first `/stop all` of each chat that is not answered."""
        return [
            (number, chat)
            for number, chat in self._book.ask(
                "SELECT min(id), chat FROM messages WHERE reply IS NULL AND text IN (?, ?) GROUP BY chat",
                *ALL,
            )
        ]

    def see(self, event: ChatEvent) -> None:
        """Look at what a chat is told."""
        if not isinstance(event.what, Replied) or event.chat.startswith(TASK):
            return
        for number in event.what.messages:
            working = self._asked.pop(number, None)
            if working is not None and not working.process.life.dead:
                self._answered(working, event.what.text)

    def _answered(self, working: Working, said: str) -> None:
        """Nothing of what worked may work any more, if that is what the answer says."""
        if not _CONFIRMED.match(said):
            self._world.counts["stop all in vain"] += said not in REFUSED
            self._world.note("stop all", "in vain", lambda: repr(said))
            if _LEFT.match(said) and not (self._world.boxes_fail or self._world.counts["disk"]):
                self._world.complain(f"not everything was stopped, and nothing kept it from that: {said!r}")
            return
        world, now, process = self._world, self._turns(), working.process
        world.counts["stopped all"] += 1
        for chat, turn in working.turns.items():
            if now.get(chat) == turn:
                world.complain(f"{chat}: everything was said to be stopped, and the turn {turn} runs")
        for chat, number in working.messages:
            if number in process.pending.unreplied.get(chat, ()):
                world.complain(f"{chat}: everything was said to be stopped, and {number} has no reply")
        for id in working.tasks:
            self._look_at_task(id, process)

    def _look_at_task(self, id: int, process: "Process") -> None:
        key, said = task_key(id), "everything was said to be stopped"
        if self._book.ask("SELECT 1 FROM tasks WHERE id = ? AND ended IS NULL", id):
            self._world.complain(f"{key}: {said}, and it goes on")
        doing, box = self._doings.of(key), self._daemon.live.get(key)
        if doing.running:
            self._world.complain(f"{key}: {said}, and it still looks")
        if box is not None and box.client is process.client and box.running and not box.doubtful:
            self._world.complain(f"{key}: {said}, and {box.running} still runs")
        doing.stopped_at = doing.stopped_at or trio.current_time()


class WatchedEverything:
    """The room that does `/stop all`, in one process, with an onlooker."""

    def __init__(self, everything: Everything, process: "Process", stops: Stops) -> None:
        self._everything = everything
        self._process = process
        self._stops = stops

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        with self._stops.asked(self._process, message):
            return await self._everything.command(message, language, command)
