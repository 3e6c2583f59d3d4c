"""Bots: each works on its own towards a goal, in iterations, within bounds, and ends with a report.

A bot is a folder in `bots/` (`config`, `files`). A session of it is a task (`kind`), with `tools` of its own,
and claims that are checked (`receipts`). `bots` starts, wakes and stops them; `serving` serves other
processes.
"""

from pathlib import Path
from typing import Final

from rumi.bots.bots import KIND, Bots, Start, StartBot, session
from rumi.bots.config import BotConfig, BotError, check_name, read_config
from rumi.bots.fetching import FETCH_S, FetchedSkills, checked_source, is_remote
from rumi.bots.files import BotFiles, BotSkill
from rumi.bots.kind import BotKind, BotLimits
from rumi.bots.project import Bounds, Changes, Project, apply, stat_lines, unified
from rumi.bots.serving import bots_calls

__all__ = [
    "FETCH_S",
    "KIND",
    "PROMPTS",
    "BotConfig",
    "BotError",
    "BotFiles",
    "BotKind",
    "BotLimits",
    "BotSkill",
    "Bots",
    "Bounds",
    "Changes",
    "FetchedSkills",
    "Project",
    "Start",
    "StartBot",
    "apply",
    "bots_calls",
    "check_name",
    "checked_source",
    "is_remote",
    "read_config",
    "session",
    "stat_lines",
    "unified",
]

PROMPTS: Final = Path(__file__).parent / "prompts"
"""The words of bots' prompts, which a home may replace."""
