"""Research: what was read is numbered and kept, and an answer is checked against it.

A task uses this. It gives a model the instructions and the tools, and what the model answers to `check`.
"""

from rumi.research.kinds import RepositoryKind, WebKind
from rumi.research.receipts import Claim, Report, check
from rumi.research.repository import RepositoryCache
from rumi.research.sources import Source, Sources, SourcesFull, Text
from rumi.research.tool import RepositoryTool, ResearchTool
from rumi.research.web import PROMPTS, Note, Prefetched, WebResearch
from rumi.research.workspace import bounded, workspace_tools

__all__ = [
    "PROMPTS",
    "Claim",
    "Note",
    "Prefetched",
    "Report",
    "RepositoryCache",
    "RepositoryKind",
    "RepositoryTool",
    "ResearchTool",
    "Source",
    "Sources",
    "SourcesFull",
    "Text",
    "WebKind",
    "WebResearch",
    "bounded",
    "check",
    "workspace_tools",
]
