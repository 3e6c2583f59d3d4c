"""The assistant's tools, each bound to one chat before a turn begins."""

from rumi.tools.base import (
    Calls,
    CallsTools,
    CommandTrace,
    Progress,
    Question,
    ReportsProgress,
    Tool,
    ToolResult,
)
from rumi.tools.bash import Bash, Shell
from rumi.tools.edit_file import EditFile
from rumi.tools.file_access import FILE_TOOLS
from rumi.tools.forget import ForgetTool
from rumi.tools.read_file import ReadFile
from rumi.tools.remember import RememberTool
from rumi.tools.send_file import SendFile
from rumi.tools.use_skill import UseSkill
from rumi.tools.web_fetch import WebFetch
from rumi.tools.web_search import WebSearch
from rumi.tools.write_file import WriteFile

__all__ = [
    "FILE_TOOLS",
    "Bash",
    "Calls",
    "CallsTools",
    "CommandTrace",
    "EditFile",
    "ForgetTool",
    "Progress",
    "Question",
    "ReadFile",
    "RememberTool",
    "ReportsProgress",
    "SendFile",
    "Shell",
    "Tool",
    "ToolResult",
    "UseSkill",
    "WebFetch",
    "WebSearch",
    "WriteFile",
]
