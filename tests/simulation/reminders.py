"""Reminders in the simulation: people who set them, change them and have them come at once.

What must hold: a message sets one reminder, a reminder comes once and not before its time, and each
`/schedules run` has it come once more.
"""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

import trio

from actors import ActorRef
from rumi.store.journal.schedules import add_schedule
from rumi.store.journal.transaction import JournalMessage
from rumi.store.steps import Run
from tests.simulation.book import Book
from tests.simulation.ports import Life
from tests.simulation.sim_chats import SimChat
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.people import People

R = TypeVar("R")

PAUSES_S = (0, 0.01, 0.3, 1, 2, 4, 9, 25)
CHANGES = ("run", "run", "pause", "resume", "resume", "delete")

MOMENTS = ("sets", "reminds", "reminds")
"""When a process may die where people set reminders, besides at other times."""


class WatchedJournal:
    """The journal as schedules ask it, where a process may die when a reminder is stored."""

    def __init__(self, journal: ActorRef[JournalMessage], life: Life) -> None:
        self._journal = journal
        self._life = life

    async def ask(self, request: Run[R]) -> R:
        reply = await self._journal.ask(request)
        if request.step is add_schedule:
            self._life.moment("sets")
        return reply


class Reminders:
    """All reminders of a history. The clocks of its workers may differ by `clocks_s`."""

    def __init__(self, world: World, book: Book, *, clocks_s: float = 0.0) -> None:
        self._world = world
        self._book = book
        self._clocks_s = clocks_s
        self._dice = Random(f"people's reminders {world.seed}")

    def draw_death(self) -> tuple[str, int] | None:
        """When a process dies, if that has to do with this."""
        if self._world.reminders and self._dice.random() < 0.4:
            return self._dice.choice(MOMENTS), self._dice.choice((1, 1, 2))
        return None

    async def live(self, people: "People", sim_chats: Sequence[SimChat]) -> None:
        """Set reminders here and there, and change some."""
        async with trio.open_nursery() as nursery:
            for sim_chat in sim_chats:
                if sim_chat.people and self._world.reminders:
                    nursery.start_soon(self._live_in, people, sim_chat)

    async def _live_in(self, people: "People", sim_chat: SimChat) -> None:
        dice = self._dice
        for _ in range(dice.choice((1, 2, 3, 5))):
            await trio.sleep(dice.choice(PAUSES_S))
            person = dice.choice(sim_chat.people)
            if dice.random() < 0.6:
                minutes = dice.choice((1, 1, 1, 2))
                people.say(
                    sim_chat, f"/remind in {minutes} minutes {people.words(sim_chat, 'remember')}", person
                )
            else:
                ids = [id for (id,) in self._book.ask("SELECT id FROM schedules ORDER BY id DESC LIMIT 6")]
                number = dice.choice((*ids, 99))
                people.say(sim_chat, f"/schedules {dice.choice(CHANGES)} {number}", person)

    def unfinished(self) -> list[str]:
        """Return what has still to come, in words."""
        active = self._book.ask("SELECT id FROM schedules WHERE state = 'active'")
        return [f"the reminder {id} has not come" for (id,) in active]

    def check(self) -> None:
        """All of them, when everything is done."""
        complain, ask = self._world.complain, self._book.ask
        set_, came, runs = 0, 0, self._runs()
        for text, count in ask("SELECT text, count(*) FROM schedules GROUP BY text"):
            set_ += count
            if count > 1:
                complain(f"{text!r} was asked for once, and there are {count} such reminders")
        for chat, number, text, reply in ask(
            "SELECT messages.chat, messages.id, messages.text, outbox.text FROM messages"
            " JOIN outbox ON reply = outbox.id WHERE messages.text LIKE '/remind %'"
            " AND messages.id NOT IN (SELECT message FROM schedules WHERE message IS NOT NULL)"
        ):
            if reply.startswith("⏰") and not self._was_deleted(reply):
                complain(
                    f"{chat}: {number} {text!r} was told that its reminder is set, and it is not: {reply!r}"
                )
        for id, count in ask("SELECT schedule, count(*) FROM messages WHERE schedule > 0 GROUP BY schedule"):
            came += count
            if count > 1 + runs.get(id, 0):
                complain(f"the reminder {id} came {count} times, and was called {runs.get(id, 0)} times")
        for id, state, count in ask(
            "SELECT id, state, (SELECT count(*) FROM messages WHERE schedule = schedules.id) FROM schedules"
        ):
            if state == "done" and not count:
                complain(f"the reminder {id} is done, and never came")
        for id, text, instant, received in ask(
            "SELECT schedules.id, messages.text, fires.instant, received FROM fires"
            " JOIN messages ON messages.id = fires.message JOIN schedules ON schedules.id = fires.schedule"
            " WHERE fires.instant > 0"
        ):
            if received < instant - self._clocks_s - 0.001:
                complain(f"the reminder {id} {text!r} came {instant - received:.1f} s before its time")
        self._world.counts["reminders set"] += set_
        self._world.counts["reminders came"] += came

    def _runs(self) -> dict[int, int]:
        """Return how often people had each of them come at once."""
        runs: dict[int, int] = {}
        for (text,) in self._book.ask("SELECT text FROM messages WHERE text LIKE '/schedules run %'"):
            number = int(text.rpartition(" ")[2])
            runs[number] = runs.get(number, 0) + 1
        return runs

    def _was_deleted(self, reply: str) -> bool:
        number = reply.split(":")[0].rpartition(" ")[2]
        return bool(self._book.ask("SELECT 1 FROM messages WHERE text = ?", f"/schedules delete {number}"))
