"""Files attached to a message: with `-f FILE`, with `@file` in a text, dropped, or pasted.

The client's process looks at the files, with its user's rights. They are stored in the chat's workspace when
the message is sent, and the chat shows the model what they contain.
"""

import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

import trio

from rumi.channels.mentions import (
    HERE,
    Mentions,
    dropped,
    expanded,
    mentioned,
    missing_lines,
    names_nothing,
    names_of,
)
from rumi.channels.terminal.options import FileLimits
from rumi.channels.terminal.words import Reader, command_of
from rumi.chats.commands import parse_chat_command
from rumi.errors import UsageError
from rumi.platform.printable import one_line
from rumi.platform.texts.translation import error_text
from rumi.store.journal.records import Attachment
from rumi.texts import gettext, ngettext, os_error

if TYPE_CHECKING:
    from rumi.channels.terminal.session import TerminalSession

MOST_FILES: Final = 50
"""Maximum number of files attached to one message."""


async def named_in(text: str) -> Mentions:
    """Return the files and folders that a text mentions as `@name`, or that are all there is in the text.

    Names that look like missing files come with the name of a similar one.
    """
    if names_nothing(text):
        await trio.lowlevel.checkpoint()
        return Mentions()
    # Abandoned if cancelled: a look at a network file system may take long.
    return await trio.to_thread.run_sync(_named_in, text, abandon_on_cancel=True)


def _named_in(text: str) -> Mentions:
    paths = dropped(text)
    return Mentions(paths) if paths else mentioned(text)


async def handed_files(
    names: Sequence[str], limits: FileLimits, reader: Reader, report: Callable[[str], Awaitable[None]]
) -> tuple[Attachment, ...]:
    """Return files as attachments, each with its path on this machine; of a folder, the names in it.

    The same file is attached once. `report` is called with a sentence for each folder.

    Raises:
        UsageError: files cannot be read, or there are too many; the message has a sentence for each.
    """
    if len(names) > MOST_FILES:
        raise UsageError("You can attach at most {count} files to a message.", count=MOST_FILES)
    handed, problems = dict[str, Attachment](), list[str]()
    for name in names:
        try:
            path, attachment, line = await trio.to_thread.run_sync(
                _look_at, name, limits, reader, abandon_on_cancel=True
            )
        except UsageError as error:
            problems.append(error_text(reader.language, error))
            continue
        if path not in handed and line:
            await report(line)
        handed.setdefault(path, attachment)
    if problems:
        raise UsageError("{problems}", problems="\n".join(problems))
    return tuple(handed.values())


def _look_at(name: str, limits: FileLimits, reader: Reader) -> tuple[str, Attachment, str]:
    """Return a file's real path and its attachment; for a folder, also a sentence for the person.

    Raises:
        UsageError: The file cannot be read, is too large, or is neither an ordinary file nor a folder.
    """
    shown = one_line(name.encode("utf-8", "replace").decode())
    try:
        path = os.path.abspath(expanded(name))
        # Before it is opened: opening a device may have an effect.
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return (os.path.realpath(path), *_names_in(path, shown, reader))
        if not stat.S_ISREG(status.st_mode):
            raise UsageError("{name} is not a file.", name=shown)
        # Not blocking: something else may have taken the file's place.
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
    except (OSError, ValueError, RuntimeError) as error:
        why = os_error(error) if isinstance(error, OSError) else str(error)
        raise UsageError("{name} cannot be read: {why}.", name=shown, why=why) from None
    if status.st_size > limits.megabytes << 20:
        raise UsageError(
            "{name} is larger than {count} MB ([session] file_mb).", name=shown, count=limits.megabytes
        )
    attachment = Attachment("file", reference=path, name=os.path.basename(path), size_bytes=status.st_size)
    return os.path.realpath(path), attachment, ""


def _names_in(path: str, shown: str, reader: Reader) -> tuple[Attachment, str]:
    """Return the names in a folder as an attachment, and a sentence about it for the person."""
    os.close(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))  # the reason if it cannot be read
    source = f"the names in the folder {shown} of the user's machine, without the files' content"
    names = names_of(HERE.entries(path), source)
    count = 0 if names.text == "(empty)" else names.text.count("\n") + 1
    line = ngettext(
        reader.language,
        "📁 {name}: the model gets its {count} name, and no file of it.",
        "📁 {name}: the model gets its {count} names, and no file of it.",
        count,
        name=shown,
    )
    if names.cut:
        line += " " + gettext(reader.language, "More names are left out.")
    return names, line


class TypedLines:
    """Sends what a person types. A line that names a missing file is not sent, unless it comes once more."""

    def __init__(self, session: "TerminalSession", limits: FileLimits, reader: Reader) -> None:
        self._session = session
        self._limits = limits
        self._reader = reader
        self._held_back = ""

    async def unclear(self, text: str) -> Sequence[str]:
        """Return a sentence for each missing file that a line names; empty if the line may be sent."""
        again, self._held_back = text == self._held_back, ""
        if again or command_of(text) is not None or parse_chat_command(text) is not None:
            return ()
        found = await named_in(text)
        if not found.missing:
            return ()
        self._held_back = text
        language = self._reader.language
        question = gettext(language, "Not sent. Correct the name, or send the line again as it is.")
        return (*missing_lines(found, language), question)

    async def send(self, text: str) -> None:
        """Send a line with the files that it names, and those that wait for the next message.

        Raises:
            RumiError: a file cannot be read or stored. Then the line was not sent.
        """
        session = self._session
        if (command := command_of(text)) is not None:
            await session.say(text, (Attachment("command", text=command),))
            return
        if parse_chat_command(text) is not None:  # takes no files: they wait for a message
            await session.say(text)
            return
        names = (*session.attached_names, *(await named_in(text)).names)
        session.attached_names = ()
        await session.say(text, await handed_files(names, self._limits, self._reader, session.view.notice))
