"""The folders that chats are linked to: where a chat's files are, the changes, and their end."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from rumi.platform.atomic_write import atomic_write
from rumi.platform.openat import FOLDER, openat2, opened
from rumi.sandbox.folders.copied import INDEX, applied, make_copy, put_back, read_copied, tree_of
from rumi.sandbox.folders.layer import Layer, below, drop, entry_at_without_content
from rumi.sandbox.folders.links import FolderFault, FolderLink, How, checked, read_link
from rumi.sandbox.folders.views import UPPER, VIEW, WORK, NoView, Views, sweep, unreachable
from rumi.sandbox.project import applying
from rumi.sandbox.project.applying import FolderChanged, NotUndone, compare, named
from rumi.sandbox.project.changes import COPIES, Changes, FileChange, changes_between, copies_in
from rumi.sandbox.project.ignoring import Ignored
from rumi.sandbox.project.tree import ProjectEntry, ProjectLimits, ProjectTree, entry_at
from rumi.sandbox.project.work_tree import ignored_in, work_tree_of
from rumi.sandbox.workspace import remove as remove_tree
from rumi.texts import Text, os_error

SEEN: Final = "seen.json"


@dataclass(frozen=True, slots=True)
class Found:
    """The changes of a chat's folder. `conflicts` are paths that have changed in the folder, too.

    `token` identifies the changes. `ignored` counts changes that were left out because git ignores them.
    """

    changes: Changes
    conflicts: frozenset[str]
    ignored: int
    token: str


@dataclass(frozen=True, slots=True)
class _First:
    """What the folder had at a path when the chat first changed it.

    `meanwhile` means that the folder had changed since the chat's turn had begun.
    """

    entry: ProjectEntry | None
    meanwhile: bool = False


class LinkedFolders:
    """The links of all chats. Blocking; methods may be called from any thread.

    `states` has a folder of state for each chat, `workspaces` the chats' own files and copies. `user` is the
    uid and gid of commands. `views` is None where an overlay cannot be used.
    """

    def __init__(
        self,
        home: Path,
        states: Path,
        workspaces: Path,
        user: tuple[int, int],
        bounds: ProjectLimits,
        views: Views | None,
    ) -> None:
        self._home = home
        self._states = states
        self._workspaces = workspaces
        self._user = user
        self._bounds = bounds
        self._views = views
        self._known: dict[str, FolderLink | None] = {}
        self._locks: dict[str, threading.RLock] = defaultdict(threading.RLock)

    def state(self, chat: str) -> Path:
        """Return the chat's folder of state."""
        return self._states / chat

    def linked(self, chat: str) -> FolderLink | None:
        """Return the chat's link; None if the chat has files of its own. Cheap after the first call."""
        if chat not in self._known:
            self._known[chat] = read_link(self.state(chat))
        return self._known[chat]

    def chats(self) -> tuple[str, ...]:
        """Return the linked chats."""
        try:
            return tuple(sorted(entry.name for entry in os.scandir(self._states)))
        except FileNotFoundError:
            return ()

    def start(self) -> None:
        """Complete what a killed process has begun. Only the process with the home's lock may call this."""
        sweep(self._states)
        for chat in self.chats():
            with self._locks[chat], contextlib.suppress(OSError):
                for left in self.state(chat).glob(f"{COPIES}*"):
                    shutil.rmtree(left, ignore_errors=True)
                self._finish(chat)

    def link(self, chat: str, folder: Path) -> FolderLink:
        """Link a chat to a folder; do nothing if it is linked to this folder already.

        Raises:
            FolderFault: The folder is refused, or the chat has another folder or files of its own.
        """
        with self._locks[chat]:
            known = self.linked(chat)
            if known is not None and os.path.realpath(folder) == known.folder:
                return known
            real = checked(folder, self._home)
            if known is not None:
                raise FolderFault(
                    "This chat works on {other}, and keeps that folder.",
                    "Take another chat for {folder}.",
                    other=known.folder,
                    folder=real,
                )
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if os.listdir(self._workspaces / chat):
                    raise FolderFault(
                        "This chat has files of its own.",
                        "Take another chat for {folder}.",
                        folder=real,
                    )
            state = self.state(chat)
            try:
                state.mkdir(mode=0o700, parents=True, exist_ok=True)
                made = FolderLink(str(real), self._way(chat, real, state))
                made.write(state)
            except OSError as error:
                raise FolderFault(
                    "The home {home} cannot be written: {reason}.", home=self._home, reason=os_error(error)
                ) from error
            self._known[chat] = made
            return made

    def _way(self, chat: str, folder: Path, state: Path) -> How:
        if self._views is not None:
            try:
                self._views.open(chat, folder, state)
                self._note_start(chat)
            except (NoView, OSError):
                for name in (UPPER, WORK, VIEW):
                    shutil.rmtree(state / name, ignore_errors=True)
            else:
                return "overlay"
        return "copy"

    def shown(self, chat: str) -> Path:
        """Return the path of the folder with the chat's files, for reading. It may not exist yet."""
        link = self.linked(chat)
        if link is None:
            return self._workspaces / chat
        with self._locks[chat]:
            if link.how == "overlay":
                return self._view(chat, link)
            # Before the chat's first command, its files are those of the folder.
            return self._workspaces / chat if read_copied(self.state(chat)) is not None else link.path

    def ready(self, chat: str) -> Path:
        """Return the path of the folder with the chat's files, for commands and for writing.

        Raises:
            FolderFault: The folder cannot be shown or copied.
        """
        link = self.linked(chat)
        if link is None:
            return self._workspaces / chat
        with self._locks[chat]:
            self._reach(link)
            if link.how == "overlay":
                return self._view(chat, link)
            if read_copied(self.state(chat)) is None or not (self._workspaces / chat).is_dir():
                make_copy(link.path, self._workspaces / chat, self.state(chat), self._user, self._bounds)
            return self._workspaces / chat

    def stored(self, chat: str) -> Path:
        """Return the folder that holds what the chat has written: its own files, a layer or a copy."""
        link = self.linked(chat)
        if link is not None and link.how == "overlay":
            return self.state(chat) / UPPER
        return self._workspaces / chat

    def seen_at(self, stored: Path) -> Path:
        """Return the path of the mount above a layer from `stored`; for other folders, the same path."""
        if self._views is not None and stored.name == UPPER and stored.parent.parent == self._states:
            return self._views.path(stored.parent.name) or stored
        return stored

    def refresh(self, chat: str) -> None:
        """Make the folder's current files visible to the next command. No command of the chat may run."""
        link = self.linked(chat)
        if link is not None and link.how == "overlay" and self._views is not None:
            with self._locks[chat]:
                if self._views.is_open(chat):
                    self.record(chat)
                    self._views.refresh(chat)
                    self._note_start(chat)

    def record(self, chat: str) -> None:
        """Record what the folder has at the paths that the chat has changed since the last call."""
        link = self.linked(chat)
        if link is not None and link.how == "overlay":
            with (
                self._locks[chat],
                contextlib.suppress(OSError),
                self._layer(chat, link, digests=False) as (
                    layer,
                    _,
                    lower,
                ),
            ):
                self._first(chat, layer, lower)

    def close(self, chat: str) -> None:
        """Remove the chat's mount. The chat must have no container."""
        if self._views is not None:
            with self._locks[chat]:
                self._views.close(chat)

    def close_all(self) -> None:
        """Remove all mounts of this process."""
        if self._views is not None:
            self._views.close_all()

    @contextmanager
    def found(self, chat: str, paths: Collection[str] = ()) -> Iterator[tuple[FolderLink, Found]]:
        """Yield the changes of these paths and what is below them, or all. Copies exist until the block ends.

        Raises:
            FolderFault: The chat has no folder, the folder cannot be read, or no path matches.
        """
        with self._locks[chat]:
            link = self._needed(chat)
            self._reach(link)
            self._finish(chat)
            try:
                with copies_in(self.state(chat)) as copies:
                    yield link, self._found(chat, link, copies, [_plain(path) for path in paths])
            except OSError as error:
                raise FolderFault(
                    "{folder} cannot be read: {reason}.",
                    Text("Try again."),
                    folder=link.folder,
                    reason=os_error(error),
                ) from error

    def apply(self, chat: str, token: str, paths: Collection[str] = ()) -> int:
        """Bring the changes with this token into the folder; return the number of paths.

        The chat must have no container.

        Raises:
            FolderFault: The changes are others, or the folder has changed too. Nothing was done.
        """
        with self._locks[chat]:
            self.close(chat)
            with self.found(chat, paths) as (link, found):
                if found.token != token:
                    raise FolderFault(
                        "The changes are no longer those that were shown, so nothing was applied.",
                        "Look at them again: /diff",
                    )
                if found.conflicts:
                    raise _conflict(link.folder, sorted(found.conflicts))
                try:
                    applying.apply(
                        link.path, self.state(chat), token[:16], found.changes, self._noted(chat, link)
                    )
                except FolderChanged as error:
                    raise _conflict(link.folder, error.paths) from None
                except NotUndone as error:
                    raise FolderFault(
                        "Applying broke off, and these files could not be put back: {left}.",
                        "Look at them, then apply again.",
                        left=named(error.paths),
                    ) from error
                except OSError as error:
                    raise FolderFault(
                        "{folder} cannot be written: {reason}; it is as it was before.",
                        "Check its owner and its disk, then apply again.",
                        folder=link.folder,
                        reason=os_error(error),
                    ) from error
                return len(found.changes.all)

    def discard(self, chat: str, paths: Collection[str] = ()) -> int:
        """Drop the changes of these paths, or all; return their number. The folder does not change.

        The chat must have no container.

        Raises:
            FolderFault: The chat has no folder, or no path matches.
        """
        with self._locks[chat]:
            self.close(chat)
            with self.found(chat, paths) as (link, found):
                count = len(found.changes.all)
                if not paths:
                    self._clear(chat, link)
                elif link.how == "overlay":
                    with self._layer(chat, link, digests=False) as (_, upper, lower):
                        drop(upper, lower, [change.path for change in found.changes.all])
                else:
                    with (
                        opened(os.open(link.path, FOLDER)) as lower,
                        opened(os.open(self._workspaces / chat, FOLDER)) as copy,
                    ):
                        chosen = [change.path for change in found.changes.all]
                        now = {path: entry_at(lower, path) for path in chosen}
                        put_back(lower, copy, self.state(chat), chosen, self._user, now)
                return count

    def clear(self, chat: str) -> None:
        """Drop everything that the chat has changed. The chat must have no container. Raise OSError."""
        if (link := self.linked(chat)) is not None:
            with self._locks[chat]:
                self.close(chat)
                self._finish(chat)
                self._clear(chat, link)

    def forget(self, chat: str) -> None:
        """Delete the link and everything that belongs to it. The chat must have no container."""
        with self._locks[chat]:
            if self.linked(chat) is not None or self.state(chat).exists():
                self.close(chat)
                with contextlib.suppress(OSError):
                    self._finish(chat)
                remove_tree(self.state(chat))
            self._known.pop(chat, None)

    def _needed(self, chat: str) -> FolderLink:
        if (link := self.linked(chat)) is None:
            raise FolderFault("This chat works on no folder.", "Start Rumi in one: rumi --here")
        return link

    def _reach(self, link: FolderLink) -> None:
        try:
            os.close(os.open(link.path, FOLDER))
        except OSError as error:
            raise unreachable(link.path, error) from error

    def _view(self, chat: str, link: FolderLink) -> Path:
        if self._views is None:
            raise FolderFault(
                "The changes of this chat to {folder} need an overlay, which this sandbox cannot make.",
                "Take the engine with which the chat began: [sandbox] backend.",
                folder=link.folder,
            )
        was_open = self._views.is_open(chat)
        try:
            view = self._views.open(chat, link.path, self.state(chat))
        except NoView as error:
            self._reach(link)
            raise FolderFault(
                "{folder} cannot be shown to the sandbox: {reason}.",
                "Look at `rumi doctor`.",
                folder=link.folder,
                reason=str(error),
            ) from error
        except OSError as error:
            raise unreachable(link.path, error) from error
        if not was_open:
            self._note_start(chat)
        return view

    @contextmanager
    def _layer(self, chat: str, link: FolderLink, *, digests: bool) -> Iterator[tuple[Layer, int, int]]:
        with contextlib.ExitStack() as stack:
            lower = stack.enter_context(opened(os.open(link.path, FOLDER)))
            (self.state(chat) / UPPER).mkdir(mode=0o700, exist_ok=True)
            upper = stack.enter_context(opened(os.open(self.state(chat) / UPPER, FOLDER)))
            yield Layer(upper, lower, digests=digests, most=self._bounds.bytes), upper, lower

    def _found(self, chat: str, link: FolderLink, copies: Path, chosen: Sequence[str]) -> Found:
        with contextlib.ExitStack() as stack:
            lower = stack.enter_context(opened(os.open(link.path, FOLDER)))
            meanwhile = set[str]()
            if link.how == "overlay":
                layer, theirs, _ = stack.enter_context(self._layer(chat, link, digests=True))
                first = self._first(chat, layer, lower)
                meanwhile = {path for path, seen in first.items() if seen.meanwhile}
                before = ProjectTree(
                    {path: seen.entry for path, seen in first.items() if seen.entry is not None}
                )
                after = layer.tree()
            elif (copied := read_copied(self.state(chat))) is None:
                return Found(Changes((), (), link.path, copies), frozenset(), 0, _token(()))
            else:
                theirs = stack.enter_context(opened(os.open(self._workspaces / chat, FOLDER)))
                before, after = ProjectTree(copied.entries), tree_of(theirs, copied, self._bounds.bytes)
            changes = _off_mounts(changes_between(before, after, link.path, theirs, copies), lower)
            if chosen:
                wanted = set(below([change.path for change in changes.all], chosen))
                changes = replace(
                    changes,
                    all=tuple(change for change in changes.all if change.path in wanted),
                    left_out=tuple(out for out in changes.left_out if out[0] in set(below([out[0]], chosen))),
                )
                if not wanted and not changes.left_out:
                    raise FolderFault(
                        "Nothing has changed at {paths}.", "Look at all changes: /diff", paths=named(chosen)
                    )
            changes, ignored = _without_ignored(changes, link.path, lower, chosen)
            todo, wrong = compare(lower, changes)
            conflicts = {*wrong, *(change.path for change in todo if change.path in meanwhile)}
            kept = {change.path for change in todo} | conflicts
            changes = replace(changes, all=tuple(change for change in changes.all if change.path in kept))
            return Found(changes, frozenset(conflicts), ignored, _token(changes.all))

    def _noted(self, chat: str, link: FolderLink) -> Callable[[Sequence[FileChange]], None]:
        def noted(changes: Sequence[FileChange]) -> None:
            if link.how == "copy":
                applied(self.state(chat), list(changes))
                return
            with self._layer(chat, link, digests=False) as (_, upper, lower):
                drop(upper, lower, [change.path for change in changes])
            self.record(chat)

        return noted

    def _finish(self, chat: str) -> None:
        """Complete an apply that a kill has interrupted."""
        link = self.linked(chat)
        if link is not None and (self.state(chat) / applying.RECORD).exists():
            self.close(chat)
            applying.finish(self.state(chat), self._noted(chat, link))

    def _clear(self, chat: str, link: FolderLink) -> None:
        state = self.state(chat)
        (state / SEEN).unlink(missing_ok=True)
        (state / INDEX).unlink(missing_ok=True)
        for folder in (
            state / UPPER,
            state / WORK,
            *([self._workspaces / chat] if link.how == "copy" else []),
        ):
            if folder.exists():
                remove_tree(folder)

    def _first(self, chat: str, layer: Layer, lower: int) -> dict[str, _First]:
        """Return what the folder had at each changed path at first; store what was not known yet."""
        since, known = self._seen(chat)
        first = dict[str, _First]()
        for path in layer.after:
            first[path] = known[path] if path in known else _look(lower, path, since, layer)
        if first != known:
            self._store_seen(chat, since, first)
        return first

    def _seen(self, chat: str) -> tuple[float, dict[str, _First]]:
        try:
            found = json.loads((self.state(chat) / SEEN).read_bytes())
            return found["since"], {
                path: _First(ProjectEntry(**entry) if entry else None, meanwhile)
                for path, (entry, meanwhile) in found["first"].items()
            }
        except (OSError, ValueError, TypeError, KeyError):
            return 0.0, {}

    def _store_seen(self, chat: str, since: float, first: dict[str, _First]) -> None:
        fields = {
            "since": since,
            "first": {
                path: [asdict(seen.entry) if seen.entry else None, seen.meanwhile]
                for path, seen in first.items()
            },
        }
        atomic_write(self.state(chat) / SEEN, json.dumps(fields, separators=(",", ":")).encode())

    def _note_start(self, chat: str) -> None:
        """Record that commands see the folder as it is now."""
        _, first = self._seen(chat)
        self._store_seen(chat, time.time(), first)


def _look(lower: int, path: str, since: float, layer: Layer) -> _First:
    status = entry_at_without_content(lower, path)
    if status is None:
        # The kernel has copied the file from a path of the folder: from this one, if the folder that had the
        # name has changed in this turn; otherwise it was moved here by a command.
        return _First(None, path in layer.copied and _changed_at(lower, path) > since)
    now = entry_at(lower, path)
    return _First(now if isinstance(now, ProjectEntry) else None, now == "other" or status.st_ctime > since)


def _changed_at(lower: int, path: str) -> float:
    """Return the time at which names changed in the innermost folder above a path that is still there."""
    while "/" in path:
        path = path.rpartition("/")[0]
        if (status := entry_at_without_content(lower, path)) is not None:
            return status.st_ctime
    return os.fstat(lower).st_ctime


def _off_mounts(changes: Changes, lower: int) -> Changes:
    """Leave out what lies on another mount in the folder: commands see what is beneath it, people do not."""
    mounted = {path for path in {change.path for change in changes.all} if _is_on_mount(lower, path)}
    if not mounted:
        return changes
    kept = tuple(change for change in changes.all if change.path not in mounted)
    return replace(
        changes, all=kept, left_out=(*changes.left_out, *((path, "mount") for path in sorted(mounted)))
    )


def _is_on_mount(lower: int, path: str) -> bool:
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    while path:
        try:
            os.close(openat2(lower, os.fsencode(path), flags, same_mount=True))
        except OSError as error:
            if error.errno == errno.EXDEV:
                return True
            path = path.rpartition("/")[0]  # missing: does a folder above it lie on another mount?
        else:
            return False
    return False


def _without_ignored(
    changes: Changes, folder: Path, lower: int, chosen: Sequence[str]
) -> tuple[Changes, int]:
    """Return the changes without those that git ignores, unless one is chosen itself; and their number."""
    root = work_tree_of(folder)
    if root is None:
        return changes, 0
    rules, _ = ignored_in(folder, root, lower)
    named_ones = [path for path in chosen if _is_ignored(rules, path)]
    wanted = set(below([change.path for change in changes.all], named_ones))
    kept = tuple(
        change for change in changes.all if change.path in wanted or not _is_ignored(rules, change.path)
    )
    return replace(changes, all=kept), len(changes.all) - len(kept)


def _is_ignored(rules: Ignored, path: str) -> bool:
    steps, inside = path.split("/"), False
    for depth in range(1, len(steps)):
        inside = rules.ignores("/".join(steps[:depth]), folder=True, inside=inside)
    return rules.ignores(path, folder=False, inside=inside)


def _token(changes: Sequence[FileChange]) -> str:
    words = [
        [
            change.path,
            asdict(change.before) if change.before else None,
            asdict(change.after) if change.after else None,
        ]
        for change in changes
    ]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def _plain(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", "."))


def _conflict(folder: str, paths: Sequence[str]) -> FolderFault:
    return FolderFault(
        "{folder} has changed in the same places, so nothing was applied: {paths}.",
        "Apply the other paths, or drop these changes with /discard PATH.",
        folder=folder,
        paths=named(paths),
    )
