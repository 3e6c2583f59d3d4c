"""Tools: what the assistant can do, each bound to one chat's means before a turn begins."""

from rumi.tools.base import CommandTrace, Tool, ToolResult
from rumi.tools.bash import Bash, Shell
from rumi.tools.send_file import SendFile

__all__ = ["Bash", "CommandTrace", "SendFile", "Shell", "Tool", "ToolResult"]
