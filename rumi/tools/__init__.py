"""The assistant's tools, each bound to one chat before a turn begins."""

from rumi.tools.base import Calls, CallsTools, CommandTrace, Question, Tool, ToolResult
from rumi.tools.bash import Bash, Shell
from rumi.tools.forget import ForgetTool
from rumi.tools.remember import RememberTool
from rumi.tools.send_file import SendFile
from rumi.tools.use_skill import UseSkill
from rumi.tools.web_fetch import WebFetch
from rumi.tools.web_search import WebSearch

__all__ = [
    "Bash",
    "Calls",
    "CallsTools",
    "CommandTrace",
    "ForgetTool",
    "Question",
    "RememberTool",
    "SendFile",
    "Shell",
    "Tool",
    "ToolResult",
    "UseSkill",
    "WebFetch",
    "WebSearch",
]
