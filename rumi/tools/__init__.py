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
from rumi.tools.consent import LEAST_CHARS, Place, Words, chooses, own_words, places, plain, stands_in
from rumi.tools.declare import DECLARE, Declaration, DeclareTool, declarations_in, destinations_of
from rumi.tools.deeds import deed_in
from rumi.tools.destinations import destinations_first, is_address, is_destination
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
    "DECLARE",
    "FILE_TOOLS",
    "LEAST_CHARS",
    "NO_LINKS",
    "AlwaysAsks",
    "Bash",
    "BringsTools",
    "Calls",
    "CallsTools",
    "Claims",
    "CommandTrace",
    "Declaration",
    "DeclareTool",
    "EditFile",
    "FileTool",
    "ForgetTool",
    "Place",
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
    "Words",
    "WriteFile",
    "chooses",
    "claims_of",
    "declarations_in",
    "deed_in",
    "destinations_first",
    "destinations_of",
    "is_address",
    "is_destination",
    "named",
    "own_words",
    "page_inside",
    "page_result",
    "places",
    "plain",
    "stands_in",
]
