"""A bot's project: a copy of a folder of the user, which the bot works on, and whose changes come back.

The program copies the folder (`link`, `tree`, `ignoring`) and gives the copy to the bot (`cloning`). Later it
compares what the bot has with that copy (`changes`), and applies what people were shown (`applying`).
"""

from rumi.bots.project.applying import apply
from rumi.bots.project.changes import Change, Changes, stat_lines, unified
from rumi.bots.project.cloning import clone
from rumi.bots.project.link import PLACE, Link, Project
from rumi.bots.project.tree import Bounds

__all__ = [
    "PLACE",
    "Bounds",
    "Change",
    "Changes",
    "Link",
    "Project",
    "apply",
    "clone",
    "stat_lines",
    "unified",
]
