"""Anthropic's messages API: builds requests with prompt cache breakpoints, and parses streamed replies.

docs: platform.claude.com, "Messages", "Streaming messages", "Prompt caching", "Errors".
"""

import json
from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rumi.models.body import Sampling, most_tokens
from rumi.models.dialects.call_parts import joined, new_id
from rumi.models.dialects.events import BadStreamError
from rumi.models.dialects.failed_calls import clean_name
from rumi.models.model import (
    Emit,
    Message,
    ModelRequest,
    Picture,
    Reply,
    ToolCall,
    ToolCallNamed,
    Usage,
)
from rumi.models.native import NativeModel
from rumi.models.stream import StreamedReply, StreamReportedError, count_of, mapping, text_in
from rumi.models.wire import EMPTY, arguments_object, plain, sendable, sent_arguments, sent_name
from rumi.platform.config.providers import PROVIDERS

VERSION: Final = "2023-06-01"

MOST_OUTPUT: Final = 8192
"""Maximum reply size if neither the request nor the configuration sets one; the API requires a maximum."""

_CACHED: Final[Mapping[str, object]] = {"type": "ephemeral"}
_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
}
_EVENTS: Final = frozenset(
    {
        "message",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "message_stop",
    }
)


class AnthropicProtocol:
    """The protocol of Anthropic's messages API: builds requests and parses replies."""

    path = "/v1/messages"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of a request."""
        return {"x-api-key": key, "anthropic-version": VERSION, "accept": "text/event-stream"}

    def body(
        self, request: ModelRequest, model: str, sampling: Sampling, context: int | None
    ) -> dict[str, object]:
        """Return the request body. Its cache breakpoints let the next call reuse this prompt."""
        facts = PROVIDERS["anthropic"].model(model)
        system, messages = _conversation(request.messages)
        _mark(messages)
        body: dict[str, object] = {
            "model": model,
            "max_tokens": most_tokens(request, sampling) or MOST_OUTPUT,
            "messages": messages,
            "stream": True,
        }
        if system:
            body["system"] = [{"type": "text", "text": system, "cache_control": _CACHED}]
        if request.tools:
            body["tools"] = [
                {
                    "name": tool.name,
                    "description": sendable(tool.description),
                    "input_schema": tool.parsed,
                }
                for tool in request.tools
            ]
            if request.words_only:
                body["tool_choice"] = {"type": "none"}
        temperature = sampling.temperature if request.temperature is None else request.temperature
        if temperature is not None and facts.temperature:
            body["temperature"] = min(temperature, 1.0)  # the API's maximum; other servers allow 2
        effort = request.effort or sampling.effort
        if effort is not None and facts.effort:
            body["output_config"] = {"effort": effort}
        return body

    def builder(self, emit: Emit, name: str, tools: Collection[str]) -> "AnthropicReply":
        """Return a builder that assembles the reply from the stream's events."""
        return AnthropicReply(emit, name)


def _conversation(all_messages: Sequence[Message]) -> tuple[str, list[dict[str, object]]]:
    """Return the system text, and the user and assistant messages in alternation.

    Tool results and later system messages become user messages, because the API has only the roles user and
    assistant.
    """
    first = 0
    while first < len(all_messages) and all_messages[first].role == "system":
        first += 1
    system = "\n\n".join(
        sendable(system_message.content)
        for system_message in all_messages[:first]
        if system_message.content.strip()
    )
    messages: list[dict[str, object]] = []
    for message in all_messages[first:]:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = list(_blocks(message))
        if messages and messages[-1]["role"] == role:
            before = messages[-1]["content"]
            assert isinstance(before, list)
            before += blocks
        else:
            messages.append({"role": role, "content": blocks})
    # The API requires that a conversation starts with a user message.
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": [{"type": "text", "text": EMPTY}]})
    return system, messages


def _blocks(message: Message) -> Iterator[dict[str, object]]:
    if message.role == "tool":
        yield {
            "type": "tool_result",
            "tool_use_id": message.tool_call_id or "",
            "content": [
                *_words(message.content, needed=not message.pictures),
                *map(_picture, message.pictures),
            ],
        }
        return
    # The API wants the thoughts of a tool call back, before the call. Other providers' signatures have no
    # `anthropic` key and are ignored.
    if message.tool_calls:
        signed = arguments_object(message.tool_calls[0].signature) or {}
        thoughts = signed.get("anthropic")
        yield from thoughts if isinstance(thoughts, list) else ()
    yield from map(_picture, message.pictures)
    yield from _words(message.content, needed=not (message.tool_calls or message.pictures))
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": sent_name(call.name), "input": sent_arguments(call)}


def _words(text: str, *, needed: bool) -> Iterator[dict[str, object]]:
    if text.strip():
        yield {"type": "text", "text": sendable(text)}
    elif needed:
        yield {"type": "text", "text": EMPTY}


def _picture(picture: Picture) -> dict[str, object]:
    data = b64encode(picture.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": picture.media_type, "data": data}}


def _mark(messages: Sequence[Mapping[str, object]]) -> None:
    """Set a cache breakpoint at the end of the last two user messages.

    The first breakpoint is at the end of the prefix that the previous call wrote to the server's cache. The
    server reads this prefix, and then extends the cache up to the second breakpoint.
    """
    mine = [message["content"] for message in messages if message["role"] == "user"]
    for content in mine[-2:]:
        if isinstance(content, list) and content:
            content[-1]["cache_control"] = _CACHED


@dataclass(slots=True)
class _Block:
    """The part of a content block (text, tool call or thought) that has arrived so far."""

    kind: str
    fields: dict[str, object]
    parts: list[str] = field(default_factory=list)
    signature: str = ""

    def thought(self) -> dict[str, object]:
        """Return the thought in the JSON form that the API requires in later requests."""
        if self.kind == "redacted_thinking":
            return {"type": self.kind, "data": self.fields.get("data", "")}
        return {"type": self.kind, "thinking": "".join(self.parts), "signature": self.signature}


class AnthropicReply(StreamedReply):
    """A builder that assembles a reply from a stream's events.

    The reply's text excludes the model's thoughts.
    """

    def __init__(self, emit: Emit, model: str) -> None:
        super().__init__(emit, model)
        self._blocks: dict[int, _Block] = {}
        self._tokens: dict[str, int] = {}

    @property
    def empty(self) -> bool:
        """True if the reply has neither text nor tool calls."""
        return not self._of("tool_use") and not self._text().strip()

    def add(self, data: str) -> None:
        """Process the data of one event.

        Raises:
            BadStreamError: The data is not an event of this API.
            StreamReportedError: The event is the server's report of an error.
        """
        for event in self._objects(data):
            self._take(event, data)

    def _take(self, event: Mapping[str, object], data: str) -> None:
        kind = event.get("type")
        self.answered = self.answered or kind in _EVENTS
        match kind:
            case "message":  # it was not streamed
                blocks = event.get("content")
                for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
                    self._start(index, mapping(block, "a block"))
                self._finish(event, event)
                self.done = True
            case "message_start":
                message = mapping(event.get("message") or {}, "a message")
                self._count(message.get("usage"))
            case "content_block_start":
                self._start(self._index(event), mapping(event.get("content_block"), "a block"))
            case "content_block_delta":
                self._add_to(self._index(event), mapping(event.get("delta"), "a delta"))
            case "message_delta":
                self._finish(mapping(event.get("delta") or {}, "a delta"), event)
            case "message_stop":
                self.done = True
            case "error":
                raise StreamReportedError(event.get("error") or event)
            case _:
                self._ignore(data)  # a ping, or a new type of event, which clients must ignore

    def _finish(self, fields: Mapping[str, object], event: Mapping[str, object]) -> None:
        if reason := fields.get("stop_reason"):
            self.finish_reason = _REASONS.get(str(reason), str(reason))
        self._count(event.get("usage"))

    def end(self) -> None:
        """Process the end of the stream. Without a reason, and without `message_stop`, the reply was cut."""
        if self.done and not self.finish_reason:
            self.finish_reason = "tool_calls" if self._of("tool_use") else "stop"

    def reply(self) -> Reply:
        """Return the complete reply.

        Raises:
            BadStreamError: A tool call has no name.
        """
        thoughts = [self._blocks[at] for at in sorted(self._blocks) if "thinking" in self._blocks[at].kind]
        signature = json.dumps({"anthropic": [thought.thought() for thought in thoughts]}) if thoughts else ""
        calls = []
        for block in self._of("tool_use"):
            name, number = block.fields.get("name"), block.fields.get("id")
            if not isinstance(name, str) or not name:
                raise BadStreamError("a tool call has no name")
            # Without deltas, the block's start holds the whole input, normally an empty object.
            given = block.fields.get("input") or {}
            given = given if isinstance(given, str) else json.dumps(plain(given))
            arguments = joined(block.parts or [given])
            number = number if isinstance(number, str) and number else new_id()
            calls.append(ToolCall(number, clean_name(name), arguments, signature))
            signature = ""  # one signature holds all thoughts: only the first call carries it
        reasoning = "".join("".join(thought.parts) for thought in thoughts)
        return Reply(self._text(), tuple(calls), self.finish_reason, self._usage(), self._model, reasoning)

    def _of(self, kind: str) -> list[_Block]:
        return [self._blocks[at] for at in sorted(self._blocks) if self._blocks[at].kind == kind]

    def _text(self) -> str:
        return "".join("".join(block.parts) for block in self._of("text"))

    def _index(self, event: Mapping[str, object]) -> int:
        index = event.get("index")
        if isinstance(index, str) and index.isdecimal():
            return int(index[:6])
        if index is None:  # a new block comes after the others; a delta belongs to the last one
            return len(self._blocks) - (event.get("type") == "content_block_delta")
        if not isinstance(index, int):
            raise BadStreamError("a block's index is not a number")
        return index

    def _start(self, index: int, block: Mapping[str, object]) -> None:
        kind = str(block.get("type"))
        self._blocks[index] = _Block(kind, dict(block))
        self.begun = True
        if kind == "tool_use" and isinstance(block.get("name"), str):
            self._emit(ToolCallNamed(clean_name(str(block["name"]))))
        elif kind == "text":
            self._say(text_in(block.get("text")), self._blocks[index].parts)
        elif kind == "thinking":
            self._grow(text_in(block.get("thinking")), self._blocks[index].parts)
            self._blocks[index].signature = text_in(block.get("signature"))

    def _add_to(self, index: int, delta: Mapping[str, object]) -> None:
        block = self._blocks.get(index)
        kind = {"text_delta": "text", "thinking_delta": "thinking"}.get(str(delta.get("type")))
        if block is None and kind is not None:  # some proxies leave out the block's start
            block = self._blocks[index] = _Block(kind, {})
        if block is None:
            raise BadStreamError("a block grows that has not begun")
        match delta.get("type"):
            case "text_delta":
                self._say(text_in(delta.get("text")), block.parts)
            case "input_json_delta":
                piece = delta.get("partial_json")
                self._grow(json.dumps(piece) if isinstance(piece, dict) else text_in(piece), block.parts)
            case "thinking_delta":
                self._grow(text_in(delta.get("thinking")), block.parts)
            case "signature_delta":
                block.signature += text_in(delta.get("signature"))

    def _count(self, usage: object) -> None:
        # The counts in `message_delta` are cumulative; counts that it omits keep their value.
        counts = usage.items() if isinstance(usage, dict) else ()
        self._tokens |= {name: count_of(value) for name, value in counts if isinstance(value, int | float)}

    def _usage(self) -> Usage:
        read = self._tokens.get("cache_read_input_tokens", 0)
        written = self._tokens.get("cache_creation_input_tokens", 0)
        prompt = self._tokens.get("input_tokens", 0) + read + written
        return Usage(prompt, self._tokens.get("output_tokens", 0), read, written_tokens=written)


class AnthropicModel(NativeModel):
    """A model at Anthropic's API."""

    protocol = AnthropicProtocol()
