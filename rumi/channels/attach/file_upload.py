"""File uploads from an attached client. Each upload uses a separate connection, so it delays no messages.

{"stream": "file", "chat": …, "name": …, "path": …}  →
{"piece": BASE64}, as often as needed     →
{"end": true}                             →
                                          ←   {"path": …, "size": …}, or {"error": …}
"""

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import trio

from rumi.channels.attach.connection import NotRunning, connect
from rumi.channels.attach.wire import Wire, WireClosed
from rumi.chats.port import Uploaded
from rumi.errors import FileError, error_of
from rumi.platform.caller import Caller
from rumi.store.journal.records import Attachment
from rumi.texts import Text, os_error

PIECE_BYTES: Final = 1 << 20


async def upload_file(path: Path, caller: Caller, chat: str, attachment: Attachment) -> Uploaded:
    """Upload a file to the process at the control socket `path`.

    The `reference` of the passed attachment is the file's path on this machine; the `reference` of the
    returned one is the file's path in the chat's workspace. Of a file that grows meanwhile, the bytes that it
    had at the beginning are uploaded. If cancelled, no part of the file remains in the workspace.

    Raises:
        RumiError: The file cannot be read, or the process refuses it.
    """
    try:
        file = await trio.to_thread.run_sync(partial(os.open, attachment.reference, _READ))
    except OSError as error:
        raise FileError(
            "{name} cannot be read: {reason}.", name=attachment.name, reason=os_error(error)
        ) from None
    try:
        async with connect(path, caller) as client:
            real = await trio.to_thread.run_sync(os.path.realpath, attachment.reference)
            before = os.fstat(file)
            wire = await client.stream("file", chat=chat, name=_sent(attachment.name), path=_sent(real))
            answer = await _upload(wire, file, before.st_size)
            after = os.fstat(file)
    except (NotRunning, WireClosed):
        raise FileError(
            "{name} was not handed over: the process has gone.", Text("Try again."), name=attachment.name
        ) from None
    finally:
        os.close(file)
    if "error" in answer:
        raise error_of(answer)
    changed = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
    reference, size = str(answer["path"]), int(str(answer.get("size") or 0))
    name = _sent(attachment.name)
    return Uploaded(replace(attachment, reference=reference, name=name, size_bytes=size), changed)


def _sent(text: str) -> str:
    """Return a name or path of this machine as text that can be sent: its bytes may not be UTF-8."""
    return text.encode("utf-8", "replace").decode()


# Non-blocking: opening a FIFO would wait for a writer.
_READ: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


async def _upload(wire: Wire, file: int, size: int) -> Mapping[str, object]:
    """Send the file; stop as soon as the process answers, because it may refuse the file early."""
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            offset = 0
            with suppress(WireClosed):  # `receive` below reports it, after an answer that was sent before
                while piece := await trio.to_thread.run_sync(
                    os.pread, file, min(PIECE_BYTES, size - offset), offset
                ):
                    offset += len(piece)
                    await wire.send({"piece": b64encode(piece).decode()})
                await wire.send({"end": True})

        nursery.start_soon(send)
        answer = await wire.receive()
        nursery.cancel_scope.cancel()
        return answer


MOST_WORDS = 50
"""Maximum number of quoted texts in one message, and of its files; the chat limits the texts' length."""


def words_to_json(attachments: Sequence[Attachment]) -> list[dict[str, object]]:
    """Encode attachments of the kind `words`, which are quoted texts, as JSON objects."""
    return [
        {"source": attachment.source, "text": attachment.text, "cut": attachment.cut}
        for attachment in attachments
    ]


def words_from_json(data: object) -> tuple[Attachment, ...]:
    """Return the quoted texts that `words_to_json` has encoded, as attachments.

    Raises:
        KeyError, TypeError, ValueError: `data` does not have the format of this version.
    """
    if not isinstance(data, list) or len(data) > MOST_WORDS:
        raise ValueError("not a short list")
    return tuple(
        Attachment(
            "words",
            source=str(attachment["source"]),
            text=str(attachment["text"]),
            cut=bool(attachment["cut"]),
        )
        for attachment in data
    )
