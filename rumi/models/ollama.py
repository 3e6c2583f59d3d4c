"""Ollama's native chat API: builds requests, and parses replies from the stream.

Rumi does not use the OpenAI-compatible API of Ollama, because that API cannot set the context size, and
Ollama silently cuts longer prompts. docs: docs.ollama.com/api/chat. The stream has one JSON object per line.
"""

from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from rumi.models.body import Sampling, most_tokens
from rumi.models.dialects.call_parts import parts_in
from rumi.models.model import Emit, Message, ModelRequest, Usage
from rumi.models.native import NativeModel
from rumi.models.stream import ReplyBuilder, count_of, mapping, text_in
from rumi.models.wire import plain, sendable, sent_arguments, sent_name, tools_json
from rumi.platform.config.providers import PROVIDERS

_ROW: Final = PROVIDERS["ollama"]


class OllamaProtocol:
    """The protocol of Ollama's chat API: builds requests and parses replies."""

    path = "/api/chat"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers of a request, including the key, which a proxy may require."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(
        self, request: ModelRequest, model: str, sampling: Sampling, context: int | None
    ) -> dict[str, object]:
        """Return the request body, which always sets the context size."""
        options: dict[str, object] = {"num_ctx": context or _ROW.context}
        temperature = sampling.temperature if request.temperature is None else request.temperature
        if temperature is not None:
            options["temperature"] = temperature
        if (most := most_tokens(request, sampling)) is not None:
            options["num_predict"] = most
        body: dict[str, object] = {
            "model": model,
            "messages": list(_messages(request)),
            "stream": True,
            "options": options,
        }
        if request.tools:
            body["tools"] = tools_json(request)
        elif request.schema is not None:
            body["format"] = plain(request.schema)
        effort = request.effort or sampling.effort
        if effort is not None and _ROW.model(model).effort:
            body["think"] = effort
        return body

    def builder(self, emit: Emit, name: str, tools: Collection[str]) -> "OllamaReply":
        """Return a builder that assembles the reply from the stream's lines."""
        return OllamaReply(emit, name, tools)


def _messages(request: ModelRequest) -> Iterator[dict[str, object]]:
    # Ollama's API has no call ids: a result names its tool instead.
    names: dict[str | None, str] = {}
    for message in request.messages:
        names |= {call.id: sent_name(call.name) for call in message.tool_calls}
        out: dict[str, object] = {"role": message.role, "content": sendable(message.content)}
        if message.pictures:
            out["images"] = [b64encode(picture.data).decode() for picture in message.pictures]
        if message.tool_calls:
            out["tool_calls"] = list(_calls(message))
        if message.role == "tool":
            out["tool_name"] = names.get(message.tool_call_id, "")
        yield out


def _calls(message: Message) -> Iterator[dict[str, object]]:
    for call in message.tool_calls:
        yield {"function": {"name": sent_name(call.name), "arguments": sent_arguments(call)}}


class OllamaReply(ReplyBuilder):
    """A builder that assembles a reply from a stream's lines. The text excludes the model's thoughts."""

    def add(self, data: str) -> None:
        """Process one line of the stream.

        Raises:
            BadStreamError: The line is not a JSON object of this API.
            StreamReportedError: The line is the server's report of an error.
        """
        for chunk in self._objects(data):
            if not chunk.keys() & {"message", "done"}:
                self._ignore(data)
                continue
            self.answered = True
            message = mapping(chunk.get("message") or {}, "a message")
            if thought := text_in(message.get("thinking")):
                self._grow(thought, self._reasoning)
            if content := message.get("content"):
                self._take_content(content)
            calls = message.get("tool_calls") or []
            for number, part in enumerate(parts_in(calls)):
                # Each part is a whole call; the ids of new versions are not needed, and may be missing.
                self._take_call({**part, "id": None, "index": len(self._calls) + number})
            self.begun = self.begun or bool(thought or content or calls)
            if chunk.get("done"):
                self.done = True
                reason = str(chunk.get("done_reason") or "stop")
                self.finish_reason = "tool_calls" if len(self._calls) and reason == "stop" else reason
                self._usage = Usage(
                    count_of(chunk.get("prompt_eval_count")), count_of(chunk.get("eval_count"))
                )


class OllamaModel(NativeModel):
    """A model at an Ollama server."""

    protocol = OllamaProtocol()
