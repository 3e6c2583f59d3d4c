"""`rumi data backup`: a copy that can be put back, made while others write, that overwrites nothing."""

import json
import os
import shutil
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
import trio

import rumi.app.backup
from rumi.app.backup import BackupError, back_up
from rumi.app.restore import restorable
from rumi.cli.backup import WHAT
from rumi.errors import UsageError
from rumi.platform.atomic_write import atomic_write
from rumi.platform.home import Home
from rumi.store.journal.actor import open_journal
from rumi.store.journal.records import TaskRecord
from rumi.store.journal.store import Store
from rumi.store.journal.tasks import add_task, begin_task, end_task
from rumi.store.sqlite import DatabaseFault
from tests.cli.program import BOUND_S, Program


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that nobody holds, with something of everything."""
    home = Home(tmp_path / "home").make()
    Store(home.state_db).close()
    (home.root / "config.toml").write_text("[agent]\nmax_turns = 7\n")
    (home.root / ".env").write_text("GROQ_API_KEY=gsk_secret\n")
    (home.root / "skills/tea").mkdir(parents=True)
    (home.root / "skills/tea/SKILL.md").write_text("---\nname: tea\ndescription: makes tea\n---\nBoil it.\n")
    (home.workspaces / "cli").mkdir()
    return home


def test_each_part_of_a_backup_has_words() -> None:
    parts = {
        *rumi.app.backup.DATABASES,
        *rumi.app.backup.FILES,
        *rumi.app.backup.FOLDERS,
        rumi.app.backup.KEYS,
    }
    assert set(WHAT) == parts


def put_back(copy: Path, folder: Path) -> None:
    """Restore the copy as a new home."""
    home = Home(folder).make()
    with home.lock("a test"), restorable(home, copy) as ready:
        ready.commit()


@pytest.mark.long
@pytest.mark.bubblewrap
def test_a_backup_of_a_running_rumi_that_is_put_back_has_the_conversation_and_the_facts(
    bubblewrap: Program, tmp_path: Path
) -> None:
    chat = bubblewrap.start("chat")
    assert chat.stdin is not None
    assert chat.stdout is not None
    try:
        chat.stdin.write("remember colour = green\nrun echo hello\n")
        chat.stdin.flush()
        while "hello" not in chat.stdout.readline():
            pass
        said = bubblewrap.run("backup", str(tmp_path / "b")).stdout
    finally:
        chat.stdin.close()
        assert chat.wait(BOUND_S) == 0
        chat.stdout.close()
        assert chat.stderr is not None
        chat.stderr.close()
    assert f"{tmp_path}/b" in said
    assert "memory.db" in said
    again = Program(tmp_path / "again", bubblewrap.env)
    assert "Restored" in again.run("restore", str(tmp_path / "b")).stdout
    facts = json.loads(again.run("memory", "list", "--json").stdout)
    assert [(fact["key"], fact["value"]) for fact in facts] == [("colour", "green")]
    assert "run echo hello" in str(_rows(tmp_path / "again/state.db", "SELECT message FROM history"))
    assert {path.name for path in (tmp_path / "again").iterdir()} >= {"state.db", "memory.db"}


def test_it_holds_what_cannot_be_made_again_for_its_owner_alone(home: Home, tmp_path: Path) -> None:
    made = back_up(home, tmp_path / "b")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700
    assert [name for name, _ in made.entries] == ["state.db", "config.toml", "skills", "workspace"]
    put_back(made.path, tmp_path / "again")
    assert (tmp_path / "again/config.toml").read_text() == "[agent]\nmax_turns = 7\n"
    assert (tmp_path / "again/skills/tea/SKILL.md").read_text().endswith("Boil it.\n")
    assert stat.S_IMODE((tmp_path / "again/state.db").stat().st_mode) == 0o600
    assert not (tmp_path / "again/.env").exists()
    assert stat.S_IMODE((tmp_path / "again/skills/tea").stat().st_mode) == 0o700
    assert (back_up(home, tmp_path / "keys", keys=True).path / ".env").exists()


async def _begin_task(home: Home) -> None:
    async with open_journal(home.state_db) as ask:
        await ask(add_task(TaskRecord("web", "local", "Why?")))
        await ask(begin_task(1))


async def _end_task(home: Home) -> None:
    async with open_journal(home.state_db) as ask:
        await ask(end_task(1, "succeeded", "Because."))


def test_sources_and_prompts_are_in_it_and_clones_are_not(home: Home, tmp_path: Path) -> None:
    for name in ("prompts/identity.md", "tasks/7/1.json", "cache/repositories/a/pack"):
        (home.root / name).parent.mkdir(parents=True)
        (home.root / name).write_text(name)
    trio.run(_begin_task, home)
    said = Program(home.root).run("backup", str(tmp_path / "b"), "--without-files").stdout
    assert "what tasks have read" in said
    assert {path.name for path in (tmp_path / "b").iterdir()} == {
        *("state.db", "config.toml", "skills", "prompts", "tasks")
    }
    (home.tasks / "7/1.json").write_text("another task's, of the same number")
    (home.tasks / "8").mkdir()
    trio.run(_end_task, home)
    Program(home.root).run("tasks", "delete", "1")
    Program(home.root).run("restore", str(tmp_path / "b"), "--yes")
    assert "running" in Program(home.root).run("tasks", "list").stdout
    assert (home.root / "prompts/identity.md").read_text() == "prompts/identity.md"
    assert [path.name for path in home.tasks.rglob("*")] == ["7", "1.json"]
    assert (home.tasks / "7/1.json").read_text() == "tasks/7/1.json"
    assert (home.root / "before-restore/tasks/8").is_dir()


def test_sources_that_come_and_go_meanwhile_do_not_break_it(home: Home, tmp_path: Path) -> None:
    enough = threading.Event()

    def research() -> None:
        number = 0
        while not enough.is_set():
            number += 1
            folder = home.tasks / str(number % 5)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for source in range(20):
                atomic_write(folder / f"{source}.json", b"{}")

    home.tasks.mkdir()
    at_work = threading.Thread(target=research)
    at_work.start()
    try:
        made = [back_up(home, tmp_path / f"copy-{number}") for number in range(20)]
    finally:
        enough.set()
        at_work.join()
    found = [path for backup in made for path in (backup.path / "tasks").rglob("[0-9]*.json")]
    assert found
    assert {path.read_bytes() for path in found} == {b"{}"}


def test_it_is_of_one_moment_while_another_writes(home: Home, tmp_path: Path) -> None:
    """Two tables that are always written together are equal in each copy."""
    db = sqlite3.connect(home.state_db, isolation_level=None, check_same_thread=False)
    db.execute("CREATE TABLE one (n INTEGER, filler TEXT)")
    db.execute("CREATE TABLE two (n INTEGER, filler TEXT)")
    enough = threading.Event()

    def write() -> None:
        number = 0
        while not enough.is_set():
            number += 1
            db.execute("BEGIN")
            for table in ("one", "two"):
                db.execute(f"INSERT INTO {table} VALUES (?, ?)", (number, "x" * 3000))
            db.execute("COMMIT")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        counts = []
        for number in range(5):
            put_back(back_up(home, tmp_path / f"copy-{number}").path, tmp_path / str(number))
            (row,) = _rows(
                tmp_path / str(number) / "state.db",
                "SELECT (SELECT count(*) FROM one), (SELECT count(*) FROM two)",
            )
            assert row[0] == row[1]
            counts.append(row[0])
    finally:
        enough.set()
        writer.join()
        db.close()
    assert counts == sorted(counts)
    assert counts[-1] > counts[0], "it was written to meanwhile"


def test_nothing_is_overwritten_and_a_folder_gets_a_new_one(home: Home, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(UsageError, match="overwrites nothing"):
        back_up(home, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"
    (tmp_path / "backups").mkdir()
    made = back_up(home, tmp_path / "backups")
    assert list((tmp_path / "backups").iterdir()) == [made.path]
    assert made.path.name.startswith("rumi-20")
    with pytest.raises(UsageError, match="cannot be written"):
        back_up(home, tmp_path / "no" / "folder" / "b")


def test_what_cannot_be_its_place_is_one_sentence_with_exit_code_2(home: Home, tmp_path: Path) -> None:
    program = Program(home.root)
    (tmp_path / "mine").symlink_to(tmp_path / "nowhere")
    (tmp_path / "inside").symlink_to(home.root)
    for path, says in (
        (home.state_db, "overwrites nothing"),
        (tmp_path / "mine", "overwrites nothing"),
        (home.root / "b", "lost with it"),
        (tmp_path / "inside", "lost with it"),
        (Path("/proc/b"), "cannot be written"),
    ):
        said = program.run("backup", str(path), code=2)
        assert says in said.stderr
        assert len(said.stderr.splitlines()) == 1
    assert not [path for path in home.root.iterdir() if path.name in ("b", ".rumi-backup")]


def test_a_damaged_database_or_no_room_leaves_no_backup(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "backups").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("rumi.store.sqlite.SPARE_BYTES", 1 << 60)
        with pytest.raises(DatabaseFault, match="Make room"):
            back_up(home, tmp_path / "backups")
    home.memory_db.write_bytes(b"no database at all" * 1000)
    with pytest.raises(BackupError, match=r"memory\.db cannot be copied.*rumi doctor"):
        back_up(home, tmp_path / "backups")
    assert list((tmp_path / "backups").iterdir()) == []
    with pytest.raises(BackupError, match="nothing"):
        back_up(Home(tmp_path / "backups"), tmp_path / "b")


def _rows(path: Path, query: str) -> list[tuple[int, ...]]:
    db = sqlite3.connect(path)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def test_the_chats_files_are_in_it_as_they_are_and_nothing_is_followed(home: Home, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not yours")
    files = home.workspaces / "cli"
    (files / "deep" / "er").mkdir(parents=True)
    (files / "deep" / "er" / "note.txt").write_text("hello")
    (files / "deep" / "er" / "note.txt").chmod(0o4755)
    (files / "out").symlink_to(tmp_path / "secret")
    (files / "folder").symlink_to(tmp_path)
    os.mkfifo(files / "pipe")
    os.mkfifo(home.workspaces / "pipe")
    (files / b"not\xffutf8".decode("utf-8", "surrogateescape")).write_text("name")
    os.link(files / "deep" / "er" / "note.txt", files / "same")
    with open(files / "sparse", "wb") as sparse:
        sparse.truncate(1 << 40)
        sparse.seek(1 << 30)
        sparse.write(b"x")
    nested = files
    for _ in range(300):
        nested = nested / "n"
        os.mkdir(nested)
    made = back_up(home, tmp_path / "b")
    assert made.left_out == 3, "two pipes, and the folders below the 256th"
    copy = made.path / "workspace" / "cli"
    assert (copy / "deep" / "er" / "note.txt").read_text() == "hello"
    assert stat.S_IMODE((copy / "deep" / "er" / "note.txt").stat().st_mode) == 0o700
    assert (copy / "same").stat().st_ino == (copy / "deep" / "er" / "note.txt").stat().st_ino
    assert os.readlink(copy / "out") == str(tmp_path / "secret")
    assert os.readlink(copy / "folder") == str(tmp_path)
    assert not (copy / "pipe").exists()
    assert (copy / "sparse").stat().st_size == 1 << 40
    assert (copy / "sparse").stat().st_blocks * 512 < 1 << 20
    assert "not yours" not in str(
        [path.read_bytes() for path in (copy / "deep").rglob("*") if path.is_file()]
    )
    again = back_up(home, tmp_path / "c").path / "workspace"
    assert _listed(again) == _listed(made.path / "workspace")


def test_a_folder_that_is_swapped_for_a_link_leads_a_backup_nowhere(home: Home, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("not yours")
    folder, spare = home.workspaces / "cli" / "a", home.workspaces / "cli" / "b"
    folder.mkdir()
    (folder / "secret").write_text("mine")
    enough = threading.Event()

    def swap() -> None:
        while not enough.is_set():
            folder.rename(spare)
            folder.symlink_to(tmp_path / "outside")
            folder.unlink()
            spare.rename(folder)

    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        for number in range(30):
            made = back_up(home, tmp_path / f"copy-{number}")
            for path in (made.path / "workspace").rglob("*"):
                assert path.is_symlink() or path.is_dir() or path.read_text() == "mine"
    finally:
        enough.set()
        swapping.join()


def test_a_second_backup_never_lies_in_the_first(home: Home, tmp_path: Path) -> None:
    first = back_up(home, tmp_path / "b").path
    before = _listed(first)
    for path in (first, first / "workspace", first / "workspace" / "new"):
        with pytest.raises(UsageError, match="is a backup or a home already"):
            back_up(home, path)
    assert _listed(first) == before


def test_without_files_the_chats_files_are_left_out_and_that_is_said(home: Home, tmp_path: Path) -> None:
    said = Program(home.root).run("backup", "--without-files", str(tmp_path / "b")).stdout
    assert "workspace/ is not in it" in said
    assert f"rumi data restore {tmp_path / 'b'}" in said
    assert not (tmp_path / "b" / "workspace").exists()


def _listed(folder: Path) -> list[tuple[str, int, int]]:
    found = sorted(folder.rglob("*"))
    return [(str(path.relative_to(folder)), (s := path.lstat()).st_mode, s.st_size) for path in found]


def test_holes_pipes_and_links_in_the_folders_of_others_stop_no_backup(home: Home, tmp_path: Path) -> None:
    folder = home.root / "mcp" / "notes"
    folder.mkdir(parents=True)
    (folder / "data").write_text("kept")
    for place in (folder, home.root / "skills/tea"):
        with open(place / "sparse", "wb") as file:
            file.truncate(1 << 40)
        os.mkfifo(place / "pipe")
        (place / "outside").symlink_to("/etc")
    made = back_up(home, tmp_path / "b")
    holds = dict(made.entries)
    assert holds["mcp"] < 1_000_000
    assert holds["skills"] < 1_000_000
    assert made.left_out == 2
    for copy in (made.path / "mcp/notes", made.path / "skills/tea"):
        assert (copy / "sparse").stat().st_size == 1 << 40
        assert os.readlink(copy / "outside") == "/etc"
    assert (made.path / "mcp/notes/data").read_text() == "kept"
    put_back(made.path, tmp_path / "again")
    assert (tmp_path / "again/skills/tea/sparse").stat().st_blocks == 0


def test_a_backup_that_counts_lengths_is_found(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted fault: holes count as if they were data."""
    monkeypatch.setattr(rumi.app.backup, "size_of_entry", lambda path: path.stat().st_size + (1 << 50))
    with pytest.raises(DatabaseFault):
        back_up(home, tmp_path / "b")
