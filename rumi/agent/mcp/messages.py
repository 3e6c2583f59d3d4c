"""The types of servers that bring tools by the Model Context Protocol."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from actors import Request
from rumi.errors import RumiError
from rumi.platform.redact import Redactor

ServerState: TypeAlias = Literal["stopped", "starting", "ready", "failed"]

Progress: TypeAlias = Callable[[str], None]


class McpError(RumiError):
    """A server that brings tools cannot be used, or a call failed. The server's own words are not in it."""

    code = "mcp"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server of the configuration, with its secrets in place; `fault` says what is missing.

    `command` starts a process, `url` names a server of streamable HTTP; one of them is empty. Without
    `open_world` its tools reach nothing but its own data, whatever they say. Times are in seconds.
    `max_bytes` bounds one message from the server, `max_folder_bytes` what its own folder takes on the disk.
    `redact` hides secrets in what it sends: it was given some, and may repeat them.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trusted: bool = False
    open_world: bool = True
    tools: tuple[str, ...] = ()
    sandbox: bool = True
    network: bool = False
    paths: tuple[str, ...] = ()
    start_timeout_s: float = 10.0
    timeout_s: float = 60.0
    max_bytes: int = 10_000_000
    max_folder_bytes: int = 1_000_000_000
    fault: RumiError | None = None
    redact: Redactor = field(default=Redactor(()), repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class RemoteTool:
    """A tool as its server describes it. The three hints are the server's own claims.

    What a server does not say has the value that the specification of the protocol gives it.
    """

    name: str
    description: str
    parameters: Mapping[str, object]
    read_only: bool = False
    open_world: bool = True
    destructive: bool | None = None

    @property
    def destroys(self) -> bool:
        """Return True unless the server denies it."""
        return self.destructive is not False


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A part of a result: text, or the bytes of a file with its media type; `name` is what it is called."""

    text: str = ""
    data: bytes = field(default=b"", repr=False)
    media_type: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The result of a call. `failed`: the server reports that its tool failed."""

    parts: tuple[ResultPart, ...]
    failed: bool = False


@dataclass(frozen=True, slots=True)
class CallTool(Request[CallOutcome]):
    """Call a tool of the server. Cancelled, the server is told so.

    Raises:
        McpError: The server refused, did not answer in time, or sent what is not a result.
    """

    tool: str
    arguments: Mapping[str, object]
    progress: Progress


McpMessage: TypeAlias = CallTool


class Connection(Protocol):
    """An open connection to a server."""

    async def list_tools(self) -> tuple[RemoteTool, ...]:
        """Return the tools that the server has now."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, object], show: Progress) -> CallOutcome:
        """Call a tool, without a time limit. Cancelled, the server is told so."""
        ...

    async def changed(self) -> None:
        """Return when the server says that its tools have changed."""
        ...
