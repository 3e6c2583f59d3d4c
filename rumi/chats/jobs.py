"""The jobs that a chat's worker runs, and the queue in which they wait."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import trio

from rumi.agent.prompts.message_entries import command_in, described, fetched
from rumi.agent.turn_input import TurnMessage
from rumi.chats.events import Queued, turn_of
from rumi.chats.pieces import same_way
from rumi.chats.resuming import MOST_RESUMED
from rumi.chats.shown import SeenOfTurn
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts import waiting as waiting_texts
from rumi.platform.texts.questions import Verdict
from rumi.sandbox.engine import HeadTail
from rumi.store.journal.records import Attachment, BrokenTurn, FireOutcome, Incoming
from rumi.texts import Language

JobKind: TypeAlias = Literal[
    "turn",
    "retry",
    "continue",
    "undo",
    "apply",
    "discard",
    "new",
    "reset",
    "reopen",
    "compact",
    "result",
    "answer",
]


EndedBy: TypeAlias = Literal["stopped", "interrupted"]
"""Why a turn ends early: its user's `/stop`, or the end of the process."""


class Asked:
    """A pending yes-or-no question; only the person who started the turn can answer it, and only once."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._yes = False
        self._answered = trio.Event()

    def answer(self, yes: bool) -> None:
        """Record the answer and wake the waiting turn."""
        self._yes = yes
        self._answered.set()

    async def wait(self, seconds: float) -> Verdict:
        """Wait for the answer and return it, or "expired" after `seconds`.

        If the wait is cancelled, no answer is accepted any more.
        """
        with trio.move_on_after(seconds):
            await self._answered.wait()
        if not self._answered.is_set():
            return "expired"
        return "yes" if self._yes else "no"


@dataclass(slots=True, eq=False)
class Job:
    """One piece of a chat's work, such as a turn, a retry, an undo, a reset, or sending a task's result.

    The job of a `/continue` is a turn that Rumi asks for: it goes on with a turn that a limit ended.

    A job exists until its final reply is published. The mailbox loop creates it, with its cancel scope,
    before the worker sees it, so that a `/stop` right after a message finds a scope to cancel. Only the
    mailbox loop adds to `joined` and sets `then`, the job to run next. It stops doing so when the worker sets
    `sealed`.

    `message` is the message that the job handles; the message of a retry has its own number and the earlier
    message's text. The message of a turn consists of `parts`, which the mailbox loop adds; the last one came
    at `last_at` on trio's clock. After the worker has `opened` the turn, another part cancels the `attempt`,
    and the turn begins `again`. A `fixed` turn has done something and takes no more parts. `joined` are
    additional messages that share the final reply: stops, answers to questions, and messages that were
    dropped from the queue behind the job; `dropped` is the number of dropped messages.
    `stage` names the job's current step before or after its turn. `note` is appended to the final reply, and
    the `still_running` background commands, which ended with the turn; `shows` lists files from tools that
    the user should see. `allowed` tells the model which parked tool calls a person has approved; the turn may
    make these calls. `seen` are the parked calls that the user had been asked about before answering.
    `brought` are the history messages of attachments that were fetched. An `alone` job steers no other.
    `has_asked` is True after the job's first question.

    A `restored` job was left by an earlier process, or by the chat before its crash.
    A job that `resumes` goes on with a turn that an earlier process began; `broken` is what is stored of it.
    `stopped` is True if a user has stopped the job, even while the process ends. `began` has the time at
    which each tool call of the turn began, on trio's clock. `waits_for_yes` is True while the turn's only
    running call waits for a person's yes.
    """

    kind: JobKind
    message: Incoming
    since: float
    language: Language
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    joined: list[int] = field(default_factory=list)
    then: "Job | None" = None
    begun: bool = False
    sealed: bool = False
    stage: str = ""
    ended_by: EndedBy = "stopped"
    asked: Asked | None = None
    has_asked: bool = False
    dropped: int = 0
    note: str = ""
    still_running: list[str] = field(default_factory=list)
    shows: dict[str, None] = field(default_factory=dict)
    allowed: str = ""
    seen: frozenset[int] = frozenset()
    parts: list[Incoming] = field(default_factory=list)
    last_at: float = 0.0
    opened: bool = False
    again: bool = False
    fixed: bool = False
    attempt: trio.CancelScope = field(default_factory=trio.CancelScope)
    alone: bool = False
    brought: dict[Attachment, TurnMessage] = field(default_factory=dict)
    resumes: bool = False
    restored: bool = False
    broken: BrokenTurn | None = None
    stopped: bool = False
    began: dict[str, float] = field(default_factory=dict)
    waits_for_yes: bool = False
    nano: int = 0
    """The price of the job's model calls so far, in billionths of a USD."""
    shown: SeenOfTurn = field(default_factory=SeenOfTurn)
    """What people saw of the job's turn, and the journal has not stored yet."""
    output: HeadTail | None = None
    """What the command of a person has printed."""
    outcome: FireOutcome | None = None
    """What the schedule of the message shows about this work; None for what follows from its end."""

    @property
    def turn(self) -> str:
        """The turn's id."""
        return turn_of(self.message.id)

    @property
    def begins_session(self) -> bool:
        """Return True if the job ends the session; such a job has no turn, unless it asks a question."""
        return self.kind in ("new", "reset", "reopen")

    @property
    def messages(self) -> tuple[int, ...]:
        """The numbers of all messages that share this job's final reply."""
        return (self.message.id, *self.further, *self.joined)

    @property
    def further(self) -> tuple[int, ...]:
        """The numbers of the parts after the first."""
        return tuple(part.id for part in self.parts[1:])

    @property
    def takes_parts(self) -> bool:
        """Return True if more parts of the message can still be added: it is a turn that has done nothing."""
        over = self.sealed or self.fixed or self.scope.cancel_called or self.then is not None
        return self.kind == "turn" and not over

    def add(self, part: Incoming, message: Incoming, at: float) -> None:
        """Add a part, which makes the job's message `message`; if the turn has begun, let it begin again."""
        self.parts.append(part)
        self.last_at = at
        self._change(message)

    def correct(self, correction: Incoming, message: Incoming) -> None:
        """Take a correction of a part, which makes the job's message `message`; see `add`.

        The correction shares the final reply.
        """
        self.joined.append(correction.id)
        if message != self.message:
            self._change(message)

    def _change(self, message: Incoming) -> None:
        self.message = message
        if self.opened or self.resumes:
            self.again = True
            self.attempt.cancel()

    def end(self, by: EndedBy) -> None:
        """Cancel the job for a reason. If it is called again, the first reason stays."""
        self.stopped = self.stopped or by == "stopped"
        if not self.scope.cancel_called:
            self.ended_by = by
        self.scope.cancel()

    @property
    def goes_on_later(self) -> bool:
        """Return True if the process ends, and the next one should go on with the job's turn."""
        resumed = 0 if self.broken is None else self.broken.resumed
        left = self.ended_by == "interrupted" and self.scope.cancelled_caught
        return left and not self.stopped and self.then is None and resumed < MOST_RESUMED

    def drop(self, waiting: Sequence[int]) -> None:
        """Let these dropped messages share the job's final reply, which states how many were dropped."""
        self.joined += waiting
        self.dropped += len(waiting)

    def final_reply(self, text: str) -> str:
        """Return the text of the job's final reply, with what else the user has to know."""
        dropped = reply_texts.dropped(self.language, self.dropped) if self.dropped else ""
        ended = reply_texts.ended_with_turn(self.language, self.still_running) if self.still_running else ""
        return "\n\n".join(filter(None, (text, dropped, ended, self.note)))

    def answer(self, yes: bool, user: int | None, id: str | None = None) -> bool:
        """Answer the pending question; with `id`, only if it has that id. Return True if accepted.

        Only the person who started the turn may answer. A question accepts one answer, and none after the
        turn was cancelled.
        """
        if self.asked is None or self.scope.cancel_called:
            return False
        if user != self.message.user or id not in (None, self.asked.id):
            return False
        self.asked.answer(yes)
        self.asked = None
        return True


class JobQueue:
    """A queue of jobs that wait while the worker runs another job; `most` limits the waiting messages.

    Results of tasks come before messages. The number of waiting results is not limited, and no command drops
    or ends a result.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._jobs: list[Job] = []
        self._results: list[Job] = []

    def __len__(self) -> int:
        """Return the number of waiting messages; results of tasks are not counted."""
        return len(self._jobs)

    def hold(self, job: Job) -> None:
        """Queue a job regardless of the limit: a task's result, or another job that must not be rejected."""
        (self._results if job.kind == "result" else self._jobs).append(job)

    def steering(self, running: Job) -> Job | None:
        """Return the first waiting turn whose message may steer the running turn: it has the same sender."""
        for job in self.waiting:
            if _is_by_hand(job):  # what comes behind a command may be about its output
                return None
            if job.parts and not job.alone and same_way(job.message, running.message):
                return job
        return None

    def takes(self, job: Job, running: Job | None) -> bool:
        """Return True if the job may be queued: it is a turn, and the queue is not full.

        A message that is only a yes or a no is not queued if the `running` turn has asked a question, because
        it was meant for that question.
        """
        said = job.message
        answers = not fetched(said.attachments) and question_texts.yes_or_no(said.text) is not None
        answers = answers and running is not None and running.has_asked
        return job.kind == "turn" and not answers and len(self) < self.most

    def add(self, job: Job, running: Job | None = None) -> Queued:
        """Queue the job and return the event that tells the sender the position in the queue.

        The `running` turn is the one that the job may steer; None if no turn can be steered.
        """
        self._jobs.append(job)
        position, said = len(self), job.message
        text = reply_texts.queued(job.language, position, self.most)
        steers = running is not None and same_way(said, running.message)
        if steers and running is not None and self.steering(running) is not None and not self._behind_command:
            text = waiting_texts.steers(job.language)
        return Queued(said.id, text, position, said.origin)

    @property
    def _behind_command(self) -> bool:
        """Return True if a command of a person waits, so that the last waiting message steers no turn."""
        return any(map(_is_by_hand, self.waiting))

    def last(self, user: int | None) -> Job | None:
        """Return the last waiting job of this person."""
        return next((job for job in reversed(self._jobs) if job.message.user == user), None)

    def next(self, now: float) -> Job | None:
        """Remove and return the first job, or return None if there is none. `now` becomes its start time."""
        waiting = self._results or self._jobs
        job = waiting.pop(0) if waiting else None
        if job is not None:
            job.since = now
        return job

    @property
    def waiting(self) -> Sequence[Job]:
        """Return the waiting jobs in order, except those that will end as soon as they begin."""
        return [job for job in self._jobs if not job.scope.cancel_called]

    @property
    def texts(self) -> list[str]:
        """Return a short description of each waiting message."""
        return [described(job.message) for job in self.waiting]

    def remove(self, job: Job) -> None:
        """Remove a waiting job. The caller must reply to its messages."""
        self._jobs.remove(job)

    def leave(self) -> list[int]:
        """Remove all jobs, whose messages stay open; return the numbers of the messages."""
        left = [number for job in (*self._results, *self._jobs) for number in job.messages]
        self._results, self._jobs = [], []
        return left

    def drop(self, before: int | None = None) -> list[int]:
        """Drop all messages, or those that came `before` a message; return their numbers.

        The caller must let the dropped messages share a reply.
        """
        dropped = [job for job in self._jobs if before is None or job.message.id < before]
        self._jobs = [job for job in self._jobs if job not in dropped]
        return [number for job in dropped for number in job.messages]

    def end(self, by: EndedBy, of: frozenset[int] | None) -> None:
        """Cancel all queued jobs, or only the jobs `of` these messages.

        A cancelled job stays in the queue. When it is next, it begins and ends at once, so that its history
        entry states the reason.
        """
        for job in self._jobs:
            if of is None or not of.isdisjoint(job.messages):
                job.end(by)


def _is_by_hand(job: Job) -> bool:
    return bool(command_in(job.message)) and not job.message.schedule
