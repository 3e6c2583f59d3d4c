"""Commands of the terminal itself, which are never sent to the chat: `/copy`, `/model` and `/paste`."""

import base64
import time
from collections.abc import Awaitable, Callable
from typing import Final

from rumi.channels.terminal.session import Settled, TerminalSession
from rumi.channels.terminal.words import Reader
from rumi.chats.events import ChatEvent, Replied
from rumi.errors import UsageError
from rumi.texts import gettext

OWN: Final = ("/copy", "/model", "/paste")

MOST_COPIED: Final = 74_994
"""Maximum number of bytes to copy: in base64, every terminal that supports OSC 52 accepts them."""


def is_own(text: str) -> bool:
    """Return True if a line is a command of the terminal itself."""
    return text.lower().split()[:1] in ([command] for command in OWN)


def copying(text: str) -> tuple[str, int]:
    """Return the control sequence (OSC 52) that copies a text to the clipboard, and the number of characters.

    If the text is longer than `MOST_COPIED` characters, only its beginning is copied.
    """
    copied = text.encode("utf-8", "replace")[:MOST_COPIED].decode("utf-8", "ignore")
    return f"\x1b]52;c;{base64.b64encode(copied.encode()).decode()}\x07", len(copied)


async def do_own(
    text: str,
    session: TerminalSession,
    reader: Reader,
    copy: Callable[[str, str], Awaitable[None]] | None = None,
) -> None:
    """Execute a command of the terminal.

    `copy` writes a control sequence and a notice to the terminal; it is None if the output is not a terminal.

    Raises:
        RumiError: the command failed.
    """
    command, *rest = text.split(maxsplit=1)
    port = session.port
    if command.lower() == "/model":
        if rest:
            await port.use_model(rest[0])
        said = (
            gettext(reader.language, "From this window's next message on: {model}", model=port.model)
            if rest
            else gettext(reader.language, "Model of this window: {model}", model=port.model)
        )
        reply = Replied(0, (), said)
        await session.view.reply(ChatEvent(port.chat, "", time.time(), reply), Settled(reply, None))
    elif command.lower() == "/paste":
        # Imported here, because few sessions paste a picture.
        from rumi.channels.terminal.clipboard import clipboard_picture

        path = await clipboard_picture()
        session.attached_names = (*session.attached_names, path)
        await session.view.notice(
            gettext(reader.language, "The picture in the clipboard goes with your next message.")
        )
    elif copy is None:
        raise UsageError("/copy needs a terminal: it copies the last answer to its clipboard.")
    elif not session.last_answer:
        raise UsageError("There is no answer to copy yet.")
    else:
        sequence, characters = copying(session.last_answer)
        cut = characters < len(session.last_answer)
        said = (
            gettext(
                reader.language,
                "Copied the beginning of the last answer: {count} characters.",
                count=characters,
            )
            if cut
            else gettext(
                reader.language,
                "Copied the last answer: {count} characters, if the terminal allows it.",
                count=characters,
            )
        )
        await copy(sequence, said)
