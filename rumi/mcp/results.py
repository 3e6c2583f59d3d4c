"""What a model reads of a server's result, and the pictures in it as files of the workspace."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from io import BytesIO
from typing import Final, TypeAlias

from rumi.errors import RumiError
from rumi.home import Home
from rumi.marked import block, harmless
from rumi.mcp.types import Outcome, Part
from rumi.models import Picture
from rumi.offload import Threads
from rumi.sandbox import SandboxLimits, prepare_workspace, put_file
from rumi.tools import ToolResult

MAX_TEXT_CHARS: Final = 50_000
MOST_PICTURES: Final = 4
MOST_PICTURE_BYTES: Final = 5_000_000
_KINDS: Final = {
    b"\x89PNG\r\n\x1a\n": ("image/png", "png"),
    b"\xff\xd8\xff": ("image/jpeg", "jpg"),
    b"GIF8": ("image/gif", "gif"),
}

Store: TypeAlias = Callable[[str, bytes], Awaitable[str]]
"""Puts a file into the chat's workspace and returns its name there. Raises RumiError."""


async def result_of(source: str, outcome: Outcome, store: Store, *, trusted: bool) -> ToolResult:
    """Return a result as the model reads it: words of others, unless the server is trusted.

    Addresses in it do not count as given: a tool may put one together from the call's arguments.

    Cancelled, a picture may be in the workspace already.
    """
    pictures: list[Picture] = []
    texts: list[str] = []
    for part in outcome.parts:
        if part.data:
            texts.append(await _shown(source, part, pictures, store))
        else:
            texts.append(part.text)
    whole = "\n\n".join(texts)
    text = whole[:MAX_TEXT_CHARS].strip() or "(no text)"
    cut = len(whole) - MAX_TEXT_CHARS
    note = f"cut: the last {cut} characters are left out\n" if cut > 0 else ""
    body = harmless(text) if trusted else block(source, text)
    return ToolResult(
        ok=not outcome.failed,
        content=f"{note}{body}",
        truncated=cut > 0,
        same_as=body,
        tainted=not trusted,
        pictures=tuple(pictures),
    )


async def _shown(source: str, part: Part, pictures: list[Picture], store: Store) -> str:
    """Store a picture; return what the model reads of it."""
    media_type, ending = _kind(part.data)
    if not ending:
        return "(a picture of an unknown kind, not shown)"
    if len(pictures) >= MOST_PICTURES or len(part.data) > MOST_PICTURE_BYTES:
        return "(one more picture, or a large one: not shown)"
    try:
        name = await store(f"{source}.{ending}", part.data)
    except RumiError as error:
        return f"(a picture, not stored: {error})"
    pictures.append(Picture(f"/workspace/{name}", media_type, part.data))
    return f"(a picture: /workspace/{name})"


def _kind(data: Sequence[int]) -> tuple[str, str]:
    """Return a picture's media type and file ending by its first bytes; empty for another kind of file."""
    head = bytes(data[:16])
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp", "webp"
    return next((kind for mark, kind in _KINDS.items() if head.startswith(mark)), ("", ""))


class Pictures:
    """Puts pictures of servers into the workspaces of chats. `user` owns the files there."""

    def __init__(self, home: Home, user: tuple[int, int], limits: SandboxLimits) -> None:
        self._home = home
        self._user = user
        self._limits = limits
        self._offload = Threads()

    async def put(self, chat: str, mark: Callable[[], Awaitable[None]], name: str, data: bytes) -> str:
        """Put a file into a chat's workspace under a free name, and return that; `mark` is called before.

        Cancelled, the file may be there already.

        Raises:
            RumiError: There is no room, or it cannot be stored.
        """
        await mark()
        return await self._offload(partial(self._put, chat, name, data))

    def _put(self, chat: str, name: str, data: bytes) -> str:
        uid, gid = self._user
        workspace = prepare_workspace(self._home.root, chat, uid, gid)
        source = BytesIO(data)
        return put_file(
            workspace, name, source, uid=uid, gid=gid, limits=self._limits, max_bytes=MOST_PICTURE_BYTES
        )
