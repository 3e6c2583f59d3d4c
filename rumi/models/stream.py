"""Parser of streamed replies: splits bytes into server-sent events, and builds a `Reply` from their chunks.

The groq SDK can do both, but it has two problems. Its generators are nested: when one of them raises, the
inner generators are left to the garbage collector. And it converts each chunk to a pydantic object without
validation. Here, plain functions split the bytes into events, and a malformed chunk is an error.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import uuid4

from rumi.models.calls import clean_name, clean_text
from rumi.models.model import Emit, Reply, TextDelta, ToolCall, ToolCallNamed, Usage

MAX_EVENT_BYTES = 8_000_000
"""Maximum size of a line of the stream; it limits the memory that a broken server can use."""

MAX_EVENT_LINES = 10_000

MAX_REPLY_CHARS = 8_000_000

DONE = "[DONE]"


class BadStreamError(Exception):
    """The stream violates the protocol; the error's text describes the violation."""


class StreamReportedError(Exception):
    """The server reported an error in the middle of its stream. `error` is the error as sent."""

    def __init__(self, error: object) -> None:
        super().__init__("the server reported an error")
        self.error = error


class LineReader:
    """Splitter of a byte stream into lines. In Ollama's streams, each line is a JSON object.

    The bytes may come in pieces of any size.
    """

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[str]:
        """Process more bytes; yield each line, or the data of each event, that is now complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_EVENT_BYTES:
            raise BadStreamError("a line of its stream has no end")
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[str]:
        """Yield the last line if it has no newline."""
        yield from self.feed(b"\n")

    def _line(self, raw: bytes) -> Iterator[str]:
        if raw.strip():
            yield raw.decode("utf-8", "replace")


class EventReader(LineReader):
    """Splitter of a byte stream into the data of server-sent events.

    The reader supports only the parts that chat completions use. The `data` fields of an event are joined by
    newlines, and an empty line ends the event. The reader ignores other fields, and comments, which servers
    send to keep the connection alive.
    """

    def __init__(self) -> None:
        super().__init__()
        self._data: list[str] = []

    def end(self) -> Iterator[str]:
        """Yield an event whose closing empty line is missing at the end of the stream."""
        yield from self.feed(b"\n\n")

    def _line(self, raw: bytes) -> Iterator[str]:
        line = raw.rstrip(b"\r")
        if not line:
            if self._data:
                data, self._data = "\n".join(self._data), []
                yield data
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            if len(self._data) >= MAX_EVENT_LINES:
                raise BadStreamError("an event of its stream has no end")
            try:
                self._data.append(value.removeprefix(b" ").decode("utf-8"))
            except UnicodeDecodeError:
                raise BadStreamError("its stream is not UTF-8") from None


def read_object(data: str) -> dict[str, object]:
    """Return the JSON object of an event.

    Raises:
        BadStreamError: The data is not a JSON object.
    """
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        raise BadStreamError("its stream has data that is not JSON") from None
    if not isinstance(chunk, dict):
        raise BadStreamError("a chunk of its stream is not an object")
    return chunk


def as_chunk(data: str) -> str:
    """Convert a chat completion that was not streamed to the data of one equivalent event.

    Raises:
        BadStreamError: The data is not a chat completion.
    """
    try:
        whole = json.loads(data)
        for choice in whole["choices"]:
            choice["delta"] = choice.pop("message")
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise BadStreamError("its answer is not a chat completion") from None
    return json.dumps(whole)


@dataclass(slots=True)
class PartialCall:
    """The parts of a tool call that have arrived so far."""

    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    signature: str = ""


class StreamedReply:
    """Base of builders: emits a reply's text, and limits the reply's size.

    `begun` is True if some output of the model has arrived, including reasoning. `done` is True if the server
    has reported the end of the reply.
    """

    def __init__(self, emit: Emit, model: str) -> None:
        self._emit = emit
        self._model = model
        self._chars = 0
        self.finish_reason = ""
        self.begun = False
        self.done = False

    def _say(self, words: str, into: list[str]) -> None:
        """Store and emit a piece of the answer's text, from which the reasoning has been removed."""
        if words:
            self._grow(words, into)
            self._emit(TextDelta(words))

    def _grow(self, text: str, into: list[str]) -> None:
        self._chars += len(text)
        if self._chars > MAX_REPLY_CHARS:
            raise BadStreamError("its reply has no end")
        into.append(text)


class ReplyBuilder(StreamedReply):
    """Builder of a reply from its chunks, which emits the text and the names of the called tools.

    The model's reasoning is not part of the text, whether it arrives in a separate field (`reasoning` at Groq
    and Ollama, `reasoning_content` at llama.cpp and vLLM) or between `<think>` tags.
    """

    def __init__(self, emit: Emit, model: str) -> None:
        super().__init__(emit, model)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._thoughts = Thoughts()
        self._calls: list[PartialCall] = []
        self._open: dict[int, PartialCall] = {}
        self._usage = Usage()

    @property
    def empty(self) -> bool:
        """True if the reply has neither text nor tool calls."""
        return not self._calls and not clean_text(self.text).strip()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def end(self) -> None:
        """Process the end of the stream."""
        self._say(self._thoughts.end(), self._text)
        if self.done and not self.finish_reason:
            self.finish_reason = "tool_calls" if self._calls else "stop"

    def add(self, data: str) -> None:
        """Process the data of one event.

        Raises:
            BadStreamError: The data is not a chunk of a chat completion.
            StreamReportedError: The data is the server's report of an error.
        """
        if data.startswith(DONE):
            self.done = True
            return
        chunk = read_object(data)
        if chunk.get("error"):
            raise StreamReportedError(chunk["error"])
        self._take_usage(chunk)
        if not chunk.keys() & {"choices", "usage", "x_groq"}:
            raise BadStreamError("a chunk of its stream has no choices")
        choices = chunk.get("choices") or []
        if not isinstance(choices, list):
            raise BadStreamError("a chunk's choices are not a list")
        for choice in choices:
            self._take_choice(mapping(choice, "a chunk's choice"))

    def reply(self) -> Reply:
        """Return the complete reply.

        Raises:
            BadStreamError: A tool call has no name.
        """
        calls = []
        for call in self._calls:
            if not call.name:
                raise BadStreamError("a tool call has no name")
            number = call.id or f"call_{uuid4().hex[:12]}"
            calls.append(ToolCall(number, call.name, "".join(call.arguments), call.signature))
        words = self.words()
        return replace(words, tool_calls=tuple(calls)) if calls else words

    def words(self) -> Reply:
        """Return the reply with all its parts except the tool calls."""
        return Reply(
            clean_text(self.text),
            (),
            self.finish_reason,
            self._usage,
            self._model,
            "".join(self._reasoning),
        )

    def _take_usage(self, chunk: Mapping[str, object]) -> None:
        # Groq reports usage under `x_groq` in the last chunk, other servers in a separate chunk.
        groq = chunk.get("x_groq")
        usage = chunk.get("usage")
        if isinstance(groq, dict):
            if groq.get("error"):
                raise StreamReportedError({"message": groq["error"]})
            usage = groq.get("usage") or usage
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            cached = cached or usage.get("prompt_cache_hit_tokens")  # DeepSeek's name
            self._usage = Usage(
                count_of(usage.get("prompt_tokens")),
                count_of(usage.get("completion_tokens")),
                count_of(cached),
            )

    def _take_choice(self, choice: Mapping[str, object]) -> None:
        if choice.get("index", 0) != 0:
            return  # only one answer was requested
        reason = choice.get("finish_reason")
        if reason:
            self.finish_reason = text_of(reason, "finish_reason")
        delta = mapping(choice.get("delta") or {}, "a chunk's delta")
        content = delta.get("content")
        if content:
            self._say(self._thoughts.feed(text_of(content, "content")), self._text)
        thought = delta.get("reasoning") or delta.get("reasoning_content")
        if isinstance(thought, str):
            self._grow(thought, self._reasoning)
        calls = delta.get("tool_calls") or []
        if not isinstance(calls, list):
            raise BadStreamError("a chunk's tool calls are not a list")
        self.begun = self.begun or bool(reason or content or thought or calls)
        for part in calls:
            self._take_call(mapping(part, "a tool call"))

    def _take_call(self, part: Mapping[str, object]) -> None:
        call_id = text_of(part.get("id") or "", "a tool call's id")
        function = mapping(part.get("function") or {}, "a tool call's function")
        name = text_of(function.get("name") or "", "a tool call's name")
        call = self._call_of(part.get("index"), call_id)
        call.id = call.id or call_id
        if part.get("extra_content"):  # Gemini's signature of its thoughts
            call.signature = json.dumps(part["extra_content"])
        if name and not call.name:
            call.name = clean_name(name)
            self._emit(ToolCallNamed(call.name))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = json.dumps(arguments)  # some servers send the object itself
        if arguments:
            self._grow(text_of(arguments, "a tool call's arguments"), call.arguments)

    def _call_of(self, index: object, call_id: str) -> PartialCall:
        """Return the call that a part belongs to, found by the part's index. A different id means a new call.

        Some servers send the index 0, or no index, for every call of a reply, but a different id for each
        call.
        """
        if index is None:
            index = max(self._open, default=0)
        if not isinstance(index, int):
            raise BadStreamError("a tool call's index is not a number")
        call = self._open.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            call = PartialCall()
            self._calls.append(call)
            self._open[index] = call
        return call


def mapping(value: object, what: str) -> Mapping[str, object]:
    """Return `value` if it is an object.

    Raises:
        BadStreamError: The value is not an object; the message calls it `what`.
    """
    if not isinstance(value, dict):
        raise BadStreamError(f"{what} is not an object")
    return value


def text_of(value: object, what: str) -> str:
    """Return `value` if it is a string.

    Raises:
        BadStreamError: The value is not a string; the message calls it `what`.
    """
    if not isinstance(value, str):
        raise BadStreamError(f"{what} is not text")
    return value


def count_of(value: object) -> int:
    """Return `value` if it is a positive integer, otherwise 0."""
    return value if isinstance(value, int) and value > 0 else 0


_BEGIN: Final = "<think>"
_END: Final = "</think>"


class Thoughts:
    """Filter that removes `<think>` reasoning from the start of an answer that arrives in pieces.

    Tags after the answer's first word are left alone, because an answer may mention such tags. Reasoning
    without an end tag extends to the end of the answer. Text without a tag passes unchanged, piece by piece.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._state: str = "beginning"

    def feed(self, piece: str) -> str:
        """Process a piece; return the text that is certain to be part of the answer, not of the reasoning."""
        if self._state == "answer":
            return piece
        self._pending += piece
        if self._state == "beginning":
            start = self._pending.lstrip()
            if start.startswith(_BEGIN):
                self._pending, self._state = start[len(_BEGIN) :], "thoughts"
            elif _BEGIN.startswith(start):
                return ""  # only whitespace, or the beginning of the tag
            else:
                return self._answer(self._pending)
        if self._state == "thoughts":
            _, end, rest = self._pending.partition(_END)
            if not end:
                # Reasoning may be long: keep only the characters that may begin the end tag.
                self._pending = self._pending[-len(_END) + 1 :]
                return ""
            self._pending, self._state = rest, "space"
        rest = self._pending.lstrip()
        return self._answer(rest) if rest else ""

    def end(self) -> str:
        """Return the text that is still buffered at the end of the answer, if it is not reasoning."""
        return self._answer(self._pending) if self._state == "beginning" else ""

    def _answer(self, words: str) -> str:
        self._pending, self._state = "", "answer"
        return words
