"""A kill of Rumi at any moment of a sandbox's start leaves no process, control group or container."""

import os
import random
from pathlib import Path

import pytest
import trio

from tests.sandbox.killing import killed_worker

KILLS = int(os.environ.get("RUMI_KILLS", "20"))
"""How many moments each engine's test tries."""
LONGEST_S = {"docker": 1.0, "bubblewrap": 0.3}
"""How long two chats' sandboxes take to start, run a command and go, and a little more."""


@pytest.mark.long
async def test_a_kill_at_any_moment_of_starts_leaves_nothing(
    engine_words: tuple[str, str], new_installation: str, tmp_path: Path
) -> None:
    (kind, image), took, seed = engine_words, list[float](), random.randrange(2**32)
    moments = random.Random(seed)
    async with killed_worker(kind, tmp_path / "home", new_installation, image) as worker:
        for number in range(KILLS):
            await worker.start("starts")
            await trio.sleep(moments.uniform(0, LONGEST_S[kind]))
            await worker.kill()
            try:
                took.append(await worker.nothing_left())
            except AssertionError as error:
                raise AssertionError(f"kill {number} of seed {seed}") from error
    took.sort()
    print(
        f"{kind}: {KILLS} kills; nothing was left after {took[len(took) // 2]:.2f} (at most {took[-1]:.2f}) s"
    )
