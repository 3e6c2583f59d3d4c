"""What `rumi --version` costs beside a Python that does nothing."""

import subprocess
import sys
import time
from pathlib import Path

from bench.rounds import row, spread

ROUNDS = 15


def timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    rumi = [str(Path(sys.executable).with_name("rumi")), "--version"]
    bare = [sys.executable, "-c", "pass"]
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(ROUNDS):
        theirs.append(timed(bare))
        ours.append(timed(rumi))
    row("python -c pass", spread(theirs, "ms", 1000))
    row("rumi --version", spread(ours, "ms", 1000))
    more = [a - b for a, b in zip(ours, theirs, strict=True)]
    row("more", spread(more, "ms", 1000), "at most 100 ms more")


if __name__ == "__main__":
    main()
