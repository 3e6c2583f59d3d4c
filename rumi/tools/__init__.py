"""The assistant's tools, each bound to one chat before a turn begins."""

from rumi.tools.base import (
    AlwaysAsks,
    BringsTools,
    Calls,
    CallsTools,
    Claims,
    CommandTrace,
    Progress,
    Question,
    ReportsProgress,
    RunsCommands,
    Tool,
    ToolResult,
    claims_of,
)
from rumi.tools.bash import Bash, Shell
from rumi.tools.declare import DeclareTool
from rumi.tools.destinations import is_destination
from rumi.tools.edit_file import EditFile
from rumi.tools.file_access import FILE_TOOLS, NO_LINKS, FileTool, named
from rumi.tools.forget import ForgetTool
from rumi.tools.read_file import ReadFile
from rumi.tools.remember import RememberTool
from rumi.tools.send_file import SendFile
from rumi.tools.text_file import TextFile
from rumi.tools.use_skill import UseSkill
from rumi.tools.web_fetch import WebFetch, page_inside, page_result
from rumi.tools.web_search import WebSearch
from rumi.tools.write_file import WriteFile

__all__ = [
    "FILE_TOOLS",
    "NO_LINKS",
    "AlwaysAsks",
    "Bash",
    "BringsTools",
    "Calls",
    "CallsTools",
    "Claims",
    "CommandTrace",
    "DeclareTool",
    "EditFile",
    "FileTool",
    "ForgetTool",
    "Progress",
    "Question",
    "ReadFile",
    "RememberTool",
    "ReportsProgress",
    "RunsCommands",
    "SendFile",
    "Shell",
    "TextFile",
    "Tool",
    "ToolResult",
    "UseSkill",
    "WebFetch",
    "WebSearch",
    "WriteFile",
    "claims_of",
    "is_destination",
    "named",
    "page_inside",
    "page_result",
]
