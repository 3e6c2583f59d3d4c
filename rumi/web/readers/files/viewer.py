"""Viewing of workspace files by models: documents and recordings as text, pictures scaled and stored.

A scaled picture is named after the hash of its content, so that a reference in the history cannot refer to a
different picture.
"""

import hashlib
import os
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from typing import Any, Final, TypeAlias

import trio

from rumi.errors import RumiError
from rumi.models.model import Message, Picture
from rumi.models.transcription import MAX_AUDIO_BYTES
from rumi.platform.file_kinds import HEAD_BYTES, Kind, is_sound, kind_of_file
from rumi.platform.openat import opened
from rumi.platform.spooled_file import check_cancelled
from rumi.platform.text_decoding import decode, encoding_of
from rumi.platform.texts.operating import short_size
from rumi.platform.threads import Offload
from rumi.sandbox.chat_files import ChatFiles
from rumi.sandbox.engine import SandboxLimits
from rumi.sandbox.incoming import file_in, put_file
from rumi.sandbox.workspace import WorkspaceError, open_beneath
from rumi.web.readers.files.reading import MOST_BYTES, Looks, ViewLimits, ViewRefused
from rumi.web.readers.pages.cleaning import one_line
from rumi.web.readers.registration import PluginReaders

PICTURES_FOLDER: Final = ".pictures"
"""Name of the workspace folder for scaled pictures."""

_NAMED: Final = re.compile(rf"{re.escape(PICTURES_FOLDER)}/([0-9a-f]{{32}})(?:-[0-9]+)?\.(?:png|jpg)")
_ENDINGS: Final = {"image/png": "png", "image/jpeg": "jpg"}
_LEAST_CHARS: Final = 400
_FORMAT_CHARS: Final = 10
_NOTE_CHARS: Final = 1000
_LINES_BYTES: Final = 1024 * 1024
_WITHOUT_MARK: Final = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}


@dataclass(frozen=True, slots=True)
class Seen:
    """A file, converted for models. `about` describes the file; `pictures` or `text` has its content.

    `cut` describes the omitted rest of the text, and `lost` what a document has besides its text.
    """

    about: str
    pictures: tuple[Picture, ...] = ()
    text: str = ""
    cut: str = ""
    lost: str = ""


View: TypeAlias = Callable[[str], Awaitable[Seen | None]]
"""Views a file at a path in one chat's workspace; returns None if this kind of file cannot be viewed.

Raises a `RumiError` if viewing the file fails.
"""


Hear: TypeAlias = Callable[[str, bytes], Awaitable[str]]
"""Returns the words in a sound file with this name and content; empty if nobody speaks.

Raises a `RumiError` if that fails.
"""

_HEARD_AT_ONCE: Final = 2
_MOST_TRANSCRIPTS: Final = 16


class Viewer:
    """Views files in all workspaces. The sandbox's `user` (a uid and a gid) owns the scaled pictures.

    `hear` transcribes recordings; without it, sound files cannot be viewed. `readers` are those of plugins.
    """

    def __init__(
        self,
        files: ChatFiles,
        user: tuple[int, int],
        sandbox_limits: SandboxLimits,
        limits: ViewLimits,
        offload: Offload,
        hear: Hear | None = None,
        readers: PluginReaders | None = None,
    ) -> None:
        self._readers = readers or PluginReaders()
        self._hear = hear
        self._hearing = trio.CapacityLimiter(_HEARD_AT_ONCE)
        self._transcripts: dict[tuple[str, str], str] = {}  # by chat and the hash of the recording
        self._files = files
        self._user = user
        self._sandbox_limits = sandbox_limits
        self._limits = limits
        self._offload = offload
        self._looks = Looks(limits)

    async def sent(self, chat: str, about: str, max_chars: int) -> Seen:
        """View a file that the user sent; `about` is a text that names the file.

        A failure becomes a note in the text. A text, also a document's, is cut to `max_chars` at the end of a
        line, with a note on how to read the rest. On cancellation, leaves no process.
        """
        if (file := file_in(about)) is None:
            return Seen(about)
        try:
            seen = await self.file(chat, file[0])
            if seen is None:
                seen = await self._offload(partial(self._as_text, chat, file[0], max_chars))
        except (ViewRefused, WorkspaceError) as error:
            return Seen(f"{about}\n[It cannot be shown: {error.message.rstrip('.')}.]")
        if seen is None:
            return Seen(about)
        described = f"{about}\n[{'; '.join(filter(None, (seen.about, seen.lost)))}]"
        return Seen("\n".join(filter(None, (described, _beginning(seen, file[0], max_chars)))), seen.pictures)

    async def file(self, chat: str, path: str) -> Seen | None:
        """View a file in the chat's workspace; return None if this kind of file cannot be viewed.

        Raises:
            ViewRefused: The file cannot be read, or is too large.
            WorkspaceError: The file does not exist, or the scaled picture does not fit into the workspace.
        """
        if self._hear is not None and await self._offload(partial(self._is_sound, chat, path)):
            return await self._heard(self._hear, chat, path)
        async with self._looks.slots:
            kind, of_plugin, body = await self._offload(partial(self._read, chat, path))
            if of_plugin is not None:
                heard = await self._looks.with_plugin(of_plugin, body, path)
            elif kind is not None:
                heard = await self._looks.look(kind, body, path)
            else:
                return None
        if kind == "picture":
            return await self._save_picture(chat, heard)
        text = str(heard.get("text", ""))
        lines = text.count("\n") + 1 if text else 0
        named = one_line(str(heard.get("format", "")), _FORMAT_CHARS)
        about = f"The text of this {named} file: {lines} lines, {len(text)} characters"
        lost, cut = (one_line(str(heard.get(field, "")), _NOTE_CHARS) for field in ("lost", "cut"))
        return Seen(about, text=text, cut=cut, lost=lost)

    async def _heard(self, hear: Hear, chat: str, path: str) -> Seen:
        """Return what is said in a sound file."""
        async with self._hearing:
            body = await self._offload(partial(self._read_sound, chat, path))
            # Kept, because a long transcript is read in parts, each by a call of its own.
            if (words := self._transcripts.get(key := (chat, _digest(body)))) is None:
                try:
                    words = await hear(path.rpartition("/")[2], body)
                except RumiError as error:
                    raise ViewRefused("{failed}", failed=error.message) from None
                if len(self._transcripts) >= _MOST_TRANSCRIPTS:
                    del self._transcripts[next(iter(self._transcripts))]
                self._transcripts[key] = words
        if not words:
            return Seen("A sound file in which nobody speaks")
        return Seen(f"What is said in this sound file, {len(words)} characters", text=_in_lines(words))

    async def picture(self, chat: str, body: bytes) -> Seen:
        """Scale a picture that a tool returned, and store it in the chat's workspace.

        Raises:
            ViewRefused: The data is not a picture, or cannot be read.
            WorkspaceError: The workspace has no space for the picture.
        """
        if len(body) > MOST_BYTES or kind_of_file(body[:HEAD_BYTES], "") != "picture":
            raise ViewRefused("it is not a picture in a known format")
        async with self._looks.slots:
            heard = await self._looks.look("picture", body)
        return await self._save_picture(chat, heard)

    async def save_file(self, chat: str, body: bytes, name: str) -> str:
        """Store a file that a tool returned in the chat's workspace; return the file's path there.

        Raises:
            WorkspaceError: The workspace has no space for the file.
        """
        return await self._offload(partial(self._put_file, chat, name, body))

    async def load(self, chat: str, messages: Sequence[Message], takes: bool) -> Sequence[Message]:
        """Return a prompt's messages with the bytes of each picture, or with a note instead of the picture.

        `takes` means that the model accepts pictures; otherwise the messages are returned unchanged. A prompt
        has at most the number of pictures in `ViewLimits`; if there are more, the oldest are left out.
        """
        count = sum([len(message.pictures) for message in messages])
        if not count or not takes:
            return messages
        # Left out several at a time: most prompts then begin like the one before, which servers cache.
        step = self._limits.pictures // 2 + 1
        leave = -(-max(0, count - self._limits.pictures) // step) * step
        shown: list[Message] = []
        for message in messages:
            leave, skip = leave - len(message.pictures), leave
            if message.pictures:
                message = await self._offload(partial(self._loaded, chat, message, max(0, skip)))
            shown.append(message)
        return shown

    def _loaded(self, chat: str, message: Message, skip: int) -> Message:
        pictures, notes = list[Picture](), list[str]()
        for index, picture in enumerate(message.pictures):
            if index < skip:
                notes.append(f"[The picture {picture.path} is left out: later ones take its place.]")
            elif (data := self._scaled(chat, picture.path)) is None:
                notes.append(f"[The picture {picture.path} is left out: its file is missing or has changed.]")
            else:
                pictures.append(replace(picture, data=data))
        content = "\n".join(filter(None, (message.content, *notes)))
        return replace(message, content=content, pictures=tuple(pictures))

    def _as_text(self, chat: str, path: str, max_chars: int) -> Seen | None:
        """Return the beginning of a text file; None if the file does not contain text."""
        with open(open_beneath(self._files.shown(chat), path), "rb") as file:
            # A character has at most 4 bytes.
            body = file.read(max(HEAD_BYTES, 4 * max(max_chars, _LEAST_CHARS) + 4))
            if not body:
                return Seen("The file is empty")
            (_, codec), text = encoding_of(body), decode(body)
            if "\0" in text:
                return None
            newline, ending = "\n".encode(_WITHOUT_MARK.get(codec, codec)), body[-4:]
            lines, size = body.count(newline), len(body)
            while more := file.read(_LINES_BYTES):
                lines, size, ending = lines + more.count(newline), size + len(more), more[-4:]
        lines += not ending.endswith(newline)
        about = f"A text file of {lines} lines" if lines != 1 else "A text file of 1 line"
        if codec not in ("utf-8", "ascii"):
            about += f", in {codec} and not in UTF-8"
        kept, line = _kept(text, max(max_chars, _LEAST_CHARS))
        if len(kept) == len(text) and size == len(body):
            return Seen(about, text=text)
        about += ". Only its beginning follows"
        return Seen(about, text=kept, cut=f"… Read on: read_file with path {path} and offset {line} …")

    def _is_sound(self, chat: str, path: str) -> bool:
        with open(open_beneath(self._files.shown(chat), path), "rb") as file:
            return is_sound(file.read(HEAD_BYTES))

    def _read_sound(self, chat: str, path: str) -> bytes:
        with open(open_beneath(self._files.shown(chat), path), "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_AUDIO_BYTES:
                raise ViewRefused("it is larger than {most_bytes}", most_bytes=short_size(MAX_AUDIO_BYTES))
            return file.read(MAX_AUDIO_BYTES)

    def can_view(self, head: bytes, path: str) -> bool:
        """Return True if a file with these first bytes and this path can be viewed."""
        return self._readers.can_view(head, path)

    def _read(self, chat: str, path: str) -> tuple[Kind | None, Mapping[str, object] | None, bytes]:
        """Return the kind of a file, or the request to a plugin's reader, and the file's bytes."""
        with open(open_beneath(self._files.shown(chat), path), "rb") as file:
            head = file.read(HEAD_BYTES)
            kind = kind_of_file(head, path)
            of_plugin = None if kind is not None else self._readers.request(head, path)
            if kind is None and of_plugin is None:
                return None, None, b""
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise ViewRefused("it is larger than {most_bytes}", most_bytes=short_size(MOST_BYTES))
            file.seek(0)
            return kind, of_plugin, file.read(MOST_BYTES)

    def _scaled(self, chat: str, path: str) -> bytes | None:
        """Return the bytes of a scaled picture; None if its file is missing or has changed."""
        if (named := _NAMED.fullmatch(path)) is None:
            return None
        with suppress(WorkspaceError, OSError), opened(open_beneath(self._files.shown(chat), path)) as file:
            if os.fstat(file).st_size <= self._limits.picture_bytes:
                data = os.pread(file, self._limits.picture_bytes, 0)
                return data if _digest(data) == named[1] else None
        return None

    async def _save_picture(self, chat: str, heard: dict[str, Any]) -> Seen:
        """Store a scaled picture from the answer of the confined process.

        The answer is untrusted, because a picture may have taken over the process. So every field is checked.
        """
        try:
            data, media_type = b64decode(heard["data"], validate=True), str(heard["media_type"])
            name = f"{_digest(data)}.{_ENDINGS[media_type]}"
            width, height, frames = (int(heard[field]) for field in ("width", "height", "frames"))
            size, kind = tuple(map(int, heard["size"])), str(heard["format"])[:10]
        except (KeyError, TypeError, ValueError):
            raise ViewRefused("its reader has failed") from None
        if len(data) > self._limits.picture_bytes:
            raise ViewRefused("it does not become small enough")
        path = await self._offload(partial(self._put, chat, name, data))
        about = f"A {kind} picture of {width} x {height} pixels"
        about += f", the first of its {frames} frames" if frames > 1 else ""
        about += f". You see it with {size[0]} x {size[1]}" if size != (width, height) else ""
        return Seen(about, (Picture(path, media_type, data),))

    def _put(self, chat: str, name: str, data: bytes) -> str:
        path = f"{PICTURES_FOLDER}/{name}"
        if self._scaled(chat, path) is not None:
            return path
        return f"{PICTURES_FOLDER}/{self._put_file(chat, name, data, PICTURES_FOLDER)}"

    def _put_file(self, chat: str, name: str, data: bytes, below: str = "") -> str:
        """Put a file into a chat's workspace; create the workspace if no sandbox has used it yet."""
        return put_file(
            self._files.ready(chat),
            name,
            BytesIO(data),
            user=self._user,
            limits=self._sandbox_limits,
            max_bytes=len(data),
            checkpoint=check_cancelled,
            below=below,
            counted=self._files.stored(chat),
        )


def _in_lines(words: str) -> str:
    """Return a transcript with one sentence on a line, so that its parts can be read by line numbers."""
    return re.sub(r"(?<=[.!?…。！？]) +", "\n", words)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _beginning(seen: Seen, name: str, max_chars: int) -> str:
    """Return the beginning of a document's text, cut at a line's end, and a note on how to read the rest."""
    text, most = seen.text, max(max_chars, _LEAST_CHARS)
    if len(text) <= most:
        return f"{text}\n[{seen.cut}]" if seen.cut else text
    kept, line = _kept(text, most)
    left = len(text) - len(kept)
    return f"{kept}\n[… {left} characters left out. Read on: read_file with path {name} and offset {line} …]"


def _kept(text: str, most: int) -> tuple[str, int]:
    """Return the beginning of a text, cut at a line's end, and the number of the line after it."""
    if len(text) <= most:
        return text, text.count("\n") + 1
    end = text.rfind("\n", 0, most)
    kept = text[: end if end > 0 else most]
    return kept, kept.count("\n") + (2 if end > 0 else 1)
