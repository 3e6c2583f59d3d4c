"""Signals and what they ask for, the same in every kind of terminal chat."""

import enum
import signal

import trio

from rumi.channels.terminal.session import TerminalSession
from rumi.channels.terminal.words import Words

INTERRUPTED = 130
"""The exit code of a chat that was interrupted."""

STOP_WAIT_S = 15.0
"""How long to wait for a stop to be confirmed; to show that no process is left takes the sandbox a moment."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Asked(enum.Enum):
    """What a signal asks for."""

    STOP = enum.auto()
    LEAVE = enum.auto()

    @classmethod
    def of(cls, number: int) -> "Asked":
        """SIGINT is Ctrl-C; the others end the process."""
        return cls.STOP if number == signal.SIGINT else cls.LEAVE


async def until_stopped(session: TerminalSession, words: Words) -> None:
    """Return when nothing of the conversation runs any more, after `STOP_WAIT_S` seconds at the latest."""
    with trio.move_on_after(STOP_WAIT_S) as bound:
        await session.quiet()
    if bound.cancelled_caught:
        await session.view.notice(words.not_confirmed)
