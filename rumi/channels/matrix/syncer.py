"""The receiver of an account: syncs, stores what has come together with the new position, and goes on.

An event that was stored before the position comes again is known by its id.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import trio
from typing_extensions import override

from actors import Actor, ActorError, Backoff, Request, answers
from rumi.channels.matrix.api import MatrixError
from rumi.channels.matrix.intake import MatrixIntake, MatrixPeople
from rumi.channels.matrix.reading import event_of, fields, inviter_of, items, rooms_in, text
from rumi.channels.matrix.rooms import Rooms
from rumi.channels.matrix.wire import AccountWire, new_salt
from rumi.errors import ConfigError, NotTaken, RumiError
from rumi.store.journal.actor import AskJournal
from rumi.store.journal.matrix import SyncBatch, accept_sync, chats_in_room, matrix_position

logger = logging.getLogger(__name__)

WAITS: Final = Backoff(first_s=1.0, factor=2.0, cap_s=60.0)
"""Pauses after a failure, in seconds. Each is randomly shortened by up to a half."""

REST_S: Final = 0.25
"""Interval at which a process checks which worker syncs, in seconds."""

POLL_S: Final = 25.0
"""For how long the server may wait for something to happen, in seconds."""

LEAST_S: Final = 0.05
"""Minimum time of a sync, in seconds, for a server that answers at once."""

UNSTORED_S: Final = 1.0

REFUSALS: Final = 3
"""Number of retries of a refused token, because a server under repair may refuse any token."""

TIMELINE: Final = 100
PAGES: Final = 10
"""Number of events of a room that one sync brings, and of further pages that are read of what it left out."""

JOIN_ATTEMPTS: Final = 5
DECISIONS: Final = 4
"""Maximum number of invitations that are answered at the same time, so that many do not delay replies."""

MOST_POSITION: Final = 4_000
"""Maximum length of a position, in characters. It is part of an address."""

_STATE: Final = ("m.room.member", "m.room.encryption")
_KINDS: Final = ("m.room.message", "m.room.encrypted", "m.room.redaction", "m.reaction", *_STATE)
_NONE: Final[dict[str, Any]] = {"types": []}
FILTER: Final[dict[str, Any]] = {
    "presence": _NONE,
    "account_data": _NONE,
    "room": {
        "account_data": _NONE,
        "ephemeral": _NONE,
        "state": {"types": list(_STATE), "lazy_load_members": True},
        "timeline": {"types": list(_KINDS), "limit": TIMELINE, "lazy_load_members": True},
    },
}
_INVITES: Final[dict[str, Any]] = {
    **FILTER,
    "room": {**FILTER["room"], "state": _NONE, "timeline": {"types": [], "limit": 1}},
}


def _position(found: object) -> str:
    """Return the position after the answer to a sync.

    Raises:
        MatrixError: The answer has none, or one with which no sync can continue.
    """
    position = text(found, "next_batch") or ""
    if not position or len(position) > MOST_POSITION or not position.isprintable():
        raise MatrixError("The homeserver's answer cannot be used.", kind="unknown")
    return position


class MatrixTokenRefused(ConfigError):
    """The homeserver does not know the token."""

    def __init__(self, name: str) -> None:
        super().__init__(
            "The homeserver does not accept the token of matrix.{name}.",
            "Make a new one with: rumi setup",
            name=name,
        )


@dataclass(frozen=True, slots=True)
class StopSyncing(Request[None]):
    """Take no more events, also after a restart. Answered when all received ones are stored."""


@dataclass(slots=True)
class SyncMemory:
    """What outlives restarts of the receiver: if it has ended, and if the token was refused."""

    ended: bool = False
    refused: bool = False
    synced: bool = False
    invited: set[str] = field(default_factory=set)


class MatrixSyncer(Actor[StopSyncing]):
    """Syncs one account while `serves` returns True: of several workers, one does.

    `unreachable` is called with a chat whose room the account has left or was removed from.
    """

    def __init__(
        self,
        wire: AccountWire,
        rooms: Rooms,
        people: MatrixPeople,
        intake: MatrixIntake,
        ask: AskJournal,
        memory: SyncMemory,
        *,
        serves: Callable[[], bool],
        unreachable: Callable[[str, str], Awaitable[None]],
        random: Random | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        self._wire = wire
        self._rooms = rooms
        self._people = people
        self._intake = intake
        self._ask = ask
        self._memory = memory
        self._serves = serves
        self._unreachable = unreachable
        self._random = random or Random()
        self._poll_s = poll_s
        self._deciding = trio.CapacityLimiter(DECISIONS)
        self._since: str | None = None
        self._trouble = ""
        self._asking = trio.CancelScope()
        self._waits = False
        self._done = trio.Event()

    async def started(self) -> None:
        """Begin to sync, unless receiving has ended.

        Raises:
            MatrixTokenRefused: The homeserver does not know the token.
        """
        self._wire.follows = False
        if self._memory.refused:
            raise MatrixTokenRefused(self._wire.account.name)
        if self._memory.ended:
            self._done.set()
        else:
            self.start_soon(self._sync)
            self.start_soon(self._give_way)

    @override
    def activity(self) -> str:
        if self._memory.ended:
            return "takes no more events"
        if not self._serves():
            return "another worker syncs"
        return f"waits: {self._trouble}" if self._trouble else "syncing"

    @override
    def metrics(self) -> Mapping[str, object]:
        unready = "the homeserver was not reached yet" if not self._memory.synced and self._serves() else None
        account = self._wire.account.user
        figures: dict[str, object] = {
            "matrix": account,
            "trouble": self._trouble or None,
            **self._intake.counts,
        }
        return {**figures, **({"unready": unready} if unready else {})}

    @answers(StopSyncing)
    async def stop_syncing(self, message: StopSyncing) -> None:
        """Take no more events; return when all received ones are stored."""
        self._memory.ended = True
        self._asking.cancel()
        await self._done.wait()

    async def _give_way(self) -> None:
        """Cancel the sync when another worker takes over."""
        while True:
            await trio.sleep(REST_S)
            if self._waits and not self._serves():
                self._asking.cancel()

    async def _sync(self) -> None:
        attempt = refusals = 0
        while not self._memory.ended:
            if not self._serves():
                self._forget_position()
                await self._pause(REST_S)
                continue
            try:
                await self._look()
            except NotTaken as error:
                await self._fail(error.message, UNSTORED_S)
                continue
            except MatrixError as error:
                refusals = refusals + 1 if error.kind == "token" else 0
                if refusals > REFUSALS:
                    self._memory.refused = True
                    raise MatrixTokenRefused(self._wire.account.name) from None
                await self._fail(error.message, max(error.wait_s, self._delay_s(attempt)))
            except (RumiError, ActorError) as error:
                self._forget_position()  # nobody knows if the batch was stored
                trouble = error.message if isinstance(error, RumiError) else type(error).__name__
                await self._fail(trouble, self._delay_s(attempt))
            except Exception as error:  # the receiver must not end what runs below it
                self._forget_position()
                logger.exception("the events of %s were not read", self._wire.account.user)
                await self._fail(type(error).__name__, self._delay_s(attempt))
            else:
                if self._trouble:
                    logger.info("the homeserver answers again")
                self._trouble, attempt, refusals, self._memory.synced = "", 0, 0, True
                continue
            attempt += 1
        self._done.set()

    def _forget_position(self) -> None:
        self._since, self._wire.follows = None, False

    def _delay_s(self, attempt: int) -> float:
        return WAITS.delay_s(attempt) * self._random.uniform(0.5, 1.0)

    async def _fail(self, trouble: str, seconds: float) -> None:
        if trouble != self._trouble:
            logger.warning("no events of %s: %s", self._wire.account.user, trouble)
        self._trouble = trouble
        await self._pause(seconds)

    async def _pause(self, seconds: float) -> None:
        with trio.CancelScope() as self._asking:
            if not self._memory.ended:
                await trio.sleep(seconds)

    async def _look(self) -> None:
        """Sync once, and store what has come."""
        account = self._wire.account.user
        if self._since is None:
            position = await self._ask(matrix_position(account, new_salt()))
            self._wire.position = position
            await self._begin(position.token)
            if not position.token or self._memory.ended:
                return
            self._since = position.token
        since, began = self._since, trio.current_time()
        found: dict[str, Any] | None = None
        with trio.CancelScope() as self._asking:
            if self._memory.ended:
                return
            self._waits = True
            try:
                found = await self._wire.api.sync(since, self._poll_s, FILTER)
            finally:
                self._waits = False
        if found is None:
            return
        token = _position(found)
        encryption, done = self._wire.encryption, list[str]()
        if encryption is not None:
            await encryption.take(found)
        joined = rooms_in(found, "join")
        timelines: list[tuple[str, Sequence[object]]] = [
            (id, await self._timeline(id, room, since)) for id, room in joined.items()
        ]
        for id in rooms_in(found, "leave"):
            await self._left(id)
        self._invitations(rooms_in(found, "invite"))
        if encryption is not None:
            timelines, done = await encryption.read(timelines)
        if not await self._intake.take(since, token, timelines, self.start_soon):
            self._forget_position()  # another process was faster
            return
        self._since, self._wire.follows = token, True
        if encryption is not None:
            await encryption.done(done)
        await trio.sleep(max(0.0, began + LEAST_S - trio.current_time()))

    async def _begin(self, token: str) -> None:
        """Look for invitations that came while nobody synced. The first start begins at the present."""
        found = await self._wire.api.sync("", 0.0, _INVITES)
        self._invitations(rooms_in(found, "invite"))
        now = _position(found)
        if self._wire.encryption is not None:
            await self._wire.encryption.take(found)
        if not token:
            await self._ask(accept_sync(SyncBatch(self._wire.account.user, "", now)))

    # Rooms

    async def _timeline(self, id: str, room: Mapping[str, Any], since: str) -> Sequence[object]:
        """Return the events of a room since the last position, without those from before the account came."""
        for raw in items(fields(room, "state"), "events"):
            if (event := event_of(raw)) is not None:
                self._rooms.apply(id, event)
        timeline = fields(room, "timeline")
        events = items(timeline, "events")
        begins = self._came_at(events)
        if timeline.get("limited") is True or begins is not None:
            self._rooms.forget(id)  # who came and went meanwhile may be among what is not read
        start = text(timeline, "prev_batch")
        if timeline.get("limited") is True and start and begins is None:
            events = [*await self._left_out(id, start, since), *events]
            begins = self._came_at(events)
        return events if begins is None else events[begins:]

    def _came_at(self, events: Sequence[object]) -> int | None:
        """Return the index of the event that invited the account, or with which it came; None without one."""
        me = self._wire.account.user
        came = None
        for index in range(len(events) - 1, -1, -1):
            raw = events[index]
            if text(raw, "type") == "m.room.member" and text(raw, "state_key") == me:
                before = text(fields(fields(raw, "unsigned"), "prev_content"), "membership")
                membership = text(fields(raw, "content"), "membership")
                if membership == "invite" and before != "join":
                    return index
                if membership == "join" and before != "join" and came is None:
                    came = index
        return came

    async def _left_out(self, id: str, start: str, since: str) -> list[object]:
        """Return the events of a room that a sync has left out because there were too many, oldest first."""
        pages = list[list[object]]()
        for _ in range(PAGES):
            found = await self._wire.api.messages(id, start, since, TIMELINE, {"types": list(_KINDS)})
            chunk = items(found, "chunk")
            pages.insert(0, list(reversed(chunk)))
            end = text(found, "end")
            if not chunk or not end or end in (start, since) or self._came_at(pages[0]) is not None:
                break
            start = end
        else:
            logger.warning("a room had more events than are read; the oldest were left out")
        return [event for page in pages for event in page]

    async def _left(self, id: str) -> None:
        self._rooms.forget(id)
        for chat in await self._ask(chats_in_room(self._wire.account.prefix, id)):
            await self._unreachable(chat, "the account is not in the room any more")

    def _invitations(self, invited: Mapping[str, Mapping[str, Any]]) -> None:
        for id, room in invited.items():
            if id not in self._memory.invited:
                self._memory.invited.add(id)
                inviter = inviter_of(items(fields(room, "invite_state"), "events"), self._wire.account.user)
                self.start_soon(self._decide, id, inviter)

    async def _decide(self, id: str, inviter: str) -> None:
        """Follow an invitation of somebody who may invite; refuse the others."""
        try:
            for attempt in range(JOIN_ATTEMPTS):
                try:
                    async with self._deciding:
                        if self._people.may_talk(inviter) or await self._listed(id):
                            await self._wire.api.join(id)
                            self._rooms.forget(id)
                        else:
                            logger.info("an invitation was refused")
                            await self._wire.api.leave(id)
                except MatrixError as error:
                    logger.warning("an invitation could not be answered: %s", error.message)
                    if error.kind == "refused":
                        return
                    await trio.sleep(max(error.wait_s, self._delay_s(attempt)))
                else:
                    return
        finally:
            self._memory.invited.discard(id)

    async def _listed(self, id: str) -> bool:
        """Return True if the configuration lists a room. An address counts only as its server resolves it."""
        listed = self._people.section.rooms
        if id in listed:
            return True
        return any([await self._wire.api.resolve(room) == id for room in listed if room.startswith("#")])
