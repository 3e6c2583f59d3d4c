"""Tools: what the assistant can do, each bound to one chat's means before a turn begins."""

from rumi.tools.base import Tool, ToolResult

__all__ = ["Tool", "ToolResult"]
