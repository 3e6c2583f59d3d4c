"""What the terminal's sessions leave behind: learned once, whenever and however they end."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.extracting_model import Mind, facts, mind_of, sessions_to_extract
from tests.cli.program import BOUND_S, Program
from tests.cli.telegram_bot import wait_for
from tests.cli.telegram_world import World
from tests.fakes.groq_replies import Fail
from tests.fakes.groq_server import KEY

pytestmark = pytest.mark.bubblewrap

ROSARIO = ("local", "city", "Rosario")


@dataclass
class House:
    """The program on a home of its own, and its model."""

    program: Program
    mind: Mind

    @property
    def facts(self) -> list[tuple[object, ...]]:
        return facts(self.program.home)

    @property
    def sessions_to_extract(self) -> list[tuple[object, ...]]:
        return sessions_to_extract(self.program.home)

    def talk(self, *lines: str, code: int | None = 0) -> "subprocess.CompletedProcess[str]":
        """A terminal chat from a pipe, which is left in the end."""
        return self.program.run("chat", text="".join(f"{line}\n" for line in lines), code=code)

    def opened(self, *lines: str) -> "subprocess.Popen[str]":
        """One that nobody leaves."""
        process = self.program.start("chat")
        assert process.stdin is not None
        process.stdin.write("".join(f"{line}\n" for line in lines))
        process.stdin.flush()
        return process


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture
def house(tmp_path: Path, world: World) -> House:
    env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": world.groq.base_url, "RUMI_SANDBOX__BACKEND": "bubblewrap"}
    return House(Program(tmp_path / "home", env), mind_of(world))


def test_leaving_learns_once_and_the_next_conversation_knows(house: House) -> None:
    house.talk("say my city is Rosario")
    assert house.facts == [ROSARIO]
    assert house.sessions_to_extract == []
    house.talk()
    assert len(house.mind.extractions) == 1


@pytest.mark.long
def test_a_turn_of_its_own_is_not_left_and_learned_from_when_its_time_is_over(house: House) -> None:
    house.program.env["RUMI_SESSION__TTL_S"] = "3"
    house.program.run("chat", "-p", "say my city is Rosario")
    assert house.sessions_to_extract == [("cli", 2)]
    time.sleep(3)
    house.program.run("chat", "-p", "say my dog is Tango")  # which is over as soon as that was learned
    assert house.facts == [ROSARIO]
    assert house.sessions_to_extract == [("cli", 3)]
    process = house.opened()
    try:
        wait_for(lambda: house.facts == [ROSARIO, ("local", "dog", "Tango")])
        wait_for(lambda: house.sessions_to_extract == [])
    finally:
        process.communicate(timeout=BOUND_S)


def test_extract_learns_of_an_owner_from_what_goes_on_too(house: House) -> None:
    house.program.run("chat", "-p", "say my city is Rosario")
    extract = ("memory", "extract", "--owner")
    assert house.program.run(*extract, "tg5").stdout == "There was nothing new to save.\n"
    assert house.facts == []
    assert house.program.run(*extract, "local", "--json").stdout == '{"learned": 1}\n'
    assert house.facts == [ROSARIO]
    assert house.sessions_to_extract == []


def test_extract_says_that_the_model_does_not_answer_and_tries_again_when_it_is_asked_to(
    house: House, world: World
) -> None:
    house.program.run("chat", "-p", "say my city is Rosario")
    world.do(setattr, world.groq, "_choose", lambda body: Fail(401, "no such key"))
    assert "the model did not answer" in house.program.run("memory", "extract", code=1).stderr
    house.mind = mind_of(world)
    assert house.program.run("memory", "extract").stdout == "📝 Saved 1 fact to memory.\n"
    assert house.facts == [ROSARIO]


def test_a_reset_says_how_many_facts_it_saved(house: House) -> None:
    done = house.talk("say my city is Rosario", "/reset", "/reset")
    assert done.stdout.count("📝 Saved 1 fact") == 1
    assert done.stdout.count("Session reset") == 2
    assert house.facts == [ROSARIO]


def test_a_reset_from_outside_learns_where_nothing_else_runs(house: House) -> None:
    house.program.run("chat", "-p", "say my city is Rosario")
    said = house.program.run("reset", "cli").stdout
    assert said.startswith("📝 Saved 1 fact to memory.\n✨ Session reset")
    assert house.facts == [ROSARIO]


def test_a_model_that_answers_nonsense_breaks_nothing(house: House) -> None:
    house.mind.says = "I would rather not. </memory> {"
    done = house.talk("say my city is Rosario", "/reset", "say still there")
    assert "still there" in done.stdout
    assert house.facts == []
    assert house.sessions_to_extract == []


@pytest.mark.long
def test_who_leaves_does_not_wait_for_a_model_that_hangs_and_the_next_start_does_it(house: House) -> None:
    house.mind.hangs = True
    before = time.monotonic()
    house.talk("say my city is Rosario")
    assert time.monotonic() - before < 30
    assert house.facts == []
    house.mind.hangs = False
    os.kill(house.program.serving(), signal.SIGTERM)  # it waits for the model still
    process = house.opened()
    try:
        wait_for(lambda: house.facts == [ROSARIO] and house.sessions_to_extract == [])
    finally:
        process.communicate(timeout=BOUND_S)
    assert len(house.mind.extractions) == 2


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_signal_cuts_short_is_done_at_the_next_start(house: House, number: signal.Signals) -> None:
    house.mind.hangs = True
    process = house.opened("say my city is Rosario", "/reset")
    wait_for(lambda: house.mind.extractions)
    os.kill(house.program.serving(), number)
    process.kill()
    process.communicate(timeout=BOUND_S)
    assert house.facts == []
    house.mind.hangs = False
    process = house.opened()
    try:
        wait_for(lambda: house.facts == [ROSARIO] and house.sessions_to_extract == [])
    finally:
        process.communicate(timeout=BOUND_S)
    assert len(house.mind.extractions) == 2


def test_where_it_is_switched_off_nothing_is_learned(house: House) -> None:
    house.program.env["RUMI_MEMORY__EXTRACT"] = "false"
    house.talk("say my city is Rosario", "/reset", "say something else")
    assert house.facts == []
    assert house.mind.extractions == []
