"""One turn: a text goes in, its answer comes out, and the exit code tells how it ended."""

import re
from collections.abc import AsyncIterator, Sequence

import trio

from rumi.agent import Reason
from rumi.channels.terminal.session import INTERRUPTED, Settled, TerminalSession
from rumi.channels.terminal.words import Words
from rumi.journal import Attachment

EXIT_CODES: dict[Reason, int] = {
    "complete": 0,
    "crashed": 1,
    "max_turns": 3,
    "repeated_call": 3,
    "consecutive_errors": 3,
    "timeout": 3,
    "model_error": 4,
    "stopped": INTERRUPTED,
    "interrupted": INTERRUPTED,
}

COMMAND = re.compile(r"/[A-Za-z_][A-Za-z0-9_-]*(?:@\w+)?(?:\s.*)?", re.DOTALL)


def exit_code(text: str, settled: Settled) -> int:
    """Return the exit code of a process that got this reply to `text`.

    A chat command has no turn and succeeds with its reply; any other text without a turn was refused
    because the chat was busy, or was queued and dropped.
    """
    if settled.finished is not None:
        return EXIT_CODES[settled.finished.reason]
    return 0 if COMMAND.fullmatch(text.strip()) else 1


async def once(
    session: TerminalSession,
    text: str,
    signals: AsyncIterator[int],
    *,
    words: Words,
    attachments: Sequence[Attachment] = (),
) -> int:
    """Run one turn about a text and what it hands on; return its exit code.

    A question of the turn is answered with no, and that is said. A signal stops the turn: this returns 130
    when the stop is confirmed, after `STOP_WAIT_S` at the latest, and at once for the third signal.
    """
    code = INTERRUPTED
    stopping = False
    async with trio.open_nursery() as nursery:

        async def watch_signals() -> None:
            nonlocal stopping
            async for _ in signals:
                if await session.interrupt():
                    break
                if not stopping:
                    stopping = True
                    nursery.start_soon(leave_when_stopped)
            nursery.cancel_scope.cancel()

        async def leave_when_stopped() -> None:
            await session.until_stopped()
            nursery.cancel_scope.cancel()

        await nursery.start(session.run)
        number = await session.send(text, attachments)
        nursery.start_soon(watch_signals)  # not sooner: a stop must not overtake what it is to stop
        nursery.start_soon(_refuse_questions, session, words)
        settled = await session.settled(number)
        if not stopping:
            code = exit_code(text, settled)
            nursery.cancel_scope.cancel()
    return code


async def _refuse_questions(session: TerminalSession, words: Words) -> None:
    """Answer the turn's questions with no, and say so: nobody can judge them. `--yes` would have answered."""
    while True:
        while session.confirming is None:
            await session.changed()
        await session.view.notice(words.unconfirmed)
        await session.answer(False)
