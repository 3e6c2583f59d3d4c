"""How a channel is registered: Rumi's own channels in `rumi.channels.built_in`, others by plugins."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from rumi.platform.chat_ids import VIA, ChannelPrefix
from rumi.platform.config.plugins import PluginContext, Registration

if TYPE_CHECKING:
    from rumi.channels.channel import Channel
    from rumi.channels.mcp import McpEndpoint
    from rumi.platform.config.cascade import Loaded
    from rumi.platform.home import Home
    from rumi.texts import Language

Writers: TypeAlias = Literal["others", "owner", "nobody"]
"""Who writes in a channel: also people who do not own the home, only its owner, or nobody.

A process with a channel for others needs a model that works, because they cannot set one up.
"""


@dataclass(frozen=True, slots=True)
class ServeFlags:
    """What the command line says of channels.

    `web` is the page's address; None stands for the configured one, an empty one for no page. `telegram`
    serves Telegram or not; None stands for what is configured. Without `others`, only the page is served, and
    terminals.
    """

    web: str | None = None
    telegram: bool | None = None
    others: bool = True


@dataclass(frozen=True, slots=True)
class Serving:
    """The process that serves channels, as a registration sees it.

    `say` prints a line on the terminal that started the process. `endpoint` returns the endpoint for programs
    that ask by MCP, which the page's server serves; None if there is none. `opened` are the channels that
    were opened before. `prefix` begins the ids of the chats of a plugin's channel, and `plugin` has the
    plugin's settings and secrets; both are None for Rumi's own channels.
    """

    home: "Home"
    loaded: "Loaded"
    language: "Language"
    say: Callable[[str], None]
    flags: ServeFlags
    endpoint: "Callable[[], McpEndpoint | None]"
    opened: "Sequence[Channel]" = ()
    prefix: ChannelPrefix | None = None
    plugin: PluginContext | None = None


def _always(serving: Serving) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPlugin(Registration):
    """The registration of channels, for the group `rumi.channels`.

    `open` returns a context manager that yields the channels; it may hold what they need before the process
    has locked its files, such as a socket. `wanted` returns True if the channel is configured; a plugin's
    channel is wanted as soon as the plugin is enabled. `title` is the service's name for people. The names of
    chats with several people begin with `groups`; if it is empty, each chat may be one. `later` says that
    people answer later, so no question waits during a turn: the reply asks, and they type `/yes 1`.
    """

    group: ClassVar[str] = "rumi.channels"

    open: "Callable[[Serving], AbstractContextManager[Sequence[Channel]]]"
    wanted: Callable[[Serving], bool] = _always
    writers: Writers = "others"
    title: str = ""
    groups: str = "room-"
    later: bool = True

    def prefix(self, name: str) -> ChannelPrefix:
        """Return the prefix of the chat ids of a plugin's channel that is registered as `name`."""
        return ChannelPrefix(f"{VIA.text}{name}-", self.title or name, groups=self.groups, later=self.later)
