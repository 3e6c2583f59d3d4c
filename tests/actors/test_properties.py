"""What holds for every plan, in every order in which trio may run the tasks."""

import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors import Backoff
from actors.intensity import RestartIntensity
from tests.fakes.actor_worlds import Plan, check_restart_windows, plans, play


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Any:
    """Thousands of planned crashes need not be written down."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=plans(), order=st.random_module())
def test_asks_settle_once_nothing_is_handled_twice_and_no_task_is_left(plan: Plan, order: object) -> None:
    play(plan)


@given(
    gaps=st.lists(st.floats(0, 10), max_size=50),
    most=st.integers(0, 5),
    within=st.floats(0.1, 10),
)
def test_no_window_ever_holds_more_restarts_than_allowed(gaps: list[float], most: int, within: float) -> None:
    intensity = RestartIntensity(most, within)
    now, granted = 0.0, []
    for gap in gaps:
        now += gap
        if intensity.allow(now):
            granted.append(now)
    check_restart_windows(granted, most, within)


@given(gaps=st.lists(st.floats(0, 10), max_size=50), most=st.integers(1, 5), within=st.floats(0.1, 10))
def test_a_restart_is_refused_only_when_the_window_is_full(
    gaps: list[float], most: int, within: float
) -> None:
    intensity = RestartIntensity(most, within)
    now, granted = 0.0, []
    for gap in gaps:
        now += gap
        allowed = intensity.allow(now)
        assert allowed == (sum(now - time <= within for time in granted) < most)
        if allowed:
            granted.append(now)


@given(
    first_s=st.floats(0.001, 100),
    factor=st.floats(1, 10),
    more=st.floats(0, 1000),
    attempt=st.integers(0, 10_000),
)
def test_a_backoff_grows_and_stays_between_its_bounds(
    first_s: float, factor: float, more: float, attempt: int
) -> None:
    backoff = Backoff(first_s=first_s, factor=factor, cap_s=first_s + more)
    assert first_s <= backoff.delay_s(attempt) <= first_s + more
    assert backoff.delay_s(attempt) <= backoff.delay_s(attempt + 1)


@pytest.mark.parametrize("wrong", [{"first_s": 0}, {"factor": 0.5}, {"first_s": 2, "cap_s": 1}])
def test_a_backoff_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="backoff"):
        Backoff(**wrong)
