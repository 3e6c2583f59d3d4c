"""The tool descriptions from servers that the user has accepted, stored in `mcp-tools.json`."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rumi.agent.mcp.described import said_of
from rumi.agent.mcp.messages import McpError, RemoteTool, ServerSettings
from rumi.platform.atomic_write import atomic_write, folder_lock
from rumi.texts import Text, os_error

FILE: Final = "mcp-tools.json"
MOST_BYTES: Final = 50_000_000
MOST_SAID_CHARS: Final = 500_000


@dataclass(frozen=True, slots=True)
class ServerPin:
    """The tool descriptions that the user accepted for a server, as SHA-256 digests.

    The pin also contains the digest of the server's command or URL.

    `said` contains the accepted descriptions themselves, which are only used to show changes. These
    descriptions are missing for tools that an earlier version of Rumi accepted, and for a server with very
    long descriptions.
    """

    address: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def takes(self, tool: RemoteTool) -> bool:
        """Return True if exactly this tool description was accepted."""
        return self.tools.get(tool.name) == digest_of(tool)


class AcceptedTools:
    """The file that stores a `ServerPin` for each server name. Each method reads the file again.

    All methods block. They raise `McpError` if the file cannot be read or written.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / FILE

    def of(self, settings: ServerSettings) -> ServerPin | None:
        """Return a server's accepted state; None if there is none, or if the command or URL has changed."""
        pin = self._pins().get(settings.name)
        return pin if pin is not None and pin.address == _address(settings) else None

    def accept(self, settings: ServerSettings, tools: Collection[RemoteTool]) -> ServerPin:
        """Accept exactly these descriptions of a server's tools; return the new pin."""
        said: dict[str, Mapping[str, object]] = {tool.name: said_of(tool) for tool in tools}
        if len(json.dumps(said, default=dict)) > MOST_SAID_CHARS:
            said = {}
        pin = ServerPin(_address(settings), {tool.name: digest_of(tool) for tool in tools}, said)
        self._change({settings.name: pin})
        return pin

    def forget(self, name: str) -> None:
        """Remove the accepted state of a server."""
        self._change({name: None})

    def _change(self, changes: Mapping[str, ServerPin | None]) -> None:
        try:
            # Read and written under one lock: `rumi mcp test` may change the file at the same time.
            with folder_lock(self._path.parent):
                pins = {**self._pins(), **changes}
                servers = {
                    name: {"address": pin.address, "tools": dict(pin.tools), "said": dict(pin.said)}
                    for name, pin in sorted(pins.items())
                    if pin is not None
                }
                text = json.dumps({"servers": servers}, indent=1, default=dict)
                atomic_write(self._path, f"{text}\n".encode())
        except OSError as error:
            raise McpError(
                Text("{path} cannot be written: {strerror}."), path=self._path, strerror=os_error(error)
            ) from error

    def _pins(self) -> dict[str, ServerPin]:
        try:
            with self._path.open("rb") as file:
                found = json.loads(file.read(MOST_BYTES))["servers"]
            return {
                name: ServerPin(
                    str(pin["address"]),
                    {str(k): str(v) for k, v in pin["tools"].items()},
                    _said(pin.get("said")),
                )
                for name, pin in found.items()
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # An unreadable file must not count as empty: then the next connection would accept everything.
            raise McpError("{path} cannot be read.", "Restore it, or delete it.", path=self._path) from None


def _said(found: object) -> dict[str, Mapping[str, object]]:
    """Return the stored descriptions by tool name; skip malformed values."""
    said = found if isinstance(found, dict) else {}
    return {str(name): tool for name, tool in said.items() if isinstance(tool, dict)}


def digest_of(tool: RemoteTool) -> str:
    """Return the SHA-256 of a tool's whole description, in hexadecimal digits."""
    # Earlier versions gave "no hint" and "not destructive" the same digest, because the hint had no effect.
    # Tools accepted then stay accepted, except those with the hint "not destructive": it saves questions now,
    # so the user must accept it.
    denies = tool.destructive is False and not tool.read_only
    destructive = "denied" if denies else tool.destructive is True
    said = [tool.name, tool.description, tool.parameters, tool.read_only, tool.open_world, destructive]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=dict).encode()).hexdigest()


def _address(settings: ServerSettings) -> str:
    section = settings.section
    said = [section.command, *section.args] if section.command else [section.url]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
