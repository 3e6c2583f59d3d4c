"""Application of a bot's changes to the user's folder, and then to the base.

`rumi.sandbox.project.applying` does it; this module has the words about bots.
"""

from pathlib import Path

from rumi.platform.atomic_write import folder_lock
from rumi.sandbox.project import applying
from rumi.sandbox.project.applying import FolderChanged, NotUndone, named
from rumi.sandbox.project.changes import Changes
from rumi.tasks.bots.config import BotError
from rumi.tasks.bots.project.link import Link, Project
from rumi.texts import os_error


def apply(project: Project, link: Link, changes: Changes) -> int:
    """Apply changes to the user's folder, which `link` names, and then to the base. Blocking.

    The base is the copy of the folder that the bot got. Return the number of changed paths in the user's
    folder. After an interruption at any moment, the next call completes the work.

    Raises:
        BotError: The folder has changed since the bot got it, or cannot be written. Nothing was changed, or
            the error lists the changed files.
    """
    with folder_lock(project.state):
        now = project.link()
        if now is None or now.token != link.token:
            raise BotError(
                "The bot was given its project again in the meantime.", "Look at its changes again."
            )
        try:
            count = applying.apply(Path(link.folder), project.state, link.token, changes)
        except OSError as error:
            raise BotError(
                "{folder} cannot be written: {reason}; it is as it was before.",
                "Check its owner and its disk, then apply again.",
                folder=link.folder,
                reason=os_error(error),
            ) from error
        except NotUndone as error:
            raise BotError(
                "Applying broke off, and these files could not be put back: {left}.",
                "Run rumi bot apply again: it does the rest.",
                left=named(error.paths),
            ) from error
        except FolderChanged as error:
            raise BotError(
                "{folder} has changed since the bot got it, so nothing was applied: {paths}.",
                "Undo your changes to these files, or take the bot's from rumi bot diff by hand.",
                folder=link.folder,
                paths=error.named,
            ) from None
        # The base last: killed before this, the next call finds all changes in the folder and only updates
        # the base. In the other order the changes would count as applied.
        try:
            applying.note(changes, link.token)
        except (OSError, FolderChanged) as error:
            raise BotError(
                "The changes are in {folder}, and this could not be noted: {error}.",
                "Run rumi bot apply again: it changes nothing there any more.",
                folder=link.folder,
                error=error,
            ) from error
    return count
