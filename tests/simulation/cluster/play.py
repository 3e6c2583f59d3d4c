"""Plays histories of several workers: one seed, one history, the same whenever it is played."""

import logging
import os
import tempfile
from pathlib import Path
from random import Random
from unittest.mock import patch

from actors.testing import run
from rumi.chats import dispatcher
from rumi.platform.home import Home
from tests.simulation import process
from tests.simulation.cluster.history import ClusterHistory
from tests.simulation.cluster.pausing import gates
from tests.simulation.databases import furnish
from tests.simulation.play import simulated
from tests.simulation.world import FAMILIES, World

IDLE_CHAT_S = 20.0
BOX_S = 15.0
TURN_S = 30.0


def world_of(seed: int, *, trace: bool = False) -> World:
    """Return the world of a seed: what is drawn for histories of one process is not drawn here."""
    world = World(seed, trace=trace)
    world.theme = world.stuck = None
    world.tasks = Random(f"tasks of workers {seed}").random() < 0.3
    world.reminders = Random(f"reminders of workers {seed}").random() < 0.3
    world.stops = world.guests = world.pieces = False
    world.measure = dict.fromkeys(FAMILIES, 0.0)
    for family in ("telegram", "model", "sandbox"):
        world.measure[family] = world.random.choice((0.0, 0.0, 0.0, 0.5))
    world.measure["kill"] = 1.0
    world.measure["unsure"] = world.random.choice((0.0, 1.0))
    world.measure["notifications"] = world.random.choice((0.0, 1.0, 5.0))
    return world


def play_cluster(world: World) -> World:
    """Play a world's history. What was wrong in it is in the world's `wrong`."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with (
            tempfile.TemporaryDirectory(dir=memory) as folder,
            simulated(world),
            gates(),
            patch.object(dispatcher, "IDLE_CHAT_S", IDLE_CHAT_S),
            patch.object(process, "BOX_S", BOX_S),
            patch.object(process, "TURN_S", TURN_S),
        ):

            async def whole() -> None:
                home = Home(Path(folder)).make()
                furnish(home)
                await ClusterHistory(world, home).run()

            run(whole)
    finally:
        logging.disable(before)
    return world
