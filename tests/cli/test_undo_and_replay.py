"""Undoing, replaying and reporting turns, with the offline model in real sandboxes."""

import os
from pathlib import Path

import pytest

from tests.cli.program import Program

pytestmark = [pytest.mark.bubblewrap, pytest.mark.long]


def test_undo_restores_files_and_facts_of_the_last_turn(program: Program) -> None:
    program.run("chat", "-p", "write a.txt: one; then run mkdir d; then write d/x: deep")
    program.run("chat", "-p", "write a.txt: two; then run rm -r d; then remember city = Rosario")
    place = program.home / "workspace" / "cli"
    assert (place / "a.txt").read_text() == "two"
    said = program.run("undo", "cli").stdout
    assert "- the files" in said
    assert "- the facts: city" in said
    assert (place / "a.txt").read_text() == "one"
    assert (place / "d" / "x").read_text() == "deep"
    assert "Rosario" not in program.run("memory", "list").stdout
    answer = program.run("chat", "-p", "run cat d/x; then write a.txt: three").stdout
    assert "deep" in answer


def test_a_turn_with_three_calls_replays_identically_on_another_day(bubblewrap: Program) -> None:
    recording = Program(bubblewrap.home, {**bubblewrap.env, "RUMI_RECORD__TURNS": "5"})
    recording.run("chat", "-p", "run echo one; then run date; then run ls /")
    later = Program(bubblewrap.home, {**bubblewrap.env, "TZ": "UTC-24"})  # where it is tomorrow
    assert later.run("replay", "t1").stdout == "The same: 4 requests, 3 tool calls.\n"
    (bubblewrap.home / "prompts").mkdir()
    (bubblewrap.home / "prompts" / "identity.md").write_text("You are somebody else.\n")
    said = later.run("replay", "t1", code=1).stdout
    assert said.startswith("Request 1 differs: message 0 (system)\n")
    assert "+You are somebody else." in said


def test_a_fork_onto_another_model_does_nothing_new(bubblewrap: Program) -> None:
    recording = Program(bubblewrap.home, {**bubblewrap.env, "RUMI_RECORD__TURNS": "5"})
    recording.run("chat", "-p", "write a.txt: x; then run cat a.txt; then run rm a.txt")
    said = recording.run("replay", "t1", "--from", "2", "--model", "offline").stdout
    assert '= bash {"command": "cat a.txt"' in said or "= bash" in said
    assert not (bubblewrap.home / "workspace" / "cli" / "a.txt").exists()


def test_a_report_is_shown_before_it_is_written(bubblewrap: Program, tmp_path: Path) -> None:
    recording = Program(bubblewrap.home, {**bubblewrap.env, "RUMI_RECORD__TURNS": "5"})
    recording.run("chat", "-p", "run echo one")
    target = tmp_path / "t1.zip"
    said = recording.run("report", "t1", "-o", str(target), text="n\n").stdout
    assert "1 tool calls" in said
    assert not target.exists()
    recording.run("report", "t1", "-o", str(target), "--yes")
    assert os.stat(target).st_mode & 0o777 == 0o600
