"""Windows and commands on chats of other workers: real processes on a real database."""

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.store.cluster.homes import Database, Worker, workers

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Two:
    """Two workers; the other one has no address."""

    reached: Worker
    other: Worker
    database: Database


@pytest.fixture(scope="module")
def two(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("workers")
    with workers(folder, postgres.new_database(), 2, unreached=1) as ((reached, other), database):
        yield Two(reached, other, database)


def until_working(database: Database, chat: str) -> None:
    """Wait until a turn in the chat has stored its first call: after a kill it asks, and does not go on."""
    until = time.monotonic() + 30
    called = f"SELECT 1 FROM history WHERE chat = '{chat}' AND strpos(message, '\"assistant\"') > 0"
    while not database.rows(called):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_window_shows_the_turn_of_another_workers_chat(two: Two) -> None:
    done = two.other.run("chat", "--chat", two.database.chat_of(two.reached), "-p", "$ echo from afar")
    assert done.returncode == 0, done.stderr
    assert "from afar" in done.stdout
    assert "$ echo from afar" in done.stderr, "the call was not shown as it ran"
    assert "cannot be reached" not in done.stderr


def test_a_stop_reaches_the_turn_of_another_workers_chat(two: Two) -> None:
    chat = two.database.chat_of(two.reached, "stopped")
    window = two.other.begin("chat", "--chat", chat, "-p", "$ sleep 25")
    until_working(two.database, chat)
    assert "Stopped" in two.other.run("stop", chat).stdout
    _, said = window.communicate(timeout=20)
    assert "Stopped" in said


def test_stop_all_stops_what_other_workers_do(two: Two) -> None:
    chat = two.database.chat_of(two.reached, "all")
    window = two.reached.begin("chat", "--chat", chat, "-p", "$ sleep 25")
    until_working(two.database, chat)
    said = two.other.run("stop", "--all").stdout
    window.communicate(timeout=20)
    assert "Stopped 0 turns" in said
    assert "Stopped 1 turn " in said


def test_stop_all_names_a_worker_that_is_not_reached(two: Two) -> None:
    said = two.reached.run("stop", "--all").stdout
    assert "Stopped 0 turns" in said
    assert "cannot be reached" in said


def test_a_window_on_a_worker_that_is_not_reached_gets_its_reply(two: Two) -> None:
    chat = two.database.chat_of(two.other)
    done = two.reached.run("chat", "--chat", chat, "-p", "$ echo out of the database")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("out of the database") == 1
    assert "cannot be reached from here" in done.stderr
    assert two.reached.run("stop", chat).stdout == "Nothing is running.\n"


def test_the_status_shows_all_workers_from_a_home_where_none_runs(two: Two, tmp_path: Path) -> None:
    idle = Worker(tmp_path / "idle", "postgresql://x@127.0.0.1/x")
    (idle.home / "config.toml").write_text((two.reached.home / "config.toml").read_text())
    found = json.loads(idle.run("status", "--all", "--json").stdout)
    workers = {worker["address"]: worker for worker in found["workers"]}
    assert workers.keys() == {two.reached.address, ""}
    assert sum(worker["partitions"] for worker in workers.values()) == 256
    assert all(0 <= worker["lag_s"] < 3 and 0 < worker["lease_left_s"] <= 3 for worker in workers.values())
    assert found["unserved"] == {"queued": 0, "undelivered": 0}
    assert two.reached.address in idle.run("status", "--all").stdout


def test_a_window_goes_on_when_its_worker_is_killed(two: Two) -> None:
    chat = two.database.chat_of(two.reached, "killed")
    window = two.other.begin("chat", "--chat", chat, "-p", "$ sleep 25")
    until_working(two.database, chat)
    two.reached.end(signal.SIGKILL)
    _, said = window.communicate(timeout=40)
    assert said.count("I was restarted while working on") == 1, said
    assert "Another worker takes over this chat" in said
    assert two.database.address_of(chat) != two.reached.address
