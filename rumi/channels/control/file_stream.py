"""Uploads from clients: the stream `file` of the control socket."""

from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from typing import Final

import trio

from rumi.channels.attach.wire import Wire, WireClosed
from rumi.channels.uploads import LocalUploads
from rumi.chats.inbox import Inbox
from rumi.errors import FileError, RumiError, answer_of
from rumi.platform.caller import Caller
from rumi.platform.calls import CHAT, answer, call
from rumi.platform.chat_ids import ChatIds
from rumi.store.journal.records import Attachment

SILENCE_S: Final = 20.0
"""Maximum pause between two pieces of an upload, in seconds."""


class UploadStream:
    """The stream `file` of the control socket: `serve` receives an upload for a chat of this process."""

    def __init__(self, uploads: LocalUploads, inbox: Inbox, ids: ChatIds) -> None:
        self._uploads = uploads
        self._inbox = inbox
        self._ids = ids

    async def serve(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Receive one upload. If the client disconnects before the end, no part of the file remains."""
        with suppress(WireClosed):
            try:
                attachment = await answer(self, "file", caller, request, wire)
            except RumiError as error:
                await wire.send(answer_of(error))
            else:
                await wire.send({"path": attachment.reference, "size": attachment.size_bytes})

    @call("file", key=CHAT, stream=True)
    async def upload(self, caller: Caller, wire: Wire, *, chat: str, name: str, path: str = "") -> Attachment:
        """Receive a file for a chat; the client sends it in pieces.

        `path` is the file's path on this machine. If it is in the folder that the chat is linked to, the
        chat sees it already, and no piece is read.
        """
        caller.chat_in(self._ids.check_chosen(chat), self._ids.owner_of)
        if path and (there := await self._uploads.in_folder(self._inbox, chat, path)) is not None:
            return there
        # `put` may raise in the middle of the iteration: close the generator here, in this task, and do not
        # leave it to the garbage collector.
        async with aclosing(_received_pieces(wire)) as pieces:
            return await self._uploads.put(self._inbox, chat, name, pieces)


async def _received_pieces(wire: Wire) -> AsyncGenerator[bytes, None]:
    while True:
        with trio.move_on_after(SILENCE_S) as silence:
            message = await wire.receive()
        if silence.cancelled_caught:
            raise FileError("The file did not come in time.")
        match message:
            case {"piece": str(piece)}:
                try:
                    yield b64decode(piece, validate=True)
                except ValueError:
                    raise WireClosed from None
            case {"end": True}:
                return
            case _:
                raise WireClosed
