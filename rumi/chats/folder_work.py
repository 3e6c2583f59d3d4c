"""Applies and drops changes to a chat's folder, after a yes or, if the settings want it, after each turn."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

import trio

from rumi.chats.folder_changes import conflicting, counted, paths_in, quoted, summary, warnings
from rumi.chats.folders import ChatFolders, FolderDiff, FolderError
from rumi.platform.texts import folders as folder_texts
from rumi.platform.texts.translation import error_text
from rumi.texts import Language

logger = logging.getLogger(__name__)

LOOK_S: Final = 10.0
"""Maximum wait of a turn's reply for the look at the changed files, in seconds."""

MOST_ASKED: Final = folder_texts.MOST_NAMED


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """What a command does after a yes: the `question`, and functions that carry it out or say that it is not.

    `carry_out` completes what it has begun even if it is cancelled, and raises no expected error.
    """

    question: str
    carry_out: Callable[[], Awaitable[str]]
    refused: str


class FolderWork:
    """The work on the folder of one chat. The chat's worker calls it between turns, one call at a time."""

    def __init__(self, chat: str, folders: ChatFolders | None, apply: Literal["ask", "auto"]) -> None:
        self._chat = chat
        self._folders = folders
        self._applies = apply == "auto"
        self._told = ""

    async def plan(
        self, kind: Literal["apply", "discard"], rest: str, language: Language
    ) -> FolderPlan | str:
        """Return what a command will do with exactly the present changes, or why it does nothing."""
        linked = self._folders.linked(self._chat) if self._folders is not None else None
        if linked is None or self._folders is None:
            return folder_texts.no_folder(language)
        folder = folder_texts.folder_name(linked.folder)
        try:
            paths = await paths_in(self._folders, self._chat, rest)
            diff = await self._folders.diff(self._chat, paths)
        except FolderError as error:
            return f"❌ {error_text(language, error)}"
        if not diff.files:
            hints = warnings(diff, language, folder)
            return "\n\n".join((folder_texts.unchanged(language, folder), *hints))
        listed = "\n".join(summary(counted(diff), language, MOST_ASKED))
        if kind == "discard":
            return FolderPlan(
                f"{folder_texts.discard_question(language, len(diff.files), folder)}\n{listed}",
                lambda: self._discard(paths, language, folder),
                folder_texts.not_discarded(language),
            )
        if conflicting(diff):
            return _in_conflict(diff, language, folder)
        left_out = warnings(diff, language, folder)
        question = folder_texts.apply_question(language, len(diff.files), folder)
        return FolderPlan(
            "\n".join((question, listed, *left_out)),
            lambda: self._apply(diff, paths, language, folder),
            folder_texts.not_applied(language),
        )

    async def _apply(self, diff: FolderDiff, paths: tuple[str, ...], language: Language, folder: str) -> str:
        assert self._folders is not None
        try:
            count = await self._folders.apply(self._chat, diff.token, paths)
        except FolderError as error:
            return folder_texts.nothing_applied(language, error_text(language, error))
        return folder_texts.applied(language, count, folder)

    async def _discard(self, paths: tuple[str, ...], language: Language, folder: str) -> str:
        assert self._folders is not None
        try:
            count = await self._folders.discard(self._chat, paths)
        except FolderError as error:
            return folder_texts.nothing_discarded(language, error_text(language, error))
        return folder_texts.discarded(language, count, folder)

    async def changes(self) -> int:
        """Return the number of changed files, also of those that git ignores.

        Raises:
            FolderError: the changes cannot be read.
        """
        if self._folders is None:
            return 0
        diff = await self._folders.diff(self._chat)
        return len(diff.files) + diff.ignored

    async def after_turn(self, language: Language, *, complete: bool, tainted: bool) -> str:
        """Return a line about the files that the turn has changed; empty if nothing new waits.

        With `[terminal] apply = "auto"`, first apply what can be applied, if the turn is `complete` and not
        `tainted`: content from outside may have chosen the changes, so a person looks at them first. Never
        raise an expected error.
        """
        linked = self._folders.linked(self._chat) if self._folders is not None else None
        if linked is None or self._folders is None:
            return ""
        folder = folder_texts.folder_name(linked.folder)
        try:
            with trio.move_on_after(LOOK_S):
                diff = await self._folders.diff(self._chat)
                if diff.token == self._told or not diff.files:
                    self._told = diff.token
                    return ""
                if self._applies and complete and not tainted:
                    return await self._apply_at_once(diff, language, folder)
                self._told = diff.token
                if self._applies and complete:
                    return folder_texts.changed_from_outside(language, len(diff.files), folder)
                return folder_texts.changed_files(language, len(diff.files), folder)
            logger.warning("chat %s: its changed files are not counted: it takes too long", self._chat)
        except FolderError as error:
            logger.warning("chat %s: %s", self._chat, error)
            return error_text(language, error)
        return ""

    async def _apply_at_once(self, diff: FolderDiff, language: Language, folder: str) -> str:
        """Apply the changes without a conflict; return a line about them, and about those that are left."""
        assert self._folders is not None
        hit, said = conflicting(diff), list[str]()
        if free := tuple(file for file in diff.files if not file.conflict):
            paths = tuple(path for file in free for path in file.paths) if hit else ()
            chosen = await self._folders.diff(self._chat, paths) if hit else diff
            await self._folders.apply(self._chat, chosen.token, paths)
            said.append(folder_texts.applied_by_itself(language, [file.path for file in free], folder))
            self._told = (await self._folders.diff(self._chat)).token
        if hit:
            said.append(folder_texts.conflicts(language, hit, folder))
        return "\n".join(said)


def _in_conflict(diff: FolderDiff, language: Language, folder: str) -> str:
    """Say that nothing is applied because of conflicts, and how to apply the rest."""
    hit = conflicting(diff)
    others = [quoted(path) for file in diff.files if not file.conflict for path in file.paths]
    why = folder_texts.conflicts(language, hit, folder)
    rest = folder_texts.apply_others(language, others) if 0 < len(others) <= MOST_ASKED else ""
    return "\n\n".join(filter(None, (folder_texts.nothing_applied(language, "").strip(), why, rest)))
