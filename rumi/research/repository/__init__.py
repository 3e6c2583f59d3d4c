"""Research in a repository: its clone, which the program fetches, and the tools that read it in a sandbox."""

from rumi.research.repository.address import parse_address
from rumi.research.repository.cache import RepositoryCache
from rumi.research.repository.errors import CloneError
from rumi.research.repository.git import Git
from rumi.research.repository.history import copy_history
from rumi.research.repository.repository import FULL, CloneLimits, Repository, open_repository

__all__ = [
    "FULL",
    "CloneError",
    "CloneLimits",
    "Git",
    "Repository",
    "RepositoryCache",
    "copy_history",
    "open_repository",
    "parse_address",
]
