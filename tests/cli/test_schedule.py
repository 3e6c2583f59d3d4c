"""`rumi schedule`: on the files of a home that no process holds, and asked of one that runs."""

import json

from tests.cli.program import Program


def test_a_schedule_is_stored_without_a_process_and_the_command_warns(bubblewrap: Program) -> None:
    done = bubblewrap.run("schedule", "add", "tomorrow 09:00", "call the dentist", "--zone", "Europe/Madrid")
    assert done.stdout.startswith("⏰ Reminder 1: ")
    assert ", 09:00, Europe/Madrid" in done.stdout
    assert done.stderr == "Nothing fires until a Rumi runs: rumi serve\n"
    added = bubblewrap.run("schedule", "add", "every monday 08:00", "the week", "--turn", "--json")
    assert (json.loads(added.stdout)["cron"], json.loads(added.stdout)["kind"]) == ("0 8 * * 1", "turn")
    listed = json.loads(bubblewrap.run("schedule", "list", "--json").stdout)
    assert [each["id"] for each in listed] == [1, 2]
    assert bubblewrap.run("schedule", "pause", "2").stdout == "⏸ Schedule 2 is paused.\n"
    assert "turn · paused" in bubblewrap.run("schedule", "show", "2").stdout
    assert bubblewrap.run("schedule", "resume", "2").stdout.startswith("▶ Schedule 2 goes on: every Monday")
    bubblewrap.run("schedule", "run", "2", code=1)
    assert bubblewrap.run("schedule", "delete", "2").stdout == "🗑 Schedule 2 is deleted.\n"
    unknown = bubblewrap.run("schedule", "show", "2", code=2)
    assert unknown.stderr == "rumi: Unknown schedule 2. Look at the list of schedules.\n"


def test_a_wrong_schedule_says_what_is_wrong(bubblewrap: Program) -> None:
    for words, said in (
        (("someday", "x"), "This time is not understood."),
        (("in 5 minutes", " "), "The text is empty."),
        (("in 5 minutes", "x", "--bot", "b"), "Unknown bot 'b'."),
        (("in 5 minutes", "x", "--turn", "--research"), "A schedule does one thing."),
        (("tomorrow 09:00", "x", "--zone", "Nowhere"), "Unknown time zone Nowhere."),
        (("2020-01-01 09:00", "x"), "This time is over."),
    ):
        assert said in bubblewrap.run("schedule", "add", *words, code=2).stderr
