"""What a chat's worker is handed: one job at a time."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import trio

from rumi.agent.prompts.message_entries import fetched
from rumi.chats.events import Queued, turn_of
from rumi.platform.texts import questions as question_texts
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.language import Language
from rumi.platform.texts.questions import Verdict
from rumi.store.journal.records import Incoming

JobKind: TypeAlias = Literal["turn", "retry", "undo", "new", "reset", "result", "answer"]


EndedBy: TypeAlias = Literal["stopped", "interrupted"]
"""Why a turn ends early: its user's `/stop`, or the program's own end."""


class Asked:
    """A question that waits for a yes or a no. It is answered once, by the person whose turn it is."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._yes = False
        self._answered = trio.Event()

    def answer(self, yes: bool) -> None:
        """Answer it."""
        self._yes = yes
        self._answered.set()

    async def wait(self, seconds: float) -> Verdict:
        """The answer, or that none came in that time. Cancelled, no answer counts."""
        with trio.move_on_after(seconds):
            await self._answered.wait()
        if not self._answered.is_set():
            return "expired"
        return "yes" if self._yes else "no"


@dataclass(slots=True, eq=False)
class Job:
    """A turn, an answer to parked calls, a new session, a reset or a task's result.

    It lasts from the hand-over to its final reply. The mailbox loop makes it, cancel scope included, before
    the worker sees it, so that a `/stop` right behind a message finds what to cancel. Only the mailbox loop
    adds to `joined` (the messages that share its final reply: stops, answers to questions, and as many
    `dropped` ones, which had waited behind it) and sets `then`, and only until the worker has `sealed` the
    job. `message` is what it works on: of a retry, the number is its own and the words are the earlier
    message's. `stage`: what it does besides its turn. The `note` stands behind its final reply; `shows` are
    files that its tools want people to see. `allowed` are
    answers in words for the model: its turn may make calls that a person has said yes to. `seen` are the
    parked calls that had been asked for when an answer came.
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
    dropped: int = 0
    note: str = ""
    shows: dict[str, None] = field(default_factory=dict)
    allowed: str = ""
    seen: frozenset[int] = frozenset()

    @property
    def turn(self) -> str:
        """The turn's id."""
        return turn_of(self.message.id)

    @property
    def begins_session(self) -> bool:
        """Return True if it ends the session; then there is no turn, unless it puts a question."""
        return self.kind in ("new", "reset")

    @property
    def messages(self) -> tuple[int, ...]:
        """All messages that share this job's final reply."""
        return (self.message.id, *self.joined)

    def end(self, by: EndedBy) -> None:
        """End it early; the first to end it says why."""
        if not self.scope.cancel_called:
            self.ended_by = by
        self.scope.cancel()

    def drop(self, waiting: Sequence[int]) -> None:
        """Have these messages, which will not be worked on, share its final reply, which says how many."""
        self.joined += waiting
        self.dropped += len(waiting)

    def final_reply(self, text: str) -> str:
        """Return its final reply, with what was dropped, and its note."""
        dropped = reply_texts.dropped(self.language, self.dropped) if self.dropped else ""
        return "\n\n".join(filter(None, (text, dropped, self.note)))

    def answer(self, yes: bool, user: int | None, id: str | None = None) -> bool:
        """Answer the question that waits, if one does (the one called `id`, where that is said); whether so.

        Only the person whose turn it is may answer, and each question once; a turn that is being ended
        waits for nothing.
        """
        if self.asked is None or self.scope.cancel_called:
            return False
        if user != self.message.user or id not in (None, self.asked.id):
            return False
        self.asked.answer(yes)
        self.asked = None
        return True


class JobQueue:
    """Messages that wait while the worker has a job, in order; at most `most`.

    Results of tasks wait before them, in any number; nothing drops or ends them.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._jobs: list[Job] = []
        self._results: list[Job] = []

    def __len__(self) -> int:
        """Return how many messages wait."""
        return len(self._jobs)

    def hold(self, job: Job) -> None:
        """Have the result of a task wait, or a job that came while one was stored, whatever the limit."""
        (self._results if job.kind == "result" else self._jobs).append(job)

    def takes(self, job: Job) -> bool:
        """Return True for a message, while there is room: for no command, and for no yes or no, which was
        meant for a question.
        """
        said = job.message
        answers = not fetched(said.attachments) and question_texts.yes_or_no(said.text) is not None
        return job.kind == "turn" and not answers and len(self) < self.most

    def add(self, job: Job) -> Queued:
        """Have it wait, and return what to tell its sender."""
        self._jobs.append(job)
        position, said = len(self), job.message
        return Queued(said.id, reply_texts.queued(job.language, position, self.most), position, said.origin)

    def next(self, now: float) -> Job | None:
        """Return the first one, whose time begins now."""
        waiting = self._results or self._jobs
        job = waiting.pop(0) if waiting else None
        if job is not None:
            job.since = now
        return job

    def drop(self, before: int | None = None) -> list[int]:
        """Drop all, or what came `before` a message; return the messages, which have to share a reply."""
        dropped = [job for job in self._jobs if before is None or job.message.id < before]
        self._jobs = [job for job in self._jobs if job not in dropped]
        return [job.message.id for job in dropped]

    def end(self, by: EndedBy, of: Collection[int] | None) -> None:
        """Have them, or those of these messages, end as soon as they begin: then their history says why."""
        for job in self._jobs:
            if of is None or job.message.id in of:
                job.end(by)
