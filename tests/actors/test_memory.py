"""How much memory an actor keeps while it waits for messages."""

import gc
import tracemalloc
from dataclasses import dataclass

from actors import Actor, ChildSpec, DynamicSupervisor, Request, answers

ACTORS = 200


@dataclass(frozen=True, slots=True)
class Ping(Request[int]):
    """Answered with 1."""


class Ponger(Actor[Ping]):
    @answers(Ping)
    async def pong(self, message: Ping) -> int:
        return 1


async def test_an_idle_actor_keeps_less_than_6_700_bytes() -> None:
    pongers: DynamicSupervisor[Ping] = DynamicSupervisor(
        "pongers", lambda key: ChildSpec(key, Ponger, idle_s=3600)
    )
    async with pongers.running():
        await (await pongers.get_or_start("first")).ask(Ping())
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for number in range(ACTORS):
                await (await pongers.get_or_start(f"{number}")).ask(Ping())
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (after - before) / ACTORS < 6_700
