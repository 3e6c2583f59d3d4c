"""The `send_file` tool: sends a file of the workspace to the user."""

import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import trio

from rumi.agent.permissions.action_words import action_word_in
from rumi.agent.tool import Question, Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.openat import shown
from rumi.platform.threads import Offload
from rumi.sandbox.incoming import safe_name
from rumi.sandbox.workspace import WorkspaceError, open_beneath

MAX_FILE_BYTES: Final = 50 * 1024 * 1024
"""Telegram's limit for files from a bot."""

MOUNTED_AT: Final = "/workspace"
_MEGA: Final = 1024 * 1024

SPEC = ToolSpec(
    name="send_file",
    description=(
        "Send one file of /workspace, of at most 50 MB, to the user, who cannot see them otherwise. Only "
        "what they asked for."
    ),
    parameters={
        "type": "object",
        "properties": {"path": {"type": "string", "description": "Below /workspace"}},
        "required": ["path"],
    },
)


class SendFile(Tool):
    """Sends files of the one workspace that it was given, through `send(name, content)`.

    `send` returns when the user has the file, or raises a `RumiError`. `offload` reads files and should have
    its own threads, because a disk may be slow.
    """

    spec = SPEC
    concurrent = False

    def __init__(
        self,
        workspace: Path,
        send: Callable[[str, bytes], Awaitable[None]],
        offload: Offload,
        *,
        in_memory: trio.CapacityLimiter | None = None,
        max_bytes: int = MAX_FILE_BYTES,
        shows: bool = False,
    ) -> None:
        """With `shows` people see the file in the call's result, where they see all files anyway. `in_memory`
        bounds the whole files that all chats have in memory together."""
        self._in_memory = in_memory or trio.CapacityLimiter(1)
        self._workspace = workspace
        self._send = send
        self._offload = offload
        self._max_bytes = max_bytes
        self._shows = shows

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question with the file's name; None where people see all files anyway."""
        path = None if self._shows else arguments.get("path")
        if not isinstance(path, str):
            return None
        return Question("send_file", {"path": path}, (_relative(path) or path,), _asks_to_send)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the file and send it. Cancelled, it sends nothing more and has no file open."""
        path = arguments.get("path")
        if not isinstance(path, str):
            return ToolResult(False, "send_file needs `path`, a string")
        relative = _relative(path)
        if relative is None:
            return ToolResult(
                False,
                f"{shown(path)} is not in /workspace: only files there can be sent. Copy it there first",
            )
        name = safe_name(relative)
        try:
            async with self._in_memory:
                content = await self._offload(lambda: _read(self._workspace, relative, self._max_bytes))
                await self._send(name, content)
        except RumiError as error:
            return ToolResult(False, f"not sent: {error}")
        said = f"sent {name} ({len(content)} bytes) to the user"
        return ToolResult(True, said, shows=(relative,) if self._shows else ())


def _asks_to_send(text: str) -> bool:
    """Return True if the text asks for a file, not only names one: a page that is read could want it sent."""
    return any(action_word_in(name, text) for name in ("send_file", "attach_file", "upload_file"))


def _relative(path: str) -> str | None:
    """Return the path below the workspace, for every spelling; None if it is outside."""
    if not path.startswith("/"):
        return path
    inside = path.removeprefix(MOUNTED_AT)
    if inside == path or not inside.startswith("/"):
        return None
    return inside.lstrip("/")


def _read(workspace: Path, relative: str, max_bytes: int) -> bytes:
    """Return the file's content; at most `max_bytes` + 1 bytes are in memory at any time."""
    with open(open_beneath(workspace, relative), "rb") as file:
        try:
            large = os.fstat(file.fileno()).st_size > max_bytes
            content = b"" if large else file.read(max_bytes + 1)
        except OSError as error:
            raise WorkspaceError(f"{shown(relative)} cannot be read: {error.strerror}.") from error
    if large or len(content) > max_bytes:  # more bytes if the file has grown meanwhile
        raise WorkspaceError(f"{shown(relative)} is larger than {max_bytes / _MEGA:g} MB.")
    if not content:
        raise WorkspaceError(f"{shown(relative)} is empty, and empty files cannot be sent.")
    return content
