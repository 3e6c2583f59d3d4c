"""The watcher of a mailbox: looks for new mails, hands them on in order, and then stores how far it is.

Each look is a connection of its own. A mail that was handed on before its position was stored comes again;
its taker knows it by its marks.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Final, Protocol, TypeAlias

import trio
from typing_extensions import override

from actors import Actor, ActorError, Backoff, Request, answers
from rumi.errors import RumiError
from rumi.services.mail.messages import FoundMail, MailQuery, MailsFound
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.mail_positions import MailPosition, mail_position, move_mail_position

logger = logging.getLogger(__name__)

WAITS: Final = Backoff(first_s=5.0, factor=2.0, cap_s=900.0)
"""Pauses after a failure, in seconds. Each is randomly shortened by up to a half."""

REST_S: Final = 1.0
"""Interval at which a process checks which worker watches a mailbox, in seconds."""

BATCH: Final = 50
"""Maximum number of mails that one connection lists."""

MOST_NEW: Final = 1000
"""Maximum number of mails of a folder that are handed on in one look."""

RENUMBERED_DAYS: Final = 3
"""If a server numbers a folder anew, the mails of so many days are offered again."""

Take: TypeAlias = Callable[[Sequence[FoundMail]], Awaitable[Sequence[FoundMail]]]
"""Takes new mails of a folder, oldest first. Returns those that cannot be decided now: they come again.

Raises a RumiError if nothing can be taken now.
"""


class ListsMails(Protocol):
    """Lists mails: `rumi.services.mail.client.Mailbox`."""

    async def new_since(
        self, folder: str, position: MailPosition | None, most: int
    ) -> tuple[MailPosition, tuple[FoundMail, ...]]:
        """Return up to `most` mails after a position, oldest first, and the new position."""
        ...

    async def search(self, query: MailQuery) -> MailsFound:
        """Return the newest mails that match."""
        ...


@dataclass(frozen=True, slots=True)
class StopWatching(Request[None]):
    """Take no more mails. Answered when none is being taken; a restarted actor takes none either."""


@dataclass(slots=True)
class WatchMemory:
    """What outlives restarts of a watcher: if it has ended, what it found, and what is in its way."""

    ended: bool = False
    found: int = 0
    trouble: str = ""
    looked: bool = False


@dataclass(frozen=True, slots=True)
class WatchedMailbox:
    """A mailbox to watch: its `name`, its `account` at its server, and who takes the mails of each folder."""

    name: str
    account: str
    mailbox: ListsMails
    folders: Mapping[str, Take]
    poll_s: float
    memory: WatchMemory = field(default_factory=WatchMemory)


class MailWatcher(Actor[StopWatching]):
    """Watches the folders of one mailbox, while `serves` returns True: of several workers, one watches."""

    def __init__(
        self,
        watched: WatchedMailbox,
        ask: AskJournal,
        *,
        serves: Callable[[], bool] = lambda: True,
        figures: Callable[[], Mapping[str, object]] = dict,
        random: Random | None = None,
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self._watched = watched
        self._memory = watched.memory
        self._ask = ask
        self._serves = serves
        self._figures = figures
        self._random = random or Random()
        self._today = today
        self._looking = trio.CancelScope()
        self._deferred: dict[str, dict[int, FoundMail]] = {folder: {} for folder in watched.folders}
        self._at: dict[str, MailPosition] = {}  # further than what is stored, while mails wait
        self._ended = trio.Event()

    async def started(self) -> None:
        """Begin to watch."""
        self.start_soon(self._watch)

    @override
    def activity(self) -> str:
        if self._memory.ended:
            return "takes no more mails"
        if not self._serves():
            return "another worker watches"
        return f"waits: {self._memory.trouble}" if self._memory.trouble else "watching"

    @override
    def metrics(self) -> Mapping[str, object]:
        deferred = sum(map(len, self._deferred.values()))
        unready = "the mailbox was not reached yet" if not self._memory.looked and self._serves() else None
        figures: dict[str, object] = {
            "mails": self._memory.found,
            "deferred": deferred,
            "trouble": self._memory.trouble or None,
        }
        return {**figures, **self._figures(), **({"unready": unready} if unready else {})}

    @answers(StopWatching)
    async def stop_watching(self, message: StopWatching) -> None:
        """End watching; a mail that is being taken is taken first."""
        self._memory.ended = True
        self._looking.cancel()
        await self._ended.wait()

    async def _watch(self) -> None:
        attempt = 0
        try:
            while not self._memory.ended:
                if not self._serves():
                    self._at.clear()
                    await self._pause(REST_S)
                    continue
                try:
                    for folder, take in self._watched.folders.items():
                        await self._look(folder, take)
                except Exception as error:  # a mailbox must not end what runs below it
                    trouble = error.message if isinstance(error, RumiError) else type(error).__name__
                    if not isinstance(error, RumiError | ActorError):
                        logger.exception("mails of %s were not read", self._watched.account)
                    if trouble != self._memory.trouble:
                        logger.warning("no mails of %s: %s", self._watched.account, trouble)
                    self._memory.trouble = trouble
                    await self._pause(WAITS.delay_s(attempt) * self._random.uniform(0.5, 1.0))
                    attempt += 1
                    continue
                if self._memory.trouble:
                    logger.info("the mailbox %s answers again", self._watched.account)
                self._memory.trouble, self._memory.looked, attempt = "", True, 0
                await self._pause(self._watched.poll_s * self._random.uniform(0.9, 1.1))
        finally:
            self._ended.set()

    async def _pause(self, seconds: float) -> None:
        with trio.CancelScope() as self._looking:
            if self._memory.ended:
                return
            await trio.sleep(seconds)

    async def _look(self, folder: str, take: Take) -> None:
        """Take the new mails of a folder. The first look at a folder begins at its end."""
        account = self._watched.account
        position = self._at.get(folder) or await self._ask(mail_position(account, folder))
        mails: list[FoundMail] = []
        more, waiting = True, self._deferred[folder]
        while more and len(mails) < MOST_NEW and not self._memory.ended:
            found_position, found = await self._watched.mailbox.new_since(folder, position, BATCH)
            if position is not None and found_position.validity != position.validity:
                found = await self._renumbered(folder)
                waiting.clear()
            more = len(found) == BATCH and found_position != position
            position = found_position
            mails += found
        if position is None or self._memory.ended:
            return
        offered = [*waiting.values(), *mails]  # those that waited are older
        later = await take(offered) if offered else ()
        self._memory.found += len(mails)
        self._at[folder] = position
        self._deferred[folder] = {mail.uid: mail for mail in later}
        # Not beyond a mail that waits: the next process has to find it.
        upto = min([position.upto, *(mail.uid - 1 for mail in later)])
        await self._ask(move_mail_position(account, folder, MailPosition(position.validity, upto)))

    async def _renumbered(self, folder: str) -> tuple[FoundMail, ...]:
        """Return the mails of the last days, because their numbers say nothing any more, oldest first."""
        since = self._today() - timedelta(days=RENUMBERED_DAYS)
        result = await self._watched.mailbox.search(MailQuery(folder=folder, since=since, most=BATCH * 4))
        return tuple(sorted(result.mails, key=lambda mail: mail.uid))
