"""Budgets in the simulation: each model call that was reserved is settled once, whatever ends in between."""

from typing import Any, Final

from rumi.chats.budgets.meter import Rules
from rumi.models.metering import Limit
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.spending import reserve_call, settle_call
from tests.simulation.book import Book
from tests.simulation.world import World

RULES: Final = Rules({}, (Limit("owner", "tokens", "day", 10**12),))
"""A limit that holds for all, and that nobody reaches."""


class Purse:
    """What all processes of a history have asked for and heard, by the keys of reservations.

    `asked`: a reservation may be stored. `granted`: it is. `freed`: it may be settled as having used nothing.
    `released`: it is.
    """

    def __init__(self, world: World, *, alone: bool = True) -> None:
        """Not `alone`, a worker that takes over may have counted what the earlier one frees later."""
        self._world = world
        self._alone = alone
        self._asked: set[str] = set()
        self._granted: set[str] = set()
        self._freed: set[str] = set()
        self._released: set[str] = set()

    def watch(self, ask: AskJournal) -> AskJournal:
        """Return the journal's `ask`, at which this stands."""

        async def watched(request: Any) -> Any:
            free = request.step is settle_call and request.args[2] == ()
            again = free and request.args[0] in self._freed  # it may be counted by now, by a start in between
            if request.step is reserve_call:
                self._asked.add(request.args[0])
            elif free:
                self._freed.add(request.args[0])
            reply = await ask(request)
            if request.step is reserve_call and reply is None:
                self._granted.add(request.args[0])
            elif free and self._alone and not again:
                self._released.add(request.args[0])
            return reply

        return watched

    def check(self, book: Book) -> None:
        """Complain about calls that were counted twice or not at all, and of reservations that are left."""
        if left := book.ask("SELECT key, chat, created FROM reservations"):
            self._world.complain(f"model calls are still reserved: {left}")
        ((counted,),) = book.ask("SELECT coalesce(sum(calls), 0) FROM usage") or [(0,)]
        least, most = len(self._granted - self._freed), len(self._asked - self._released)
        self._world.counts["reserved calls"] += len(self._granted)
        if not least <= counted <= most:
            self._world.complain(f"{counted} model calls were counted, of {least} to {most} that there were")
