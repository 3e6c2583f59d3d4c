"""The entry point of the terminal: it chooses the front end, and handles signals and closed outputs."""

from collections.abc import AsyncIterator

import trio

from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.session import SIGNALS, ConversationView, TerminalSession
from rumi.channels.terminal.streams import OutputClosedError, StandardStreams, capable
from rumi.channels.terminal.words import LEAVING, Reader, is_own
from rumi.chats.commands import RESET_FILES, deletes_files
from rumi.chats.port import ChatPort
from rumi.errors import UsageError, single
from rumi.platform.config.providers import OFFLINE


async def run_terminal(
    port: ChatPort, options: TerminalOptions, streams: StandardStreams | None = None
) -> int:
    """Run a terminal chat until the turn or the input ends, or the person leaves; return the exit code.

    - With `options.prompt`: one turn (see `once`).
    - If standard input and output are a terminal with a movable cursor: the interactive chat.
    - Otherwise, and always with `options.json`: line by line (see `plain.converse`).

    While it runs, this function handles SIGINT, SIGTERM and SIGHUP, so it must be called in the main thread.
    If the output is closed, it ends without an error. If cancelled, it restores the terminal.
    """
    streams = streams or StandardStreams()
    with trio.open_signal_receiver(*SIGNALS) as signals:
        try:
            return await _run(port, options, streams, signals)
        except OutputClosedError:
            return 0
        except BaseExceptionGroup as group:
            _, others = group.split(OutputClosedError)
            if others is None:
                return 0
            # The nurseries have wrapped an error of the chat in groups; raise the error itself to the caller.
            only = single(others)
            raise only from only.__cause__


async def _run(
    port: ChatPort, options: TerminalOptions, streams: StandardStreams, signals: AsyncIterator[int]
) -> int:
    # Imported here, so that no front end waits at its start for the libraries of another.
    if options.prompt is not None:
        return await _once(port, options, streams, signals)
    if not options.json and streams.input.terminal and capable(streams.output):
        from rumi.channels.terminal.interactive import interact

        return await interact(port, options, streams, signals)
    from rumi.channels.terminal.plain import PlainView, converse

    reader = Reader(options.language, options.workspace)
    if options.json:
        from rumi.channels.terminal.jsonl import JsonView

        view: ConversationView = JsonView(streams.output, streams.errors, reader)
    else:
        view = PlainView(streams.output, streams.errors, reader)
    person = streams.input.terminal and not options.json
    session = TerminalSession(port, view, reader, yes=options.yes, alone=not person)
    session.attached_names = options.files
    prompt = (streams.output if streams.output.terminal else streams.errors) if person else None
    return await converse(
        session,
        streams.input,
        signals,
        reader=reader,
        prompt=prompt,
        limits=options.limits,
        keys=options.key_adopter,
    )


async def _once(
    port: ChatPort, options: TerminalOptions, streams: StandardStreams, signals: AsyncIterator[int]
) -> int:
    from rumi.channels.terminal.once import once

    reader = Reader(options.language, options.workspace)
    text, attachments = options.prompt or "", options.attachments
    if text.lower() in LEAVING:
        return 0
    if deletes_files(text):
        if not options.yes:
            raise UsageError(
                "Can't ask for confirmation here, and /reset files deletes the chat's files.",
                "Add --yes if that is what you want.",
            )
        text = RESET_FILES

    # A person can only answer questions that are shown on a terminal.
    seen = capable(streams.output) or streams.errors.terminal
    person = streams.input if streams.input.terminal and seen and not options.json else None

    def session(view: ConversationView) -> TerminalSession:
        return TerminalSession(port, view, reader, yes=options.yes, alone=True)

    if options.json:
        from rumi.channels.terminal.jsonl import JsonView

        view: ConversationView = JsonView(streams.output, streams.errors, reader, extract=options.extract)
    elif options.extract:
        from rumi.channels.terminal.code_blocks import CodeView

        view = CodeView(streams.output, streams.errors, reader, terminal=streams.output.terminal)
    elif not capable(streams.output) or is_own(text):
        from rumi.channels.terminal.plain import PlainView

        view = PlainView(streams.output, streams.errors, reader, failures_apart=True)
    else:
        from rumi.channels.terminal.live import LiveView
        from rumi.channels.terminal.paint import Painter
        from rumi.channels.terminal.screen import LiveScreen

        screen = LiveScreen(streams.output)
        live = LiveView(
            screen,
            Painter(),
            reader,
            answered_below=person is not None,
            brief=lambda: port.model == OFFLINE,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(live.run)
                code = await once(
                    session(live), text, signals, reader=reader, attachments=attachments, person=person
                )
                nursery.cancel_scope.cancel()
        finally:
            # Shielded, or a cancelled turn would leave the cursor hidden; bounded, because a terminal stopped
            # with Ctrl-S blocks writes.
            with trio.CancelScope(shield=True), trio.move_on_after(1):
                await screen.close()
        return code
    if is_own(text):
        from rumi.channels.terminal.own import do_own

        await do_own(text, session(view), reader)
        return 0
    code = await once(session(view), text, signals, reader=reader, attachments=attachments, person=person)
    return code or int(getattr(view, "missing", False))
