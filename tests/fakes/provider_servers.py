"""Servers that speak chat completions as OpenAI, OpenRouter, Mistral, DeepSeek, xAI, Gemini and llama.cpp do.

Each refuses what its documentation, or its known error messages, say that it refuses.
"""

import copy
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import trio

from tests.fakes.groq_connection import Recorded
from tests.fakes.groq_replies import Answer, Behaviour, Body, Fail, Raw, Script, reply_chunks
from tests.fakes.groq_rules import BadRequestError, check_request
from tests.fakes.groq_server import GroqServer

PROVIDER_KEY = "sk-test-0123456789abcdefghijklmnop"
PATHS: Final = {
    "openai": "/v1",
    "openrouter": "/api/v1",
    "mistral": "/v1",
    "deepseek": "",
    "xai": "/v1",
    "gemini": "/v1beta/openai",
    "llamacpp": "/v1",
}
UNSIGNED: Final = "skip_thought_signature_validator"


class ProviderServer(GroqServer):
    """`slot` is for llama.cpp how long a prompt keeps the only slot, also where its client has left."""

    def __init__(self, provider: str, script: Script, *, slot_s: float = 0.0, **more: Any) -> None:
        super().__init__(script, key=None if provider == "llamacpp" else PROVIDER_KEY, **more)
        self.provider = provider
        self.signed: set[str] = set()
        self._slot_s = slot_s
        self._free_at = 0.0

    @property
    def provider_url(self) -> str:
        """The address, as the provider's variable takes it."""
        return f"{self.base_url}{PATHS[self.provider]}"

    def behaviour(self, request: Recorded) -> Behaviour:
        if (request.method, request.path) != ("POST", f"{PATHS[self.provider]}/chat/completions"):
            return Fail(404, "not found")
        if request.headers.get("authorization") != (self.key and f"Bearer {self.key}"):
            return Fail(401, "Incorrect API key provided", "invalid_api_key")
        try:
            self._check(copy.deepcopy(request.body))
        except BadRequestError as error:
            fault: object = {"error": {"code": 400, "message": str(error), "status": "INVALID_ARGUMENT"}}
            return Fail(400, str(error), body=[fault] if self.provider == "gemini" else None)
        assert request.body is not None
        behaviour = self._choose(request.body)
        return self._streamed(behaviour, request.body) if isinstance(behaviour, Answer) else behaviour

    def _check(self, body: Any) -> None:
        if self.provider == "gemini":
            self._check_signatures(body)
        _RULES.get(self.provider, lambda _: None)(body)
        check_request(body, groq=False)

    def _check_signatures(self, body: Body) -> None:
        for message in body["messages"]:
            for at, call in enumerate(message.get("tool_calls", ())):
                signature = call.pop("extra_content", {}).get("google", {}).get("thought_signature")
                if at == 0 and signature != UNSIGNED and signature not in self.signed:
                    raise BadRequestError(
                        "Function call is missing a thought_signature in functionCall parts."
                    )

    def _streamed(self, answer: Answer, body: Body) -> Behaviour:
        asked = bool((body.get("stream_options") or {}).get("include_usage"))
        always = self.provider in ("mistral", "xai")
        chunks = reply_chunks(answer, self.next_id(), body["model"], groq=False, usage=asked or always)
        if self.provider == "gemini":
            self._sign(chunks)
        if self.provider == "deepseek" and asked:
            usage = chunks[-1]["usage"]
            usage.pop("prompt_tokens_details", None)
            usage["prompt_cache_hit_tokens"] = answer.cached
            usage["prompt_cache_miss_tokens"] = usage["prompt_tokens"] - answer.cached
        data = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)
        if self.provider == "openrouter":
            data = b": OPENROUTER PROCESSING\n\n" + data
        now = trio.current_time()
        wait_s = max(0.0, self._free_at - now)
        self._free_at = max(now, self._free_at) + self._slot_s
        return Raw(data + b"data: [DONE]\n\n", pause_s=wait_s)

    def _sign(self, chunks: list[Body]) -> None:
        for chunk in chunks:
            for choice in chunk["choices"]:
                for call in choice["delta"].get("tool_calls", ()):
                    if "id" in call and call["index"] == 0:
                        signature = f"signature-{len(self.signed)}"
                        self.signed.add(signature)
                        call["extra_content"] = {"google": {"thought_signature": signature}}


def _openai(body: Body) -> None:
    if body["model"].startswith(("gpt-5", "o")):
        if "max_tokens" in body:
            raise BadRequestError("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if body.get("temperature", 1) != 1:
            raise BadRequestError(
                "Unsupported value: 'temperature'. Only the default (1) value is supported."
            )


def _mistral(body: Body) -> None:
    if "stream_options" in body or "max_completion_tokens" in body:
        raise BadRequestError("Extra inputs are not permitted")
    for message in body["messages"]:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        for number in [*ids, *([message["tool_call_id"]] if message["role"] == "tool" else [])]:
            if not re.fullmatch(r"[a-zA-Z0-9]{9}", number):
                text = f"Tool call id was {number} but must be a-z, A-Z, 0-9, with a length of 9."
                raise BadRequestError(text)


def _deepseek(body: Body) -> None:
    if (body.get("response_format") or {}).get("type") == "json_schema":
        raise BadRequestError("This response_format type is unavailable now")


_RULES: Final[dict[str, Callable[[Body], None]]] = {
    "openai": _openai,
    "mistral": _mistral,
    "deepseek": _deepseek,
}


@asynccontextmanager
async def serve_provider(provider: str, script: Script, **more: Any) -> AsyncIterator[ProviderServer]:
    """Serve until the block is left."""
    server = ProviderServer(provider, script, **more)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve)
        yield server
        nursery.cancel_scope.cancel()
