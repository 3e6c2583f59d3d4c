"""`rumi data copy`: all rows there and back, also after a kill, and never over what is there."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rumi.cli.group import group
from rumi.errors import RumiError, UsageError
from rumi.memory.messages import NewFact
from rumi.memory.rows import remember_fact
from rumi.memory.store import MemoryStore as MemoryStore
from rumi.platform.home import Home
from rumi.store.backend import PostgresServer
from rumi.store.journal.leases import join_cluster
from rumi.store.journal.schema import ON_A_SERVER
from rumi.store.journal.store import Store
from rumi.store.ownership import Ownership
from tests.postgres import Server
from tests.store.filled import MANY, TABLES, fill, rows_of_files


@pytest.fixture
def url(postgres: Server) -> Iterator[str]:
    made = postgres.new_database()
    yield made
    postgres.drop(made)


def rumi(home: Path, *words: str, **environment: str) -> tuple[int, str, str]:
    """Run the command in this process; return its exit code, its output, and its error."""
    done = CliRunner().invoke(group, ["data", *words], env=around(home, **environment))
    if isinstance(done.exception, RumiError):
        code = 2 if isinstance(done.exception, UsageError) else 1
        return code, done.output, f"{done.exception.message} {done.exception.advice}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output, ""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "rumi", "store", *words]


def around(home: Path, **environment: str) -> dict[str, str]:
    return {**os.environ, "RUMI_HOME": str(home), "RUMI_LANGUAGE": "en", **environment}


def copied(home: Path, *words: str, **environment: str) -> Any:
    code, out, err = rumi(home, "copy", *words, "--json", **environment)
    assert code == 0, err
    return json.loads(out)


def move_away(home: Path) -> None:
    for file in ("state.db", "memory.db"):
        (home / file).rename(home / f"{file}.away")


def test_every_table_is_copied_to_a_server_and_back_row_by_row(tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    fill(home)
    before = rows_of_files(home)
    assert {name for name in before if name != "numbers"} == {
        t.name for tables in TABLES.values() for t in tables
    }
    assert all(len(rows) >= MANY - 2 for name, rows in before.items() if name != "numbers")
    done = copied(home, "--to", url)
    assert done["complete"]
    assert done["written"] == sum(table["rows"] for table in done["tables"])
    move_away(home)
    back = copied(home, "--to", "home", RUMI_STORE__URL=url)
    assert [table["digest"] for table in back["tables"]] == [table["digest"] for table in done["tables"]]
    assert rows_of_files(home) == before
    assert not list(home.glob("*.copy*"))
    assert not (home / "store-copy.json").exists()


def test_new_rows_are_numbered_on_behind_all_that_were_ever_there(tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    fill(home)
    copied(home, "--to", url)
    store = Store(PostgresServer(url, ON_A_SERVER), ownership=Ownership("w"))
    db = store._db
    (reply,) = db.execute(
        "INSERT INTO outbox (chat, text, created) VALUES ('', '', 0) RETURNING id"
    ).fetchone()
    (message,) = db.execute(
        "INSERT INTO messages (chat, text, received) VALUES ('', '', 0) RETURNING id"
    ).fetchone()
    store.close()
    assert (reply, message) == (MANY + 1, MANY + 1)


def test_a_copy_of_a_home_in_use_is_completed_once_nobody_uses_it(tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    fill(home, 40)
    with Home(home).lock("rumi serve"):
        code, out, err = rumi(home, "copy", "--to", url)
        assert (code, err) == (1, "")
        assert "is held by rumi serve" in out
        assert "run this command once more" in out
        with pytest.raises(Exception, match="not complete"):
            Store(PostgresServer(url, ON_A_SERVER), ownership=Ownership("w"))
    memory = MemoryStore(home / "memory.db")
    memory.do(remember_fact("local", NewFact("city", "Lima")))
    memory.close()
    done = copied(home, "--to", url)
    assert done["complete"]
    assert 0 < done["written"] <= 40, "only the slice that has changed is written again"


def test_a_target_with_content_is_refused_and_stays_as_it_is(tmp_path: Path, url: str) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    fill(home, 5)
    fill(other, 3)
    copied(home, "--to", url)
    for source in (home, other):
        code, _, err = rumi(source, "copy", "--to", url)
        assert code == 1
        assert "not empty" in err
    before = rows_of_files(other)
    code, _, err = rumi(other, "copy", "--from", url, "--to", "home")
    assert code == 1
    assert "not empty" in err
    assert rows_of_files(other) == before


def test_a_newer_schema_is_refused_on_both_sides(tmp_path: Path, url: str, postgres: Server) -> None:
    home = tmp_path / "home"
    fill(home, 3)
    PostgresServer(url, ON_A_SERVER).open("memory", _memory()).close()
    db = PostgresServer(url).server
    from rumi.store.postgres import Postgres

    connection = Postgres(db)
    connection.execute("UPDATE schema_versions SET version = 99")
    connection.close()
    code, _, err = rumi(home, "copy", "--to", url)
    assert code != 0
    assert "made by a newer Rumi" in err


def _memory() -> Any:
    from rumi.memory.schema import MEMORY

    return MEMORY


def test_workers_that_run_keep_a_copy_from_being_completed(tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    fill(home, 5)
    copied(home, "--to", url)
    move_away(home)
    store = Store(PostgresServer(url, ON_A_SERVER), now=None, ownership=Ownership("w1"))
    store.run([join_cluster("w1", "1", "", 60.0)])
    code, out, _ = rumi(home, "copy", "--from", url, "--to", "home")
    assert code == 1
    assert "1 workers use the database" in out
    assert not (home / "state.db").exists()
    code, out, _ = rumi(home, "show", "--json", RUMI_STORE__URL=url)
    shown = json.loads(out)
    assert (code, [worker["name"] for worker in shown["workers"]]) == (0, ["w1"])
    assert set(shown["schemas"]) == {"state", "memory"}
    assert shown["bytes"] > 0
    store.close()


@pytest.mark.long
def test_a_copy_that_is_killed_at_any_moment_goes_on(tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    fill(home)
    before = rows_of_files(home)
    killed, done = _killed(home, "copy", "--to", url)
    assert done or copied(home, "--to", url)["complete"]
    move_away(home)
    again, done = _killed(home, "copy", "--from", url, "--to", "home")
    assert done or copied(home, "--from", url, "--to", "home")["complete"]
    assert killed + again >= 2
    assert rows_of_files(home) == before


def _killed(home: Path, *words: str) -> tuple[int, bool]:
    """Kill the command at later and later moments; return how often, and whether it was faster at last."""
    killed = 0
    for after in (0.3, 0.4, 0.5, 0.6):
        process = subprocess.Popen(
            command(*words), env=around(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        if (code := process.wait()) != -signal.SIGKILL:
            assert code == 0
            return killed, True
        killed += 1
    return killed, False


def test_a_password_in_the_url_and_a_server_that_is_not_there_are_said_plainly(tmp_path: Path) -> None:
    home = tmp_path / "home"
    fill(home, 1)
    code, _, err = rumi(home, "copy", "--to", "postgresql://me:secret@127.0.0.1:1/x")
    assert code == 2
    assert "STORE_PASSWORD" in err
    assert "secret" not in err
    code, _, err = rumi(home, "copy", "--to", "postgresql://me@127.0.0.1:1/x")
    assert code != 0
    assert "does not answer" in err
    code, _, err = rumi(home, "show", RUMI_STORE__URL="postgresql://me:secret@127.0.0.1:1/x")
    assert code == 2
    assert "STORE_PASSWORD" in err
    assert "secret" not in err
