"""Checks of model servers: make a short call, list a server's models, find local servers."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import trio

from rumi.models.build import ModelSet
from rumi.models.model import Message, ModelRequest
from rumi.platform import http

PROBE_S: Final = 0.2
"""Maximum time for a local port to accept a connection, in seconds."""

LIST_S: Final = 3.0
"""Maximum time for a server to list its models, in seconds."""

MOST_BYTES: Final = 1_000_000

LOCAL: Final = (("ollama", 11434), ("llamacpp", 8080), ("lmstudio", 1234), ("vllm", 8000))
"""Local model servers and their default ports."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server on this machine that speaks OpenAI chat completions, with the names of its models."""

    name: str
    base_url: str
    models: tuple[str, ...]


async def try_out(models: ModelSet) -> float:
    """Make one short call to the first configured model; return the call's duration in seconds.

    Raises:
        ModelError: The model did not answer.
    """
    began = time.monotonic()
    request = ModelRequest((Message("user", "Answer with one word: ready."),))
    await models.steps[0].model.reply(request, lambda _: None)
    return time.monotonic() - began


async def offered(base_url: str, api_key: str = "") -> tuple[str, ...] | None:
    """Return the names of a server's models; None if the server does not list them within `LIST_S`."""
    import httpx

    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    data = bytearray()
    try:
        with trio.fail_after(LIST_S):
            async with (
                await http.client(http.plain, http.Tls(), timeout=LIST_S) as client,
                client.stream("GET", f"{base_url.rstrip('/')}/models", headers=headers) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    return None
                async for chunk in answer.aiter_bytes():
                    data += chunk
                    if len(data) > MOST_BYTES:
                        return None
        return tuple(str(model["id"]) for model in json.loads(data)["data"])
    except (http.SetupError, httpx.HTTPError, httpx.InvalidURL, trio.TooSlowError):
        return None
    except (ValueError, KeyError, TypeError, RecursionError):  # a server of another kind
        return None


async def local_servers(endpoints: Sequence[tuple[str, int]] = LOCAL) -> tuple[LocalServer, ...]:
    """Return the model servers that listen on loopback. If no port is open, this returns immediately.

    The ports are probed at the same time, each for at most `PROBE_S` plus `LIST_S` seconds.
    """
    found: dict[str, LocalServer] = {}

    async def look(name: str, port: int) -> None:
        try:
            with trio.fail_after(PROBE_S):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
        except (OSError, trio.TooSlowError):
            return
        await trio.aclose_forcefully(stream)
        url = f"http://127.0.0.1:{port}/v1"
        models = await offered(url)
        if models is not None:
            found[name] = LocalServer(name, url, models)

    async with trio.open_nursery() as nursery:
        for endpoint in endpoints:
            nursery.start_soon(look, *endpoint)
    return tuple(found[name] for name, _ in endpoints if name in found)
