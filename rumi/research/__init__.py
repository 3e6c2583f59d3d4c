"""Research: what was read is numbered and kept, and an answer is checked against it.

A task uses this. It gives a model the instructions and the tools, and what the model answers to `check`.

What it exports is imported when it is first asked for: commands that research nothing start without it.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rumi.research.kinds import RepositoryKind, WebKind
    from rumi.research.receipts import Claim, Report, check
    from rumi.research.repository import (
        CloneError,
        Git,
        RepositoryCache,
        copy_history,
        open_repository,
        parse_address,
    )
    from rumi.research.sources import Source, Sources, SourcesFull, Text
    from rumi.research.tool import RepositoryTool, ResearchTool
    from rumi.research.web import Note, Prefetched, WebResearch
    from rumi.research.workspace import bounded, workspace_tools

__all__ = [
    "PROMPTS",
    "Claim",
    "CloneError",
    "Git",
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
    "copy_history",
    "open_repository",
    "parse_address",
    "workspace_tools",
]

PROMPTS: Final = Path(__file__).parent / "prompts"
"""The words of prompts for research, a file each, which a home may replace."""

_PLACES = {
    "Claim": "receipts",
    "CloneError": "repository",
    "Git": "repository",
    "Note": "web",
    "Prefetched": "web",
    "Report": "receipts",
    "RepositoryCache": "repository",
    "RepositoryKind": "kinds",
    "RepositoryTool": "tool",
    "ResearchTool": "tool",
    "Source": "sources",
    "Sources": "sources",
    "SourcesFull": "sources",
    "Text": "sources",
    "WebKind": "kinds",
    "WebResearch": "web",
    "bounded": "workspace",
    "copy_history": "repository",
    "open_repository": "repository",
    "parse_address": "repository",
    "check": "receipts",
    "workspace_tools": "workspace",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"rumi.research.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
