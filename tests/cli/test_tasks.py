"""`rumi tasks` in a home that no process holds: what is stored is shown, in the reader's language."""

import json
from pathlib import Path

import pytest
import trio

from rumi.platform.home import Home
from rumi.store.journal.actor import open_journal
from rumi.store.journal.records import TaskRecord
from rumi.store.journal.tasks import add_task, begin_task, end_task
from rumi.tasks.research.sources import Sources
from tests.cli.program import Program


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with a task that has ended, and one that has not."""
    home = Home(tmp_path / "home").make()

    async def store() -> None:
        async with open_journal(home.state_db) as ask:
            await ask(add_task(TaskRecord("web", "local", "Why is it\x1b[2J blue?")))
            await ask(end_task(1, "succeeded", "Because. [1]"))
            await ask(add_task(TaskRecord("repo", "tg7", "Who?", "tg7")))
            await ask(begin_task(2))
        sources = await Sources.open(home.tasks / "1")
        await sources.add("page", "https://a.example/", "A", "It is so.")

    trio.run(store)
    return home


@pytest.mark.long
def test_stored_tasks_are_listed_and_shown(home: Home) -> None:
    program = Program(home.root)
    first, second = program.run("tasks").stdout.splitlines()
    assert first.split()[:3] == ["2", "repo", "running"]
    assert second.split()[:3] == ["1", "web", "succeeded"]
    assert "\x1b" not in second
    assert program.run("tasks", "show", "1").stdout.endswith("Because. [1]\n")
    assert program.run("tasks", "show", "1", "--source", "1").stdout == "It is so.\n"
    shown = json.loads(program.run("tasks", "show", "1", "--json").stdout)
    assert (shown["state"], shown["answer"]) == ("succeeded", "Because. [1]")
    program.env["LANG"] = "es_AR.UTF-8"
    assert "terminada" in program.run("tasks", "list").stdout


def test_a_task_that_has_ended_is_deleted_and_no_other(home: Home) -> None:
    program = Program(home.root)
    assert "Task 2 has not ended." in program.run("tasks", "delete", "2", code=2).stderr
    (home.workspaces / "task.1").mkdir()
    program.run("tasks", "delete", "1")
    assert not (home.workspaces / "task.1").exists()
    assert not (home.tasks / "1").exists()
    assert "Unknown task 1." in program.run("tasks", "show", "1", code=2).stderr
    assert "Task 1 has no sources." in program.run("tasks", "show", "1", "--source", "1", code=2).stderr


def test_a_stop_says_why_nothing_is_stopped(home: Home) -> None:
    program = Program(home.root)
    assert "Task 1 has ended already." in program.run("tasks", "stop", "1", code=2).stderr
    assert "No Rumi runs, so no task runs." in program.run("tasks", "stop", "2", code=1).stderr
    assert "Unknown task 3." in program.run("tasks", "stop", "3", code=2).stderr
