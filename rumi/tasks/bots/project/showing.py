"""A bot's changes to its project as JSON, and their application exactly as a person has seen them."""

import hashlib
from dataclasses import dataclass

from rumi.errors import RumiError
from rumi.platform.openat import shown
from rumi.sandbox.project.changes import Changes, stat_lines, unified
from rumi.sandbox.project.tree import ProjectLimits
from rumi.tasks.bots.project.applying import apply
from rumi.tasks.bots.project.link import Link, Project


@dataclass(frozen=True, slots=True)
class ShownChanges:
    """A bot's changes: the user's `folder`, a `token` for exactly these changes, and what is shown of them.

    `files` has a letter and a path for each change; `lines` are those of the unified diff.
    """

    folder: str
    token: str
    files: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]


def show_changes(project: Project, bounds: ProjectLimits) -> ShownChanges:
    """Return a bot's changes to its project. Blocking.

    Raises:
        BotError: The bot has no project, or the project is not ready, unreadable or too large.
    """
    link = project.needed()
    with project.changed(bounds) as changes:
        return ShownChanges(
            shown(link.folder),
            _token(link, changes),
            tuple(stat_lines(changes)),
            tuple((shown(path), str(reason)) for path, reason in changes.left_out),
            tuple(unified(changes)),
        )


def apply_shown(project: Project, bounds: ProjectLimits, token: str) -> int:
    """Apply the changes that were shown with a token; return the number of changed paths. Blocking.

    Raises:
        RumiError: The changes are others by now. Nothing was applied.
        BotError: The changes cannot be read or applied; see `apply`.
    """
    link = project.needed()
    with project.changed(bounds) as changes:
        if _token(link, changes) != token:
            raise RumiError("The bot has changed its files meanwhile.", "Look at its changes again.")
        return apply(project, link, changes) if changes.all else 0


def _token(link: Link, changes: Changes) -> str:
    """Return a digest of the changes: of each, the path and both contents."""
    found = [link.token, *(f"{one.path!r} {one.before!r} {one.after!r}" for one in changes.all)]
    return hashlib.sha256("\n".join(found).encode("utf-8", "backslashreplace")).hexdigest()
