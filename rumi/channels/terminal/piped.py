"""The message given with `-p`: its text, and the data piped to standard input.

Reading piped data is limited in time and length. It happens before the command locks the home or attaches to
the daemon, so that no other process waits for a slow pipe.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from rumi.channels.mentions import missing_lines
from rumi.channels.terminal.files import handed_files, named_in
from rumi.channels.terminal.once import COMMAND
from rumi.channels.terminal.options import FileLimits
from rumi.channels.terminal.streams import InputStream, StandardStreams
from rumi.channels.terminal.words import Reader, command_of
from rumi.errors import UsageError
from rumi.store.journal.records import Attachment
from rumi.texts import Language, Text, gettext

SILENT_S: Final = 3.0
"""Maximum wait for the first data on a pipe, in seconds: many callers never write or close their pipe."""

PAUSE_S: Final = 10.0
"""Maximum pause between two pieces of piped data, in seconds."""

SOURCE: Final = "standard input"


async def what_to_send(
    prompt: str, streams: StandardStreams, language: Language, limits: FileLimits, files: Sequence[str] = ()
) -> tuple[str, tuple[Attachment, ...]]:
    """Return the text of a single turn and its attachments. The text `-` means: read it from standard input.

    The attachments are the `files`, the files that `@name` in the text refers to, and piped data. If the text
    is a chat command, or `!` with a command for the sandbox, nothing is read, because commands take no data.
    In a text from standard input, `@name` and `!` have no meaning.

    Raises:
        UsageError: there is nothing to send, a file cannot be read, or the text names a file that is missing.
    """
    reader, text = Reader(language), prompt.strip()

    async def warn(line: str) -> None:
        await streams.errors.write(f"{line}\n")

    attachments: tuple[Attachment, ...] = ()
    if text == "-":
        text = (await streams.input.everything()).strip()
        attachments = await handed_files(files, limits, reader, warn)
    elif (command := command_of(text)) is not None:
        if files:
            raise UsageError("A command with ! takes no files.", "Send them in a message of their own.")
        attachments = (Attachment("command", text=command),)
    elif text and not COMMAND.fullmatch(text):
        found = await named_in(text)
        if found.missing:
            raise UsageError(
                "{problems}",
                Text("Write \\@ for an @ that names no file."),
                problems="\n".join(missing_lines(found, reader.language)),
            )
        attachments = await handed_files((*files, *found.names), limits, reader, warn)
        attachments += await _piped(streams.input, limits.chars, reader, warn)
    if not text:
        raise UsageError("There is nothing to send: the text is empty.")
    return text, attachments


async def check_files(files: Sequence[str], language: Language, limits: FileLimits) -> None:
    """Check files that go with the first message, so that the person is told at the start.

    Raises:
        UsageError: a file cannot be read, or there are too many.
    """

    async def drop(line: str) -> None:  # it comes again with the message
        await trio.lowlevel.checkpoint()

    await handed_files(files, limits, Reader(language), drop)


async def _piped(
    source: InputStream, max_chars: int, reader: Reader, report: Callable[[str], Awaitable[None]]
) -> tuple[Attachment, ...]:
    """Return at most `max_chars` characters of a pipe or file on standard input, as an attachment.

    Without a pipe or file, return nothing. `report` is called with a sentence if the data was cut or did not
    arrive. If cancelled, the data that was read is lost.
    """
    if not source.piped:
        return ()
    from rumi.platform.text_decoding import decode  # at first use: most messages have no piped data

    # No encoding has more characters than bytes. Decoded again each time that a quarter more has come.
    data, text, silent, looked_at = bytearray(), "", False, max_chars
    while len(text) <= max_chars and not silent:
        with trio.move_on_after(PAUSE_S if data else SILENT_S) as patience:
            piece = await source.more()
            if not piece:
                break
            data += piece
            if len(data) > looked_at:
                text, looked_at = decode(bytes(data)), len(data) * 5 // 4
        silent = patience.cancelled_caught
    text = decode(bytes(data))
    if silent:
        await report(
            (
                gettext(
                    reader.language,
                    "Standard input paused for {pause:g} s: the turn runs with what had come by then.",
                )
                if text
                else gettext(
                    reader.language,
                    "Nothing came on standard input for {seconds:g} s: the turn runs without it.",
                )
            ).format(seconds=SILENT_S, pause=PAUSE_S)
        )
    elif len(text) > max_chars:
        await report(
            gettext(
                reader.language,
                "Only the first {count} characters of standard input are used ([session] handed_chars).",
                count=max_chars,
            )
        )
    if not text.strip():
        return ()
    cut = silent or len(text) > max_chars
    return (Attachment("words", source=SOURCE, text=text[:max_chars], cut=cut),)
