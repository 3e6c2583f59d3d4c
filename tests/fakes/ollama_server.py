"""A real HTTP server on loopback that speaks Ollama's own chat API, and truncates as silently as Ollama."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import trio

from tests.fakes.groq_connection import Recorded
from tests.fakes.groq_replies import Answer, Behaviour, Body, Fail, Raw, Script
from tests.fakes.groq_rules import BadRequestError
from tests.fakes.groq_server import GroqServer, run_as_program

DEFAULT_CONTEXT = 4096
_KEYS = {"model", "messages", "stream", "tools", "format", "options", "think", "keep_alive"}
_OPTIONS = {"num_ctx": int, "num_predict": int, "temperature": (int, float), "seed": int, "stop": list}
_MESSAGE_KEYS = {"role", "content", "images", "tool_calls", "tool_name", "thinking"}


class OllamaServer(GroqServer):
    """`seen` is what of each prompt fitted into the context: the model sees nothing else."""

    def __init__(self, script: Script, **more: Any) -> None:
        super().__init__(script, key=None, **more)
        self.seen: list[list[Body]] = []

    def behaviour(self, request: Recorded) -> Behaviour:
        behaviour = self._judged(request)
        if isinstance(behaviour, Fail) and behaviour.body is None:
            return replace(behaviour, body={"error": behaviour.message})
        if isinstance(behaviour, Answer):
            lines = list(_lines(behaviour, request.body or {}, _tokens(self.seen[-1])))
            if behaviour.cut_after is not None:
                lines = lines[: behaviour.cut_after]
            data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
            return Raw(data, "application/x-ndjson", cut=behaviour.cut_after is not None)
        return behaviour

    def _judged(self, request: Recorded) -> Behaviour:
        if request.method == "GET":
            return super().behaviour(request)
        if (request.method, request.path) != ("POST", "/api/chat"):
            return Fail(404, "404 page not found")
        try:
            _check(request.body)
        except BadRequestError as error:
            return Fail(400, str(error))
        body = request.body or {}
        if self.models is not None and body["model"] not in self.models:
            return Fail(404, f"model '{body['model']}' not found")
        context = (body.get("options") or {}).get("num_ctx", DEFAULT_CONTEXT)
        kept = list(body["messages"])
        while len(kept) > 1 and _tokens(kept) > context:  # the oldest goes first, and nothing says so
            kept.pop(1 if kept[0]["role"] == "system" and len(kept) > 2 else 0)
        self.seen.append(kept)
        return self._choose({**body, "messages": kept})


def _tokens(messages: list[Body]) -> int:
    return sum(len(message["content"]) // 4 + 4 for message in messages)


def _check(body: object) -> None:
    _need(isinstance(body, dict), "invalid JSON")
    assert isinstance(body, dict)
    _need(set(body) <= _KEYS, f"unknown field: {set(body) - _KEYS}")
    for name, value in (body.get("options") or {}).items():
        _need(name in _OPTIONS and isinstance(value, _OPTIONS[name]), f"invalid option provided: {name}")
    for message in body["messages"]:
        _need(set(message) <= _MESSAGE_KEYS, f"json: unknown field in {message}")
        _need(isinstance(message["content"], str), "json: cannot unmarshal array into content of type string")
        for call in message.get("tool_calls", ()):
            _need(
                isinstance(call["function"]["arguments"], dict),
                "json: cannot unmarshal string into arguments",
            )
        if message["role"] == "tool":
            _need(bool(message.get("tool_name")), "a tool's message needs tool_name")


def _lines(answer: Answer, body: Body, prompt: int) -> Iterator[Body]:
    head = {"model": body["model"], "created_at": "2026-11-24T00:00:00Z"}

    def line(**message: Any) -> Body:
        return {**head, "message": {"role": "assistant", "content": "", **message}, "done": False}

    if answer.reasoning:
        yield line(thinking=answer.reasoning)
    size = -(-len(answer.text) // max(answer.pieces, 1)) or 1
    for at in range(0, len(answer.text), size):
        yield line(content=answer.text[at : at + size])
    for name, arguments in answer.calls:
        yield line(tool_calls=[{"function": {"name": name, "arguments": json.loads(arguments)}}])
    counts = {"prompt_eval_count": prompt, "eval_count": answer.usage[1], "total_duration": 1}
    yield {**line(), "done": True, "done_reason": answer.finish_reason or "stop", **counts}


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise BadRequestError(message)


@asynccontextmanager
async def serve_ollama(script: Script, **more: Any) -> AsyncIterator[OllamaServer]:
    """Serve until the block is left."""
    server = OllamaServer(script, **more)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        yield server
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    run_as_program(lambda script: OllamaServer(script, models=["qwen3"]))
