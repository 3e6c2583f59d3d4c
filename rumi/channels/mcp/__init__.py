"""Rumi as an MCP server: programs that speak the Model Context Protocol can use Rumi as a tool.

A program is a client of the daemon, like a terminal: each of its calls attaches to a chat or makes a call on
the control socket. `serve_stdio` serves one program over standard input and output; `McpEndpoint` serves many
programs over HTTP, on the page's server. Both offer the tools of `service`.
"""

from rumi.channels.mcp.endpoint import McpEndpoint
from rumi.channels.mcp.server import serve_stdio
from rumi.channels.mcp.service import MOST_CALLS, DaemonAccess, McpService

__all__ = ["MOST_CALLS", "DaemonAccess", "McpEndpoint", "McpService", "serve_stdio"]
