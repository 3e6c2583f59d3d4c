"""A channel as the process sees it, and the process as a channel sees it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from rumi.errors import RumiError

if TYPE_CHECKING:  # so that naming the channels loads nothing else
    from actors import ActorRef, Supervisor, TreeEvent
    from rumi.agent.tool import Tool
    from rumi.chats.hub import Hub
    from rumi.chats.inbox import Inbox
    from rumi.chats.port import ChatSubscription
    from rumi.platform.chat_ids import ChannelPrefix
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home
    from rumi.platform.texts.language import Language
    from rumi.sandbox.engine import SandboxLimits
    from rumi.store.journal.records import Attachment
    from rumi.store.journal.transaction import JournalMessage


@dataclass(frozen=True, slots=True)
class Process:
    """What a channel gets of the process. `limits` are those of sandboxes, and `user` is the uid and the gid
    of files in them.
    """

    home: "Home"
    loaded: "Loaded"
    language: "Language"
    limits: "SandboxLimits"
    user: tuple[int, int]
    serves: Callable[[str], bool] = lambda chat: True
    """Tells of a chat if this process serves it: several may share a database."""
    part: Callable[[], float] = lambda: 1.0
    """Returns the share of all chats, and so of all limits, that this process serves."""


class RoutedPort(Protocol):
    """A chat at the worker that serves it, this one or another, while `keep_open` runs."""

    def subscribe(self) -> "ChatSubscription":
        """Listen. A `Moved` says that the worker has gone, or that another one serves the chat."""
        ...

    def shown(self, question: str) -> None:
        """A person can read the question."""
        ...

    async def answer(self, question: str, yes: bool) -> bool:
        """Answer the question that the chat's turn asks; False where it waits for none.

        Raises:
            RumiError: the worker is not reached.
        """
        ...

    async def keep_attached(self) -> None:
        """Follow the chat from worker to worker, until cancelled."""
        ...


class Channel:
    """A way for messages to come in and for replies to go out: one object for one process.

    The methods are called in the order in which they stand here. Those of this class do nothing, so that a
    channel has only what it needs. `name` is for logs, for the updates that it delivers, and for the limits
    of its turns (`[agent] max_turns_NAME`, where there is such a key); `prefix` begins its chat ids: None for
    a channel without chats of its own. Several channels may have one name and prefix, each with an `account`
    of its own at the service.
    """

    name: ClassVar[str]
    prefix: "ClassVar[ChannelPrefix | None]" = None
    account: str = ""

    def open(self, process: Process) -> AbstractAsyncContextManager[None]:
        """Return the block that has the channel's connections. The tree is made, runs and ends in it.

        Raises:
            RumiError: The channel cannot be opened. The error says what to do.
        """
        return nullcontext()

    # The tree: these add actors, and talk to none.

    def add_sender(
        self,
        root: "Supervisor",
        journal: "ActorRef[JournalMessage]",
        hub: "Hub",
        ended: Callable[[str], Awaitable[None]],
    ) -> None:
        """Add what sends replies, above the chats: it outlives them and gets their last replies.

        `ended` ends a chat that nobody can reach any more.
        """

    def add_receiver(
        self, root: "Supervisor", inbox: "Inbox", journal: "ActorRef[JournalMessage]", hub: "Hub"
    ) -> None:
        """Add what receives messages, below the chats: it ends before them."""

    def among_workers(self, reached: "Callable[[str], RoutedPort]") -> None:
        """Take note that several workers share a database, before `add_view`.

        `reached` returns a chat as it is reached at the worker that serves it.
        """

    def add_view(
        self,
        root: "Supervisor",
        inbox: "Inbox",
        journal: "ActorRef[JournalMessage]",
        hub: "Hub",
        status: Callable[[], Mapping[str, object]],
    ) -> None:
        """Add what shows the whole process, below everything else. `status` returns the status dump."""

    def tree_happened(self, event: "TreeEvent") -> None:
        """Take note of an event of the tree. Never raises."""

    # Services for the channel's chats

    def owns(self, chat: str) -> bool:
        """Return True if the chat is one of the channel's."""
        return self.prefix is not None and self.prefix.owns(chat)

    def tools_for(self, chat: str) -> "tuple[Tool, ...]":
        """Return the tools that a chat has because it is one of the channel's."""
        return ()

    async def bring(self, chat: str, attachment: "Attachment") -> str:
        """Fetch what came with a message; return the text about it for the model.

        Raises:
            RumiError: It cannot be fetched.
        """
        raise RumiError(f"This front end cannot fetch {attachment.name}.")

    async def show(self, chat: str, paths: Sequence[str]) -> None:
        """Show files of a chat's workspace to its people. A channel whose people see events needs nothing."""

    # A process that serves channels until it is told to end: rumi.app.shutdown

    async def introduce(self, say: Callable[[str], None]) -> None:
        """Say, where the process was started, how the channel is reached.

        Raises:
            RumiError: The channel can never work, such as with a refused token. The process ends.
        """

    async def take_over(self, numbers: frozenset[int]) -> None:
        """Serve the chats of these partitions, and send what waits there."""

    async def hand_over(self, numbers: frozenset[int], patience_s: float) -> None:
        """Send nothing more in the chats of these partitions; return when nothing is being sent."""

    @property
    def limited(self) -> int:
        """Return how often the channel's service has asked this process to send less."""
        return 0

    def slow_down(self) -> None:
        """Send less for a while: the service has asked another worker."""

    def look(self, chats: Sequence[str]) -> None:
        """Send what waits in these chats: another worker has stored it. Never waits."""

    async def stop_receiving(self) -> None:
        """Take no more messages; return when those that came are stored. May be cancelled."""

    async def flush(self) -> None:
        """Return when no reply waits that could be sent now. May be cancelled."""
