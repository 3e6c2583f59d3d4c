"""The one sandbox that a chat's tools can reach, and the mark of what came into it from outside."""

from rumi.chats.services import Sandboxes
from rumi.chats.session import ChatSession
from rumi.sandbox import Command, CommandResult, may_write


class ChatShell:
    """Runs one chat's commands.

    A command that a tainted turn wrote may put what it read into a file. From then on every command of the
    chat may read it there, in this session or a later one: its result is tainted, until the files are gone.
    """

    def __init__(self, chat: str, sandboxes: Sandboxes, chat_session: ChatSession) -> None:
        self._chat = chat
        self._sandboxes = sandboxes
        self._session = chat_session

    @property
    def tainted(self) -> bool:
        """Return True if something in the files may have come from outside."""
        return self._session.files_tainted

    async def prepare(self) -> None:
        """Make the sandbox ready."""
        await self._sandboxes.prepare(self._chat)

    async def touched(self) -> None:
        """Something may change the files, or has: in a tainted session they are marked."""
        if self._session.tainted:
            await self._session.mark_files(True)

    async def run(self, command: Command) -> CommandResult:
        """Run a command. The mark is on the disk before it begins."""
        if self._session.tainted and may_write(command.argv):
            await self._session.mark_files(True)
        return await self._sandboxes.run(self._chat, command)
