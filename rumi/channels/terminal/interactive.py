"""The interactive terminal chat: a person types, sees the answer grow, and can stop it at any time."""

import math
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TypeAlias

import trio

from rumi.channels.terminal.files import TypedLines
from rumi.channels.terminal.interface import End, Glance, Interrupt, Line, Typed
from rumi.channels.terminal.live import LiveView
from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.own import do_own, is_own
from rumi.channels.terminal.paint import Painter
from rumi.channels.terminal.prompt import PromptScreen
from rumi.channels.terminal.session import INTERRUPTED, TerminalSession
from rumi.channels.terminal.streams import StandardStreams
from rumi.channels.terminal.words import TYPED_LEAVING, Reader
from rumi.chats.port import ChatPort
from rumi.errors import RumiError
from rumi.platform.texts.translation import error_text
from rumi.texts import gettext


async def interact(
    port: ChatPort, options: TerminalOptions, streams: StandardStreams, signals: AsyncIterator[int]
) -> int:
    """Run the chat until the person leaves; return the exit code.

    Typed lines go to the chat at once, even during a turn. The chat handles `/stop`, `/status`, a yes or a no
    immediately. It queues every other line, or replies that it is busy.

    Raises:
        OutputClosedError: the terminal is closed.
    """
    reader = Reader(options.language, options.workspace)

    def toolbar() -> str:
        queued = gettext(reader.language, "{count} queued", count=session.queued) if session.queued else ""
        parts = (port.model, options.engine, port.chat, view.last_turn, queued)
        return " " + " · ".join(part for part in parts if part)

    glance = Glance(
        toolbar=toolbar,
        asking=lambda: session.confirming is not None,
        working=lambda: session.busy,
    )
    screen = PromptScreen(streams, reader, options.history_path, glance)
    view = LiveView(screen, Painter(), reader, prompted=True)
    session = TerminalSession(port, view, reader, yes=options.yes)
    session.attached_names = options.files
    session.refused = screen.offer
    # Unbounded: typed lines must never wait, and a person types little.
    send, typed = trio.open_memory_channel[_Input](math.inf)
    async with trio.open_nursery() as nursery:
        # The order matters: the greeting and the recalled turns are printed before `session.run` prints
        # unread replies, and signals are read only when the session can handle them.
        await nursery.start(screen.run, send)
        nursery.start_soon(view.run)
        await view.notice(
            gettext(reader.language, "/help lists the commands · Alt-Enter starts a new line · Ctrl-D leaves")
        )
        await view.recalled(await session.recall())
        await nursery.start(session.run)
        nursery.start_soon(_forward, signals, send)
        lines = TypedLines(session, options.limits, reader)
        code = await _serve(session, view, reader, lines, screen.offer, typed)
        with trio.move_on_after(1):
            await view.clear()
        nursery.cancel_scope.cancel()
    return code


@dataclass(frozen=True, slots=True)
class _Leave:
    """A signal to the process has ended the chat."""


_Input: TypeAlias = Typed | _Leave


async def _forward(signals: AsyncIterator[int], send: trio.MemorySendChannel[_Input]) -> None:
    async for number in signals:
        send.send_nowait(Interrupt() if number == signal.SIGINT else _Leave())


async def _serve(
    session: TerminalSession,
    view: LiveView,
    reader: Reader,
    lines: TypedLines,
    offer: Callable[[str], None],
    typed: trio.MemoryReceiveChannel[_Input],
) -> int:
    """Handle input until the person or a signal ends the chat; return the exit code.

    If a turn is running at that moment, it continues in the daemon. `offer` puts a line that was not sent
    back into the input line.
    """
    async for what in typed:
        match what:
            case Line(text) if text.lower() in TYPED_LEAVING:
                break
            case Line(text):
                if unclear := await lines.unclear(text):
                    await view.notice("\n".join(unclear))
                    offer(text)
                    continue
                await view.typed(text)
                try:
                    if is_own(text):
                        await do_own(text, session, reader, view.copy)
                    else:
                        await lines.send(text)
                except RumiError as error:  # not fatal: the person can correct the message and send it again
                    await view.notice(error_text(reader.language, error))
                    if not is_own(text):
                        offer(text)
            case Interrupt(cleared):
                if not session.busy:
                    if not cleared:
                        await view.notice(gettext(reader.language, "Ctrl-D or exit leaves."))
                elif await session.interrupt():
                    return INTERRUPTED
            case End():
                break
            case _Leave():
                return INTERRUPTED
    if session.owing:
        await view.notice(gettext(reader.language, "The turn goes on; its reply waits for you: rumi chat"))
    return 0
