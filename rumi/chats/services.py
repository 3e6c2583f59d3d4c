"""The services that chats share, such as sandboxes, files and command handlers.

A chat's actor and the worker inside it reach the rest of the program only through these services.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Protocol, runtime_checkable

import trio

from actors import ActorRef
from rumi.agent.tools.output import keep_output
from rumi.chats.commands import ChatCommand
from rumi.chats.context import ChatContext
from rumi.chats.fact_extraction import FactExtraction
from rumi.chats.folders import ChatFolders
from rumi.chats.hub import Hub
from rumi.chats.publishing import PendingMessages, Publisher
from rumi.chats.recorder.recorder import Recorder
from rumi.chats.session import ChatSession
from rumi.chats.speaking import SpeechService
from rumi.chats.undo.restoring import Restoring
from rumi.chats.undo.snapshots import Snapshots
from rumi.errors import RumiError
from rumi.platform.texts import replies as reply_texts
from rumi.platform.threads import Offload
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import Command, CommandResult, SandboxLimits
from rumi.sandbox.overview import NOTHING, Overview, overview
from rumi.sandbox.policy import STRICT, CommandPolicy, may_write
from rumi.sandbox.workspace import WorkspaceError, WorkspaceUse, measure
from rumi.sandbox.workspace import clear as clear_workspace
from rumi.sandbox.workspace import remove as remove_workspace
from rumi.store.journal.records import Button, FinalReply, Incoming
from rumi.store.journal.transaction import JournalMessage
from rumi.texts import Language


class ChatSandboxes(Protocol):
    """The sandboxes of chats. Every method gets the chat's id from its caller."""

    async def prepare(self, chat_id: str) -> None:
        """Make the chat's sandbox ready."""
        ...

    async def run(self, chat_id: str, command: Command) -> CommandResult:
        """Run a command. On cancellation, return only after all processes of the command have ended."""
        ...

    async def quiet(self, chat_id: str) -> None:
        """Wait until all processes that commands started have ended."""
        ...

    async def stop(self, chat_id: str) -> None:
        """Remove the chat's sandbox."""
        ...

    def container_id(self, chat_id: str) -> str:
        """Return the id of the chat's sandbox, empty if there is none."""
        ...


class Carrying(Protocol):
    """Moves folders between this machine and a store that several workers share.

    `key` names the folder; `partition_key` decides which worker serves it.
    """

    async def fetch(self, key: str, partition_key: str) -> None:
        """Restore the folder from the store.

        Raises:
            RumiError: the folder cannot be fetched.
        """
        ...

    async def store(self, key: str, partition_key: str) -> RumiError | None:
        """Store the folder as it is now. Return an error that the user should know about, else None."""
        ...

    async def leave(self, key: str, partition_key: str) -> None:
        """Store the folder, because this process no longer serves its partition."""
        ...


class NotCarried:
    """A `Carrying` that moves no files: one process serves all chats, or all workers share the folder."""

    async def fetch(self, key: str, partition_key: str) -> None:
        """Do nothing."""

    async def store(self, key: str, partition_key: str) -> RumiError | None:
        """Do nothing."""
        return None

    async def leave(self, key: str, partition_key: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class ChatWorkspaces:
    """The chats' files, which each chat's first command creates.

    `carry` moves a chat's files from one worker to the next.
    """

    files: ChatFiles
    offload: Offload
    carry: Carrying = field(default_factory=NotCarried)

    @property
    def folder(self) -> Path:
        """The folder with the files of chats that have their own, and of tasks."""
        return self.files.workspaces

    def has(self, chat: str) -> bool:
        """Return True if the chat has or had files."""
        return self.files.has(chat)

    async def look(self, chat: str) -> Overview:
        """Look at the chat's files at the start of a turn: names, git, and instruction files.

        A folder that cannot be shown counts as empty: the first command says why.
        """
        if not self.has(chat):
            return NOTHING

        def look() -> Overview:
            self.files.refresh(chat)
            try:
                return overview(self.files.shown(chat))
            except WorkspaceError:
                return NOTHING

        return await self.offload(look)

    async def measure(self, chat: str) -> WorkspaceUse | None:
        """Return the number and size of the files that the chat has written; None if it has none."""
        return await self.offload(lambda: measure(self.files.stored(chat))) if self.has(chat) else None

    async def clear(self, chat: str) -> None:
        """Delete the chat's files. A linked chat drops its changes; the folder keeps its files.

        Raises:
            RumiError: some files could not be deleted.
        """
        if self.files.is_linked(chat):
            await self.offload(partial(self.files.drop_changes, chat))
        elif self.has(chat):
            await self.offload(partial(clear_workspace, self.folder / chat))

    async def remove(self, chat: str) -> None:
        """Delete the chat's files and their folder. A linked chat loses its link, and no file of its folder.

        Raises:
            RumiError: some files could not be deleted.
        """
        await self.offload(partial(self.files.forget, chat))
        if (self.folder / chat).exists():
            await self.offload(partial(remove_workspace, self.folder / chat))


@dataclass(frozen=True, slots=True)
class Undo:
    """What an undo of a turn needs: snapshots of files, and a function that stops the tasks of the turn."""

    snapshots: Snapshots
    offload: Offload
    stop_tasks: Callable[[Collection[int]], Awaitable[None]]

    @property
    def restoring(self) -> Restoring:
        """Return the service that restores files from snapshots."""
        return Restoring(self.snapshots)


class SandboxShell:
    """Runs commands in the sandbox with the given key. Subclasses say what a command may taint.

    `variables` are variables of the environment that every command gets, each as `NAME=value`.
    """

    def __init__(self, key: str, sandboxes: ChatSandboxes) -> None:
        self._key = key
        self._sandboxes = sandboxes
        self.variables: tuple[str, ...] = ()

    async def prepare(self) -> None:
        """Make the sandbox ready."""
        await self._sandboxes.prepare(self._key)

    async def touched(self) -> None:
        """Prepare for a change of the files."""
        raise NotImplementedError

    async def run(self, command: Command) -> CommandResult:
        """Run a command. If it may change files, `touched` has returned before the command begins.

        If the process were killed between a command and a later mark, untrusted content would stay in files
        that count as trusted.
        """
        if not command.reads and may_write(command.argv):
            await self.touched()
        return await self._sandboxes.run(self._key, replace(command, variables=self.variables))


class ChatShell(SandboxShell):
    """Runs one chat's commands. Before a turn first changes the chat's files, takes a snapshot of them.

    A session is tainted if it has read untrusted content. A command of such a session may write untrusted
    content to a file, where every later command of the chat may read it, in this session or another one. So
    the results of all commands are tainted until the files are deleted.
    """

    def __init__(
        self, chat: str, sandboxes: ChatSandboxes, chat_session: ChatSession, undo: Undo | None = None
    ) -> None:
        super().__init__(chat, sandboxes)
        self._undo = undo
        self._snapshot_turn = ""
        self._session = chat_session
        self.wrote_in = ""
        """The last turn whose commands may have changed files."""

    @property
    def tainted(self) -> bool:
        """Return True if the files may contain untrusted content."""
        return self._session.files_tainted

    async def snapshot_files(self) -> None:
        """Take a snapshot of the files before they may change, once per turn."""
        undo = self._undo
        if undo is not None and (turn := self._session.turn) and turn != self._snapshot_turn:
            tainted = self._session.files_tainted
            await undo.offload(partial(undo.snapshots.take, self._key, turn, tainted=tainted))
            self._snapshot_turn = turn  # only now: a cancelled or failed snapshot is tried again

    async def keep(self, turn: str, name: str, output: bytes, tainted: bool) -> str:
        """Write a whole output to a file of the sandbox; return its path, or "" if it cannot be written."""
        if tainted:  # a later command may read the file
            await self._session.set_files_tainted(True)
        return await keep_output(self, f"{turn}-{name}", output)

    async def touched(self) -> None:
        """Prepare for a change of the files: take a snapshot, and, in a tainted session, taint the files."""
        self.wrote_in = self._session.turn
        await self.snapshot_files()
        if self._session.tainted:
            await self._session.set_files_tainted(True)


@dataclass(frozen=True, slots=True)
class CommandReply:
    """The reply to a command, with buttons: each is its label and the command that a press sends.

    With `in_place`, the reply to a press takes the place of the message whose button was pressed. Nobody is
    told of a `silent` reply.
    """

    text: str
    buttons: Sequence[tuple[str, str]] = ()
    in_place: bool = False
    silent: bool = False

    def stored(self, messages: tuple[int, ...]) -> FinalReply:
        """Return the final reply to store, with new ids of its buttons."""
        buttons = tuple(Button(token_hex(8), label, words) for label, words in self.buttons)
        return FinalReply(messages, self.text, buttons=buttons, in_place=self.in_place, silent=self.silent)


class CommandHandler(Protocol):
    """Handles chat commands, for example the commands for tasks."""

    async def command(
        self, message: Incoming, language: Language, command: ChatCommand
    ) -> str | CommandReply:
        """Run a command for the message's sender and return the reply. Raise no expected error.

        Idempotent: a second call for the same message has no additional effect.
        """
        ...


class UnavailableHandler:
    """Handler of commands that this process does not support."""

    async def command(self, message: Incoming, language: Language, command: ChatCommand) -> str:
        """Reply that the command is not available."""
        await trio.lowlevel.checkpoint()
        return reply_texts.not_yet(language, f"/{command.name}")


@runtime_checkable
class StopsByName(Protocol):
    """A command handler for things that have names and are stopped by `/stop` with the name."""

    def stops(self, name: str) -> bool:
        """Return True if this handler handles `/stop` followed by `name`."""
        ...


def handler_for(handlers: Mapping[str, CommandHandler], command: ChatCommand) -> CommandHandler | None:
    """Return the handler of a command; None if the chat handles the command itself."""
    if command.handler:
        return handlers.get(command.handler) or UnavailableHandler()
    if command.name == "stop" and command.rest:
        for handler in handlers.values():
            if isinstance(handler, StopsByName) and handler.stops(command.rest):
                return handler
    return None


@dataclass(frozen=True, slots=True)
class ChatServices:
    """Everything that chats share; `rumi.app.tree` passes it to each of them."""

    journal: ActorRef[JournalMessage]
    sandboxes: ChatSandboxes
    workspaces: ChatWorkspaces
    hub: Hub
    publisher: Publisher
    pending: PendingMessages
    context: ChatContext
    fact_extraction: FactExtraction
    policy_of: Callable[[str], CommandPolicy] = lambda chat: STRICT
    """Returns the policy for the commands that a chat may run."""
    sandbox_limits: SandboxLimits = field(default_factory=SandboxLimits)
    handlers: Mapping[str, CommandHandler] = field(default_factory=dict)
    """The command handlers by name: see `rumi.chats.commands.HANDLER_NAMES`."""
    running_tasks: Callable[[str], tuple[int, ...]] = lambda chat: ()
    """Returns the numbers of a chat's running tasks, which continue without a turn."""
    notices: Callable[[str, Language], Sequence[tuple[str, str]]] = lambda chat, language: ()
    """Returns the notices for a chat's next reply, as pairs of key and text: about budgets and time zones."""
    noticed: Callable[[Sequence[str]], None] = lambda keys: None
    """Called with the keys of the notices in a reply that has been stored."""
    propose_zone: Callable[[Incoming], Awaitable[None]] | None = None
    """Called with a message that says where its sender is, before it is stored."""
    undo: Undo | None = None
    """Undoes turns; None disables undo."""
    recorder: Recorder | None = None
    """Records turns; None disables recording."""
    speech: SpeechService | None = None
    """Speaks answers; None if nothing can speak."""
    folders: ChatFolders | None = None
    """The folders of persons that chats work on; None if chats work on none."""

    async def forget(self, chat: str) -> None:
        """Delete the chat's snapshots and recordings."""
        if self.undo is not None:
            await self.undo.offload(partial(self.undo.snapshots.forget, chat))
            if self.recorder is not None:
                await self.undo.offload(partial(self.recorder.forget, chat))
