"""Many histories at once: `python -m tests.simulation.many` plays new ones for SIMULATE_S seconds, a third of
the time those of several workers, a tenth those by mail, and a tenth those on Matrix.

SIMULATE_PROCESSES says how many processes play them: as many as there are processors where it says nothing.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from tests.simulation.__main__ import LONGEST_S

ROOT = Path(__file__).resolve().parents[2]

PROCESSES = int(os.environ.get("SIMULATE_PROCESSES", "0")) or len(os.sched_getaffinity(0))


Kind: TypeAlias = Literal["one", "cluster", "mail", "matrix"]
"""Histories of one process, of several workers, or of people who write by mail or on Matrix."""

TESTS: Final[Mapping[Kind, str]] = {
    "one": "tests/simulation/test_histories.py",
    "cluster": "tests/simulation/cluster/test_cluster_histories.py",
    "mail": "tests/simulation/mail/test_mail_histories.py",
    "matrix": "tests/simulation/matrix/test_matrix_histories.py",
}

CLUSTERS: Final = 1 / 3
"""The part of the time that histories of several workers get."""

MAILS: Final = 1 / 10
"""The part of the time that histories by mail get."""

MATRIX: Final = 1 / 10
"""The part of the time that histories on Matrix get."""


@dataclass
class Found:
    """What came of many histories. `broken` is what workers said that did not come to their end."""

    kind: Kind = "one"
    played: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    wrong: dict[int, list[str]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def report(self) -> str:
        """What was wrong, and how to see it again."""
        said = [
            f"seed {seed}: {'; '.join(wrong[:5])}\n  {replay(seed, self.kind)}"
            for seed, wrong in self.wrong.items()
        ]
        return "\n".join([*said, *self.broken])

    def coverage(self) -> str:
        """What happened how often, the most frequent first."""
        return ", ".join(f"{count} {what}" for what, count in self.counts.most_common())


def replay(seed: int, kind: Kind = "one") -> str:
    """The command that plays a seed again, with its timeline."""
    return f"SIMULATION_TRACE=1 SIMULATION_FROM={seed} SIMULATIONS=1 .venv/bin/pytest -s {TESTS[kind]}"


def play_many(first: int, count: int, seconds: float, kind: Kind = "one") -> Found:
    """Play the histories of so many seeds, as far as the time reaches; every worker has ended after it."""
    found = Found(kind)
    workers: list[subprocess.Popen[str]] = []
    share = -(-count // min(count, PROCESSES))
    until = time.time() + seconds
    try:
        for start in range(first, first + count, share):
            size = min(share, first + count - start)
            workers.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.simulation", str(start), str(size), str(until), kind],
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
    failed = False
    parts: dict[Kind, float] = {"cluster": CLUSTERS, "mail": MAILS, "matrix": MATRIX}
    for kind, part in {"one": 1 - sum(parts.values()), **parts}.items():
        found = play_many(first, 10_000_000, seconds * part, kind)
        print(f"{found.played} histories of kind {kind}: {found.coverage()}")
        print(found.report())
        failed = failed or bool(found.wrong or found.broken)
    sys.exit(failed)


if __name__ == "__main__":
    main()
