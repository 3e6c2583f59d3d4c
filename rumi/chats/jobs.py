"""What a chat's worker is handed: one job at a time."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import trio

from rumi.chats.events import turn_of
from rumi.journal import Incoming
from rumi.texts import Language, Verdict

JobKind: TypeAlias = Literal["turn", "retry", "reset"]


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
    """A turn or a reset, from the hand-over to its final reply.

    The mailbox loop makes it, cancel scope included, before the worker sees it, so that a `/stop` right
    behind a message finds what to cancel. Only the mailbox loop adds to `joined` (the messages that share
    its final reply: stops, answers to questions) and sets `then`, and only until the worker has `sealed`
    the job. `message` is what it works on: of a retry, the number is its own and the words are the earlier
    message's. `stage`: what it does besides its turn.
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

    @property
    def turn(self) -> str:
        """The turn's id."""
        return turn_of(self.message.id)

    @property
    def messages(self) -> tuple[int, ...]:
        """All messages that share this job's final reply."""
        return (self.message.id, *self.joined)

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
