"""The base class of channels, and the parts of the process that a channel uses."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rumi.errors import RumiError

if TYPE_CHECKING:  # a command that only names the channels must not load the agent and the store
    from actors import ActorRef, Supervisor, TreeEvent
    from rumi.agent.tool import Tool
    from rumi.channels.counters import Counts
    from rumi.channels.takers import Taker
    from rumi.chats.hub import Hub
    from rumi.chats.inbox import Inbox
    from rumi.chats.port import ChatSubscription
    from rumi.models.media import Media
    from rumi.platform.caller import ControlCall
    from rumi.platform.calls import Declaration
    from rumi.platform.chat_ids import ChannelPrefix
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home
    from rumi.sandbox.chat_files import ChatFiles
    from rumi.sandbox.engine import SandboxLimits
    from rumi.store.journal.records import Attachment
    from rumi.store.journal.transaction import JournalMessage
    from rumi.texts import Language


@dataclass(frozen=True, slots=True)
class Process:
    """The parts of the process that a channel uses.

    `limits` are the limits on sandboxes. `user` is the uid and gid that own the files in sandboxes.
    """

    home: "Home"
    loaded: "Loaded"
    language: "Language"
    limits: "SandboxLimits"
    user: tuple[int, int]
    files: "ChatFiles"
    serves: Callable[[str], bool] = lambda chat: True
    """Returns True if this process serves the chat. Several processes may share a database."""
    part: Callable[[], float] = lambda: 1.0
    """Returns the share of all chats that this process serves. Rate limits are scaled by this share."""
    media: "Media | None" = None
    """The servers for recordings and speech; None if there are none. The process closes their clients."""


class RoutedPort(Protocol):
    """A connection to a chat at the worker that serves it. Stays open while `keep_attached` runs."""

    def subscribe(self) -> "ChatSubscription":
        """Subscribe to the chat's events.

        The event `Moved` means that the worker has ended, or that another worker serves the chat.
        """
        ...

    def shown(self, question: str) -> None:
        """Report that a person can read the chat's pending question."""
        ...

    async def answer(self, question: str, yes: bool) -> bool:
        """Answer the pending question of the chat's turn; return False if no question is pending.

        Raises:
            RumiError: the worker is unreachable.
        """
        ...

    async def keep_attached(self) -> None:
        """Keep the connection to the chat until cancelled, even when the chat moves to another worker."""
        ...


class Channel:
    """Base class of channels, which receive messages and deliver replies; one instance per process.

    The process calls the methods in the order in which they are defined here. The methods of this class do
    nothing, so a channel overrides only the ones that it needs.

    `name` appears in logs and in the updates that the channel delivers. It also selects the limit of the
    channel's turns (`[agent] max_turns_NAME`, if configured). The channel's chat ids begin with `prefix`,
    which is None for a channel without chats of its own. Several channels may share a name and a prefix if
    each has a different `account` at the service.
    """

    name: str
    prefix: "ChannelPrefix | None" = None
    account: str = ""

    def open(self, process: Process) -> AbstractAsyncContextManager[None]:
        """Return a context manager that holds the channel's connections.

        The supervision tree is built, runs and ends inside the context.

        Raises:
            RumiError: The channel cannot be opened. The error says what to do.
        """
        return nullcontext()

    def admin_chats(self) -> Sequence[str]:
        """Return the private chats of the admins, who are told what they must know about other chats."""
        return ()

    # The tree: these methods add actors, and send no messages to actors.

    def add_sender(
        self,
        root: "Supervisor",
        journal: "ActorRef[JournalMessage]",
        hub: "Hub",
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        """Add the actors that send replies. They stop after the chats, to get the chats' last replies.

        The channel calls `ended` to end a chat that no user can reach any more.
        """

    def add_receiver(
        self, root: "Supervisor", inbox: "Inbox", journal: "ActorRef[JournalMessage]", hub: "Hub"
    ) -> None:
        """Add the actors that receive messages. At shutdown, they stop before the chats."""

    def among_workers(self, reached: "Callable[[str], RoutedPort]") -> None:
        """Tell the channel that several worker processes share the database; called before `add_view`.

        `reached` returns a port to a chat at the worker that serves it.
        """

    def deliveries_taken(self) -> "Sequence[Taker]":
        """Return the deliveries of the channel's service, which the listener of the process takes."""
        return ()

    def add_takers(self, takers: "Sequence[Taker]") -> str:
        """Accept these deliveries of other servers too; called before `add_view`.

        Return the URL of the channel's listener; empty if the channel accepts none.
        """
        return ""

    def add_calls(self, calls: "Mapping[str, ControlCall]", declared: "Mapping[str, Declaration]") -> None:
        """Let the channel's users make these control calls; called before `add_view`.

        `declared` has the declarations of all calls and streams, by name.
        """

    def calls(self) -> tuple[object, ...]:
        """Return objects that declare control calls (`rumi.platform.calls`), for the control socket."""
        return ()

    def add_view(
        self,
        root: "Supervisor",
        inbox: "Inbox",
        journal: "ActorRef[JournalMessage]",
        hub: "Hub",
        status: Callable[[], Mapping[str, object]],
        counts: "Counts",
    ) -> None:
        """Add the actors that show the state of the whole process. They are added after all other actors.

        `status` returns the status dump (the data that `rumi status` shows). `counts` also has recent turns.
        """

    def tree_happened(self, event: "TreeEvent") -> None:
        """Handle an event of the supervision tree. Never raises."""

    # Services for the channel's chats

    def owns(self, chat: str) -> bool:
        """Return True if the chat belongs to this channel."""
        return self.prefix is not None and self.prefix.owns(chat)

    def names_of(self, chat: str) -> tuple[str, ...]:
        """Return the chat ids under which people may know a chat, oldest first: its own, and later ones."""
        return (chat,)

    def tools_for(self, chat: str) -> "tuple[Tool, ...]":
        """Return the tools that this channel adds to its chats."""
        return ()

    async def bring(self, chat: str, attachment: "Attachment") -> str:
        """Fetch an attachment of a message; return a text that describes the attachment to the model.

        Raises:
            RumiError: The attachment cannot be fetched.
        """
        raise RumiError("This front end cannot fetch {name}.", name=attachment.name)

    async def show(self, chat: str, paths: Sequence[str]) -> None:
        """Show workspace files to the chat's users. Does nothing in channels whose users see events."""

    def speaks(self, chat: str) -> bool:
        """Return True if answers in a chat can be spoken."""
        return False

    async def speak(self, chat: str, text: str, language: "Language") -> None:
        """Speak an answer (Markdown) in a chat, after the replies that are queued for the chat.

        If the call is cancelled, nothing more is sent.

        Raises:
            RumiError: The answer cannot be spoken.
        """

    # Methods for a process that serves channels until shutdown is requested: rumi.app.shutdown

    async def introduce(self, say: Callable[[str], None]) -> None:
        """Print how to reach the channel, on the terminal that started the process.

        Raises:
            RumiError: The channel can never work, for example because its token is refused. The process ends.
        """

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Start to serve the chats in these partitions (shares of all chats); send their queued replies."""

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Stop sending to the chats in these partitions; return when all sends in progress have ended."""

    @property
    def limited(self) -> int:
        """Return the number of times that the channel's service has rate-limited this process."""
        return 0

    def slow_down(self) -> None:
        """Send fewer messages for a while, because the service has rate-limited another worker."""

    def look(self, chats: Sequence[str]) -> None:
        """Send the replies that another worker has stored for these chats. Does not block."""

    async def stop_receiving(self) -> None:
        """Stop receiving messages. Returns when all received messages are stored. May be cancelled."""

    async def flush(self) -> None:
        """Wait until every queued reply is sent or cannot be sent now. May be cancelled."""
