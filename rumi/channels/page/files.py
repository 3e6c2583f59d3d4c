"""A chat's files for its owner's browser: lists, downloads, pictures, and uploads."""

import builtins
import os
import re
import stat
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from typing import Final
from urllib.parse import quote

import trio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from rumi.channels.mentions import mentioned, missing_lines, names_of, offers
from rumi.channels.page.guard import FILE_POLICY
from rumi.channels.page.previews import ChatPlace, preview
from rumi.channels.page.state import PageState
from rumi.channels.page.talks import Talk
from rumi.chats.commands import parse_chat_command
from rumi.errors import RumiError
from rumi.platform.file_kinds import picture_type
from rumi.platform.openat import opened, shown
from rumi.platform.threads import Threads
from rumi.sandbox.incoming import safe_name
from rumi.sandbox.workspace import WorkspaceError, delete_beneath, listing, open_beneath
from rumi.store.journal.records import Attachment
from rumi.texts import Language
from rumi.web.readers.files.reading import MOST_BYTES as MOST_DOCUMENT_BYTES
from rumi.web.readers.files.reading import Looks, ViewLimits
from rumi.web.readers.files.viewer import PICTURES_FOLDER

SILENCE_S: Final = 20.0
"""Maximum time without a received byte during an upload, in seconds."""

MOST_NAME: Final = 1_000
MOST_FILES: Final = 10
"""Maximum number of files in one message."""

PIECE_BYTES: Final = 262_144

MOST_PICTURE_BYTES: Final = 20 * 1024 * 1024
HEAD_BYTES: Final = 1024

_DRAWING: Final = re.compile(rb"\s*(?:<\?xml[^>]*>\s*|<!--.*?-->\s*)*<svg[\s>]", re.DOTALL)
"""Start of an SVG drawing. An SVG may contain code, so the page shows it as `<img>`, and `FILE_POLICY`
forbids it to run or load anything.
"""


MOST_LINE: Final = 2_000
"""Maximum length of the text whose end is completed, in characters."""

PAGE_PX: Final = 1_400
"""Longer side of a page of a document that is shown as a picture, in pixels."""


class MissingFiles(RumiError):
    """A text mentions files that the chat does not have. `lines` has a sentence for each."""


class Files:
    """Handles requests for files. Reading never follows a symbolic link, and never blocks on a pipe."""

    def __init__(self, page: PageState) -> None:
        self._page = page
        self._offload = Threads(4)
        self._looks = Looks(ViewLimits(picture_px=PAGE_PX))

    async def list(self, talk: Talk, folder: str) -> Response:
        """Respond with the entries of a workspace folder. Omits the folder that contains scaled pictures."""
        chat, below = talk.chat.chat, folder[:MOST_NAME]
        found, left_out = await self._offload(lambda: listing(self._page.files.shown(chat), below))
        rows = [asdict(file) for file in found if folder or file.name != PICTURES_FOLDER]
        return JSONResponse({"files": rows, "left_out": left_out})

    async def put(self, talk: Talk, request: Request) -> Response:
        """Store a file that a browser uploads; respond with the file's name."""
        name = request.query_params.get("name", "")[:MOST_NAME]
        pieces = _pieces(request)
        async with aclosing(pieces):
            came = await self._page.uploads.put(self._page.inbox, talk.chat.chat, name, pieces)
        return JSONResponse({"path": came.reference, "size": came.size_bytes})

    async def download(self, talk: Talk, path: str) -> Response:
        """Respond with a file as an attachment, so that the browser saves it and never displays it."""
        return await self._answer(talk, path, picture=False)

    async def picture(self, talk: Talk, path: str) -> Response:
        """Respond with a picture that the browser may display."""
        return await self._answer(talk, path, picture=True)

    async def preview(self, talk: Talk, path: str) -> Response:
        """Respond with what a browser can show of a file."""
        chat, name = talk.chat.chat, path[:MOST_NAME]
        return JSONResponse(await self._offload(lambda: preview(self._page.files.shown(chat), name)))

    async def document_page(self, talk: Talk, path: str, number: int) -> Response:
        """Respond with a page of a PDF as a picture. The header `X-Pages` has the number of pages."""
        chat, name = talk.chat.chat, path[:MOST_NAME]
        async with self._looks.slots:
            body = await self._offload(lambda: self._document(chat, name))
            data, pages = await self._looks.page(body, number)
        response = Response(data, media_type="image/jpeg", headers={"X-Pages": str(pages)})
        response.raw_headers.append(FILE_POLICY)
        return response

    def _document(self, chat: str, name: str) -> bytes:
        with opened(open_beneath(self._page.files.shown(chat), name)) as file:
            if os.fstat(file).st_size > MOST_DOCUMENT_BYTES:
                raise HTTPException(413, "too large")
            return os.pread(file, MOST_DOCUMENT_BYTES, 0)

    async def delete(self, talk: Talk, path: str) -> Response:
        """Delete a file."""
        chat = talk.chat.chat
        await self._offload(lambda: delete_beneath(self._page.files.ready(chat), path))
        return Response(status_code=204)

    async def offers(self, talk: Talk, line: str) -> Response:
        """Respond with the files whose mention, such as `@notes.txt`, may end this text."""
        chat, end = talk.chat.chat, line[-MOST_LINE:]
        found = await self._offload(lambda: list(offers(end, ChatPlace(self._page.files.shown(chat)))))
        return JSONResponse({"offers": [asdict(offer) for offer in found]})

    async def attachments(
        self, talk: Talk, text: str, names: Sequence[str], *, as_it_is: bool, language: Language
    ) -> builtins.list[Attachment]:
        """Return the attachments of a message: files by their names, and those that its text mentions.

        Raises:
            MissingFiles: The text mentions files that do not exist, and is not to be sent `as_it_is`.
        """
        found = {name: self._page.uploads.attachment(name) for name in names}
        if "@" in text and parse_chat_command(text) is None:
            place = ChatPlace(self._page.files.shown(talk.chat.chat))
            mentions = await self._offload(lambda: mentioned(text, place))
            if mentions.missing and not as_it_is:
                raise MissingFiles("{lines}", lines="\n".join(missing_lines(mentions, language)))
            for name in mentions.names[: MOST_FILES - len(found)]:
                if stat.S_ISDIR(await self._offload(partial(place.kind, name))):
                    source = (
                        f"the names in the folder {shown(name)} of the chat's files, without their content"
                    )
                    found[name] = await self._offload(partial(_names_in, place, name, source))
                else:
                    found.setdefault(name, self._page.uploads.attachment(name))
        return list(found.values())

    async def _answer(self, talk: Talk, path: str, *, picture: bool) -> Response:
        chat, name = talk.chat.chat, path[:MOST_NAME]
        file = await self._offload(lambda: open_beneath(self._page.files.shown(chat), name))
        try:
            size, kind = await self._offload(partial(_kind_of, file))
            if picture and (not kind or size > MOST_PICTURE_BYTES):
                raise HTTPException(415, "no picture")
        except BaseException:
            # Also on cancellation: until `_Content` has the descriptor, nothing else closes it.
            os.close(file)
            raise
        return _Content(file, size, kind if picture else "", safe_name(path), self._offload)


class _Content(Response):
    """A response that sends an open file. Closes the file when all is sent or the browser disconnects."""

    def __init__(self, file: int, size: int, kind: str, name: str, offload: Threads) -> None:
        super().__init__(media_type=kind or "application/octet-stream")
        self._file = file
        self._size = size
        self._offload = offload
        self.headers["content-length"] = str(size)
        self.raw_headers.append(FILE_POLICY)
        if not kind:
            self.headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            at = 0
            while scope["method"] != "HEAD" and at < self._size:
                length = min(PIECE_BYTES, self._size - at)
                piece = await self._offload(partial(os.pread, self._file, length, at))
                if not piece:  # the file was truncated: end the connection, so that the browser notices
                    raise WorkspaceError("The file has changed.")
                at += len(piece)
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            os.close(self._file)


def _names_in(place: ChatPlace, folder: str, source: str) -> Attachment:
    return names_of(place.entries(folder), source)


def _kind_of(file: int) -> tuple[int, str]:
    """Return a file's size and media type.

    The type is empty unless the file is a picture that may be displayed.
    """
    size, head = os.fstat(file).st_size, os.pread(file, HEAD_BYTES, 0)
    if _DRAWING.match(head.removeprefix(b"\xef\xbb\xbf")):
        return size, "image/svg+xml"
    return size, picture_type(head)


async def _pieces(request: Request) -> AsyncGenerator[bytes, None]:
    stream = request.stream()
    async with aclosing(stream):
        while True:
            try:
                with trio.fail_after(SILENCE_S):
                    piece = await anext(stream)
            except StopAsyncIteration:
                return
            except trio.TooSlowError:
                raise HTTPException(408, "too slow") from None
            except ClientDisconnect:
                raise HTTPException(400, "gone") from None
            yield piece
