"""The types of MCP servers, their tools and results, and the messages of the server actor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from actors import Request
from rumi.errors import RumiError
from rumi.platform.config.schema import LogSection, McpSection
from rumi.platform.redact import Redactor
from rumi.texts import Text

ServerState: TypeAlias = Literal["stopped", "starting", "ready", "failed"]

Progress: TypeAlias = Callable[[str], None]


class McpError(RumiError):
    """An MCP server cannot be used, or a call failed. The message contains none of the server's own text.

    `called` is True if the server may have got the call, so that it may have had its effect. `refused` are
    sentences about hosts that the server asked for during the call and may not reach.
    """

    code = "mcp"
    called = False
    refused: tuple[Text, ...] = ()


class LoginNeeded(McpError):
    """The server wants a login of its user, or the login that Rumi has is not accepted any more."""

    code = "mcp_login"


class ServerRefused(McpError):
    """The server answered with an error. `words` is the server's untrusted text."""

    called = True

    def __init__(self, words: str) -> None:
        super().__init__("The server refused.")
        self.words = words


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A server's section of the configuration, with resolved secrets in `env`, `headers`, `client_secret`.

    `fault` is an error if a secret is missing. `redact` hides secrets in the server's output, because the
    server received some secrets and may repeat them. `log` limits the log of its standard error.
    """

    name: str
    section: McpSection
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    fault: RumiError | None = None
    log: LogSection = field(default=LogSection(), compare=False)
    redact: Redactor = field(default=Redactor(()), repr=False, compare=False)
    client_secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """A tool as its server describes it.

    The three hints about the tool's effects are only the server's claims.

    A hint that the server omits has the default value from the protocol's specification.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    read_only: bool = False
    open_world: bool = True
    destructive: bool | None = None

    @property
    def destroys(self) -> bool:
        """True unless the server claims that the tool is not destructive."""
        return self.destructive is not False


@dataclass(frozen=True, slots=True)
class Listing:
    """A server's list of tools. `unusable` has the reason for each tool that no model can be given, by name.

    `notes` are sentences about the list itself: what of it was left out.
    """

    tools: tuple[RemoteTool, ...]
    unusable: Mapping[str, Text] = field(default_factory=dict)
    notes: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A part of a result: text, or the bytes of a file with its media type and file `name`."""

    text: str = ""
    data: bytes = field(default=b"", repr=False)
    media_type: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The result of a call. `failed` is True if the server reported that its tool failed.

    `refused` are sentences about hosts that the server asked for during the call and may not reach.
    """

    parts: tuple[ResultPart, ...]
    failed: bool = False
    refused: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class CallTool(Request[CallOutcome]):
    """Request to call a tool of the server. On cancellation, sends `notifications/cancelled` to the server.

    Raises:
        McpError: The server refused, did not answer in time, or its answer is not a result.
    """

    tool: str
    arguments: Mapping[str, object]
    progress: Progress


McpMessage: TypeAlias = CallTool


class Connection(Protocol):
    """An open connection to a server."""

    async def list_tools(self) -> Listing:
        """Return the server's current tools."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, object], show: Progress) -> CallOutcome:
        """Call a tool, without a time limit. On cancellation, notifies the server."""
        ...

    async def changed(self) -> None:
        """Wait until the server reports that its tools have changed."""
        ...
