"""The `send_file` tool: sends a workspace file to the user."""

import json
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Final

import trio

from rumi.agent.permissions.action_words import action_word_in
from rumi.agent.tool import Question, Reach, Tool, ToolResult
from rumi.errors import RumiError
from rumi.models.model import ToolSpec
from rumi.platform.openat import shown
from rumi.platform.threads import Offload
from rumi.sandbox.incoming import safe_name
from rumi.sandbox.workspace import WorkspaceError, open_beneath
from rumi.texts import Text, os_error

MAX_FILE_BYTES: Final = 50 * 1024 * 1024
"""Maximum size of a sent file, in bytes: Telegram's limit for files from a bot."""

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
    """The `send_file` tool, bound to one workspace. Files are sent through `send(name, content)`.

    `send` returns when the user has received the file, or raises a `RumiError`. `offload` runs file reads in
    threads. No other work should use these threads, because a slow disk may block them.
    """

    spec = SPEC
    concurrent = False

    def __init__(
        self,
        workspace: Callable[[], Path],
        send: Callable[[str, bytes], Awaitable[None]],
        offload: Offload,
        *,
        in_memory: trio.CapacityLimiter | None = None,
        max_bytes: int = MAX_FILE_BYTES,
        shows: bool = False,
    ) -> None:
        """Bind the tool to the folder that `workspace` returns; it is called in a worker thread.

        With `shows`, the tool's result shows the file; this is for channels whose users can see all files of
        the chat anyway. `in_memory` limits the number of files that all chats together hold in memory.
        """
        self._in_memory = in_memory or trio.CapacityLimiter(1)
        self._workspace = workspace
        self._send = send
        self._offload = offload
        self._max_bytes = max_bytes
        self._shows = shows

    def question(self, arguments: Mapping[str, object], known_urls: Collection[str]) -> Question | None:
        """Return a question that names the file; None if users can see all files of the chat anyway."""
        path = None if self._shows else arguments.get("path")
        if not isinstance(path, str):
            return None
        reach = Reach(self.spec.name, to=(("path", json.dumps(path, ensure_ascii=False)),))
        return Question("send_file", {"path": path}, (path_in_workspace(path) or path,), _asks_to_send, reach)

    async def call(self, arguments: Mapping[str, object]) -> ToolResult:
        """Read the file and send it. On cancellation, nothing more is sent and no file stays open."""
        path = arguments.get("path")
        if not isinstance(path, str):
            return ToolResult(False, Text("send_file needs `path`, a string"))
        relative = path_in_workspace(path)
        if relative is None:
            return ToolResult(
                False,
                Text(
                    "{path} is not in /workspace: only files there can be sent. Copy it there first",
                    path=shown(path),
                ),
            )
        name = safe_name(relative)
        try:
            # Held until the file is sent, because its content stays in memory until then.
            async with self._in_memory:
                content = await self._offload(
                    lambda: read_to_send(self._workspace(), relative, self._max_bytes)
                )
                await self._send(name, content)
        except RumiError as error:
            return ToolResult(
                False, Text("not sent: {error}", error=error.for_model), advice=error.for_people
            )
        said = f"sent {name} ({len(content)} bytes) to the user"
        return ToolResult(True, said, shows=(relative,) if self._shows else ())


def _asks_to_send(text: str) -> bool:
    """Return True if the text asks to send a file. A text that merely names a file is not enough.

    A user may name a file only to have it read, and a web page could then ask to send the file.
    """
    return any(action_word_in(name, text) for name in ("send_file", "attach_file", "upload_file"))


def path_in_workspace(path: str) -> str | None:
    """Return the path relative to the workspace; None for an absolute path outside of it."""
    if not path.startswith("/"):
        return path
    inside = path.removeprefix(MOUNTED_AT)
    if inside == path or not inside.startswith("/"):
        return None
    return inside.lstrip("/")


def read_to_send(workspace: Path, relative: str, max_bytes: int) -> bytes:
    """Return the file's content. At most `max_bytes` + 1 bytes are held in memory.

    Raises:
        WorkspaceError: The file is missing, unreadable, too large or empty.
    """
    with open(open_beneath(workspace, relative), "rb") as file:
        try:
            large = os.fstat(file.fileno()).st_size > max_bytes
            content = b"" if large else file.read(max_bytes + 1)
        except OSError as error:
            raise WorkspaceError(
                "{relative} cannot be read: {reason}.", relative=shown(relative), reason=os_error(error)
            ) from error
    if large or len(content) > max_bytes:  # checked again, because the file may have grown since `fstat`
        raise WorkspaceError(
            "{relative} is larger than {max_bytes} MB.",
            relative=shown(relative),
            max_bytes=f"{max_bytes / _MEGA:g}",
        )
    if not content:
        raise WorkspaceError("{relative} is empty, and empty files cannot be sent.", relative=shown(relative))
    return content
