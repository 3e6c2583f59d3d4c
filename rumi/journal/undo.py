"""What the journal is asked to take a turn back, and what it answers."""

from dataclasses import dataclass
from typing import TypeAlias

from actors import Request
from rumi.models import ToolCall


@dataclass(frozen=True, slots=True)
class LastTurn:
    """A turn that can be taken back: what its user said, who that was, and the calls that it made.

    `behind` counts the chat's later turns, which are taken back already.
    """

    turn: str
    text: str
    user: int | None
    calls: tuple[ToolCall, ...] = ()
    behind: int = 0


@dataclass(frozen=True, slots=True)
class Undone:
    """A turn that was taken back by a `message`: what is as before, and what is not.

    `schedules` and `facts` are as before; `schedules_kept` and `facts_kept` were changed since by something
    else, and stay. `parked` are questions that count no more, `tasks` were begun and are stopped. `withdrawn`
    is its reply, if that was not sent yet and never will be; otherwise 0. `files` says what became of its
    files: `restored`, `untouched`, or why they stay. `calls` reached beyond this machine, and
    cannot be taken back. `done`: all of that has happened.
    """

    message: int
    turn: str
    text: str = ""
    files: str = "untouched"
    facts: tuple[str, ...] = ()
    facts_kept: tuple[str, ...] = ()
    schedules: tuple[int, ...] = ()
    schedules_kept: tuple[int, ...] = ()
    parked: tuple[int, ...] = ()
    tasks: tuple[int, ...] = ()
    withdrawn: int = 0
    calls: tuple[str, ...] = ()
    done: bool = False


@dataclass(frozen=True, slots=True)
class FindLastTurn(Request[LastTurn | None]):
    """Return the chat's last turn that was not taken back and whose history is still there."""

    chat: str


@dataclass(frozen=True, slots=True)
class TakeBack(Request[Undone]):
    """Take back what `state.db` has of a turn, for a message; begun, it has to be completed (`EndUndo`).

    Prompts do not show the turn any more. Its parked calls wait no longer, its schedules are as before unless
    something else changed them, its reply is withdrawn unless a part of it was sent. `undone` has what is
    known already. With `clean_files`, the files are such that nothing in them came from outside. The same
    message takes back one turn, however often this is asked.
    """

    chat: str
    undone: Undone
    clean_files: bool = False


@dataclass(frozen=True, slots=True)
class EndUndo(Request[None]):
    """Note that a turn is taken back, and what has become of it."""

    undone: Undone


@dataclass(frozen=True, slots=True)
class FindUndo(Request[Undone | None]):
    """Return what a message has taken back; with a `chat` alone, what it has begun to take back."""

    chat: str
    message: int = 0


UndoMessage: TypeAlias = FindLastTurn | TakeBack | EndUndo | FindUndo
