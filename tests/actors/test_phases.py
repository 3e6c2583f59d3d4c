"""A place goes through the phases that its enum documents, and through no others."""

import logging
import re
from collections.abc import Iterator

import pytest
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import RestartLimitExceeded, Supervisor
from actors.node import Node, Phase
from tests.fakes.actor_worlds import Plan, plans, play
from tests.fakes.actors import Crash, House, Script

Step = tuple[Phase, Phase]


def documented() -> set[Step]:
    rows = re.findall(r"^ +((?:[A-Z_]+(?:, )?)+) +([A-Z_]+)  +\w", Phase.__doc__ or "", flags=re.MULTILINE)
    steps = {(Phase[old], Phase[new]) for olds, new in rows for old in olds.split(", ")}
    return steps | {(old, Phase.ENDING) for old in Phase if old not in (Phase.STOPPED, Phase.ENDING)}


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[Step]]:
    """The steps that were taken."""
    logging.disable()
    steps: set[Step] = set()
    enter, renew = Node._enter, Node._renew

    def entering(self: Node, phase: Phase) -> None:
        steps.add((self.phase, phase))
        enter(self, phase)

    def renewing(self: Node) -> None:
        before = self.phase
        renew(self)
        steps.add((before, self.phase))

    monkeypatch.setattr(Node, "_enter", entering)
    monkeypatch.setattr(Node, "_renew", renewing)
    yield steps
    logging.disable(logging.NOTSET)


def unknown(steps: set[Step]) -> set[Step]:
    return {step for step in steps if step[0] is not step[1]} - documented()


def test_every_phase_is_reached_and_all_but_the_last_are_left() -> None:
    steps = documented()
    assert {new for _, new in steps} == set(Phase) - {Phase.NEW}
    assert {old for old, _ in steps} == set(Phase) - {Phase.STOPPED}


@pytest.mark.long
def test_no_plan_takes_a_place_through_an_undocumented_step(taken: set[Step]) -> None:
    @settings(
        max_examples=300,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(plan=plans(), order=st.random_module())
    def holds(plan: Plan, order: object) -> None:
        play(plan)
        assert not unknown(taken), unknown(taken)

    holds()
    assert len(taken) > 20


async def test_a_place_whose_first_start_fails_is_unstarted_and_then_stopped(taken: set[Step]) -> None:
    house = House()
    house.add("a", Script(start_errors={1: RuntimeError("no")}))
    with pytest.raises(RuntimeError, match="no"):
        async with house.up():
            pass
    assert (Phase.FIRST_START, Phase.UNSTARTED) in taken
    assert (Phase.UNSTARTED, Phase.STOPPED) in taken
    assert not unknown(taken)


async def test_a_place_whose_supervisor_comes_up_again_starts_first_again(taken: set[Step]) -> None:
    root = Supervisor("root", max_restarts=1)
    nested = root.add_supervisor(Supervisor("nested", max_restarts=0))
    house = House(root)
    ref = nested.add(house.spec("a"))
    with pytest.raises(RestartLimitExceeded):
        async with house.up():
            await ref.tell(Crash())
            await trio.testing.wait_all_tasks_blocked()
            await ref.tell(Crash())
            await trio.sleep_forever()
    assert (Phase.SUSPENDED, Phase.UNSTARTED) in taken
    assert (Phase.UNSTARTED, Phase.FIRST_START) in taken
    assert not unknown(taken)
