"""Tools of other programs, by the Model Context Protocol: this Rumi is their client.

The client library is imported when the first configured server starts, in a thread.
"""

from rumi.mcp.bwrap import find, installation
from rumi.mcp.described import Change, changes_of, said_of
from rumi.mcp.pins import FILE, AcceptedTools, digest_of
from rumi.mcp.server import Directory
from rumi.mcp.servers import FOLDER, ForChat, McpServers, try_once
from rumi.mcp.types import McpError, RemoteTool, ServerSettings

__all__ = [
    "FILE",
    "FOLDER",
    "AcceptedTools",
    "Change",
    "Directory",
    "ForChat",
    "McpError",
    "McpServers",
    "RemoteTool",
    "ServerSettings",
    "changes_of",
    "digest_of",
    "find",
    "installation",
    "said_of",
    "try_once",
]
