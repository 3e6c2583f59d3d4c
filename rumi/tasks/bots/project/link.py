"""The link from a bot's project to the user's folder, and the base: a copy of the files that the bot got.

Both are in the bot's folder `project`, which only the program writes to: `link.json` names the user's folder,
and `base-TOKEN` contains the files. `link.json` is replaced only after a new base is complete.
"""

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from rumi.platform.atomic_write import atomic_write, folder_lock, fsync_path
from rumi.platform.openat import FOLDER, openat2, opened
from rumi.platform.texts.operating import short_size
from rumi.sandbox.project.changes import Changes, changes_between, copies_in
from rumi.sandbox.project.ignoring import Ignored, Outer, rules_below
from rumi.sandbox.project.tree import (
    UNBOUNDED,
    CopyEntry,
    OverLimits,
    ProjectEntry,
    ProjectLimits,
    Reason,
    file_entry,
    scan,
)
from rumi.sandbox.project.work_tree import ignored_in, work_tree_of
from rumi.tasks.bots.config import BotError
from rumi.texts import Text, os_error

PROJECT_FOLDER: Final = "project"
"""Name of the project's folder in the bot's workspace."""

_LINK: Final = "link.json"
_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Link:
    """The origin of a project.

    `folder` is the user's folder; `token` identifies the base; `taken` is the time of the copy, in seconds
    since 1970. `git` is the root of the git work tree, or empty for plain files. `ready` means that the
    project is in the bot's workspace. `left_out` lists some of the entries that were not copied. `outer`
    contains the ignore rules from outside the folder.
    """

    folder: str
    token: str
    taken: float
    git: str = ""
    ready: bool = False
    left_out: tuple[tuple[str, Reason], ...] = ()
    outer: tuple[Outer, ...] = ()


@dataclass(frozen=True, slots=True)
class Project:
    """The project of one bot. Methods block.

    `state` is the folder that contains the link and the base; `workspace` contains the bot's files.
    """

    name: str
    state: Path
    workspace: Path

    def link(self) -> Link | None:
        """Return the link, or None if the bot has no project or the file is damaged."""
        try:
            found = json.loads((self.state / _LINK).read_bytes())
            found["left_out"] = tuple((path, reason) for path, reason in found["left_out"])
            found["outer"] = tuple(Outer(**fields) for fields in found["outer"])
            return Link(**found)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def needed(self) -> Link:
        """Return the link to the user's folder.

        Raises:
            BotError: The bot has no project.
        """
        if (found := self.link()) is None:
            raise BotError(
                "The bot {name} has no project.",
                "Give it one: rumi bot run {name} --workspace DIR",
                name=self.name,
            )
        return found

    def base(self, link: Link) -> Path:
        """Return the folder that contains the files as the bot got them."""
        return self.state / f"base-{link.token}"

    def take(self, folder: Path, bounds: ProjectLimits, *, plain: bool, discard: bool) -> Link:
        """Copy a folder as the base of a new project, and store the link. `clone` later fills the workspace.

        With `plain`, the folder may lie outside a git work tree. With `discard`, changes that the bot made in
        its previous project may be lost.

        Raises:
            BotError: The folder cannot be used or is too large, or changes would be lost.
        """
        real_path = Path(os.path.realpath(folder))
        if not real_path.is_dir():
            raise BotError("{folder} is not a folder.", "Name the folder of a project.", folder=folder)
        root = work_tree_of(real_path)
        if root is None and not plain:
            raise BotError(
                "{folder} is not in a git work tree, so there would be no history to go back to.",
                "Run git init there, or copy it as plain files with --skip-git-check.",
                folder=folder,
            )
        # `parents[2]` is the home: a bot must not get a copy of its files, such as keys and the database.
        if self.state.parents[2].is_relative_to(real_path):
            raise BotError("{folder} holds Rumi's own files.", "Name the folder of a project.", folder=folder)
        if not discard:
            self._check_nothing_is_lost(bounds)
        self.state.mkdir(mode=0o700, exist_ok=True)
        try:
            with folder_lock(self.state):
                try:
                    return self._taken(real_path, root, bounds)
                finally:
                    self._remove_old()
        except OverLimits as error:
            raise _too_large(error) from error
        except OSError as error:
            raise BotError(
                "{folder} cannot be copied: {reason}.",
                "Check its files.",
                folder=folder,
                reason=os_error(error),
            ) from error

    def _taken(self, real_path: Path, root: Path | None, bounds: ProjectLimits) -> Link:
        link = Link(str(real_path), secrets.token_hex(8), time.time(), str(root or ""))
        base = self.base(link)
        base.mkdir(mode=0o700)
        with opened(os.open(real_path, FOLDER)) as top:
            ignored, outer = None, tuple[Outer, ...]()
            if root is not None:
                ignored, outer = ignored_in(real_path, root, top)
            tree = scan(top, bounds, ignored, _copier(base))
        # The base must be on the disk before the link that names it: after a power failure the link would
        # otherwise lead to an incomplete base.
        fsync_path(base)
        link = replace(link, left_out=tuple(tree.left_out[:_MOST_NAMED]), outer=outer)
        self._store(link)
        return link

    def _remove_old(self) -> None:
        """Remove all bases except the current one, and temporary folders left by killed processes."""
        link = self.link()
        for old in self.state.glob("*-*"):
            if link is None or old != self.base(link):
                shutil.rmtree(old, ignore_errors=True)

    def made(self, link: Link) -> None:
        """Mark the project as ready, which means that it is in the bot's workspace."""
        with folder_lock(self.state):
            # Another process may have taken a new project while this one was cloned.
            now = self.link()
            if now is not None and now.token == link.token:
                self._store(replace(now, ready=True))

    def _store(self, link: Link) -> None:
        atomic_write(self.state / _LINK, json.dumps(asdict(link)).encode())

    def _check_nothing_is_lost(self, bounds: ProjectLimits) -> None:
        link = self.link()
        if link is None:
            if os.path.lexists(self.workspace / PROJECT_FOLDER):
                raise BotError(
                    "The bot {name} has files of its own in /workspace/{project_folder}.",
                    "Move them, or lose them with --discard.",
                    name=self.name,
                    project_folder=PROJECT_FOLDER,
                )
            return
        if link.ready and os.path.lexists(self.workspace / PROJECT_FOLDER):
            with self.changed(bounds) as changes:
                if changes.all:
                    raise BotError(
                        "The bot {name} has changes that were not applied: {count} files.",
                        "Look at them with rumi bot diff {name}, bring them back with rumi bot apply "
                        "{name}, or lose them with --discard.",
                        name=self.name,
                        count=len(changes.all),
                    )

    @contextmanager
    def changed(self, bounds: ProjectLimits) -> Iterator[Changes]:
        """Yield the changes between the base and the bot's project.

        Copies of the changed files exist until the block ends.

        Raises:
            BotError: The bot has no project, or the project is not ready, unreadable or too large.
        """
        link = self.needed()
        base = self.base(link)
        try:
            with contextlib.ExitStack() as stack:
                copies = stack.enter_context(copies_in(self.state))
                if not link.ready:
                    raise BotError(
                        "The bot {name} does not have its project yet.",
                        "It gets it when it runs.",
                        name=self.name,
                    )
                ours = stack.enter_context(opened(os.open(base, FOLDER)))
                theirs = stack.enter_context(self._opened())
                before = scan(ours, UNBOUNDED)
                # The rules come from the base: a bot that edits `.gitignore` cannot hide its changes.
                ignored = Ignored(rules_below(ours), before.entries, link.outer) if link.git else None
                after = scan(theirs, bounds, ignored)
                yield changes_between(before, after, base, theirs, copies)
        except OverLimits as error:
            raise _too_large(error) from error
        except OSError as error:
            raise BotError(
                "The project of {name} cannot be read: {reason}.",
                Text("Try again."),
                name=self.name,
                reason=os_error(error),
            ) from error

    @contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            with opened(os.open(self.workspace, FOLDER)) as workspace:
                project = openat2(workspace, os.fsencode(PROJECT_FOLDER), FOLDER)
        except OSError as error:
            raise BotError(
                "The bot {name} has no folder /workspace/{project_folder} any more.",
                "Give it the project again: rumi bot run {name} --workspace DIR --discard",
                name=self.name,
                project_folder=PROJECT_FOLDER,
            ) from error
        with opened(project):
            yield project


def _too_large(error: OverLimits) -> BotError:
    if error.what == "bytes":
        return BotError(
            "The project has more than {size}.",
            "[sandbox] workspace_mb in config.toml says how much a bot may have.",
            size=short_size(error.most),
        )
    return BotError(
        "The project has more than {files} files and folders.",
        "[sandbox] workspace_files in config.toml says how many a bot may have.",
        files=f"{error.most:,}",
    )


def _copier(base: Path) -> CopyEntry:
    def copy_entry(path: str, entry: ProjectEntry, file: int) -> ProjectEntry:
        target = base / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if entry.kind == "link":
            os.symlink(entry.digest, target)
            return entry
        with opened(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)) as copy:
            found = file_entry(file, copy)
            os.fchmod(copy, 0o700 if found.runs else 0o600)
            return found

    return copy_entry
