"""Random histories of several workers on one database, in a faulty world.

`SIMULATIONS` says how many are played, `SIMULATION_FROM` from which seed on; `SIMULATION_TRACE=1` prints each
as a timeline.
"""

import os

import pytest

from tests.simulation.cluster.play import play_cluster, world_of
from tests.simulation.many import play_many

SIMULATIONS = int(os.environ.get("SIMULATIONS", "25"))
FROM = int(os.environ.get("SIMULATION_FROM", "0"))
PART = 100
"""So many are one test, so that several processes share them."""

WITHIN_S = 300.0 + 3 * PART
"""What is left at this time is not played, and that is a failure."""

WHATEVER_HAPPENS = (
    *("pauses", "cuts", "failovers", "drains", "kills", "crashes of parts", "commits without an answer"),
    *(
        "notifications lost",
        "turns complete",
        "turns interrupted",
        "turns stopped",
        "unsure",
        "repeated",
    ),
)


@pytest.mark.parametrize("first", range(FROM, FROM + SIMULATIONS, PART))
def test_whatever_happens_to_workers_every_message_has_one_final_reply_that_is_seen_once(
    first: int, capsys: pytest.CaptureFixture[str]
) -> None:
    many = min(PART, FROM + SIMULATIONS - first)
    found = play_many(first, many, WITHIN_S, "cluster")
    with capsys.disabled():
        print("\n".join(["", *found.lines, f"{found.played} histories: {found.coverage()}"]))
    assert not found.wrong, found.report()
    assert not found.broken, found.report()
    assert found.played == many, "the time was too short"
    if many == PART:
        assert not [what for what in WHATEVER_HAPPENS if not found.counts[what]]


def test_a_reply_that_two_workers_have_just_sent_is_excused_to_the_one_that_lost_its_lease() -> None:
    """One sends it and is paused before it notes it; the other one sends it too, and still notes it."""
    found = play_many(356, 1, WITHIN_S, "cluster")
    assert not found.wrong, found.report()
    assert found.counts["repeated"]


def test_a_seed_is_the_same_history_of_workers_whenever_it_is_played() -> None:
    first, second = (play_cluster(world_of(5, trace=True)).timeline for _ in range(2))
    assert first == second
    assert first is not None
    assert len(first) > 20
