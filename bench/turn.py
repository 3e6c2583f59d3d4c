"""The CPU of a turn that only answers, beside a bare loop of the same HTTP calls with the same SDK.

A server on loopback, in a process of its own, answers at once. Both sides send the same requests, in this
process, in turn: the bare loop repeats those of the turns before it, whose histories grow until a summary
takes their place. What is counted is this process's CPU time, its threads included.
"""

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from groq import AsyncGroq

from bench import house
from bench.rounds import ratios, row, spread
from rumi.app.app import App
from rumi.models.chat_completions import ChatCompletions, Seen
from rumi.models.model import Emit, ModelRequest, Reply
from rumi.models.wire import messages_json, tools_json

KEY = "gsk_benchmark"
TURNS = 40
ROUNDS = 9


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def ours(app: App) -> float:
    began = cpu_s()
    for _ in range(TURNS):
        assert not (await house.turn(app, "bench", "hello there")).startswith("❌")
    return (cpu_s() - began) / TURNS


async def bare(client: AsyncGroq, bodies: list[dict[str, object]]) -> float:
    began = cpu_s()
    for body in bodies:
        stream = await client.chat.completions.create(**body)  # type: ignore[call-overload]
        async with stream:
            async for chunk in stream:
                assert chunk.choices is not None
    return (cpu_s() - began) / len(bodies)


async def both(app: App, client: AsyncGroq) -> tuple[float, float]:
    with sent() as requests:
        mine = await ours(app)
    bodies = [body_of(request) for request in requests if request.tools]  # no summaries
    return mine, await bare(client, bodies)


async def main() -> None:
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.groq_server", "--port", "0", "--script", "ok", "--key", KEY],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": url}
        async with (
            house.app({"sandbox.backend": "bubblewrap", "session.history_messages": "40"}, env) as app,
            AsyncGroq(api_key=KEY, base_url=url, max_retries=0) as client,
        ):
            await both(app, client)  # fills the history, and opens the connections
            mine, theirs = zip(*[await both(app, client) for _ in range(ROUNDS)], strict=True)
        row("CPU of a bare SDK call", spread(theirs, "ms", 1000))
        row("CPU of a turn", spread(mine, "ms", 1000))
        row("ratio", spread(ratios(mine, theirs)), "at most 1.5")
    finally:
        server.terminate()
        server.wait()


@contextmanager
def sent() -> Iterator[list[ModelRequest]]:
    """Collect the requests that are sent within the block."""
    requests: list[ModelRequest] = []
    real = ChatCompletions.metered_reply

    async def spy(self: ChatCompletions, request: ModelRequest, emit: Emit, limits: Seen) -> Reply:
        requests.append(request)
        return await real(self, request, emit, limits)

    ChatCompletions.metered_reply = spy  # type: ignore[method-assign]
    try:
        yield requests
    finally:
        ChatCompletions.metered_reply = real  # type: ignore[method-assign]


def body_of(request: ModelRequest) -> dict[str, object]:
    """Return the request as the SDK takes it."""
    return {
        "model": "openai/gpt-oss-120b",
        "messages": messages_json(request),
        "tools": tools_json(request),
        "stream": True,
    }


if __name__ == "__main__":
    house.run(main)
