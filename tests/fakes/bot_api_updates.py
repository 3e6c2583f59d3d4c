"""The queue of updates: what the bot has not confirmed comes again, and one poll at a time waits for it."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from tests.fakes.bot_api_world import Json, Refused

KEPT_S = 24 * 3600
POLL_LIMIT_S = 50
NOT_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})
CONFLICT = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"


@dataclass(slots=True)
class Poll:
    """A long poll. Whoever carries it sets `wake`, waits for that or `timeout_s`, then calls `finish()`;
    `abandon()` if the client left."""

    queue: "Updates"
    limit: int
    timeout_s: float
    wake: Callable[[], None] = lambda: None
    ousted: str = ""

    @property
    def ready(self) -> bool:
        """There is nothing more to wait for."""
        return bool(self.ousted or self.queue.pending)

    def finish(self) -> list[Json]:
        """The updates that are there now, possibly none; `Refused` if a newer poll took its place."""
        self.abandon()
        if self.ousted:
            raise Refused(409, self.ousted)
        return self.queue.first(self.limit)

    def abandon(self) -> None:
        if self.queue.poll is self:
            self.queue.poll = None


class Updates:
    """`pending` are the updates that are not confirmed, `confirmed` the numbers of those that are, in order,
    `expired` of those that nobody fetched for a day, `handed` how often each was given out."""

    def __init__(self, now: Callable[[], float], random: Random, first: int) -> None:
        self.next_id = first
        self.pending: deque[tuple[float, Json]] = deque()
        self.confirmed: list[int] = []
        self.expired: list[int] = []
        self.handed: dict[int, int] = {}
        self.allowed: frozenset[str] | None = None
        self.poll: Poll | None = None
        self.polls = 0
        self._done: deque[tuple[float, Json]] = deque(maxlen=1000)
        self._now = now
        self._random = random

    def add(self, kind: str, content: Json) -> int | None:
        """Queue an update; its number, or None where the bot did not ask for that kind."""
        if kind in NOT_BY_DEFAULT if self.allowed is None else kind not in self.allowed:
            return None
        number = self.next_id
        self.next_id += 1
        self.pending.append((self._now(), {"update_id": number, kind: content}))
        self.wake()
        return number

    def wake(self) -> None:
        if self.poll is not None:
            self.poll.wake()

    def get(
        self, offset: int, limit: int, timeout_s: float, allowed: Iterable[str] | None
    ) -> list[Json] | Poll:
        """What `getUpdates` gives, or a poll that waits for it."""
        self.polls += 1
        if allowed is not None:
            self.allowed = frozenset(allowed) or None
        self.oust(CONFLICT)
        self._expire()
        if offset < 0:
            self._confirm(len(self.pending) + offset)
        elif offset <= self.next_id + 10:
            # A number from far beyond the end is none of this queue's: nothing is confirmed, all is given.
            self._confirm(sum(1 for _, update in self.pending if update["update_id"] < offset))
        if self.pending or timeout_s <= 0:
            return self.first(limit)
        self.poll = Poll(self, limit, min(timeout_s, POLL_LIMIT_S))
        return self.poll

    def oust(self, why: str) -> None:
        """End the poll that waits: its answer is a conflict."""
        if self.poll is not None:
            older, self.poll = self.poll, None
            older.ousted = why
            older.wake()

    def first(self, limit: int) -> list[Json]:
        batch = [self.pending[index][1] for index in range(min(limit, len(self.pending)))]
        for update in batch:
            self.handed[update["update_id"]] = self.handed.get(update["update_id"], 0) + 1
        return batch

    def redeliver(self, number: int) -> list[int]:
        """Put the last confirmed updates back, as if their confirmation had been lost."""
        again = [self._done.pop() for _ in range(min(number, len(self._done)))]
        self.pending.extendleft(again)
        if again:
            self.wake()
        return [update["update_id"] for _, update in reversed(again)]

    def delivered(self, number: int) -> None:
        """Confirm an update that a webhook has answered."""
        for entry in self.pending:
            if entry[1]["update_id"] == number:
                self.pending.remove(entry)
                self._done.append(entry)
                self.confirmed.append(number)
                return

    def restart_ids(self, start: int | None = None) -> int:
        """What a quiet week does: nothing is left in the queue, and the numbers go on from a lower one."""
        self.expired += [update["update_id"] for _, update in self.pending]
        self.pending.clear()
        self._done.clear()
        if start is None:
            start = self._random.randrange(1, max(2, self.next_id - 1000))
        self.next_id = start
        return start

    def drop(self) -> None:
        self._confirm(len(self.pending))

    def _confirm(self, number: int) -> None:
        for _ in range(max(0, number)):
            entry = self.pending.popleft()
            self._done.append(entry)
            self.confirmed.append(entry[1]["update_id"])

    def _expire(self) -> None:
        while self.pending and self.pending[0][0] < self._now() - KEPT_S:
            self.expired.append(self.pending.popleft()[1]["update_id"])
