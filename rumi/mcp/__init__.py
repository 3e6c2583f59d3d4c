"""Tools of other programs, by the Model Context Protocol: this Rumi is their client.

The client library is imported when the first configured server starts, in a thread.
"""

from rumi.mcp.bwrap import find, installation
from rumi.mcp.pins import FILE, AcceptedTools, digest_of
from rumi.mcp.servers import FOLDER, ForChat, McpServers, try_once
from rumi.mcp.types import McpError, RemoteTool, ServerSettings

__all__ = [
    "FILE",
    "FOLDER",
    "AcceptedTools",
    "ForChat",
    "McpError",
    "McpServers",
    "RemoteTool",
    "ServerSettings",
    "digest_of",
    "find",
    "installation",
    "try_once",
]
