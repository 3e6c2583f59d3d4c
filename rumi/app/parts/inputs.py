"""The inputs of all parts of the tree, and the ports to parts that are built later."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from actors import Supervisor
from rumi.app.worker import SingleProcess
from rumi.channels.channel import Channel
from rumi.channels.uploads import LocalUploads
from rumi.chats.inbox import Inbox
from rumi.models.build import ModelSet
from rumi.models.media import Media
from rumi.platform.chat_ids import ChatIds
from rumi.platform.config.cascade import Loaded
from rumi.platform.config.groups import Groups
from rumi.platform.config.schema import GroupSection
from rumi.platform.home import Home
from rumi.platform.redact import Redactor
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import Engine, SandboxLimits
from rumi.tasks.bots.bots import Bots
from rumi.tasks.schedules.schedules import Schedules
from rumi.tasks.tasks import Tasks
from rumi.texts import Language

T = TypeVar("T")


class Port(Generic[T]):
    """A reference to a part that is built later than its user. Calling the port returns the part.

    Only ports connect two parts that need each other: the later part is bound once, before the tree runs.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._bound: T | None = None

    def bind(self, part: T) -> T:
        """Bind the part, and return it."""
        assert self._bound is None, f"{self._name} is bound twice"
        self._bound = part
        return part

    def __call__(self) -> T:
        """Return the part."""
        assert self._bound is not None, f"{self._name} is used before it is built"
        return self._bound


@dataclass(frozen=True, slots=True)
class Ports:
    """References to parts that earlier parts call, for example when a task wakes a chat with a message."""

    inbox: Port[Inbox] = field(default_factory=lambda: Port("inbox"))
    tasks: Port[Tasks] = field(default_factory=lambda: Port("tasks"))
    schedules: Port[Schedules] = field(default_factory=lambda: Port("schedules"))
    bots: Port[Bots] = field(default_factory=lambda: Port("bots"))


@dataclass(frozen=True, slots=True)
class TreeInputs:
    """The values from which all parts are built.

    `ids` are the chat ids of all channels, also of channels that do not run; `notes` are sentences for users.
    `full` is True if the disk is full at startup. `service` is True if the process runs until a signal ends
    it.
    """

    root: Supervisor
    home: Home
    loaded: Loaded
    models: ModelSet
    media: Media
    engine: Engine
    language: Language
    redactor: Redactor
    channels: Sequence[Channel]
    ids: ChatIds
    workers: SingleProcess
    limits: SandboxLimits
    uploads: LocalUploads
    files: ChatFiles
    notes: Sequence[str] = ()
    full: bool = False
    service: bool = False
    ports: Ports = field(default_factory=Ports)

    @property
    def stays(self) -> bool:
        """Return True if the process keeps running when no client is attached."""
        return self.service or bool(self.channels)

    def channel_of(self, chat: str) -> Channel:
        """Return the channel that a chat belongs to, or `uploads` for a chat without a channel."""
        return next((channel for channel in self.channels if channel.owns(chat)), self.uploads)

    def group_of(self, chat: str) -> GroupSection:
        """Return the settings of the group that a chat belongs to; the defaults for other chats."""
        return Groups(self.loaded.settings.groups).of(*self.channel_of(chat).names_of(chat))
