"""Choosing a session of a chat in the terminal."""

from collections.abc import Sequence
from datetime import datetime

import trio

from rumi.channels.terminal.choices import Choice, Pick
from rumi.channels.terminal.interface import Glance, Typed
from rumi.channels.terminal.options import TerminalOptions
from rumi.channels.terminal.prompt import PromptScreen
from rumi.channels.terminal.streams import StandardStreams
from rumi.channels.terminal.words import Reader
from rumi.chats.port import ChatPort
from rumi.platform.printable import flat
from rumi.store.journal.records import StoredSession
from rumi.texts import Language, gettext, ngettext


def session_choice(language: Language, session: StoredSession, *, with_chat: bool = False) -> Choice:
    """Return a session as an entry of a picker; its value is `CHAT:NUMBER`."""
    words = flat(session.text) or gettext(language, "(no words of yours)")
    count = ngettext(language, "{count} message", "{count} messages", session.messages)
    chat = f"  {session.chat}" if with_chat else ""
    when = datetime.fromtimestamp(session.at)
    return Choice(
        f"{when:%Y-%m-%d %H:%M}{chat}  {words}",
        f"{session.chat}:{session.number}",
        count,
        session.current,
    )


async def pick_session(port: ChatPort, pick: Pick, reader: Reader) -> int | None:
    """Let the person choose a session of the chat; return its number, or None if they choose none.

    Return 0, without a picker, if the chat has no other session.
    """
    sessions = await port.sessions()
    if all(session.current for session in sessions):
        return 0
    choices = [session_choice(reader.language, session) for session in sessions]
    chosen = await pick(gettext(reader.language, "Sessions of this chat"), choices)
    return None if chosen is None else int(chosen.rpartition(":")[2])


async def choose(
    streams: StandardStreams, options: TerminalOptions, title: str, choices: Sequence[Choice]
) -> str | None:
    """Let the person choose before a chat begins; return the value of the choice, or None.

    Raises:
        OutputClosedError: the terminal is closed.
    """
    glance = Glance(toolbar=list, asking=lambda: False, working=lambda: False)
    screen = PromptScreen(streams, Reader(options.language), options, glance)
    send, _ = trio.open_memory_channel[Typed](float("inf"))
    async with trio.open_nursery() as nursery:
        await nursery.start(screen.run, send)
        chosen = await screen.pick(title, choices)
        nursery.cancel_scope.cancel()
    return chosen
