"""Folders of chats that are told what has changed in them, for tests of what people see."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

import trio

from rumi.chats.folders import ChangedFile, FolderDiff, FolderError, LinkedFolder


def added(path: str, *lines: str, conflict: bool = False) -> tuple[ChangedFile, tuple[str, ...]]:
    """A new file with these lines, and its part of the diff."""
    head = (f"diff --git a/{path} b/{path}", "new file mode 100644", "--- /dev/null", f"+++ b/{path}")
    hunk = (f"@@ -0,0 +1,{len(lines)} @@", *(f"+{line}" for line in lines))
    return ChangedFile("A", path, conflict, (path,)), (*head, *hunk)


@dataclass
class ToldFolders:
    """Changes are put into `changes`; what is applied and dropped is noted."""

    links: dict[str, Path] = field(default_factory=dict)
    changes: dict[str, tuple[ChangedFile, tuple[str, ...]]] = field(default_factory=dict)
    left_out: tuple[tuple[str, str], ...] = ()
    applied: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    refuses: str = ""
    takes_s: float = 0.0

    def change(self, *changes: tuple[ChangedFile, tuple[str, ...]]) -> None:
        self.changes |= {file.path: (file, lines) for file, lines in changes}

    def linked(self, chat: str) -> LinkedFolder | None:
        return LinkedFolder(chat, self.links[chat], "overlay") if chat in self.links else None

    async def link(self, chat: str, folder: Path) -> LinkedFolder:
        await trio.lowlevel.checkpoint()
        if self.links.setdefault(chat, folder) != folder:
            raise FolderError("The chat {chat} works on another folder.", chat=chat)
        return LinkedFolder(chat, folder, "overlay")

    async def diff(self, chat: str, paths: tuple[str, ...] = ()) -> FolderDiff:
        await trio.lowlevel.checkpoint()
        if self.refuses:
            raise FolderError(self.refuses)
        chosen = self._chosen(paths)
        if paths and not chosen:
            raise FolderError("Nothing has changed in {files}.", files=", ".join(paths))
        lines = tuple(line for _, part in chosen for line in part)
        token = sha256(repr(chosen).encode()).hexdigest()
        return FolderDiff(token, tuple(file for file, _ in chosen), lines, self.left_out)

    async def apply(self, chat: str, token: str, paths: tuple[str, ...] = ()) -> int:
        with trio.CancelScope(shield=True):
            await trio.sleep(self.takes_s)
        if (await self.diff(chat, paths)).token != token:
            raise FolderError("The changes are no longer those shown.", "Look again: /diff")
        return self._take(paths, self.applied)

    async def discard(self, chat: str, paths: tuple[str, ...] = ()) -> int:
        await trio.lowlevel.checkpoint()
        return self._take(paths, self.dropped)

    def _chosen(self, paths: Sequence[str]) -> list[tuple[ChangedFile, tuple[str, ...]]]:
        found = sorted(self.changes.items())
        return [change for path, change in found if not paths or _below(path, paths)]

    def _take(self, paths: Sequence[str], into: list[str]) -> int:
        gone = [file.path for file, _ in self._chosen(paths)]
        for path in gone:
            del self.changes[path]
        into += gone
        return len(gone)

    def conflict(self, path: str) -> None:
        """Let the person have changed this file as well."""
        file, lines = self.changes[path]
        self.changes[path] = (replace(file, conflict=True), lines)


def _below(path: str, tops: Sequence[str]) -> bool:
    return any(path == top or path.startswith(f"{top}/") for top in tops)
