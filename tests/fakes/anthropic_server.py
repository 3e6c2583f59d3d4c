"""A real HTTP server on loopback that speaks Anthropic's messages API, as strictly as its documentation says.

It streams the documented events, keeps a prompt cache by the marks of requests, signs thoughts and refuses
those that it has not signed.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import trio

from tests.fakes.groq_connection import Recorded
from tests.fakes.groq_replies import Answer, Behaviour, Body, Fail, Raw, Script
from tests.fakes.groq_rules import BadRequestError
from tests.fakes.groq_server import GroqServer, run_as_program

ANTHROPIC_KEY = "sk-ant-api03-0123456789abcdefghijklmnop"
_KEYS = {"model", "max_tokens", "messages", "system", "tools", "tool_choice", "temperature", "stream"}
_KEYS |= {"output_config", "metadata", "stop_sequences", "thinking"}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_BLOCKS = {
    "user": {"text", "image", "tool_result"},
    "assistant": {"text", "tool_use", "thinking", "redacted_thinking"},
}
MEDIA = {"image/png", "image/jpeg", "image/gif", "image/webp"}


class AnthropicServer(GroqServer):
    """`cache` has the prefixes of prompts that it keeps, `signed` the signatures of its thoughts."""

    def __init__(self, script: Script, *, key: str = ANTHROPIC_KEY, **more: Any) -> None:
        super().__init__(script, key=key, **more)
        self.cache: set[str] = set()
        self.signed: set[str] = set()

    def behaviour(self, request: Recorded) -> Behaviour:
        behaviour = self._judged(request)
        if isinstance(behaviour, Fail) and behaviour.body is None:
            kind = behaviour.code or _TYPES.get(behaviour.status, "api_error")
            error = {"type": kind, "message": behaviour.message}
            return replace(behaviour, body={"type": "error", "error": error, "request_id": "req_fake"})
        if isinstance(behaviour, Answer):
            assert request.body is not None
            return self._streamed(behaviour, request.body)
        return behaviour

    def _judged(self, request: Recorded) -> Behaviour:
        if (request.method, request.path) != ("POST", "/v1/messages"):
            return Fail(404, "Not found")
        if request.headers.get("x-api-key") != self.key:
            return Fail(401, "invalid x-api-key")
        if request.headers.get("anthropic-version") != "2023-06-01":
            return Fail(400, "anthropic-version: header is required")
        try:
            self._check(request.body)
        except BadRequestError as error:
            return Fail(400, str(error))
        assert request.body is not None
        if self.models is not None and request.body["model"] not in self.models:
            return Fail(404, f"model: {request.body['model']}")
        return self._choose(request.body)

    def _check(self, body: object) -> None:
        _need(isinstance(body, dict), "the body is not an object")
        assert isinstance(body, dict)
        for name in body:
            _need(name in _KEYS, f"{name}: Extra inputs are not permitted")
        _need(
            isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens: Field required"
        )
        _need(body.get("stream") is True, "this server only streams")
        _need(0 <= body.get("temperature", 1) <= 1, "temperature: range: 0..1")
        for tool in body.get("tools", ()):
            _need(set(tool) <= {"name", "description", "input_schema", "cache_control"}, "tools.0: extra")
            _need(tool["input_schema"].get("type") == "object", "tools.0.input_schema.type: Field required")
        self._check_messages(body["messages"])
        marks = json.dumps(body).count('"cache_control"')
        _need(marks <= 4, f"A maximum of 4 blocks with cache_control may be provided. Found {marks}.")

    def _check_messages(self, messages: list[Body]) -> None:
        _need(
            bool(messages) and messages[0]["role"] == "user", "messages: first message must use the user role"
        )
        before: list[Body] = []
        ids: set[str] = set()
        for at, message in enumerate(messages):
            role, blocks = message["role"], message["content"]
            _need(role in _BLOCKS, f"messages.{at}.role: unknown")
            _need(isinstance(blocks, list) and bool(blocks), f"messages.{at}: must have non-empty content")
            for block in blocks:
                _need(block["type"] in _BLOCKS[role], f"messages.{at}: {block['type']} is not allowed there")
                if block["type"] == "text":
                    _need(bool(block["text"].strip()), "messages: text content blocks must be non-empty")
                if block["type"] == "image":
                    _need(block["source"]["media_type"] in MEDIA, "image: media_type")
                if block["type"] == "tool_use":
                    _need(re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]) is not None, "tool_use.id: pattern")
                    _need(block["id"] not in ids, "`tool_use` ids must be unique")
                    ids.add(block["id"])
                if block["type"] == "thinking":
                    _need(block["signature"] in self.signed, "Invalid `signature` in `thinking` block")
            calls = [block["id"] for block in before if block["type"] == "tool_use"]
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            _need(calls == results, f"messages.{at}: `tool_use` ids without `tool_result` blocks: {calls}")
            first = [block["type"] for block in blocks[: len(results)]]
            _need(first == ["tool_result"] * len(results), f"messages.{at}: tool_result blocks come first")
            before = blocks if role == "assistant" else []
        _need(not any(block["type"] == "tool_use" for block in before), "messages: tool_use without result")

    def _streamed(self, answer: Answer, body: Body) -> Behaviour:
        whole, marked = _prefixes(body)
        read = max((len(prefix) for prefix in self.cache if whole.startswith(prefix)), default=0) // 4
        written = max(0, max((len(text) for text in marked), default=0) // 4 - read)
        self.cache |= set(marked)
        usage = {
            "input_tokens": max(1, len(whole) // 4 - read - written),
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
        }
        events = list(self._events(answer, usage, body["model"]))
        if answer.cut_after is not None:
            events = events[: answer.cut_after]
        data = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
        size = max(map(len, data), default=1) if answer.pause_s else 0
        padded = b"".join(chunk.ljust(size, b"\n") for chunk in data) if size else b"".join(data)
        return Raw(padded, pause_s=answer.pause_s, cut=answer.cut_after is not None, step=size)

    def _events(self, answer: Answer, usage: Body, model: str) -> Iterator[Body]:
        head = {"id": self.next_id(), "type": "message", "role": "assistant", "content": [], "model": model}
        yield {"type": "message_start", "message": {**head, "usage": {**usage, "output_tokens": 1}}}
        yield {"type": "ping"}
        index = 0
        if answer.reasoning:
            signature = f"signed-{len(self.signed)}"
            self.signed.add(signature)
            block = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": answer.reasoning}]
            yield from _block(index, block, [*deltas, {"type": "signature_delta", "signature": signature}])
            index += 1
        if answer.text:
            size = -(-len(answer.text) // max(answer.pieces, 1))
            pieces = [answer.text[at : at + size] for at in range(0, len(answer.text), size)]
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
            yield from _block(index, {"type": "text", "text": ""}, deltas)
            index += 1
        for number, (name, arguments) in enumerate(answer.calls):
            block = {
                "type": "tool_use",
                "id": f"toolu_{number}_{len(self.requests)}",
                "name": name,
                "input": {},
            }
            half = len(arguments) // 2
            pieces = ["", arguments[:half], arguments[half:]]
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
            yield from _block(index, block, deltas)
            index += 1
        reason = answer.finish_reason or ("tool_use" if answer.calls else "end_turn")
        delta = {"stop_reason": reason, "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer.usage[1]}}
        yield {"type": "message_stop"}


def _block(index: int, block: Body, deltas: list[Body]) -> Iterator[Body]:
    yield {"type": "content_block_start", "index": index, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _prefixes(body: Body) -> tuple[str, list[str]]:
    """Return the whole prompt as a text, and its beginnings up to each mark."""
    whole, marked = json.dumps(body.get("tools")), []
    blocks = [
        *body.get("system", ()),
        *(block for message in body["messages"] for block in message["content"]),
    ]
    for block in blocks:
        bare = {name: value for name, value in block.items() if name != "cache_control"}
        whole += json.dumps(bare)
        if bare != block:
            marked.append(whole)
    return whole, marked


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise BadRequestError(message)


@asynccontextmanager
async def serve_anthropic(script: Script, **more: Any) -> AsyncIterator[AnthropicServer]:
    """Serve until the block is left."""
    server = AnthropicServer(script, **more)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        yield server
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    run_as_program(AnthropicServer)
