"""The tool descriptions from servers that the user has accepted, stored in `mcp-tools.json`."""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rumi.agent.mcp.described import said_of
from rumi.agent.mcp.essence import essence_of
from rumi.agent.mcp.messages import McpError, RemoteTool, ServerSettings
from rumi.agent.pin_file import PinFile

FILE: Final = "mcp-tools.json"
MOST_SAID_CHARS: Final = 500_000
_ESSENCE: Final = "essence:"


@dataclass(frozen=True, slots=True)
class ServerPin:
    """The tool descriptions that the user accepted for a server, as digests by tool name.

    A digest that begins with `essence:` is the one of `rumi.agent.mcp.essence`. Digests of earlier versions
    are SHA-256 of the whole description. The pin also contains the digest of the server's command or URL.

    `said` contains the accepted descriptions themselves: they are compared with the current ones, so that a
    later version may compare more exactly, and are used to show changes. They are missing for tools that an
    early version of Rumi accepted, and for a server with very long descriptions.

    `left_out` has the tools that models did not get at the last connection, with the reason, for commands
    that run without the server.
    """

    address: str = ""
    tools: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def takes(self, tool: RemoteTool) -> bool:
        """Return True if a tool's description says what the accepted one said."""
        accepted, said = self.tools.get(tool.name), self.said.get(tool.name)
        if accepted is None:
            return False
        current = accepted.startswith(_ESSENCE)
        forms = [tool] if current else [tool, _as_before(tool)]
        if accepted in ([digest_of(tool)] if current else [_digest_of_all(form) for form in forms]):
            return True
        return said is not None and essence_of(said) in [essence_of(said_of(form)) for form in forms]


class AcceptedTools:
    """The file that stores a `ServerPin` for each server name. Each method reads the file again.

    All methods block. They raise `McpError` if the file cannot be read or written.
    """

    def __init__(self, home: Path) -> None:
        self._file = PinFile(home / FILE, "servers", _pin, McpError)

    def of(self, settings: ServerSettings) -> ServerPin | None:
        """Return a server's accepted state; None if there is none, or if the command or URL has changed."""
        return self.of_all([settings])[settings.name]

    def of_all(self, servers: Collection[ServerSettings]) -> dict[str, ServerPin | None]:
        """Return the accepted state of each of these servers, by name, from one reading of the file."""
        pins = self._file.pins()
        found = ((server, pins.get(server.name)) for server in servers)
        return {
            server.name: pin if pin is not None and pin.address == _address(server) else None
            for server, pin in found
        }

    def accept(
        self,
        settings: ServerSettings,
        tools: Collection[RemoteTool],
        left_out: Mapping[str, str] | None = None,
        *,
        beside: ServerPin | None = None,
    ) -> ServerPin:
        """Accept these descriptions of a server's tools, and keep those `beside`; return the new pin."""
        before = beside or ServerPin()
        said = {**before.said, **{tool.name: said_of(tool) for tool in tools}}
        if len(json.dumps(said, default=dict)) > MOST_SAID_CHARS:
            said = {}
        digests = {**before.tools, **{tool.name: digest_of(tool) for tool in tools}}
        pin = ServerPin(
            _address(settings), digests, said, {**before.left_out} if left_out is None else left_out
        )
        self._file.set(settings.name, pin)
        return pin

    def note(
        self,
        settings: ServerSettings,
        pin: ServerPin,
        tools: Collection[RemoteTool],
        left_out: Mapping[str, str],
    ) -> ServerPin:
        """Store which tools were left out, and the digests of an earlier version in the form of this one.

        Write nothing if nothing has changed. Return the pin as it is stored now.
        """
        known = {tool.name: tool for tool in tools if pin.takes(tool)}
        new = [tool for tool in known.values() if not pin.tools[tool.name].startswith(_ESSENCE)]
        if not new and pin.left_out == left_out:
            return pin
        return self.accept(settings, new, left_out, beside=pin)

    def forget(self, name: str) -> None:
        """Remove the accepted state of a server."""
        self._file.set(name, None)


def _pin(found: dict[str, Any]) -> ServerPin:
    tools = {str(name): str(digest) for name, digest in found["tools"].items()}
    left_out = found.get("left_out")
    left_out = left_out if isinstance(left_out, dict) else {}
    return ServerPin(
        str(found["address"]),
        tools,
        _said(found.get("said")),
        {str(name): str(why) for name, why in left_out.items()},
    )


def _said(found: object) -> dict[str, Mapping[str, object]]:
    """Return the stored descriptions by tool name; skip malformed values."""
    said = found if isinstance(found, dict) else {}
    return {str(name): tool for name, tool in said.items() if isinstance(tool, dict)}


def digest_of(tool: RemoteTool) -> str:
    """Return the digest of what matters in a tool's description."""
    return f"{_ESSENCE}{essence_of(said_of(tool))}"


def _digest_of_all(tool: RemoteTool) -> str:
    """Return the SHA-256 of a tool's whole description, as earlier versions stored it."""
    # "No hint" and "not destructive" have the same digest for a tool that only reads: the hint had no effect.
    denies = tool.destructive is False and not tool.read_only
    destructive = "denied" if denies else tool.destructive is True
    said = [tool.name, tool.description, tool.parameters, tool.read_only, tool.open_world, destructive]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=dict).encode()).hexdigest()


def _as_before(tool: RemoteTool) -> RemoteTool:
    """Return a tool as earlier versions took it: without a schema that was too long or had no type."""
    whole = json.dumps(tool.parameters, default=dict)
    fits = tool.parameters.get("type") == "object" and len(whole) <= 20_000
    return tool if fits else replace(tool, parameters={"type": "object", "properties": {}})


def _address(settings: ServerSettings) -> str:
    section = settings.section
    said = [section.command, *section.args] if section.command else [section.url]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()
