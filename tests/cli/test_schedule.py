"""`rumi schedule`: on the files of a home that no process holds, and asked of one that runs."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.cli.extracting_model import facts
from tests.cli.program import Program
from tests.cli.telegram_world import World
from tests.cli.test_attach import running_chat
from tests.cli.test_chat import wait_for
from tests.cli.test_telegram_confirm import page
from tests.fakes.groq_replies import Answer, Behaviour, Body, answered_calls, last_user_text


def test_a_schedule_is_stored_without_a_process_and_the_command_warns(bubblewrap: Program) -> None:
    done = bubblewrap.run("schedule", "add", "tomorrow 09:00", "call the dentist", "--zone", "Europe/Madrid")
    assert done.stdout.startswith("⏰ Reminder 1: ")
    assert ", 09:00, Europe/Madrid" in done.stdout
    assert done.stderr == "Nothing fires until Rumi runs: rumi serve\n"
    added = bubblewrap.run("schedule", "add", "every monday 08:00", "the week", "--turn", "--json")
    assert (json.loads(added.stdout)["cron"], json.loads(added.stdout)["kind"]) == ("0 8 * * 1", "turn")
    listed = json.loads(bubblewrap.run("schedule", "list", "--json").stdout)
    assert [schedule["id"] for schedule in listed] == [1, 2]
    assert bubblewrap.run("schedule", "pause", "2").stdout == "⏸ Schedule 2 is paused.\n"
    assert "turn · paused" in bubblewrap.run("schedule", "show", "2").stdout
    resumed = bubblewrap.run("schedule", "resume", "2").stdout
    assert resumed.startswith("▶ Schedule 2 is resumed: every Monday")
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


@pytest.mark.long
def test_a_typed_yes_allows_what_a_scheduled_turn_has_left_undone(bubblewrap: Program) -> None:
    """In a pipe and by `-p`: the page's words wait for a yes, and for each of the two numbers its own."""

    def thinks(body: Body) -> Behaviour:
        text, done = last_user_text(body), answered_calls(body)
        steps = [("remember", json.dumps({"key": key, "value": "Eve"})) for key in ("boss", "friend")]
        if "<answers>" in text:
            steps = [step for step in steps if step[1] in text]
        else:
            steps = [("web_fetch", json.dumps({"url": text.split()[-1]})), *steps]
        return Answer(calls=[steps[len(done)]]) if len(done) < len(steps) else Answer("I did it.")

    with page() as host, World() as world:
        world.do(setattr, world.groq, "_choose", thinks)
        bubblewrap.env |= {
            "GROQ_API_KEY": world.groq.key or "",
            "GROQ_BASE_URL": world.groq.base_url,
            "RUMI_MEMORY__EXTRACT": "false",
            "RUMI_FETCH__ALLOW": json.dumps([host]),
        }
        with running_chat(bubblewrap):
            bubblewrap.run("schedule", "add", "in 2 hours", f"read http://{host}/", "--turn")
            bubblewrap.run("schedule", "run", "1")
            state = bubblewrap.home / "state.db"

            def asked() -> int:
                with closing(sqlite3.connect(state)) as db:
                    return int(db.execute("SELECT count(*) FROM parked WHERE asked").fetchone()[0])

            wait_for(lambda: asked() == 2)
            assert facts(bubblewrap.home) == []
            piped = bubblewrap.run("chat", text="/yes 2\n/yes 2\n")
            assert "I did it." in piped.stdout
            assert "This question has its answer already: 2." in piped.stdout
            assert [key for _, key, _ in facts(bubblewrap.home)] == ["friend"]
            assert bubblewrap.run("chat", "-p", "/yes 1").stdout == "I did it.\n"
            assert [key for _, key, _ in facts(bubblewrap.home)] == ["friend", "boss"]
            assert bubblewrap.run("chat", "-p", "/no").stdout == "Nothing waits for your yes.\n"
