"""Plays histories on Matrix: one seed, one history, the same whenever it is played."""

import logging
import os
import tempfile
from pathlib import Path
from random import Random
from unittest.mock import patch

from actors.testing import run
from rumi.channels.matrix import delivery, growing, sender, wire
from rumi.store.journal import actor as journal
from tests.simulation.matrix.history import MatrixHistory
from tests.simulation.play import LOOK_S
from tests.simulation.steps import cheap_steps
from tests.simulation.world import World


def play_matrix(world: World) -> World:
    """Play a world's history. What was wrong in it is in the world's `wrong`."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    names = Random(f"matrix {world.seed}")

    def token_hex(nbytes: int) -> str:
        return names.randbytes(nbytes).hex()

    try:
        with (
            tempfile.TemporaryDirectory(dir=memory) as folder,
            cheap_steps(world.seed),
            patch.object(journal, "WATCH_S", LOOK_S),
            patch.object(wire, "token_hex", token_hex),
            patch.object(growing, "token_hex", token_hex),
            patch.object(sender, "token_hex", token_hex),
            patch.object(delivery, "LONG", 10**9),  # a thread has no place under a virtual clock
        ):

            async def whole() -> None:
                await MatrixHistory(world, Path(folder)).run()

            run(whole)
    finally:
        logging.disable(before)
    return world
