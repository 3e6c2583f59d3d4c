"""The memory of an idle chat: 10,000 of them, each with one exchange behind it."""

import gc
import sys

import trio

from bench import house
from bench.rounds import row

CHATS = 10_000


def rss_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


async def main() -> None:
    chats = int(sys.argv[1]) if len(sys.argv) > 1 else CHATS
    async with house.app({"model.default": "offline"}) as app:
        await house.turn(app, "warm-up", "hello")
        gc.collect()
        before = rss_bytes()
        limit = trio.CapacityLimiter(50)

        async def one(chat: str) -> None:
            async with limit:
                await house.turn(app, chat, "hello")

        async with trio.open_nursery() as nursery:
            for number in range(chats):
                nursery.start_soon(one, f"chat-{number}")
        gc.collect()
        row(f"memory of an idle chat, of {chats}", f"{(rss_bytes() - before) / chats / 1024:.1f} KB", "32 KB")


if __name__ == "__main__":
    house.run(main)
