"""How long `/stop` takes, from the message to its confirmation, with every chat in a running command.

The confirmation comes when no process of the turn is left. One chat after another is stopped while all
the others go on. Behind that: how long one `/stop all` takes that stops all of 20 chats, and, in the same
rounds, a `/stop` while no other chat works.
"""

import sys
import time
from collections.abc import Sequence

import trio

from bench import house
from bench.rounds import percentile, ratios, row, spread
from rumi.agent.events import ToolStarted
from rumi.app.app import App
from rumi.chats.hub import reply_to

BUBBLEWRAP_CHATS = 200
DOCKER_CHATS = 20
ALL_CHATS = 20
ROUNDS = 10


async def begin(app: App, chat: str) -> None:
    """Start a turn that would run for ten minutes, and return when its command has begun."""
    with app.services.hub.listening(chat) as events:
        await app.inbox.accept(chat, "run sleep 600")
        while not isinstance((await events.receive()).what, ToolStarted):
            pass
    while not app.services.sandboxes.container_id(chat):
        await trio.sleep(0.05)


async def stop(app: App, chat: str) -> float:
    with app.services.hub.listening(chat) as events:
        began = time.perf_counter()
        number = await app.inbox.accept(chat, "/stop")
        replied = await reply_to(events, number)
        took = time.perf_counter() - began
    assert len(replied.messages) == 2, replied
    return took


async def stop_all(app: App, chats: int) -> float:
    with app.services.hub.listening("asker") as events:
        began = time.perf_counter()
        number = await app.inbox.accept("asker", "/stop all")
        replied = await reply_to(events, number)
        took = time.perf_counter() - began
    assert f"Stopped {chats} turns and 0 tasks. No process is left." in replied.text, replied
    return took


async def begin_all(app: App, names: Sequence[str]) -> None:
    limit = trio.CapacityLimiter(8)

    async def one(chat: str) -> None:
        async with limit:
            await begin(app, chat)

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(one, name)
    await trio.sleep(2)  # real commands need a real moment to be running


async def measure(backend: str, chats: int, aim: str) -> None:
    flags = {"model.default": "offline", "sandbox.backend": backend, "sandbox.timeout_s": 900}
    async with house.app(flags) as app:
        names = [f"chat-{number}" for number in range(chats)]
        await begin_all(app, names)
        times = [await stop(app, name) for name in names]
    row(f"/stop, {chats} chats in {backend}: median", f"{percentile(times, 0.5) * 1000:.0f} ms")
    row(f"/stop, {chats} chats in {backend}: p99", f"{percentile(times, 0.99) * 1000:.0f} ms", aim)


async def measure_all(backend: str) -> None:
    """Stop all of them at once, and one alone, in turns; the sandboxes are there from the first round on."""
    flags = {
        "language": "en",
        "model.default": "offline",
        "sandbox.backend": backend,
        "sandbox.timeout_s": 900,
    }
    everything, alone = [], []
    async with house.app(flags) as app:
        names = [f"chat-{number}" for number in range(ALL_CHATS)]
        for _ in range(ROUNDS):
            await begin_all(app, names)
            everything.append(await stop_all(app, ALL_CHATS))
            await begin_all(app, names[:1])
            alone.append(await stop(app, names[0]))
    row(f"/stop all, {ALL_CHATS} chats in {backend}", spread(everything, "ms", 1000))
    row(f"/stop, one chat alone in {backend}", spread(alone, "ms", 1000))
    row("    the ratio of both, round by round", spread(ratios(everything, alone)))


async def main() -> None:
    wanted = sys.argv[1:] or ["bubblewrap", "docker"]
    if "bubblewrap" in wanted:
        await measure("bubblewrap", BUBBLEWRAP_CHATS, "under 250 ms")
        await measure_all("bubblewrap")
    if "docker" in wanted:
        await measure("docker", DOCKER_CHATS, "under 400 ms")
        await measure_all("docker")


if __name__ == "__main__":
    house.run(main)
