"""A line that a person types: a message with the files that it names, or a command for the sandbox."""

from collections.abc import Sequence

from rumi.channels.terminal.files import handed_files, missing_lines, named_in
from rumi.channels.terminal.options import FileLimits
from rumi.channels.terminal.session import TerminalSession
from rumi.channels.terminal.words import Reader, command_of
from rumi.chats.commands import parse_chat_command
from rumi.store.journal.records import Attachment
from rumi.texts import gettext


class TypedLines:
    """Sends what a person types. A line that names a missing file is not sent, unless it comes once more."""

    def __init__(self, session: TerminalSession, limits: FileLimits, reader: Reader) -> None:
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
        return (*missing_lines(found, self._reader), question)

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
