"""Many histories at once: `python -m tests.simulation.many` plays new ones for SIMULATE_S seconds.

SIMULATE_PROCESSES says how many processes play them: as many as there are processors where it says nothing.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulation.__main__ import LONGEST_S

ROOT = Path(__file__).resolve().parents[2]

PROCESSES = int(os.environ.get("SIMULATE_PROCESSES", "0")) or len(os.sched_getaffinity(0))


@dataclass
class Found:
    """What came of many histories. `broken` is what workers said that did not come to their end."""

    played: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wrong: dict[int, list[str]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def report(self) -> str:
        """What was wrong, and how to see it again."""
        said = [
            f"seed {seed}: {'; '.join(wrong[:5])}\n  {replay(seed)}" for seed, wrong in self.wrong.items()
        ]
        return "\n".join([*said, *self.broken])

    def coverage(self) -> str:
        """What happened how often, the most frequent first."""
        return ", ".join(f"{count} {what}" for what, count in self.counts.most_common())


def replay(seed: int) -> str:
    """The command that plays a seed again, with its timeline."""
    test = "tests/simulation/test_histories.py"
    return f"SIMULATION_TRACE=1 SIMULATION_FROM={seed} SIMULATIONS=1 .venv/bin/pytest -s {test}"


def play_many(first: int, count: int, seconds: float) -> Found:
    """Play the histories of so many seeds, as far as the time reaches; every worker has ended after it."""
    found = Found()
    workers: list[subprocess.Popen[str]] = []
    share = -(-count // min(count, PROCESSES))
    until = time.time() + seconds
    try:
        for start in range(first, first + count, share):
            size = min(share, first + count - start)
            workers.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.simulation", str(start), str(size), str(until)],
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env={**os.environ, "PYTHONHASHSEED": "0"},
                )
            )
        for worker in workers:
            said, _ = worker.communicate(timeout=max(0.0, until - time.time()) + 2 * LONGEST_S)
            _take(found, worker.returncode, said)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    return found


def _take(found: Found, code: int, said: str) -> None:
    *lines, last = said.rstrip().split("\n")
    found.lines += lines
    if code != 0:
        found.broken.append(f"a worker ended with {code}:\n{said[-5000:]}")
        return
    result = json.loads(last)
    found.played += result["played"]
    found.counts += Counter(result["counts"])
    found.wrong |= {int(seed): wrong for seed, wrong in result["wrong"].items()}


def main() -> None:
    """New seeds each time; ends with 1 if one of them fails."""
    seconds = float(os.environ.get("SIMULATE_S", "600"))
    first = int(os.environ.get("SIMULATION_FROM", "0")) or int(time.time()) * 1000
    print(f"the first seed is {first}", flush=True)
    found = play_many(first, 10_000_000, seconds)
    print(f"{found.played} histories: {found.coverage()}")
    print(found.report())
    sys.exit(bool(found.wrong or found.broken))


if __name__ == "__main__":
    main()
