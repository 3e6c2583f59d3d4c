"""`rumi chats stop` where nothing runs, and the exit code for names that are unknown."""

import sqlite3
from contextlib import closing

import pytest

from tests.cli.program import Program
from tests.cli.test_chat import wait_for

pytestmark = pytest.mark.bubblewrap


@pytest.mark.parametrize("runs", [False, True])
def test_an_unknown_chat_is_not_stopped_and_not_made(bubblewrap: Program, runs: bool) -> None:
    window = bubblewrap.start("chat") if runs else None
    try:
        if runs:
            wait_for(lambda: bubblewrap.run("status", "--json", code=None).returncode == 0)
        refused = bubblewrap.run("stop", "TYPO", code=2)
        assert refused.stderr == "rumi: Unknown chat TYPO. Check its name: rumi chats list shows the chats.\n"
        assert "TYPO" not in bubblewrap.run("chats", "list").stdout
        assert bubblewrap.run("stop", "cli").stdout == "Nothing is running.\n"
    finally:
        if window is not None:
            window.kill()
            window.communicate()


def test_stopping_all_without_a_process_pauses_schedules_and_stops_tasks(bubblewrap: Program) -> None:
    bubblewrap.run("schedule", "add", "tomorrow 09:00", "call the dentist", "--zone", "UTC")
    bubblewrap.end()
    wait_for(lambda: not bubblewrap.run("chats", "stop", "cli").stderr)
    with closing(sqlite3.connect(bubblewrap.home / "state.db")) as db, db:
        db.execute(
            "INSERT INTO tasks (kind, owner, question, chat, options, language, model, state, created,"
            " attached) VALUES ('web', 'local', 'why?', 'cli', '{}', 'en', '', 'queued', 1, 0)"
        )
    assert bubblewrap.run("stop", "--all").stdout == (
        "Nothing is running.\n"
        "Stopped 1 task: the next start does not resume it.\n"
        "Paused 1 schedule; /schedules lists and resumes them.\n"
    )
    assert " paused " in bubblewrap.run("schedule", "list").stdout
    assert " stopping " in bubblewrap.run("tasks", "list").stdout
    assert (
        bubblewrap.run("stop", "--all").stdout
        == "Nothing is running.\nStopped 1 task: the next start does not resume it.\n"
    )


UNKNOWN = (
    *("stop nochat", "reset nochat", "undo nochat", "chats show nochat", "chats export nochat"),
    *("chats delete nochat --yes", "chats search x --chat nochat", "tasks show 99", "tasks stop 99"),
    *("tasks delete 99", "schedule show 99", "schedule pause 99", "schedule resume 99", "schedule run 99"),
    *("schedule delete 99", "skills info none", "skills enable none", "skills disable none"),
    *("skills trust none", "bot show none", "bot run none -p x", "bot stop none", "bot history none"),
    *("bot wake none", "bot diff none", "bot apply none", "bot delete none", "mcp test none"),
    *("mcp remove none", "people remove none", "replay t99", "report t99", "models test none"),
    *("chat --model none -p x", "chat --model custom:none -p x", "config set none.key 1", "none"),
)


@pytest.mark.long
def test_an_unknown_name_is_wrong_usage_in_every_command(bubblewrap: Program) -> None:
    codes = {words: bubblewrap.run(*words.split(), code=None).returncode for words in UNKNOWN}
    assert {words: code for words, code in codes.items() if code != 2} == {}
