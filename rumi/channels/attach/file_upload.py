"""Files that a window hands over: each on a connection of its own, so that the window's goes on beside it.

{"stream": "file", "chat": …, "name": …}  →
{"piece": BASE64}, as often as needed     →
{"end": true}                             →
                                          ←   {"path": …, "size": …}, or {"error": …}
"""

import os
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rumi.channels.control.client import NotRunning, connect
from rumi.channels.control.wire import Wire, WireClosed
from rumi.channels.uploads import LocalUploads
from rumi.chats.inbox import Inbox
from rumi.errors import RumiError, answer_of, error_of
from rumi.platform.caller import Caller
from rumi.platform.chat_ids import ChatIds
from rumi.platform.spooled_file import FileError
from rumi.store.journal.records import Attachment

PIECE_BYTES: Final = 1 << 20
SILENCE_S: Final = 20.0
"""How long a file that comes may pause."""


class UploadStream:
    """Takes files for the chats of this process: `serve` is the stream `file` of the control socket."""

    def __init__(self, uploads: LocalUploads, inbox: Inbox, ids: ChatIds) -> None:
        self._uploads = uploads
        self._inbox = inbox
        self._ids = ids

    async def serve(self, caller: Caller, request: Mapping[str, object], wire: Wire) -> None:
        """Take one file. If the window goes before its end, nothing of it is left."""
        with suppress(WireClosed):
            try:
                chat = self._ids.check_chosen(str(request.get("chat")))
                caller.chat_in(chat, self._ids.owner_of)
                pieces = _received_pieces(wire)
                async with aclosing(pieces):
                    attachment = await self._uploads.put(self._inbox, chat, str(request.get("name")), pieces)
            except RumiError as error:
                await wire.send(answer_of(error))
            else:
                await wire.send({"path": attachment.reference, "size": attachment.size_bytes})


async def upload_file(path: Path, caller: Caller, chat: str, attachment: Attachment) -> Attachment:
    """Give a file to the process at the control socket `path`; return it as it is in the chat's workspace.

    The attachment's `reference` is its path on this machine. Cancelled, nothing of it is left there.

    Raises:
        RumiError: It cannot be read, or is not taken.
    """
    try:
        file = await trio.to_thread.run_sync(partial(os.open, attachment.reference, _READ))
    except OSError as error:
        raise FileError(f"{attachment.name} cannot be read: {error.strerror}.") from None
    try:
        async with connect(path, caller) as client:
            wire = await client.stream("file", chat=chat, name=attachment.name)
            answer = await _upload(wire, file)
    except (NotRunning, WireClosed):
        raise FileError(
            f"{attachment.name} was not handed over: the process has gone.", "Try again."
        ) from None
    finally:
        os.close(file)
    if "error" in answer:
        raise error_of(answer)
    return replace(attachment, reference=str(answer["path"]), name=str(answer["path"]))


_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


async def _upload(wire: Wire, file: int) -> Mapping[str, object]:
    """Send the file until the process answers, which it does early where it does not take it."""
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            at = 0
            with suppress(WireClosed):
                while piece := await trio.to_thread.run_sync(os.pread, file, PIECE_BYTES, at):
                    at += len(piece)
                    await wire.send({"piece": b64encode(piece).decode()})
                await wire.send({"end": True})

        nursery.start_soon(send)
        answer = await wire.receive()
        nursery.cancel_scope.cancel()
        return answer


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
