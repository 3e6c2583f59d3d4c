"""Plays the histories of a range of seeds here: `python -m tests.simulation FROM COUNT UNTIL KIND`.

Prints a line of JSON: how many were played, what happened in them, and what was wrong by seed. With
SIMULATION_TRACE=1 it prints each history as a timeline instead.
"""

import faulthandler
import gc
import json
import os
import sys
import time
import traceback
from collections import Counter

from tests.simulation.cluster.play import play_cluster, world_of
from tests.simulation.mail.play import play_mail
from tests.simulation.matrix.play import play_matrix
from tests.simulation.play import play
from tests.simulation.world import World

LONGEST_S = 60.0
"""A history takes some hundredths of a second: one that takes so long does not end."""

MOST_WRONG = 20


def main(first: int, count: int, until: float, kind: str) -> None:
    """Play so many histories, or as many as begin before `until` (seconds since 1970).

    The `kind` is "one" for histories of one process, "cluster" for those of several workers, "mail" or
    "matrix" for those of people who write by mail or on Matrix.
    """
    trace = os.environ.get("SIMULATION_TRACE", "") not in ("", "0")
    wrong: dict[int, list[str]] = {}
    counts: Counter[str] = Counter()
    played = 0
    gc.disable()  # a history's garbage is collected between two of them, all at once
    gc.freeze()
    for seed in range(first, first + count):
        if time.time() > until or len(wrong) >= MOST_WRONG:
            break
        faulthandler.dump_traceback_later(LONGEST_S, exit=True)
        world = world_of(seed, trace=trace) if kind == "cluster" else World(seed, trace=trace)
        try:
            {"one": play, "cluster": play_cluster, "mail": play_mail, "matrix": play_matrix}[kind](world)
        except BaseException as error:
            world.complain("".join(traceback.format_exception(error))[-2000:])
            if isinstance(error, KeyboardInterrupt):
                raise
        faulthandler.cancel_dump_traceback_later()
        played += 1
        counts += world.counts
        if world.wrong:
            wrong[seed] = world.wrong
        for line in world.timeline or ():
            print(line)
        if played % 20 == 0:
            gc.collect()
            gc.freeze()
    print(json.dumps({"played": played, "counts": counts, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
