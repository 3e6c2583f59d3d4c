"""Plays histories by mail: one seed, one history, the same whenever it is played."""

import logging
import os
import tempfile
from pathlib import Path
from random import Random
from secrets import token_hex
from unittest.mock import patch

from actors.testing import run
from rumi.channels.mail import delivery
from rumi.store.journal import actor as journal
from tests.simulation.mail.history import MailHistory
from tests.simulation.play import LOOK_S
from tests.simulation.steps import cheap_steps
from tests.simulation.world import World


def play_mail(world: World) -> World:
    """Play a world's history. What was wrong in it is in the world's `wrong`."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    names = Random(f"mails {world.seed}")
    assert delivery.token_hex is token_hex
    try:
        with (
            tempfile.TemporaryDirectory(dir=memory) as folder,
            cheap_steps(world.seed),
            patch.object(journal, "WATCH_S", LOOK_S),
            patch.object(delivery, "token_hex", lambda nbytes: names.randbytes(nbytes).hex()),
        ):

            async def whole() -> None:
                await MailHistory(world, Path(folder)).run()

            run(whole)
    finally:
        logging.disable(before)
    return world
