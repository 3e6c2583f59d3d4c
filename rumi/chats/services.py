"""What a chat is given when it is made: everything that it may touch, and the limits that hold for it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import trio

from actors import ActorRef
from rumi.agent import TurnLimits
from rumi.audit import AuditLog
from rumi.chat_ids import ChatIds
from rumi.chats.hub import Hub
from rumi.chats.learning import ExtractorMessage
from rumi.chats.pending import PendingMessages
from rumi.journal import Attachment, JournalMessage
from rumi.memory import Ask, Fact, NewFact
from rumi.models import Message, Model
from rumi.offload import Offload
from rumi.sandbox import Command, CommandResult
from rumi.skills import Ask as AskSkills
from rumi.texts import Language
from rumi.tools import Tool


class Sandboxes(Protocol):
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


@dataclass(frozen=True, slots=True)
class ChatView:
    """What tools may know of the chat that they act for; they are made once, and ask when they are called.

    `tainted`: something from outside has been read in the session; `files_tainted`: something in the chat's
    files may be. `language` is that of the last message.
    """

    chat: str
    tainted: Callable[[], bool]
    language: Callable[[], Language]
    files_tainted: Callable[[], bool] = lambda: False
    touch_files: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
    """Called around what may change the chat's files and is not a command: they may take on the mark."""


class Extract(Protocol):
    """Draws facts from a session."""

    async def __call__(
        self, model: Model, language: Language, messages: Sequence[Message], known: Sequence[Fact]
    ) -> Sequence[NewFact]:
        """Return the facts in these messages that are not known yet; none where the model answers nonsense.

        Raises:
            ModelError: the model cannot be reached or refuses.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChatLimits:
    """What holds for every chat. Times in seconds. `history_messages` bounds nothing where it is None."""

    turn: TurnLimits
    session_ttl_s: float
    history_messages: int | None
    context_tokens: int
    command_timeout_s: float
    confirm_timeout_s: float = 600.0
    max_facts: int = 50
    max_skills: int = 20
    handed_chars: int = 50_000
    """How much of what a message hands on, in others' words, is kept."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A chat that crashed once too often. `time` is seconds since 1970, `error` one line."""

    time: float
    error: str


@dataclass(frozen=True, slots=True)
class ChatServices:
    """Everything that chats share, introduced to each of them by `rumi.app`."""

    journal: ActorRef[JournalMessage]
    sandboxes: Sandboxes
    model_for: Callable[[str, Language], Model]
    hub: Hub
    audit: AuditLog
    pending: PendingMessages
    limits: ChatLimits
    language: Language
    ids: ChatIds
    workspaces: Path
    now: Callable[[], float]
    offload: Offload
    bring: Callable[[str, Attachment], Awaitable[str]]
    """Fetches what came with a message: what the model reads of it. A `RumiError` if it cannot be had."""
    thinks: bool = False
    """Whether the model thinks: otherwise nothing is learned from sessions, and no summary is made."""
    memory: Ask | None = None
    """Facts that last. Without, turns know none."""
    skills: AskSkills | None = None
    """Ways of working that somebody has written down. Without, turns know none."""
    extract: Extract | None = None
    """Draws facts from what was said. Without, sessions are not learned from."""
    extractor: ActorRef[ExtractorMessage] | None = None
    """Learns from sessions that end; `add_chats` makes it where there is a memory."""
    tools_for: Callable[[ChatView], tuple[Tool, ...]] = field(default=lambda view: ())
    """The tools that a chat has besides its sandbox."""
    how_to_make_room: Callable[[str, Language], str] = field(default=lambda trouble, language: "")
    """What to do about a trouble of the disk's, for who owns it."""
    whole_status: Callable[[], str] = field(default=lambda: "")
    """How the whole process is, for an admin."""

    failed: dict[str, Failed] = field(default_factory=dict)
    """Chats that were stopped at their restart limit, until their next message starts them afresh."""

    @property
    def learns(self) -> bool:
        """Return True if sessions are learned from."""
        return self.thinks and self.memory is not None and self.extract is not None
