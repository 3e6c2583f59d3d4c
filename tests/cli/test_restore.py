"""`rumi data restore`: a backup is checked, then put in place as a whole, and what was there is kept."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from rumi.app.backup import BackupError, back_up
from rumi.app.restore import restorable
from rumi.platform.home import Home
from rumi.store.journal.store import Store
from rumi.store.sqlite import NewerSchema
from tests.cli.program import Program


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that nobody holds, with a mark of "old" in everything."""
    home = Home(tmp_path / "home").make()
    Store(home.state_db).close()
    (home.root / "config.toml").write_text("# old\n")
    (home.workspaces / "cli").mkdir()
    (home.workspaces / "cli" / "note").write_text("old")
    _mark(home, "old")
    return home


@pytest.fixture
def backup(home: Home, tmp_path: Path) -> Path:
    """A backup of the home as it was; since then the home has a mark of "new" in everything."""
    path = back_up(home, tmp_path / "b").path
    (home.root / "config.toml").write_text("# new\n")
    (home.root / ".env").write_text("GROQ_API_KEY=new\n")
    (home.root / "skills" / "tea").mkdir(parents=True)
    (home.workspaces / "cli" / "note").write_text("new")
    (home.workspaces / "tg1").mkdir()
    _mark(home, "new")
    return path


def _mark(home: Home, mark: str) -> None:
    with closing(sqlite3.connect(home.state_db)) as db, db:
        db.execute("DELETE FROM tainted_files")
        db.execute("INSERT INTO tainted_files (chat, since) VALUES (?, 1)", (mark,))


def _marks(folder: Path) -> tuple[str, ...]:
    """The marks of the database, the configuration and the chats' files."""
    with closing(sqlite3.connect(folder / "state.db")) as db:
        rows = db.execute("SELECT chat FROM tainted_files").fetchall()
    config = (folder / "config.toml").read_text()
    return str(rows[0][0]), config.strip("# \n"), (folder / "workspace" / "cli" / "note").read_text()


def _restore(home: Home, path: Path, *, files: bool = True) -> None:
    with home.lock("a test"), restorable(home, path, files=files) as ready:
        ready.commit()


def test_everything_is_as_in_the_backup_and_what_was_there_is_kept(home: Home, backup: Path) -> None:
    _restore(home, backup)
    assert _marks(home.root) == ("old", "old", "old")
    assert not (home.root / "skills").exists(), "the backup has none"
    assert not (home.workspaces / "tg1").exists()
    assert "new" in (home.root / ".env").read_text(), "the backup leaves keys as they are"
    kept = home.root / "before-restore"
    assert _marks(kept) == ("new", "new", "new")
    assert (kept / "skills" / "tea").is_dir()
    assert not (home.root / "restoring").exists()
    assert stat.S_IMODE(home.state_db.stat().st_mode) == 0o600


def test_what_was_replaced_can_be_restored_too(home: Home, backup: Path) -> None:
    _restore(home, backup)
    _restore(home, home.root / "before-restore")
    assert _marks(home.root) == ("new", "new", "new")
    assert _marks(home.root / "before-restore") == ("old", "old", "old")


def test_the_log_of_the_replaced_database_never_gets_into_the_restored_one(home: Home, backup: Path) -> None:
    with closing(sqlite3.connect(home.state_db)) as db:  # a killed process leaves its log behind
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("UPDATE tainted_files SET chat = 'latest'")
        db.commit()
        log = Path(f"{home.state_db}-wal").read_bytes()
    Path(f"{home.state_db}-wal").write_bytes(log)
    _restore(home, backup)
    assert _marks(home.root)[0] == "old"
    assert not Path(f"{home.state_db}-wal").exists()
    assert (home.root / "before-restore" / "state.db-wal").exists()


def test_a_home_that_is_held_is_not_touched(home: Home, backup: Path) -> None:
    program = Program(home.root)
    with home.lock("rumi telegram"):
        said = program.run("restore", "--yes", str(backup), code=2)
    assert "held by rumi telegram" in said.stderr
    assert _marks(home.root) == ("new", "new", "new")


def test_a_damaged_a_foreign_and_a_newer_database_are_refused(home: Home, backup: Path) -> None:
    content = (backup / "state.db").read_bytes()
    (backup / "state.db").write_bytes(content[:5000] + b"x" * 20_000)
    with pytest.raises(BackupError, match=r"state\.db .*another backup"):
        _restore(home, backup)
    (backup / "state.db").unlink()
    with closing(sqlite3.connect(backup / "state.db")) as db:
        db.execute("CREATE TABLE recipes (tea)")
    with pytest.raises(BackupError, match="not a database of Rumi's"):
        _restore(home, backup)
    (backup / "state.db").write_bytes(content)
    with closing(sqlite3.connect(backup / "state.db")) as db:
        db.execute("PRAGMA user_version = 999")
    with pytest.raises(NewerSchema):
        _restore(home, backup)
    assert _marks(home.root) == ("new", "new", "new")
    assert not (home.root / "restoring").exists()


def test_what_is_no_backup_is_one_sentence_with_exit_code_2(home: Home, backup: Path) -> None:
    program = Program(home.root)
    (backup.parent / "empty").mkdir()
    linked = back_up(home, backup.parent / "linked").path
    (linked / "config.toml").unlink()
    (linked / "config.toml").symlink_to("/etc/passwd")
    for path, says in (
        (backup.parent / "none", "not a folder"),
        (backup.parent / "empty", "no database"),
        (home.root, "holds the home itself"),
        (home.workspaces, "inside of the home"),
        (linked, "not what a backup has"),
    ):
        said = program.run("restore", "--yes", str(path), code=2)
        assert says in said.stderr
        assert len(said.stderr.splitlines()) == 1
    assert _marks(home.root) == ("new", "new", "new")


def test_nothing_is_replaced_without_a_yes(home: Home, backup: Path) -> None:
    program = Program(home.root)
    said = program.run("restore", str(backup), code=2)
    assert "It replaces in" in said.stdout
    assert "--yes" in said.stderr
    assert _marks(home.root) == ("new", "new", "new")
    assert not (home.root / "restoring").exists()
    said = program.run("restore", "--yes", str(backup))
    assert "before-restore" in said.stdout
    assert _marks(home.root) == ("old", "old", "old")


def test_without_files_the_chats_files_stay(home: Home, backup: Path) -> None:
    _restore(home, backup, files=False)
    assert _marks(home.root) == ("old", "old", "new")


def test_files_keep_their_modes_and_for_root_their_owners(home: Home, tmp_path: Path) -> None:
    note = home.workspaces / "cli" / "note"
    note.chmod(0o700)
    if os.geteuid() == 0:
        for path in (note, note.parent):
            os.chown(path, 70_001, 70_002)
    path = back_up(home, tmp_path / "b").path
    note.unlink()
    _restore(home, path)
    assert stat.S_IMODE(note.stat().st_mode) == 0o700
    assert stat.S_IMODE(note.parent.stat().st_mode) == 0o700
    if os.geteuid() == 0:
        assert [(p.stat().st_uid, p.stat().st_gid) for p in (note, note.parent)] == [(70_001, 70_002)] * 2


@pytest.mark.long
def test_a_kill_at_any_step_leaves_the_home_as_it_was_or_as_in_the_backup(home: Home, backup: Path) -> None:
    """Each change of a name may be the last thing that the process does; the next holder does the rest."""
    seen = []
    for step in range(100):
        if (child := os.fork()) == 0:
            _die_before(step, home.root)
            _restore(home, backup)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with home.lock("another test"):
            pass
        seen.append(_marks(home.root))
        assert set(seen) <= {("new", "new", "new"), ("old", "old", "old")}
        if seen[-1] == ("old", "old", "old"):
            kept = home.restoring.replaced
            assert _marks(kept) == ("new", "new", "new")
            _restore(home, kept)
            assert _marks(home.root) == ("new", "new", "new")
        if code == 0:
            break
    assert len(seen) > 10
    assert seen[0] != seen[-1]
    assert not home.restoring.staging.exists()


def _die_before(step: int, root: Path) -> None:
    """End this process at its `step`-th change of a name below the folder."""
    left = iter(range(step))

    def dying(name: str) -> None:
        real = getattr(os, name)

        def call(path: object, *given: object, **named: object) -> object:
            own = "restoring" in str(path) or str(path).startswith(str(root))
            if own and next(left, None) is None:
                os._exit(9)
            return real(path, *given, **named)

        setattr(os, name, call)

    for name in ("rename", "replace", "unlink", "rmdir"):
        dying(name)
