"""The seeds of histories that show planted faults, in the file `seeds.json`.

A change of the program shifts the histories: the same seed then plays another one. `make seeds` searches for
the seeds that no longer show their fault, for at most `SEARCH_S` seconds of the processor each, and stores
what it finds. A fault that it does not find in this time has no seed, and its test is skipped.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import pytest

from tests.searching import by_promise
from tests.simulation.world import World

FILE: Final = Path(__file__).with_name("seeds.json")

SEARCH_S: Final = float(os.environ.get("SEARCH_S", 0))
"""How long to search for a seed that shows a fault, in seconds of the processor, so that a search on a busy
machine plays as many histories. 0: the known seed must show it."""

Kind: TypeAlias = Literal["one", "cluster", "mail", "matrix"]


def check_seed(
    kind: Kind, name: str, complaint: str, seeds: Sequence[int], play_seed: Callable[[int], World]
) -> None:
    """Play the history of a fault's seed: it must have the complaint. Or search for such a seed."""
    known: int | None = json.loads(FILE.read_text())[kind].get(name)
    if not SEARCH_S:
        if known is None:
            pytest.skip("no seed is known that shows it: make seeds")
        assert _shows(play_seed(known), complaint), f"the seed {known} no longer shows it: make seeds"
        return
    end = time.process_time() + SEARCH_S
    for seed in by_promise(seeds, known or 0):
        with suppress(Exception):  # a planted fault may also break the check of its history
            if _shows(play_seed(seed), complaint):
                _note(kind, name, seed)
                return
        if time.process_time() > end:
            break
    _note(kind, name, None)
    pytest.skip("no seed was found that shows it")


def _shows(world: World, complaint: str) -> bool:
    return any(complaint in wrong for wrong in world.wrong)


def _note(kind: Kind, name: str, seed: int | None) -> None:
    with FILE.open("r+") as file:  # several searches run at once
        fcntl.flock(file, fcntl.LOCK_EX)
        known = json.load(file)
        if known[kind].get(name, -1) == seed:
            return
        known[kind][name] = seed
        file.seek(0)
        file.truncate()
        file.write(json.dumps(known, indent=2, sort_keys=True) + "\n")
