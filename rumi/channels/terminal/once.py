"""Runs a single turn: sends one text, prints the answer, and returns an exit code for the outcome."""

import re
from collections.abc import AsyncIterator, Sequence

import trio

from rumi.agent.events import ConfirmationAsked
from rumi.channels.terminal.session import INTERRUPTED, UNCONFIRMED, Settled, TerminalSession
from rumi.channels.terminal.streams import InputStream
from rumi.channels.terminal.words import Reader
from rumi.platform.texts.questions import yes_or_no
from rumi.store.journal.records import Attachment, Reason
from rumi.texts import gettext

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

    A chat command starts no turn, so its reply means success. If any other text started no turn, it failed:
    the chat was busy and refused the text, or queued it and dropped it later.
    """
    if settled.finished is not None:
        return EXIT_CODES[settled.finished.reason]
    return 0 if COMMAND.fullmatch(text.strip()) else 1


async def once(
    session: TerminalSession,
    text: str,
    signals: AsyncIterator[int],
    *,
    reader: Reader,
    attachments: Sequence[Attachment] = (),
    person: InputStream | None = None,
) -> int:
    """Run one turn for a text and its attachments; return the exit code.

    The turn's questions are answered by lines from `person`, the input of the person who types. If `person`
    is None, the questions are refused with a notice, and the exit code is `UNCONFIRMED`, unless the turn
    itself fails. A command that ran without the model gives its own exit code. A signal stops the turn: this
    function then returns 130 when the stop is confirmed, at the latest after `STOP_WAIT_S`, and immediately
    at the third signal.
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
        nursery.start_soon(watch_signals)  # not sooner: a stop must not overtake the message it is to stop
        nursery.start_soon(_see_to_questions, session, reader, person)
        settled = await session.settled(number)
        if not stopping:
            code = exit_code(text, settled) or (UNCONFIRMED if session.unconfirmed else 0)
            if not code and any(one.kind == "command" for one in attachments):
                code = session.command_code
            nursery.cancel_scope.cancel()
    return code


async def _see_to_questions(session: TerminalSession, reader: Reader, person: InputStream | None) -> None:
    """Pass the turn's questions to the person, or refuse them, until cancelled.

    With `--yes` the session answers the questions itself, so none are left for this function.
    """
    while True:
        asked = await _next_question(session)
        answer = None if person is None else await _answered(session, asked, reader, person)
        if session.confirming is not asked:  # it was answered elsewhere or has expired meanwhile
            continue
        if answer is None:
            await session.refuse()
        else:
            await session.answer(answer)


async def _next_question(session: TerminalSession) -> ConfirmationAsked:
    while session.confirming is None:
        await session.changed()
    return session.confirming


async def _answered(
    session: TerminalSession, asked: ConfirmationAsked, reader: Reader, person: InputStream
) -> bool | None:
    """Return the line with which the person answers the pending question.

    Return None if the input ends, or if the question is no longer pending. Lines that were typed before the
    question was shown do not count.
    """
    answer: bool | None = None
    person.forget()

    async def read() -> None:
        nonlocal answer
        while (line := await person.line()) is not None:
            answer = yes_or_no(line)
            if answer is not None:
                break
            await session.view.notice(gettext(reader.language, "yes/no"))
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        while session.confirming is asked:
            await session.changed()
        nursery.cancel_scope.cancel()
    return answer
