"""Commands of the terminal itself, which are never sent to the chat, such as `/copy` and `/model`."""

import base64
import time
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import Final

from rumi.channels.terminal.choices import Choice, Pick
from rumi.channels.terminal.options import ModelName
from rumi.channels.terminal.session import Settled, TerminalSession
from rumi.channels.terminal.words import Reader
from rumi.chats.events import ChatEvent, Replied
from rumi.chats.port import ChatPort
from rumi.errors import RumiError, UsageError
from rumi.texts import gettext

MOST_COPIED: Final = 74_994
"""Maximum number of bytes to copy: in base64, every terminal that supports OSC 52 accepts them."""


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
    pick: Pick | None = None,
    models: Sequence[ModelName] = (),
    unfold: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Execute a command of the terminal.

    `copy` writes a control sequence and a notice to the terminal; it is None if the output is not a terminal.
    `pick` lets the person choose one of `models`, and `unfold` shows all that was shown in this window; they
    are None if there is no input line.

    Raises:
        RumiError: the command failed.
    """
    command, *rest = text.split(maxsplit=1)
    port = session.port
    if command.lower() == "/model":
        if not rest and pick is not None and models:
            choices = [Choice(one.name, one.name, one.detail, one.name == port.model) for one in models]
            chosen = await pick(gettext(reader.language, "Model of this window"), choices)
            if chosen is None:
                return
            rest = [chosen]
        if rest:
            await _use(port, rest[0], models)
        said = (
            gettext(reader.language, "From this window's next message on: {model}", model=port.model)
            if rest
            else gettext(reader.language, "Model of this window: {model}", model=port.model)
        )
        reply = Replied(0, (), said)
        await session.view.reply(ChatEvent(port.chat, "", time.time(), reply), Settled(reply, None))
    elif command.lower() == "/transcript":
        if unfold is None:
            raise UsageError("/transcript needs a terminal: it shows there all that this window has shown.")
        await unfold()
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


async def _use(port: ChatPort, name: str, models: Sequence[ModelName]) -> None:
    """Change the model; if that fails, name the configured model that is most similar.

    Raises:
        RumiError: the model cannot be used.
    """
    try:
        await port.use_model(name)
    except RumiError as error:
        names = {model.name.lower(): model.name for model in models}
        near = get_close_matches(name.lower(), names, n=1)
        if not near:
            raise
        raise UsageError(error.message, "Did you mean {meant}?", meant=names[near[0]]) from error
