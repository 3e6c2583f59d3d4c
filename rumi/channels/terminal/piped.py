"""What `-p` sends: its text, and data that is piped beside it, read within bounds of time and length.

It is read before the home is held or a window is opened, so that a slow pipe makes no other process wait.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from rumi.channels.terminal.files import handed_files, named_in
from rumi.channels.terminal.once import COMMAND
from rumi.channels.terminal.streams import InputStream, StandardStreams
from rumi.channels.terminal.words import Phrases, words_for
from rumi.errors import UsageError
from rumi.platform.texts.language import Language
from rumi.store.journal.records import Attachment

SILENT_S: Final = 3.0
"""How long the first data may take: many programs pass on a pipe that nobody writes to or closes."""

PAUSE_S: Final = 10.0
"""How long the data may pause once it has begun."""

SOURCE: Final = "standard input"


async def what_to_send(
    prompt: str, streams: StandardStreams, language: Language, max_chars: int, files: Sequence[str] = ()
) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a single turn (`-` reads it from standard input), and what it hands on.

    That are the `files`, those that `@name` in the text means, and what is piped beside it. A command takes
    no data, so nothing is read for it. In a text from standard input `@name` means nothing.

    Raises:
        UsageError: there is nothing to send, or a file cannot be read.
    """
    words, text = words_for(language), prompt.strip()

    async def warn(line: str) -> None:
        await streams.errors.write(f"{line}\n")

    attachments: tuple[Attachment, ...] = ()
    if text == "-":
        text = (await streams.input.everything()).strip()
        attachments = await handed_files(files, max_chars, words, warn)
    elif text and not COMMAND.fullmatch(text):
        names = tuple(dict.fromkeys((*files, *named_in(text))))
        attachments = await handed_files(names, max_chars, words, warn)
        attachments += await _piped(streams.input, max_chars, words, warn)
    if not text:
        raise UsageError(words.nothing_to_send)
    return text, attachments


async def _piped(
    source: InputStream, max_chars: int, words: Phrases, report: Callable[[str], Awaitable[None]]
) -> tuple[Attachment, ...]:
    """Return what a pipe or a file on standard input says, at most `max_chars` of it; nothing without one.

    `tell` says what was left out. Cancelled, what was read is lost.
    """
    if not source.piped:
        return ()
    pieces: list[str] = []
    length, silent = 0, False
    while length <= max_chars and not silent:
        with trio.move_on_after(PAUSE_S if pieces else SILENT_S) as patience:
            piece = await source.more()
            if piece is None:
                break
            pieces.append(piece)
            length += len(piece)
        silent = patience.cancelled_caught
    text = "".join(pieces)
    if silent:
        await report(
            (words.input_paused if text else words.input_silent).format(seconds=SILENT_S, pause=PAUSE_S)
        )
    elif length > max_chars:
        await report(words.input_cut.format(count=max_chars))
    if not text.strip():
        return ()
    cut = silent or length > max_chars
    return (Attachment("words", source=SOURCE, text=text[:max_chars], cut=cut),)
