"""Builder of a `Reply` from the chunks of a chat completion.

The groq SDK can do this too, but it has two problems. Its generators are nested: when one of them raises, the
inner generators are left to the garbage collector. And it converts each chunk to a pydantic object without
validation. Here, plain functions read the events, and a malformed chunk is an error. What servers send
beside OpenAI's own form is read by the package `dialects`.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from rumi.models.dialects.call_parts import CallParts, parts_in
from rumi.models.dialects.events import BadStreamError, objects_in
from rumi.models.dialects.failed_calls import clean_text, read_failed_generation
from rumi.models.dialects.reported_errors import reported_in
from rumi.models.dialects.thoughts import Thoughts, without_thoughts
from rumi.models.model import Emit, Reply, TextDelta, ToolCallNamed, Usage

MAX_REPLY_CHARS: Final = 8_000_000

DONE: Final = "[DONE]"

MAX_NOISE_CHARS: Final = 200
"""Maximum size of an event without content that an error message repeats."""

_REASONINGS: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_details", "thinking_blocks")
"""Fields of reasoning. Servers with several of them send the same text in each, so only one is used."""

_PLAIN: Final = frozenset({"role", "content"})
"""Fields of nearly every delta."""

_MOST_DEPTH: Final = 5

_FORMAT: Final = "<|"
"""The beginning of gpt-oss's own format, in which some servers leave its calls."""


class StreamReportedError(Exception):
    """The server reported an error in the middle of its stream. `error` is the error as sent."""

    def __init__(self, error: object) -> None:
        super().__init__("the server reported an error")
        self.error = error


class StreamedReply:
    """Base of builders: emits a reply's text, and limits the reply's size.

    `begun` is True if some output of the model has arrived, including reasoning. `done` is True if the server
    has reported the end of the reply. `answered` is True if an event belonged to a reply; otherwise `noise`
    is the first event. `size` grows with the reply.
    """

    def __init__(self, emit: Emit, model: str) -> None:
        self._emit = emit
        self._model = model
        self.size = 0
        self.finish_reason = ""
        self.begun = False
        self.done = False
        self.answered = False
        self.noise = ""

    def _say(self, words: str, into: list[str]) -> None:
        """Store and emit a piece of the answer's text, from which the reasoning has been removed."""
        if words:
            self._grow(words, into)
            self._emit(TextDelta(words))

    def _grow(self, text: str, into: list[str]) -> None:
        self.size += len(text)
        if self.size > MAX_REPLY_CHARS:
            raise BadStreamError("its reply has no end")
        into.append(text)

    def _objects(self, data: str) -> Iterator[Mapping[str, object]]:
        """Yield the objects of an event that are no error.

        Raises:
            BadStreamError: The event is malformed.
            StreamReportedError: The event is the server's report of an error.
        """
        if not data.startswith("{") and data.strip().strip('"').upper().startswith(DONE):
            self.done = True
            return
        objects = objects_in(data)
        if not objects:
            self._ignore(data)
        for chunk in objects:
            if (error := reported_in(chunk)) is not None:
                raise StreamReportedError(error)
            yield chunk

    def _ignore(self, data: object) -> None:
        """Note an event that has nothing of a reply, such as a heartbeat."""
        self.noise = self.noise or str(data)[:MAX_NOISE_CHARS]


class ReplyBuilder(StreamedReply):
    """Builder of a reply from its chunks, which emits the text and the names of the called tools.

    The model's reasoning is not part of the text, whether it arrives in a separate field (`reasoning` at Groq
    and Ollama, `reasoning_content` at llama.cpp and vLLM), in parts of the content (Magistral), or between
    tags such as `<think>`. `tools` are the names of the offered tools.
    """

    def __init__(self, emit: Emit, model: str, tools: Collection[str] = ()) -> None:
        super().__init__(emit, model)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._field = ""
        self._thoughts = Thoughts()
        self._calls = CallParts(tools)
        self._tools = tools
        self._usage = Usage()

    @property
    def empty(self) -> bool:
        """True if the reply has neither text nor tool calls."""
        return not len(self._calls) and not self._answer()[0].strip()

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._text)

    def end(self) -> None:
        """Process the end of the stream."""
        self._say(self._thoughts.end(), self._text)
        if self.done and not self.finish_reason:
            self.finish_reason = "tool_calls" if len(self._calls) else "stop"

    def add(self, data: str) -> None:
        """Process the data of one event.

        Raises:
            BadStreamError: The data is not a chunk of a chat completion.
            StreamReportedError: The data is the server's report of an error.
        """
        for chunk in self._objects(data):
            self._take_usage(chunk)
            choices = chunk.get("choices")
            if not choices:
                self._ignore(data)
                self.answered = self.answered or "choices" in chunk or "usage" in chunk
                continue
            if not isinstance(choices, list | dict):
                raise BadStreamError("a chunk's choices are not a list")
            self.answered = True
            self.done = self.done or chunk.get("object") == "chat.completion"  # it was not streamed
            for choice in choices if isinstance(choices, list) else [choices]:
                if choice is not None:
                    self._take_choice(mapping(choice, "a chunk's choice"))

    def reply(self) -> Reply:
        """Return the complete reply.

        Raises:
            BadStreamError: The only tool call has no name.
        """
        words, calls = self.words(), self._calls.calls()
        text = self.text
        if not calls and self._tools and text.lstrip().startswith(_FORMAT) and "to=" in text:
            calls = read_failed_generation(text, self._tools)
            words = replace(words, text="") if calls else words
        return replace(words, tool_calls=calls) if calls else words

    def words(self) -> Reply:
        """Return the reply with all its parts except the tool calls."""
        text, reasoning = self._answer()
        return Reply(text, (), self.finish_reason, self._usage, self._model, reasoning)

    def _answer(self) -> tuple[str, str]:
        """Return the answer and the reasoning, which the text of some servers has together."""
        reasoning = "".join(self._reasoning)
        text, thoughts = without_thoughts(
            clean_text(self.text), begun=self._thoughts.begun, separate=bool(self._reasoning)
        )
        return text, "\n".join(filter(None, (reasoning, "".join(self._thoughts.reasoning), thoughts)))

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
            cached = count_of(details.get("cached_tokens")) if isinstance(details, dict) else 0
            found = Usage(
                count_of(usage.get("prompt_tokens")) or count_of(usage.get("input_tokens")),
                count_of(usage.get("completion_tokens")) or count_of(usage.get("output_tokens")),
                cached or count_of(usage.get("prompt_cache_hit_tokens")),  # DeepSeek's name
            )
            if found != Usage():  # some servers send zeros in every chunk but one
                self._usage = found

    def _take_choice(self, choice: Mapping[str, object]) -> None:
        if choice.get("index") not in (0, "0", None):
            return  # only one answer was requested
        if choice.get("error"):
            raise StreamReportedError(choice["error"])
        reason = choice.get("finish_reason")
        if isinstance(reason, dict):  # SGLang's own form
            reason = reason.get("type")
        if reason and reason != "null":
            self.finish_reason = str(reason)
        delta, message = choice.get("delta"), choice.get("message")
        delta = mapping((message if delta is None else delta) or {}, "a chunk's delta")
        content = delta.get("content") or (choice.get("text") if not delta else None)
        # A message after deltas repeats their text.
        if content and not (delta is message and self._text and content == self.text):
            self.begun = True
            self._take_content(content)
        self.begun = self.begun or bool(reason)
        if not delta.keys() <= _PLAIN:
            self._take_rest(delta)

    def _take_rest(self, delta: Mapping[str, object]) -> None:
        """Process what a delta has beside the content: a refusal, reasoning and calls."""
        if delta.get("error"):
            raise StreamReportedError(delta["error"])
        if refusal := delta.get("refusal"):
            self.begun = True
            self._take_content(refusal)
        for name in (self._field,) if self._field else _REASONINGS:
            if thought := text_in(delta.get(name)):
                self.begun, self._field = True, name
                self._grow(thought, self._reasoning)
                break
        if calls := delta.get("tool_calls"):
            self.begun = True
            for part in parts_in(calls):
                self._take_call(part)
        if isinstance(call := delta.get("function_call"), dict) and call:
            self.begun = True
            self._take_call({"function": call})

    def _take_content(self, content: object) -> None:
        """Process the content of a chunk: text, or a list of parts with text and reasoning."""
        if isinstance(content, str):
            self._say(self._thoughts.feed(content), self._text)
            return
        if not isinstance(content, list | dict):
            raise BadStreamError("content is not text")
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict) and part.get("type") in _THOUGHT_PARTS:
                self._grow(text_in(part), self._reasoning)
            elif words := text_in(part):
                self._say(self._thoughts.feed(words), self._text)

    def _take_call(self, part: Mapping[str, object]) -> None:
        call, piece = self._calls.add(part)
        if part.get("extra_content"):  # Gemini's signature of its thoughts
            call.signature = json.dumps(part["extra_content"])
        if piece:
            self.size += len(piece)
            if self.size > MAX_REPLY_CHARS:
                raise BadStreamError("its reply has no end")
        if call.name and not call.announced and (piece or not self._calls.may_grow(call.name)):
            call.announced = True
            self._emit(ToolCallNamed(call.name))


_THOUGHT_PARTS: Final = frozenset({"thinking", "reasoning", "thought", "reasoning_text", "summary_text"})
_TEXT_KEYS: Final = ("text", "thinking", "reasoning", "summary", "content", "refusal", "value", "parts")


def text_in(value: object, depth: int = _MOST_DEPTH) -> str:
    """Return the text in a field that is text, a part with text, or a list of parts; "" if it has none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and depth:
        return "".join([text_in(item, depth - 1) for item in value])
    if isinstance(value, dict) and depth:
        return next((text for key in _TEXT_KEYS if (text := text_in(value.get(key), depth - 1))), "")
    return ""


def mapping(value: object, what: str) -> Mapping[str, object]:
    """Return `value` if it is an object.

    Raises:
        BadStreamError: The value is not an object; the message calls it `what`.
    """
    if not isinstance(value, dict):
        raise BadStreamError(f"{what} is not an object")
    return value


def count_of(value: object) -> int:
    """Return a positive number as an integer; 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < 1e15 else 0
