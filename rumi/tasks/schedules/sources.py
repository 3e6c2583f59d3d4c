"""Reads what schedules watch: pages through the fetcher, the chat's files, and the output of commands."""

import errno
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final

import trio

from rumi.errors import RumiError, UsageError
from rumi.platform.openat import opened
from rumi.platform.text_decoding import decode
from rumi.platform.threads import Offload
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import Command, CommandResult, SandboxError
from rumi.sandbox.policy import CommandPolicy, in_bash
from rumi.sandbox.workspace import WorkspaceError, listing, open_beneath
from rumi.tasks.schedules.watched import SourceText, WatchItem
from rumi.web.messages import FetchError, Page
from rumi.web.url import parse_target

CHECK_S: Final = 60.0
"""Maximum time of one check, in seconds."""

COMMAND_S: Final = 30.0
NOT_RUN: Final = (126, 127)
"""The exit codes with which a shell says that a program is not there, or is none."""

MOST_FILE_BYTES: Final = 1_000_000
"""Maximum length of the part of a file that is compared as a text."""

MOST_DIGESTED_BYTES: Final = 100_000_000
"""Maximum length of the part of a file in which a change is found at all."""

MOST_FILES: Final = 200
OUTPUT_BYTES: Final = 200_000


@dataclass(frozen=True, slots=True)
class WatchSources:
    """The services that read what schedules watch.

    `fetch` returns the whole text of a page. `run` runs a command in a chat's sandbox. `files` is the folder
    with the chats' files, which `offload` reads; None if other workers may have them.
    """

    fetch: Callable[[str, str], Awaitable[Page]]
    run: Callable[[str, Command], Awaitable[CommandResult]]
    policy_of: Callable[[str], CommandPolicy]
    files: ChatFiles | None
    offload: Offload

    def check(self, chat: str, watch: WatchItem) -> None:
        """Raise a `RumiError` if this can never be read: a refused address or command."""
        if watch.kind == "page":
            parse_target(watch.what)
        elif self.files is None:
            raise UsageError(
                "Files and commands cannot be watched where several workers share the chats.",
                "Watch an address instead.",
            )
        elif watch.kind == "command":
            self.policy_of(chat).parse(watch.what)

    async def read(self, chat: str, watch: WatchItem) -> SourceText:
        """Read what is watched, within `CHECK_S`. On cancellation, leaves nothing running.

        Raises:
            RumiError: It could not be read; the error says why.
        """
        self.check(chat, watch)
        with trio.move_on_after(CHECK_S):
            match watch.kind:
                case "page":
                    return await self._page(chat, watch.what)
                case "file":
                    return await self.offload(partial(self._files, chat, watch.what))
                case "command":
                    return await self._output(chat, watch.what)
        raise RumiError("{what} did not answer within {seconds} s.", what=watch.name, seconds=f"{CHECK_S:g}")

    async def _page(self, chat: str, url: str) -> SourceText:
        page = await self.fetch(chat, url)
        if not 200 <= page.status < 300:
            raise FetchError(
                "{url} answers with status {status}.", url=page.url, status=page.status, answered=True
            )
        if page.broken_off:
            raise FetchError("{url} broke off: {cut}.", url=page.url, cut=page.cut, answered=True)
        if not page.text.strip():
            what = page.described or "it has no text"
            raise FetchError("{url} cannot be watched: {what}.", url=page.url, what=what, answered=True)
        return SourceText(page.text, page.title)

    def _files(self, chat: str, path: str) -> SourceText:
        assert self.files is not None
        workspace = self.files.shown(chat)
        relative = path.removeprefix("/workspace/").strip("/")
        folder, _, name = relative.rpartition("/")
        if any(character in name for character in "*?["):
            return self._listed(workspace, folder, name)
        if relative in ("", ".", "workspace"):
            return self._listed(workspace, "", "*")
        try:
            return SourceText(_file(workspace, relative).text)
        except WorkspaceError as error:
            why = getattr(error.__cause__, "errno", None)
            if why in (errno.ENOENT, errno.ENOTDIR):  # that it appears is a change as well
                return SourceText("(no such file)")
            if why == errno.EISDIR or (workspace / relative).is_dir():
                return self._listed(workspace, relative, "*")  # which follows no link
            raise

    def _listed(self, workspace: Path, folder: str, pattern: str) -> SourceText:
        """Return the names of a folder's files, each with its size and the beginning of its hash."""
        try:
            entries, _ = listing(workspace, folder, most=MOST_FILES)
        except WorkspaceError as error:
            if getattr(error.__cause__, "errno", None) != errno.ENOENT:
                raise
            entries = []
        lines = []
        for entry in entries:
            if not fnmatchcase(entry.name, pattern):
                continue
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.folder:
                lines.append(f"{path}/")
                continue
            try:
                found = _file(workspace, path)
            except WorkspaceError:  # deleted meanwhile, or not ours to read
                continue
            lines.append(f"{path}, {entry.size} bytes, {found.digest[:12]}")
        return SourceText("\n".join(lines) or "(no files)")

    async def _output(self, chat: str, command: str) -> SourceText:
        result = await self.run(
            chat, Command(in_bash(command), timeout_s=COMMAND_S, output_limit=OUTPUT_BYTES)
        )
        if result.ended != "exited":
            raise SandboxError(
                "{command} did not end by itself: {ended}.", command=command, ended=result.ended
            )
        parts = [result.stdout.text(), result.stderr.text()]
        if result.exit_code in NOT_RUN:
            raise SandboxError("{command} cannot be run: {why}.", command=command, why=parts[1].strip()[:300])
        if result.exit_code:
            parts.append(f"(exit code {result.exit_code})")
        return SourceText("\n".join(filter(None, parts)) or "(no output)")


@dataclass(frozen=True, slots=True)
class _FileBytes:
    """The beginning of a file, its size, and a digest of its first `MOST_DIGESTED_BYTES`."""

    content: bytes
    size: int
    digest: str

    @property
    def text(self) -> str:
        """The file's text; for other files, a line that changes with them."""
        if b"\0" in self.content[:8192]:
            return f"(no text: {self.size} bytes, {self.digest})"
        text = decode(self.content)
        if self.size > len(self.content) or "\ufffd" in text:  # the text does not show every change
            text += f"\n(of {self.size} bytes, {self.digest[:12]})"
        return text


def _file(workspace: Path, relative: str) -> _FileBytes:
    """Read a file of a workspace, which nothing outside of it can be.

    Raises:
        WorkspaceError: It cannot be read.
    """
    content, read, digest = bytearray(), 0, sha256()
    with opened(open_beneath(workspace, relative)) as file:
        while read < MOST_DIGESTED_BYTES and (piece := os.read(file, 65_536)):
            read += len(piece)
            digest.update(piece)
            content += piece[: MOST_FILE_BYTES - len(content)]
        size = os.fstat(file).st_size
    return _FileBytes(bytes(content), size, digest.hexdigest())
