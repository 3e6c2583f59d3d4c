"""Random histories of people who write on Matrix, with a faulty homeserver and processes that are killed.

`SIMULATIONS` says how many are played, a tenth as many as of Telegram; `SIMULATION_FROM` from which seed on;
`SIMULATION_TRACE=1` prints each as a timeline.
"""

import os

import pytest

from tests.simulation.many import play_many
from tests.simulation.matrix.play import play_matrix
from tests.simulation.world import World

SIMULATIONS = -(-int(os.environ.get("SIMULATIONS", "25")) // 10)
FROM = int(os.environ.get("SIMULATION_FROM", "0"))
WITHIN_S = 300.0 + 3 * SIMULATIONS
"""What is left at this time is not played, and that is a failure."""

WHATEVER_HAPPENS = (
    *("kills", "no line", "502", "lost answer", "late", "duplicated", "limited", "odd", "edits", "limits"),
    "repeated",
)


def test_whatever_happens_every_event_is_one_message_and_its_room_shows_each_reply_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = play_many(FROM, SIMULATIONS, WITHIN_S, "matrix")
    with capsys.disabled():
        print("\n".join(["", *found.lines, f"{found.played} histories: {found.coverage()}"]))
    assert not found.wrong, found.report()
    assert not found.broken, found.report()
    assert found.played == SIMULATIONS, "the time was too short"
    if SIMULATIONS >= 50:
        assert not [what for what in WHATEVER_HAPPENS if not found.counts[what]]


@pytest.mark.long
def test_a_seed_is_the_same_history_on_matrix_whenever_it_is_played() -> None:
    first, second = (play_matrix(World(4, trace=True)).timeline for _ in range(2))
    assert first == second
    assert first is not None
    assert len(first) > 20
