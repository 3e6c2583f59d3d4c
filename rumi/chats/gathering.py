"""Gathers the parts of messages for a chat: holds turns for a moment, and adds to turns and corrects them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import trio

from rumi.chats.jobs import Job, JobQueue
from rumi.chats.pieces import (
    LATE_S,
    MOST_PARTS,
    belong,
    hold_s,
    joins_events,
    points,
    sent_together,
    whole,
    window_s,
)
from rumi.platform.config.schema import Settings
from rumi.store.journal.records import Incoming


@dataclass(slots=True)
class Gathering:
    """The parts of a chat's messages that belong together (`rumi.chats.pieces`). Nothing here waits.

    `running` returns the running job. `offer` passes a turn to the worker or the queue. `start_soon` starts a
    task of the chat's actor, and `now` returns the time in seconds since 1970. `held` is a turn that waits a
    moment for more parts of its message.
    """

    settings: Settings
    queue: JobQueue
    running: Callable[[], Job | None]
    offer: Callable[[Job], None]
    start_soon: Callable[..., None]
    now: Callable[[], float]
    held: Job | None = None
    _until: float = field(default=0.0, init=False)

    def take(self, job: Job) -> None:
        """Add the message of a new turn to the turn that it belongs to; without one, begin or hold it."""
        message, at = job.message, self.came_at(job.message)
        if self._adds(message, at) or self._joins_waiting(message, at):
            return
        self.release()
        job.parts, job.last_at = [message], at
        if self.running() is not None or not self._hold(job):
            self.offer(job)

    def holds_again(self, job: Job) -> bool:
        """Hold a restored turn as if its last part came now; return False if no more parts are likely."""
        came, job.last_at = job.last_at, trio.current_time()
        if not self._hold(job):
            job.last_at = came
            return False
        return True

    def came_at(self, message: Incoming) -> float:
        """Return the time on trio's clock at which the message came; for one that has waited, in the past."""
        late_s = self.now() - message.received if message.received else 0.0
        return trio.current_time() - (late_s if late_s > LATE_S else 0.0)

    def correct(self, correction: Incoming) -> bool:
        """Replace the text of a part whose turn has done nothing yet; return False if there is none."""
        for job in (self.held, *self.queue.waiting, self.running()):
            if job is None or not job.takes_parts:
                continue
            for index, part in enumerate(job.parts):
                if part.id == correction.corrected:
                    job.parts[index] = replace(part, text=correction.text)
                    job.correct(correction, whole(job.parts, self.settings.session.handed_chars))
                    return True
        return False

    def release(self) -> None:
        """Let the held turn begin."""
        held, self.held, self._until = self.held, None, 0.0
        if held is not None:
            self.offer(held)

    def _adds(self, message: Incoming, at: float) -> bool:
        """Add the message to the held, waiting or running turn whose message it is a part of, if any."""
        together_s = self.settings.chat.together_s
        for job in (self.held, self.queue.last(message.user), self.running()) if together_s else ():
            if job is None or not job.parts or not job.takes_parts or len(job.parts) >= MOST_PARTS:
                continue
            last, gap_s = job.parts[-1], at - job.last_at
            soon = belong(last, message) and gap_s <= window_s(last, message, together_s)
            if not soon and not (job.restored and sent_together(last, message)):
                continue
            job.add(message, whole((*job.parts, message), self.settings.session.handed_chars), at)
            if job is self.held and not self._hold(job):
                self.release()
            return True
        return False

    def _joins_waiting(self, event: Incoming, at: float) -> bool:
        """Add an event of a trigger to the last waiting turn for events of that trigger, if there is one."""
        for job in reversed(self.queue.waiting) if event.trigger else ():
            if job.takes_parts and joins_events(job.parts, event):
                job.add(event, whole((*job.parts, event), self.settings.session.handed_chars), at)
                return True
        return False

    def _hold(self, job: Job) -> bool:
        """Let the turn wait for more parts if some are likely to come; return False if not.

        The messages of the turn lie in the journal without a reply, so that an end of the process loses none.
        """
        wait_s = hold_s(job.parts[-1], self.settings.chat.together_s)
        still_points = not job.message.attachments and any(points(part.text) for part in job.parts)
        if job is self.held and still_points:  # what the first text points at has not come
            wait_s = max(wait_s, self.settings.chat.together_s)
        self._until = max(self._until, job.last_at + wait_s) if wait_s else 0.0
        if self._until <= trio.current_time():
            return False
        if self.held is None:
            self.held = job
            self.start_soon(self._release_later, job)
        return True

    async def _release_later(self, job: Job) -> None:
        await trio.sleep_until(self._until)
        if self.held is not job:
            return
        if trio.current_time() < self._until:  # another part has come meanwhile
            self.start_soon(self._release_later, job)
        else:
            self.release()
