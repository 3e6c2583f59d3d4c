"""What chats share: each of them, and its worker, may touch this and no more. Their sandboxes and files."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

import trio

from actors import ActorRef
from rumi.chats.commands import ChatCommand
from rumi.chats.context import ChatContext
from rumi.chats.fact_extraction import FactExtraction
from rumi.chats.hub import Hub
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.recorder.recorder import Recorder
from rumi.chats.session import ChatSession
from rumi.chats.undo.restoring import Restoring
from rumi.chats.undo.snapshots import Snapshots
from rumi.errors import RumiError
from rumi.platform.texts import replies as reply_texts
from rumi.platform.texts.language import Language
from rumi.platform.threads import Offload
from rumi.sandbox.engine import Command, CommandResult
from rumi.sandbox.policy import STRICT, CommandPolicy, may_write
from rumi.sandbox.workspace import WorkspaceUse, measure
from rumi.sandbox.workspace import clear as clear_workspace
from rumi.sandbox.workspace import remove as remove_workspace
from rumi.store.journal.records import Incoming
from rumi.store.journal.transaction import JournalMessage


class ChatSandboxes(Protocol):
    """The sandboxes as chats use them. The chat id is passed, never found out."""

    async def prepare(self, chat_id: str) -> None:
        """Make the chat's sandbox ready."""
        ...

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        """Run a command. Cancelled, it leaves when no process of it is left."""
        ...

    async def quiet(self, chat_id: str) -> None:
        """Return when no process that a command started is left."""
        ...

    async def stop(self, chat_id: str) -> None:
        """Remove the chat's sandbox."""
        ...

    def container_id(self, chat_id: str) -> str:
        """The id of the chat's sandbox, empty while it has none."""
        ...


class Carrying(Protocol):
    """Moves files between this machine and a store that other workers share.

    `key` names the folder, `place` what decides who serves it.
    """

    async def fetch(self, key: str, partition_key: str) -> None:
        """Make the folder as it was stored. Raises a `RumiError` if it cannot."""
        ...

    async def store(self, key: str, partition_key: str) -> RumiError | None:
        """Store the folder as it is. Return what its user should know."""
        ...

    async def leave(self, key: str, partition_key: str) -> None:
        """Store the folder: this process serves the place no more."""
        ...


class NotCarried:
    """Files that stay where they are: one process serves all chats, or all see the same folder."""

    async def fetch(self, key: str, partition_key: str) -> None:
        """Do nothing."""

    async def store(self, key: str, partition_key: str) -> RumiError | None:
        """Do nothing."""
        return None

    async def leave(self, key: str, partition_key: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class ChatWorkspaces:
    """The chats' files: in `folder` one folder for each chat, which is made with its first command.

    They are moved by `carry` where other workers serve a chat before and after this one.
    """

    folder: Path
    offload: Offload
    carry: Carrying = field(default_factory=NotCarried)

    def has(self, chat: str) -> bool:
        """Return True if the chat has files, or had some."""
        return (self.folder / chat).exists()

    async def measure(self, chat: str) -> WorkspaceUse | None:
        """Return what the chat's files take; None where it has no folder."""
        return await self.offload(partial(measure, self.folder / chat)) if self.has(chat) else None

    async def clear(self, chat: str) -> None:
        """Delete the chat's files.

        Raises:
            RumiError: some of them are left.
        """
        if self.has(chat):
            await self.offload(partial(clear_workspace, self.folder / chat))

    async def remove(self, chat: str) -> None:
        """Delete the chat's files and their folder.

        Raises:
            RumiError: some of them are left.
        """
        if self.has(chat):
            await self.offload(partial(remove_workspace, self.folder / chat))


@dataclass(frozen=True, slots=True)
class Undo:
    """What is needed to take turns back: the files before them, and what stops the tasks that they began."""

    snapshots: Snapshots
    offload: Offload
    stop_tasks: Callable[[Collection[int]], Awaitable[None]]

    @property
    def restoring(self) -> Restoring:
        """Return what puts snapshots in the place of files."""
        return Restoring(self.snapshots)


class ChatShell:
    """Runs one chat's commands. The files are kept before the first one of a turn that may change them.

    A command that a tainted turn wrote may put what it read into a file. From then on every command of the
    chat may read it there, in this session or a later one: its result is tainted, until the files are gone.
    """

    def __init__(
        self, chat: str, sandboxes: ChatSandboxes, chat_session: ChatSession, undo: Undo | None = None
    ) -> None:
        self._chat = chat
        self._undo = undo
        self._snapshot_turn = ""
        self._sandboxes = sandboxes
        self._session = chat_session

    @property
    def tainted(self) -> bool:
        """Return True if something in the files may have come from outside."""
        return self._session.files_tainted

    async def prepare(self) -> None:
        """Make the sandbox ready."""
        await self._sandboxes.prepare(self._chat)

    async def snapshot_files(self) -> None:
        """Keep the files as they are before the turn that runs, once: something may change them now."""
        undo = self._undo
        if undo is not None and (turn := self._session.turn) and turn != self._snapshot_turn:
            tainted = self._session.files_tainted
            await undo.offload(partial(undo.snapshots.take, self._chat, turn, tainted=tainted))
            self._snapshot_turn = turn

    async def touched(self) -> None:
        """Something may change the files, or has: they are kept, and in a tainted session marked."""
        await self.snapshot_files()
        if self._session.tainted:
            await self._session.set_files_tainted(True)

    async def run(self, command: Command) -> CommandResult:
        """Run a command. The mark is on the disk before it begins."""
        if not command.reads and may_write(command.argv):
            await self.snapshot_files()
            if self._session.tainted:
                await self._session.set_files_tainted(True)
        return await self._sandboxes.run(self._chat, command)


class CommandHandler(Protocol):
    """A room that serves commands for chats: tasks, for one."""

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Do a command for the message's sender; return the reply. Raises no expected error.

        Done twice for the same message, it is done once.
        """
        ...


class UnavailableHandler:
    """The room of commands that this process does not serve."""

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Say so."""
        await trio.lowlevel.checkpoint()
        return reply_texts.not_yet(language, f"/{command.name}")


@runtime_checkable
class StopsByName(Protocol):
    """A room that stops things that people have named."""

    def stops(self, name: str) -> bool:
        """Return True if a `/stop` with this behind it is the room's."""
        ...


def handler_for(handlers: Mapping[str, CommandHandler], command: ChatCommand) -> CommandHandler | None:
    """Return the room that serves a command; None for one that the chat serves itself."""
    if command.handler:
        return handlers.get(command.handler) or UnavailableHandler()
    if command.name == "stop" and command.rest:
        for handler in handlers.values():
            if isinstance(handler, StopsByName) and handler.stops(command.rest):
                return handler
    return None


@dataclass(frozen=True, slots=True)
class ChatServices:
    """Everything that chats share, introduced to each of them by `rumi.app.tree`."""

    journal: ActorRef[JournalMessage]
    sandboxes: ChatSandboxes
    workspaces: ChatWorkspaces
    hub: Hub
    publisher: Publisher
    pending: PendingMessages
    context: ChatContext
    fact_extraction: FactExtraction
    policy_of: Callable[[str], CommandPolicy] = lambda chat: STRICT
    """Which commands a chat may run."""
    handlers: Mapping[str, CommandHandler] = field(default_factory=dict)
    """The rooms that serve commands, by their names: see `rumi.chats.commands.ROOMS`."""
    running_tasks: Callable[[str], tuple[int, ...]] = lambda chat: ()
    """Returns the numbers of a chat's tasks that go on by themselves."""
    notices: Callable[[str, Language], Sequence[tuple[str, str]]] = lambda chat, language: ()
    """Returns what a chat's next reply says of budgets that are nearly used up, by their names."""
    noticed: Callable[[Sequence[str]], None] = lambda keys: None
    """Hears the names of the budgets that a stored reply has told of."""
    undo: Undo | None = None
    """Takes turns back. Without, none can be."""
    recorder: Recorder | None = None
    """Records turns. Without, none is recorded."""

    async def forget(self, chat: str) -> None:
        """Delete what is kept beside a chat's history to take turns back or to replay them."""
        if self.undo is not None:
            await self.undo.offload(partial(self.undo.snapshots.forget, chat))
            if self.recorder is not None:
                await self.undo.offload(partial(self.recorder.forget, chat))
