"""What a chat's worker is handed: one job at a time."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import trio

from rumi.journal import Enclosure
from rumi.texts import Language

JobKind: TypeAlias = Literal["turn", "retry", "reset"]


EndedBy: TypeAlias = Literal["stopped", "interrupted"]
"""Why a turn ends early: its user's `/stop`, or the program's own end."""

FILES = "files"
"""A reset's text when the files go too."""


@dataclass(slots=True, eq=False)
class Job:
    """A turn or a reset, from the hand-over to its final reply.

    The mailbox loop makes it, cancel scope included, before the worker sees it, so that a `/stop` right
    behind a message finds what to cancel. Only the mailbox loop adds to `stops` and sets `then`, and
    only until the worker has `sealed` the job.
    """

    kind: JobKind
    message: int
    text: str
    since: float
    language: Language
    enclosures: tuple[Enclosure, ...] = ()
    origin: int | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    stops: list[int] = field(default_factory=list)
    then: "Job | None" = None
    begun: bool = False
    sealed: bool = False
    phase: str = "starting"
    ended_by: EndedBy = "stopped"

    @property
    def turn(self) -> str:
        """The turn's id: the message's number, which is used once."""
        return f"t{self.message}"

    @property
    def messages(self) -> tuple[int, ...]:
        """All messages that share this job's final reply."""
        return (self.message, *self.stops)
