"""The interactive terminal chat: a person types, sees the answer grow, and can stop it at any time."""

import math
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import trio

from rumi.channels.terminal import status_bar
from rumi.channels.terminal.files import TypedLines
from rumi.channels.terminal.interface import End, Glance, Interrupt, Line, Said, Typed, Unfold
from rumi.channels.terminal.live import LiveView
from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.paint import Painter
from rumi.channels.terminal.pasted_keys import PastedKeys
from rumi.channels.terminal.prompt import PromptScreen
from rumi.channels.terminal.session import INTERRUPTED, TerminalSession
from rumi.channels.terminal.status_bar import BarPart, context_share, cost_text
from rumi.channels.terminal.streams import StandardStreams
from rumi.channels.terminal.words import TYPED_LEAVING, Reader, is_own, shown_model
from rumi.chats.port import ChatPort
from rumi.errors import RumiError
from rumi.platform.config.providers import OFFLINE
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

    def toolbar() -> list[BarPart]:
        queued = gettext(reader.language, "{count} queued", count=session.queued) if session.queued else ""
        return [
            BarPart(shown_model(port.model, reader.language), status_bar.MODEL),
            BarPart(options.engine, status_bar.ENGINE),
            BarPart(port.chat, status_bar.CHAT),
            BarPart(view.last_turn, status_bar.LAST_TURN),
            BarPart(queued, status_bar.QUEUED),
            BarPart(context_share(session.figures), status_bar.CONTEXT),
            BarPart(cost_text(session.figures), status_bar.COST),
        ]

    glance = Glance(
        toolbar=toolbar,
        asking=lambda: session.confirming is not None,
        working=lambda: session.busy,
    )

    def attend(seconds: float | None) -> None:
        """Call a person who looks elsewhere: a turn that took `seconds` has ended, or a question waits."""
        if screen.focused or (seconds is not None and seconds < options.notify_s):
            return
        from rumi.channels.terminal.notices import notice

        screen.send(notice(port.chat, options.notify, os.environ, reader.language, asks=seconds is None))

    screen = PromptScreen(streams, reader, options, glance)
    view = LiveView(
        screen,
        Painter(light=lambda: screen.light),
        reader,
        prompted=True,
        attend=attend,
        brief=lambda: port.model == OFFLINE,
    )
    session = TerminalSession(port, view, reader, yes=options.yes)
    session.attached_names = options.files
    session.show_past = view.recalled
    session.refused = screen.offer
    # Unbounded: typed lines must never wait, and a person types little.
    send, typed = trio.open_memory_channel[_Input](math.inf)
    async with trio.open_nursery() as nursery:
        # The order matters: the greeting and the recalled turns are printed before `session.run` prints
        # unread replies, and signals are read only when the session can handle them.
        await nursery.start(screen.run, send)
        nursery.start_soon(view.run)
        await view.notice(
            gettext(reader.language, "/help lists the commands · ? shows the keys · Ctrl-D leaves")
        )
        await view.recalled(await session.recall())
        await nursery.start(session.run)
        nursery.start_soon(_forward, signals, screen, send)
        keys = PastedKeys(options.key_adopter, reader, view.notice)
        lines = TypedLines(session, options.limits, reader)
        code = await _serve(session, view, screen, reader, options, keys, lines, typed)
        with trio.move_on_after(1):
            await view.clear()
        nursery.cancel_scope.cancel()
    return code


@dataclass(frozen=True, slots=True)
class _Leave:
    """A signal to the process has ended the chat."""


_Input: TypeAlias = Typed | _Leave


async def _forward(
    signals: AsyncIterator[int], screen: PromptScreen, send: trio.MemorySendChannel[_Input]
) -> None:
    async for number in signals:
        if number == signal.SIGINT and screen.away:
            continue  # Ctrl-C in an editor or a pager, which has the terminal
        screen.dismiss()  # nothing is handled while a picker is open
        send.send_nowait(Interrupt() if number == signal.SIGINT else _Leave())


async def _serve(
    session: TerminalSession,
    view: LiveView,
    screen: PromptScreen,
    reader: Reader,
    options: TerminalOptions,
    keys: PastedKeys,
    lines: TypedLines,
    typed: trio.MemoryReceiveChannel[_Input],
) -> int:
    """Handle input until the person or a signal ends the chat; return the exit code.

    If a turn is running at that moment, it continues in the daemon. A line that was not sent comes back
    into the input line.
    """

    async def unfold(*, everything: bool) -> None:
        text = await view.whole(everything=everything)
        if text:
            await screen.page(text)
        else:
            await view.notice(
                gettext(
                    reader.language, "No output is folded. /transcript shows all that this window has shown."
                )
            )

    async for what in typed:
        match what:
            case Line(line) if line.lower() in TYPED_LEAVING:
                break
            case Line(line):
                text: str | None = line
                if unclear := await lines.unclear(line):
                    await view.notice("\n".join(unclear))
                    screen.offer(line)
                    continue
                await view.typed(keys.shown(line))
                try:
                    text = await keys.take(line)
                    if text is None:
                        continue
                    if text.lower() == "/sessions":
                        from rumi.channels.terminal.sessions import pick_session  # few people use it

                        number = await pick_session(session.port, screen.pick, reader)
                        if number is not None:
                            await session.say(f"/sessions {number}" if number else text)
                        continue
                    if is_own(text):
                        from rumi.channels.terminal.own import do_own

                        await do_own(
                            text,
                            session,
                            reader,
                            view.copy,
                            screen.pick,
                            options.models,
                            partial(unfold, everything=True),
                        )
                    else:
                        await lines.send(text)
                except RumiError as error:  # not fatal: the person can correct the message and send it again
                    await view.notice(error_text(reader.language, error))
                    if text is not None and not is_own(text):
                        screen.offer(text)
            case Said(text):
                await view.notice(text)
            case Unfold():
                await unfold(everything=False)
            case Interrupt(cleared, leaves):
                if not leaves and session.stopping:
                    continue  # Esc may be pressed often
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
        await view.notice(gettext(reader.language, "The turn continues. To see its reply later: rumi chat"))
    return 0
