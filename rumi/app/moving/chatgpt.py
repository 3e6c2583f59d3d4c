"""Reads an export of ChatGPT: the ZIP file that OpenAI sends, or the folder with what was in it.

Conversations are in `conversations.json`, or in several files `conversations-000.json`. Each is a tree of
messages; the branch that was shown last is taken. Memories are in `memories.json` where it exists, and in
the messages with which the model has stored them (`to=bio`).
"""

import json
import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from rumi.app.moving.notes import add_fact
from rumi.app.moving.reading import HomeReader, instant, listed, mapping, utf8, word
from rumi.app.moving.records import MovedText, hidden
from rumi.app.moving.talks import ForeignMessage, add_session, plain
from rumi.errors import UsageError
from rumi.platform.openat import READ, is_ordinary, opened
from rumi.texts import Text

MOST_BYTES: Final = 400_000_000
MOST_DIRECTORY_BYTES: Final = 20_000_000
MOST_CONVERSATION_CHARS: Final = 16_000_000
"""Length up to which a conversation is read, whatever it holds; one of twice the length never is."""
MOST_NODES: Final = 100_000
_FILES: Final = re.compile(r"conversations(?:-\d{1,6})?\.json")
_SEPARATOR: Final = re.compile(r"[\s,]*")
_PIECE: Final = 1 << 20
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""The methods of exports. Another one, such as LZMA, may ask for gigabytes of memory."""


class _ExportFiles(Protocol):
    """The files of an export, by name; the folder of a file inside the ZIP does not matter."""

    def names(self) -> list[str]:
        """Return the names of the files."""
        ...

    def text(self, name: str) -> str | None:
        """Return a file as text; None if it is left out, which is noted."""
        ...


class _Folder:
    def __init__(self, source: HomeReader) -> None:
        self._source = source

    def names(self) -> list[str]:
        return self._source.names()

    def text(self, name: str) -> str | None:
        content = self._source.read(name, "sessions", MOST_BYTES)
        return None if content is None else utf8(content)


class _Zip:
    """A ZIP file. Nothing is unpacked to the disk, so the paths in it lead nowhere."""

    def __init__(self, source: HomeReader, archive: zipfile.ZipFile) -> None:
        self._source = source
        self._archive = archive
        self._entries = {
            one.filename.rpartition("/")[2]: one for one in archive.infolist() if not one.is_dir()
        }

    def names(self) -> list[str]:
        return sorted(self._entries)

    def text(self, name: str) -> str | None:
        if (entry := self._entries.get(name)) is None:
            return None
        if entry.compress_type not in _METHODS:
            self._source.moved.leave("sessions", name, Text("it cannot be unpacked"))
            return None
        content = bytearray()
        try:
            with self._archive.open(entry) as file:
                while piece := file.read(_PIECE):
                    self._source.budget.check()
                    content += piece
                    if len(content) > MOST_BYTES:  # whatever size the ZIP file declares
                        self._source.moved.leave("sessions", name, Text("it is too large"))
                        return None
        except (zipfile.BadZipFile, zlib.error, OSError, RuntimeError, ValueError, EOFError):
            self._source.moved.leave("sessions", name, Text("it cannot be unpacked"))
            return None
        self._source.budget.spend(len(content))
        return utf8(bytes(content))


def read_folder(source: HomeReader) -> None:
    """Add all that an unzipped export holds."""
    _read(source, _Folder(source))


def read_zip(source: HomeReader, path: Path) -> None:
    """Add all that the ZIP file of an export holds.

    Raises:
        UsageError: The file is not a ZIP file, or has too many files.
    """
    with opened(os.open(path, READ & ~os.O_NOFOLLOW)) as descriptor:
        if not is_ordinary(descriptor):
            raise UsageError("{path} is not a file.", "Name the ZIP file of the export.", path=path)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            _check_directory(file.fileno(), path)
            try:
                with zipfile.ZipFile(file) as archive:
                    _read(source, _Zip(source, archive))
            except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
                raise UsageError(
                    "{path} is not a ZIP file.", "Download the export again.", path=path
                ) from error


def _check_directory(file: int, path: Path) -> None:
    """Refuse a ZIP file whose list of files is too long to be held in memory."""
    size = os.fstat(file).st_size
    tail = os.pread(file, min(size, 65_557), max(0, size - 65_557))
    at = tail.rfind(b"PK\x05\x06")
    if at >= 0 and int.from_bytes(tail[at + 12 : at + 16], "little") > MOST_DIRECTORY_BYTES:
        raise UsageError("{path} has too many files.", "Unzip it, and name the folder.", path=path)


def _read(source: HomeReader, files: _ExportFiles) -> None:
    names = files.names()
    found = [name for name in names if _FILES.fullmatch(name)]
    if not found:
        raise UsageError(
            "There is no conversations.json in it.",
            "Name the ZIP file of the export, or its unzipped folder.",
        )
    for name in ("memories.json", "memory.json"):
        if name in names:
            _memories(source, name, files.text(name) or "")
    for name in sorted(found):
        if (text := files.text(name)) is not None:
            for conversation in _conversations(source, name, text):
                _conversation(source, conversation)
    known = {
        "user.json",
        "chat.html",
        "message_feedback.json",
        "shared_conversations.json",
        "memories.json",
        "memory.json",
    }
    others = [
        name
        for name in names
        if name not in known and not _FILES.fullmatch(name) and not name.startswith(".")
    ]
    if others:
        source.moved.leave(
            "sessions", "", Text("pictures and files that belong to conversations"), len(others)
        )


def _conversations(source: HomeReader, name: str, text: str) -> Iterator[dict[str, Any]]:
    """Yield the conversations of a file one by one, so that only one of them is in memory."""
    decoder, most = json.JSONDecoder(parse_constant=lambda constant: None), MOST_CONVERSATION_CHARS
    start = text.find("[") + 1
    window, at = text[start : start + 2 * most], 0  # the decoder sees no more, however long a value is
    while start > 0:
        source.budget.check()
        space = _SEPARATOR.match(window, at)
        at = space.end() if space else at
        if at >= most:
            start, at = start + at, 0
            window = text[start : start + 2 * most]
            continue
        if at >= len(window) or window[at] == "]":
            return
        try:
            value, at = decoder.raw_decode(window, at)
        except (ValueError, RecursionError):
            source.moved.leave("sessions", name, Text("the rest of a damaged file"))
            return
        if isinstance(value, dict):
            yield value


def _conversation(source: HomeReader, stored: dict[str, Any]) -> None:
    id = word(stored.get("conversation_id") or stored.get("id"))
    nodes, title = mapping(stored.get("mapping")), word(stored.get("title"))
    source.budget.tell(title)
    branch = _branch(nodes, word(stored.get("current_node")))
    others = sum(
        1
        for name in nodes
        if name not in branch and mapping(mapping(nodes[name]).get("message")).get("author")
    )
    if others:
        source.moved.leave("sessions", "", Text("other versions of messages and answers"), others)
    said: list[ForeignMessage] = []
    for name in branch:
        source.budget.check()
        message = mapping(mapping(nodes[name]).get("message"))
        if message:
            _message(source, message, said)
    add_session(source.moved, id or title, title, said, instant(stored.get("create_time")))


def _branch(nodes: dict[str, Any], last: str) -> dict[str, None]:
    """Return the names of the nodes from the root to the last one. A tree with a circle ends there."""
    if last not in nodes:
        leaves = [name for name, node in nodes.items() if not listed(mapping(node).get("children"))]
        times = {
            name: instant(mapping(mapping(nodes[name]).get("message")).get("create_time")) for name in leaves
        }
        last = max(leaves, key=lambda name: times[name], default=next(iter(nodes), ""))
    branch: list[str] = []
    seen: set[str] = set()
    while last in nodes and last not in seen and len(branch) < MOST_NODES:
        seen.add(last)
        branch.append(last)
        last = word(mapping(nodes[last]).get("parent"))
    return dict.fromkeys(reversed(branch))


def _message(source: HomeReader, message: dict[str, Any], said: list[ForeignMessage]) -> None:
    role = mapping(message.get("author")).get("role")
    content, about = mapping(message.get("content")), mapping(message.get("metadata"))
    kind, at = content.get("content_type"), instant(message.get("create_time"))
    if kind == "user_editable_context":
        _instructions(source, content)
        return
    text = _text(content)
    if role == "assistant" and message.get("recipient") == "bio":
        for line in text.splitlines():
            add_fact(source.moved, "memory", " ".join(line.split()), "to=bio") if line.strip() else None
        return
    if about.get("is_visually_hidden_from_conversation") or kind in (
        "thoughts",
        "reasoning_recap",
        "system_error",
    ):
        return
    recipient = word(message.get("recipient"))
    if role == "assistant" and recipient not in ("", "all"):
        said.append(
            ForeignMessage("assistant", "", at, ((f"c{len(said)}", recipient, json.dumps({"text": text})),))
        )
    elif role == "tool":
        # A result follows its call, or another result of it.
        last = said[-1] if said else None
        call = "" if last is None else last.calls[0][0] if last.calls else last.answers
        said.append(ForeignMessage("tool", text, at, answers=call))
    elif role in ("user", "assistant"):
        if about.get("attachments"):
            count = len(listed(about["attachments"]))
            source.moved.leave("sessions", "", Text("pictures and files that belong to conversations"), count)
        said.append(ForeignMessage("user" if role == "user" else "assistant", text, at))


def _text(content: dict[str, Any]) -> str:
    parts = [
        part if isinstance(part, str) else {"type": "image"} if "asset_pointer" in mapping(part) else part
        for part in listed(content.get("parts"))[:1000]
    ]
    text = content.get("text") or content.get("result")
    return plain(parts) if parts else text if isinstance(text, str) else ""


def _instructions(source: HomeReader, content: dict[str, Any]) -> None:
    """Take custom instructions: what they say about the user as facts, and how to answer as a text."""
    about, how = content.get("user_profile"), content.get("user_instructions")
    if isinstance(about, str):
        for line in re.sub(
            r"^User profile:|```", "", about.split("The user provided", 1)[0] or about
        ).splitlines():
            if line.strip():
                add_fact(source.moved, "about the user", " ".join(line.split()), "custom instructions")
    if isinstance(how, str) and how.strip() and not source.moved.texts:
        source.moved.texts.append(
            MovedText("custom-instructions.md", hidden(how[:50_000]).encode("utf-8", "replace"))
        )


def _memories(source: HomeReader, name: str, text: str) -> None:
    try:
        stored = json.loads(text, parse_constant=lambda constant: None)
    except (ValueError, RecursionError):
        source.moved.leave("memory", name, Text("it is not valid JSON"))
        return
    entries = (
        listed(stored) or listed(mapping(stored).get("memories")) or listed(mapping(stored).get("results"))
    )
    for entry in entries[:5000]:
        about = mapping(entry)
        value = (
            entry
            if isinstance(entry, str)
            else about.get("content") or about.get("memory") or about.get("text")
        )
        if isinstance(value, str) and value.strip():
            add_fact(source.moved, "memory", " ".join(value.split()), name)
