"""Commands of the terminal itself, which never reach the chat: `/copy` and `/model`. (`/exit` leaves.)"""

import base64
import time
from collections.abc import Awaitable, Callable
from typing import Final

from rumi.channels.terminal.session import Settled, TerminalSession
from rumi.channels.terminal.words import Phrases
from rumi.chats.events import ChatEvent, Replied
from rumi.errors import UsageError

OWN: Final = ("/copy", "/model")

MOST_COPIED: Final = 74_994
"""Bytes that are copied: their base64 is what every terminal takes that knows the sequence at all."""


def is_own(text: str) -> bool:
    """Return True if a line is a command of the terminal."""
    return text.lower().split()[:1] in ([command] for command in OWN)


def copying(text: str) -> tuple[str, int]:
    """Return the sequence (OSC 52) by which a terminal puts a text into the clipboard, and its characters.

    Of a longer text it has the beginning.
    """
    kept = text.encode("utf-8", "replace")[:MOST_COPIED].decode("utf-8", "ignore")
    return f"\x1b]52;c;{base64.b64encode(kept.encode()).decode()}\x07", len(kept)


async def do_own(
    text: str,
    session: TerminalSession,
    words: Phrases,
    copy: Callable[[str, str], Awaitable[None]] | None = None,
) -> None:
    """Do what the line asks for. `copy` writes a sequence to the terminal, with a notice; None without one.

    Raises:
        RumiError: it cannot be done.
    """
    command, *rest = text.split(maxsplit=1)
    port = session.port
    if command.lower() == "/model":
        if rest:
            await port.use_model(rest[0])
        said = words.model_chosen if rest else words.model_in_use
        reply = Replied(0, (), said.format(model=port.model))
        await session.view.reply(ChatEvent(port.chat, "", time.time(), reply), Settled(reply, None))
    elif copy is None:
        raise UsageError(words.copy_needs_terminal)
    elif not session.last_answer:
        raise UsageError(words.nothing_to_copy)
    else:
        sequence, characters = copying(session.last_answer)
        cut = characters < len(session.last_answer)
        said = words.copied_beginning if cut else words.copied
        await copy(sequence, said.format(count=characters))
