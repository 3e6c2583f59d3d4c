"""Records turns while they run: wraps a turn's model and event callback, and writes each step immediately.

Secrets are redacted before they are written. A failed write is logged, and the turn continues. Long texts are
redacted in a thread, so that other chats do not wait.
"""

import contextlib
import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

from rumi import __version__
from rumi.agent.events import ToolFinished, ToolStarted, TurnEvent, TurnFinished
from rumi.agent.turn_input import TurnInput
from rumi.chats.recorder.recording import (
    VERSION,
    Json,
    dump_message,
    dump_reply,
    dump_request,
    dump_result,
    dump_spec,
)
from rumi.models.model import Emit, Model, ModelError, ModelRequest, Reply
from rumi.models.token_budget import context_of
from rumi.platform.redact import Encoded, Redactor

logger = logging.getLogger(__name__)

FOLDER: Final = "recordings"

ROOM: Final = 0.9
"""The share of the maximum size that is kept when recordings are deleted for their size.

So not every turn has to look at all of them.
"""

LONG_CHARS: Final = 8_192
"""From this number of characters on, an entry is redacted and written in a thread.

A search for secrets takes about 0.2 ms per 1000 characters.
"""

Watch: TypeAlias = Callable[[TurnEvent], None]


@dataclass(slots=True)
class _Stored:
    """The bytes of all recordings; -1 as long as nobody has counted them."""

    bytes: int = -1
    lock: threading.Lock = field(default_factory=threading.Lock)
    thread: Executor | None = None
    """Writes long entries, and those after them in the same recording."""

    def submit(self, work: Callable[[], None]) -> "Future[None]":
        """Run `work` in the thread, after everything that was submitted earlier."""
        if self.thread is None:
            self.thread = ThreadPoolExecutor(1, "recorder")
        return self.thread.submit(work)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Retains recordings of the last `turns` turns of each chat, each of at most `max_bytes`.

    A chat's recordings have at most `chat_bytes` and all together at most `total_bytes`, apart from those of
    turns that run: the oldest are deleted when a turn begins. `instructions` is the beginning of every
    prompt. Its text depends on `programs` (the programs in the sandbox) and `command_timeout_s`.
    """

    home: Path
    redact: Redactor
    turns: int
    max_bytes: int = 16 * 1024 * 1024
    instructions: str = ""
    programs: tuple[str, ...] = ()
    command_timeout_s: float = 0.0
    now: Callable[[], float] = time.time
    chat_bytes: int = 32 * 1024 * 1024
    total_bytes: int = 256 * 1024 * 1024
    stored: _Stored = field(default_factory=_Stored)

    def begin(self, chat: str, turn: str, turn_input: TurnInput) -> "Recording":
        """Begin to record a turn and return its recording. Never raise an expected error."""
        recording = Recording(self, self.home / FOLDER / chat / f"{turn}.jsonl")
        with recording.forgiving():
            recording.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._drop_oldest(recording.path.parent)
            self._make_room()
            recording.begin(chat, turn, turn_input)
        return recording

    def _drop_oldest(self, folder: Path) -> None:
        kept = sorted(folder.glob("*.jsonl"), key=lambda path: int(path.stem[1:] or 0), reverse=True)
        bytes = 0
        for index, path in enumerate(kept):
            size = path.stat().st_size
            bytes += size
            if index >= self.turns - 1 or bytes > self.chat_bytes:
                path.unlink(missing_ok=True)
                self.count(-size)

    def _make_room(self) -> None:
        """Delete the oldest recordings of all chats if they have too many bytes; count them at first."""
        if 0 <= self.stored.bytes <= self.total_bytes:
            return
        files = [(path, path.stat()) for path in (self.home / FOLDER).glob("*/*.jsonl")]
        self.stored.bytes = sum(stat.st_size for _, stat in files)
        for path, stat in sorted(files, key=lambda file: file[1].st_mtime):
            if self.stored.bytes <= self.total_bytes * ROOM:
                break
            path.unlink(missing_ok=True)
            self.count(-stat.st_size)

    def count(self, bytes: int) -> None:
        """Add to the number of bytes of all recordings."""
        with self.stored.lock:
            if self.stored.bytes >= 0:
                self.stored.bytes = max(0, self.stored.bytes + bytes)

    def chats(self) -> tuple[str, ...]:
        """Return the chats that have recordings."""
        try:
            return tuple(entry.name for entry in os.scandir(self.home / FOLDER))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def forget(self, chat: str) -> None:
        """Delete all recordings of a chat."""
        delete_recordings(self.home, (chat,))
        self.stored.bytes = -1

    def expire(self, retention_s: float) -> None:
        """Delete recordings that are older than `retention_s` seconds."""
        for path in (self.home / FOLDER).glob("*/*.jsonl"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < self.now() - retention_s:
                    path.unlink()
        self.stored.bytes = -1


def delete_recordings(home: Path, chats: Collection[str]) -> None:
    """Delete all recordings of these chats, below the home's folder. Blocking."""
    for chat in chats:
        shutil.rmtree(home / FOLDER / chat, ignore_errors=True)


@contextlib.contextmanager
def recorded(
    recorder: Recorder | None, chat: str, turn: str, turn_input: TurnInput, watch: Watch
) -> Iterator[tuple[TurnInput, Watch]]:
    """Record the turn that runs in this block; yield the input and the event callback to run it with."""
    if recorder is None or not recorder.turns:
        yield turn_input, watch
        return
    recording = recorder.begin(chat, turn, turn_input)
    try:
        yield recording.wrap(turn_input), recording.watching(watch)
    finally:
        recording.close()


@dataclass(slots=True)
class Recording:
    """The recording of a running turn."""

    recorder: Recorder
    path: Path
    _file: int = -1
    _left: int = 0
    _before: Json = field(default_factory=dict)
    _begun: dict[str, float] = field(default_factory=dict)
    _last: "Future[None] | None" = None
    """The last work in the thread."""

    def begin(self, chat: str, turn: str, turn_input: TurnInput) -> None:
        """Open the file and write the turn's input.

        Raises:
            OSError: the file cannot be written.
        """
        recorder = self.recorder
        self._left = recorder.max_bytes
        self._file = os.open(
            self.path,
            os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o600,
        )
        self._write(
            "turn",
            version=VERSION,
            rumi=__version__,
            chat=chat,
            turn=turn,
            language=turn_input.language,
            limits=asdict(turn_input.limits),
            context_tokens=turn_input.context_tokens,
            tainted=turn_input.tainted,
            checks=turn_input.checks,
            given=sorted(turn_input.known_urls),
            instructions=turn_input.instructions,
            base=recorder.instructions,
            programs=list(recorder.programs),
            command_timeout_s=recorder.command_timeout_s,
            model=turn_input.model.name,
            tools=[dump_spec(tool.spec) for tool in turn_input.tools],
            concurrent=[tool.spec.name for tool in turn_input.tools if tool.concurrent],
            history=[dump_message(message) for message in turn_input.history],
        )

    def wrap(self, turn_input: TurnInput) -> TurnInput:
        """Return the turn's input with a model that records its calls, except those of turns within it.

        A replay takes the results of calls from the recording, so it never runs a turn within the turn.
        """
        recorded_model = _Recorded(turn_input.model, self, turn_input.context_tokens)
        return replace(turn_input, model=recorded_model, delegate_model=turn_input.model)

    def watching(self, watch: Watch) -> Watch:
        """Return an event callback that forwards all events and records tool results and the turn's end."""

        def both(event: TurnEvent) -> None:
            watch(event)
            with self.forgiving():
                match event:
                    case ToolStarted(call):
                        self._begun[call.id] = trio.current_time()
                    case ToolFinished(call, result):
                        took = self._took(self._begun.pop(call.id, trio.current_time()))
                        self._write("tool", call=asdict(call), result=dump_result(result), took=took)
                    case TurnFinished(reason, answer):
                        self._write("end", reason=reason, answer=answer)

        return both

    def request(self, request: ModelRequest, context_tokens: int) -> None:
        """Record a request without the leading part that it shares with the previous request."""
        with self.forgiving():
            whole = dump_request(request)
            messages, earlier = whole["messages"], self._before.get("messages", [])
            pairs = zip(messages, earlier, strict=False)
            same = next((n for n, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
            same = min(len(messages), len(earlier)) if same is None else same
            tools = None if whole["tools"] == self._before.get("tools") else whole["tools"]
            self._before = whole
            part = {**whole, "messages": messages[same:], "tools": tools}
            self._write("request", same=same, request=part, room=context_tokens)

    def reply(self, reply: Reply, since: float) -> None:
        """Record a reply to the last request."""
        with self.forgiving():
            self._write("reply", reply=dump_reply(reply), took=self._took(since))

    def failure(self, error: ModelError, since: float) -> None:
        """Record that the last request failed."""
        with self.forgiving():
            failure = {"kind": error.kind, "message": error.message, "advice": error.advice}
            self._write("failure", failure=failure, took=self._took(since))

    def close(self) -> None:
        """End the recording; what is still being written is written first, in the thread. Idempotent."""
        self._in_order(self._close)

    def _in_order(self, work: Callable[[], None], *, long: bool = False) -> None:
        """Do the work at once, or in the thread if it takes long or if earlier work is still being done."""
        if long or not (self._last is None or self._last.done()):
            self._last = self.recorder.stored.submit(work)
        else:
            work()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _took(self, since: float) -> float:
        return round(trio.current_time() - since, 6)

    def _write(self, kind: str, **more: Any) -> None:
        """Append a redacted line, at once or in the thread."""
        entry = {"kind": kind, "time": self.recorder.now(), **more}
        self._in_order(partial(self._append, entry), long=_is_long(entry))

    def _append(self, entry: Json) -> None:
        """Append a redacted line in one write; delete a recording that becomes too long."""
        with self.forgiving():
            self._write_line(entry)

    def _write_line(self, entry: Json) -> None:
        if self._file < 0:
            return
        line = json.dumps(self.recorder.redact.json(entry), separators=(",", ":")).encode() + b"\n"
        self._left -= len(line)
        if self._left < 0:
            logger.warning("%s is not recorded: it is too long", self.path.stem)
            self._close()
            self.recorder.count(len(line) + self._left - self.recorder.max_bytes)
            self.path.unlink(missing_ok=True)  # a recording without its end cannot be replayed
            return
        os.write(self._file, line)
        self.recorder.count(len(line))

    @contextlib.contextmanager
    def forgiving(self) -> Iterator[None]:
        """Log an OSError from the block instead of raising it, and stop recording."""
        try:
            yield
        except OSError as error:
            logger.warning("%s is not recorded: %s", self.path.stem, error)
            self._close()


def _is_long(entry: Json) -> bool:
    """Return True if the texts of an entry have at least `LONG_CHARS` characters; pictures do not count."""
    chars, values = 0, [entry]
    while values and chars < LONG_CHARS:
        value: Any = values.pop()
        if isinstance(value, Encoded):
            continue
        if isinstance(value, str):
            chars += len(value)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list | tuple):
            values += value
    return chars >= LONG_CHARS


class _Recorded:
    """A model whose requests and replies are recorded."""

    def __init__(self, model: Model, recording: Recording, most_tokens: int) -> None:
        self._model = model
        self._recording = recording
        self._most = most_tokens

    @property
    def name(self) -> str:
        """The name of the recorded model."""
        return self._model.name

    @property
    def context_tokens(self) -> int:
        """The context budget of the recorded model."""
        return context_of(self._model, self._most)

    async def reply(self, request: ModelRequest, emit: Emit) -> Reply:
        """Ask the model, and record the request and the reply or failure.

        Raises:
            ModelError: the model failed.
        """
        self._recording.request(request, self.context_tokens)
        since = trio.current_time()
        try:
            reply = await self._model.reply(request, emit)
        except ModelError as error:
            self._recording.failure(error, since)
            raise
        self._recording.reply(reply, since)
        return reply
