"""The front end for pipes and dumb terminals: it reads line by line, and uses no colours or redrawing.

Answers go to standard output; tool calls, waits and notices go to the error output.
"""

import signal
from collections.abc import AsyncIterator

import trio

from rumi.agent.events import (
    BY_HAND,
    ConfirmationAsked,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
    title_of,
)
from rumi.agent.todo_list import shown_lines
from rumi.channels.terminal.calls import code_and_rest, excerpt_of, outcome_of, paths_of
from rumi.channels.terminal.files import TypedLines, handed_files
from rumi.channels.terminal.options import DEFAULT_LIMITS, FileLimits, KeyAdopter
from rumi.channels.terminal.pasted_keys import PastedKeys
from rumi.channels.terminal.session import FAILURES, INTERRUPTED, UNCONFIRMED, Settled, TerminalSession
from rumi.channels.terminal.streams import Lines, Writer
from rumi.channels.terminal.words import (
    LEAVING,
    TYPED_LEAVING,
    Reader,
    command_of,
    is_answer,
    is_own,
    is_stop,
)
from rumi.chats.events import ChatEvent, Queued, Replied, TurnState
from rumi.errors import RumiError
from rumi.models.model import Waiting
from rumi.platform.printable import clean, last_lines, one_line
from rumi.platform.texts.translation import error_text
from rumi.texts import gettext

PROMPT = "› "

STEP_S = 2.0
"""Minimum seconds between two printed steps of a running call, because printed lines are not erased."""


class PlainView:
    """Prints replies on `output`, and everything else as short lines on `errors`.

    If `failures_apart` is True, a reply that only explains why there is no answer goes to `errors`.
    """

    def __init__(
        self, output: Writer, errors: Writer, reader: Reader, *, failures_apart: bool = False
    ) -> None:
        self._output = output
        self._errors = errors
        self._reader = reader
        self._failures_apart = failures_apart
        self._turn = TurnState()
        self._by_hand = False  # the running turn is a command of the person's
        self._noticed: dict[str, float] = {}  # time of the last line about each running call

    async def event(self, event: ChatEvent) -> None:
        """Print tool calls (with some of their steps), waits, and questions. `reply` prints the answer."""
        before = self._turn
        self._turn = before.apply(event)
        match event.what:
            case ToolStarted() as started if self._turn.listed is not before.listed:
                await self.notice(title_of(started, one_line))
                # Printed lines are not erased: of a list that is known, only the changes.
                for line in shown_lines([item for item in self._turn.todo if item not in before.todo]):
                    await self.notice(f"  {one_line(line)}")
            case ToolStarted() as started:
                self._by_hand = started.call.id == BY_HAND
                await self.notice(title_of(started, one_line))
                self._noticed[started.call.id] = event.time
            case ToolProgress(call_id, text) if event.time - self._noticed.get(call_id, 0.0) >= STEP_S:
                await self._step(call_id, text, event.time)
            case ToolOutput(call_id, text) if event.time - self._noticed.get(call_id, 0.0) >= STEP_S:
                for line in last_lines(text, 1):
                    await self._step(call_id, line, event.time)
            case ToolFinished(call, result, steps):
                self._noticed.pop(call.id, None)
                title = title_of(before.called(call), one_line)
                outcome = outcome_of(result, self._reader, steps)
                if not result.ok and call.id != BY_HAND:  # otherwise the reply says it
                    outcome = f"{outcome}: " + "\n    ".join(excerpt_of(result, self._reader))
                for path in paths_of(result, self._reader):
                    await self.notice(f"  {path}")
                if outcome:
                    await self.notice(f"  {outcome}  ({title})" if self._turn.calls else f"  {outcome}")
            case Queued(_, text):
                await self.notice(text)
            case Waiting(seconds, why):
                await self.notice(
                    gettext(self._reader.language, "⏳ {seconds} s · {why}", why=why, seconds=round(seconds))
                )
            case ConfirmationAsked(_, text, whole):
                if whole:
                    await self.notice(f"{gettext(self._reader.language, 'The whole question:')}\n{whole}")
                # On its own line after a text of several lines, where it would look like part of a value.
                end = "\n" if "\n" in text else " "
                language = self._reader.language
                asks, answers = gettext(language, "It asks:"), gettext(language, "yes/no")
                await self.notice(f"{asks} {text}{end}({answers})")
            case _:
                pass  # streamed text is not printed, so a `Discarded` has nothing to take back

    async def _step(self, call: str, text: str, time: float) -> None:
        """Print a step of a running call, or the last line of its output."""
        self._noticed[call] = time
        of = self._turn.calls.get(call) if len(self._turn.calls) > 1 else None
        title = f"  ({title_of(of.what, one_line)})" if of is not None else ""
        await self.notice(f"  ↳ {one_line(text)}{title}")

    async def reply(self, event: ChatEvent, settled: Settled) -> None:
        """Write the reply's text and a newline."""
        if self._by_hand:
            # Programs get what the command has printed, and nothing else.
            self._by_hand = False
            output, rest = code_and_rest(settled.reply.text)
            if output:
                await self._output.write(f"{clean(output)}\n")
            if rest:
                await self.notice(rest)
            return
        failed = settled.finished is not None and settled.finished.reason in FAILURES
        writer = self._errors if failed and self._failures_apart else self._output
        await writer.write(clean(settled.reply.with_commands).rstrip("\n") + "\n")
        if settled.reply.note:
            await self.notice(settled.reply.note)

    async def earlier(self, reply: Replied) -> None:
        """Write an earlier, unread reply; if `failures_apart` is True, write it to `errors`."""
        writer = self._errors if self._failures_apart else self._output
        await writer.write(
            clean(f"{gettext(self._reader.language, 'Earlier:')} {reply.text}").rstrip("\n") + "\n"
        )

    async def elsewhere(self, text: str, source: str) -> None:
        """Print a message from another sender."""
        await self.notice(f"{source} {PROMPT}{text}")

    async def stopping(self, presses: int) -> None:
        """Confirm the first Ctrl-C; after each later one, say what the next Ctrl-C will do."""
        await self.notice(
            f"{gettext(self._reader.language, 'stopping')}…"
            if presses == 1
            else gettext(self._reader.language, "Still stopping. Press Ctrl-C again to leave now.")
        )

    async def notice(self, text: str) -> None:
        """Write a line to the error output."""
        await self._errors.write(clean(text).rstrip("\n") + "\n")


async def converse(
    session: TerminalSession,
    lines: Lines,
    signals: AsyncIterator[int],
    *,
    reader: Reader,
    prompt: Writer | None = None,
    limits: FileLimits = DEFAULT_LIMITS,
    keys: KeyAdopter | None = None,
) -> int:
    """Send each line after the previous turn has ended, but send `/stop` immediately; return the exit code.

    While a question is pending, the next line answers it; any line other than a yes, or the end of the input,
    means no. `prompt` is True if a person types the lines. Then a prompt is shown, a line typed before a
    question was shown does not answer that question, Ctrl-C stops the turn without leaving the chat, and
    `limits` are those of an `@file`.
    """
    code = 0
    async with trio.open_nursery() as nursery:

        async def watch_signals() -> None:
            nonlocal code
            async for number in signals:
                stays = number == signal.SIGINT and prompt is not None
                if not (session.busy if stays else session.owing):
                    if stays and prompt is not None:
                        await prompt.write(f"\n{PROMPT}")
                        continue
                    break
                if await session.interrupt():
                    break
                if not stays:
                    nursery.start_soon(leave_when_stopped)
            code = INTERRUPTED
            nursery.cancel_scope.cancel()

        async def leave_when_stopped() -> None:
            nonlocal code
            await session.until_stopped()
            code = INTERRUPTED
            nursery.cancel_scope.cancel()

        await nursery.start(session.run)
        nursery.start_soon(watch_signals)
        if prompt is not None:
            nursery.start_soon(_keep_prompting, session, prompt)
        pasted = PastedKeys(keys, reader, session.view.notice) if prompt is not None else None
        await _send_lines(session, lines, reader, prompt, limits, pasted)
        nursery.cancel_scope.cancel()
    if session.not_taken and prompt is None:
        return code or 1  # a program must be able to detect that one of its lines was refused
    return code or (UNCONFIRMED if session.unconfirmed else 0)


async def _send_lines(
    session: TerminalSession,
    lines: Lines,
    reader: Reader,
    prompt: Writer | None,
    limits: FileLimits,
    pasted: PastedKeys | None,
) -> None:
    """Send the lines until `/exit` or the end of the input; return when all lines have been answered.

    If a person leaves the chat, return immediately.
    """
    typed = TypedLines(session, limits, reader)
    while True:
        line = await lines.line()
        text = None if line is None else line.strip()
        if text and pasted is not None and (text := await pasted.take(text)) is None:
            if prompt is not None:
                await prompt.write(PROMPT)
            continue
        if text == "":
            if prompt is not None and not session.busy:
                await prompt.write(PROMPT)
        elif text is not None and is_stop(text):
            await session.say(text)
        elif prompt is not None and (text is None or text.lower() in TYPED_LEAVING):
            if text is None:
                await prompt.write("\n")
            if session.owing:
                await session.view.notice(
                    gettext(reader.language, "The turn continues. To see its reply later: rumi chat")
                )
            return
        elif await _answers_a_question(session, text, reader, person=prompt is not None):
            continue
        elif text is None or text.lower() in LEAVING:
            return
        elif prompt is not None and (unclear := await typed.unclear(text)):
            await session.view.notice("\n".join(unclear))
            await prompt.write(PROMPT)
        else:
            try:
                if is_own(text):
                    from rumi.channels.terminal.own import do_own

                    await do_own(text, session, reader)
                elif prompt is not None or command_of(text) is not None:
                    await typed.send(text)
                else:  # a program's line names no files; the first line gets those of the command line
                    names, session.attached_names = session.attached_names, ()
                    await session.say(text, await handed_files(names, limits, reader, session.view.notice))
            except RumiError as error:
                await session.view.notice(error_text(reader.language, error))


async def _answers_a_question(
    session: TerminalSession, text: str | None, reader: Reader, *, person: bool
) -> bool:
    """Wait until the chat is idle. Return True if the line was the answer to a question.

    A line that a person typed before the question was shown does not answer it.
    """
    # A person may have typed a yes to something else. A program writes its lines ahead, so its yes counts.
    early = person and session.confirming is None
    while session.owing if text is None else session.busy:
        if session.confirming is None:
            await session.changed()
        elif text is not None and is_answer(text) and not early:
            session.confirming = None
            await session.say(text)
            return True
        else:
            if person and text is not None:
                await session.answer(False)
            else:
                await session.refuse()
    return False


async def _keep_prompting(session: TerminalSession, prompt: Writer) -> None:
    """Show the prompt whenever it is the person's turn to type."""
    shown: object = None
    while True:
        state: object = None
        if session.confirming is not None:
            state = session.confirming.id
        elif not session.busy:
            state = session.sent
        if state is not None and state != shown:
            await prompt.write(PROMPT)
        if state == shown:
            await session.changed()
        shown = state
