"""Thousands of random histories of the whole house in a faulty world.

A history is drawn from a seed and runs in virtual time, with a scheduler of the same seed, so a seed that
fails replays. `SIMULATIONS` says how many are played, `SIMULATION_FROM` from which seed on;
`SIMULATION_TRACE=1` prints each as a timeline.
"""

import os

import pytest

from tests.simulation.many import play_many
from tests.simulation.play import play
from tests.simulation.world import World

SIMULATIONS = int(os.environ.get("SIMULATIONS", "25"))
FROM = int(os.environ.get("SIMULATION_FROM", "0"))
WITHIN_S = 300.0 + SIMULATIONS
"""What is left at this time is not played, and that is a failure."""

WHATEVER_HAPPENS = (
    *("turns complete", "turns stopped", "turns interrupted", "turns crashed", "turns timeout"),
    *("turns model_error", "turns repeated_call", "kills", "crashes", "disk", "sandbox", "model", "telegram"),
    *("gone", "fault Flood", "fault Broken", "fault Reset", "fault Silent", "fault Slow", "fault Late"),
    *("fault Truncated", "fault Redelivered", "fault Shuffled", "fault Doubled", "fault Error"),
    *("asked", "verdict yes", "verdict no", "verdict expired", "presses", "stale presses", "typed", "done"),
    *("theme stuck", "theme storm", "theme late", "theme move", "moved", "stuck", "restart limits"),
    "rate limits",
    "writes on a full disk",
    *("queued", "dropped", "steps"),
    *("stop all", "stopped all", "stop all in vain"),
    *("repeated", "left behind", "excused by a violent end"),
)


def test_whatever_happens_every_message_has_one_final_reply_that_is_seen_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = play_many(FROM, SIMULATIONS, WITHIN_S)
    with capsys.disabled():
        print("\n".join(["", *found.lines, f"{found.played} histories: {found.coverage()}"]))
    assert not found.wrong, found.report()
    assert not found.broken, found.report()
    assert found.played == SIMULATIONS, "the time was too short"
    if SIMULATIONS >= 1000:
        assert not [what for what in WHATEVER_HAPPENS if not found.counts[what]]


def test_a_seed_is_the_same_history_whenever_it_is_played() -> None:
    for seed in (3, 14, 15):
        first, second = (play(World(seed, trace=True)).timeline for _ in range(2))
        assert first == second
        assert first is not None
        assert len(first) > 20
