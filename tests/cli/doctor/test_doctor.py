"""What the doctor finds on homes that are sound, and on homes where one thing is wrong."""

import os
import secrets
import sqlite3
import time
from email.utils import formatdate
from pathlib import Path

import pytest
import trio

from rumi.cli.doctor.check import Check, Examination
from rumi.cli.doctor.databases import databases
from rumi.cli.doctor.examining import examine
from rumi.cli.doctor.online import online
from rumi.cli.doctor.settings import settings
from rumi.platform.config.cascade import load_settings
from rumi.platform.home import Home, UnsafeHome
from rumi.sandbox.identity import sandbox_user
from rumi.store.journal.schema import STATE
from rumi.store.journal.store import Store
from tests.cli.doctor.doctoring import by_name, failures, sound_home
from tests.fakes.bot_api import TOKEN
from tests.fakes.groq_server import KEY, Answer, Plan, serve_groq
from tests.fakes.media_servers import NOT_FOUND, Piper, WhisperCpp, serving_media
from tests.fakes.telegram_server import serve_telegram
from tests.store.journal import earlier


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    return sound_home(tmp_path, monkeypatch)


@pytest.mark.bubblewrap
async def test_a_sound_home_has_no_failure_and_what_is_missing_is_a_warning(home: Home) -> None:
    checks = await examine(home)
    assert failures(checks) == []
    assert by_name(checks, "home").found == str(home.root)
    assert by_name(checks, "state.db").found == "not there yet"
    assert by_name(checks, "docker").verdict == "warning"
    assert "GROQ_API_KEY" in by_name(checks, "model").found
    assert by_name(checks, "memory.db").found == "not there yet"
    assert all(check.fix for check in checks if check.verdict != "ok")
    left = {path.name.rpartition("-")[0] or path.name for path in home.run.rglob("*")}
    assert left <= {"skills", "first-process"}, "it leaves nothing of what it tried"


async def test_a_home_that_others_can_read_is_a_failure_with_its_fix(home: Home) -> None:
    home.root.chmod(0o755)
    found = by_name(await examine(home), "home")
    assert (found.verdict, found.fix) == ("failure", f"chmod 700 {home.root}")
    assert "755" in found.found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[agent]\nmax_turn = 3\n", "max_turn"),
        ("[agent\n", "config.toml"),
        ("[model]\ndefault = 3\n", "default"),
    ],
)
async def test_a_broken_configuration_is_named_and_ends_no_other_check(
    home: Home, text: str, says: str
) -> None:
    (home.root / "config.toml").write_text(text)
    checks = await examine(home)
    assert failures(checks) == ["configuration"]
    assert says in by_name(checks, "configuration").found
    assert by_name(checks, "state.db").verdict == "ok"


async def test_a_key_that_anybody_can_read_is_told(home: Home) -> None:
    (home.root / ".env").write_text("GROQ_API_KEY=gsk_0123456789abcdefghijKLMNOPQRSTUV\n")
    (home.root / ".env").chmod(0o644)
    checks = await examine(home)
    note = by_name(checks, "permissions")
    assert (note.verdict, note.found) == ("warning", "open to others: .env")
    assert "gsk_" not in str(checks)


@pytest.mark.parametrize("name", ["state.db", "memory.db"])
@pytest.mark.parametrize("damage", ["head", "middle"])
def test_a_damaged_database_is_found_and_can_be_put_aside(home: Home, name: str, damage: str) -> None:
    path = home.root / name
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE words (word TEXT)")
        db.executemany("INSERT INTO words VALUES (?)", [("word " * 100,)] * 200)
        db.execute("CREATE INDEX by_word ON words (word)")
    db.close()
    path.chmod(0o600)
    assert "sound" in by_name(databases(home), name).found
    with path.open("r+b") as file:
        file.seek(0 if damage == "head" else 5 * 4096)
        file.write(secrets.token_bytes(4096))
    checks = databases(home)
    assert failures(checks) == [name]
    assert by_name(checks, name).fix.endswith(f"mv {path} {path}.damaged")
    path.with_name(f"{name}-wal").touch(0o600)
    log = f" && mv {path}-wal {path}.damaged-wal"
    assert log in by_name(databases(home), name).fix, "an old log would spoil what takes its place"


async def test_a_database_of_a_newer_program_is_a_failure_and_an_upgrades_copy_is_told(home: Home) -> None:
    Store(home.state_db).close()
    (home.root / "state.db.before-3").touch(0o600)
    with sqlite3.connect(home.memory_db) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    checks = await examine(home)
    assert failures(checks) == ["memory.db"]
    assert "newer program" in by_name(checks, "memory.db").fix
    sound, copy = (check.found for check in checks if check.name == "state.db")
    assert "sound, schema" in sound
    assert copy.startswith("state.db.before-3")


def test_looking_at_databases_leaves_them_as_they_are_also_while_others_write(home: Home) -> None:
    """An earlier file stays one, and a log that nobody has merged stays that too."""
    earlier.make(home.state_db, 1)
    home.state_db.chmod(0o600)
    writer = sqlite3.connect(home.memory_db, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE words (word TEXT)")
    home.memory_db.chmod(0o600)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO words VALUES ('not yet there')")
    before = {path.name: path.read_bytes() for path in home.root.glob("*.db*") if "-shm" not in path.name}
    checks = databases(home)
    assert f"of schema 1: the next start brings it to {STATE.version}" in by_name(checks, "state.db").found
    assert "sound" in by_name(checks, "memory.db").found
    after = {path.name: path.read_bytes() for path in home.root.glob("*.db*") if "-shm" not in path.name}
    assert after == before
    writer.execute("COMMIT")
    writer.close()


def test_what_is_no_file_is_not_waited_for(home: Home) -> None:
    os.mkfifo(home.state_db, 0o600)
    home.memory_db.mkdir()
    checks = databases(home)
    assert failures(checks) == ["state.db", "memory.db"]
    assert by_name(checks, "state.db").found == "it is not a file"


async def test_who_holds_the_home_is_told_and_that_it_does_not_answer(home: Home) -> None:
    with home.lock("a test"):
        found = by_name(await examine(home), "running")
        assert (found.verdict, "a test" in found.found) == ("warning", True)
    assert by_name(await examine(home), "running").found == "no Rumi runs on this home"


async def test_files_that_are_open_to_others_or_of_another_user_are_named(home: Home) -> None:
    for name, mode in (
        (".env", 0o644),
        ("state.db", 0o640),
        ("logs/audit.jsonl", 0o604),
        ("config.toml", 0o644),
    ):
        (home.root / name).touch()
        (home.root / name).chmod(mode)
    checks = await examine(home)
    (found,) = [check for check in checks if check.name == "permissions"]
    assert (found.verdict, found.found) == ("warning", "open to others: .env, state.db, logs/audit.jsonl")
    assert f"chmod go= {home.root}/.env" in found.fix
    if os.getuid() == 0:
        os.chown(home.state_db, 1234, 1234)
        foreign = next(check for check in await examine(home) if check.name == "permissions")
        assert (foreign.verdict, foreign.found) == (
            "failure",
            f"{home.root} has files of another user: state.db",
        )
        assert f"chown -R 0 {home.state_db}" in foreign.fix


async def test_a_full_disk_is_a_failure_and_ends_no_other_check(home: Home, small_disk: Path) -> None:
    full = Home(small_disk / "home").make()
    full.installation()
    Store(full.state_db).close()
    with (small_disk / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(65536))
    checks = await examine(full)
    found = by_name(checks, "disk")
    assert (found.verdict, found.found) == ("failure", "0 MB free")
    assert found.fix.startswith(f"Make room on the disk of {full.root}")
    assert "sound" in by_name(checks, "state.db").found
    assert {check.name for check in checks} >= {
        "configuration",
        "leftovers",
        "docker",
        "bubblewrap",
        "sandbox",
    }


async def test_a_disk_with_no_room_for_more_files_is_a_failure(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rumi.cli.doctor.machine.LOW_INODES", 1 << 62)
    assert failures(await examine(home)) == ["disk"]


async def test_a_clock_that_is_behind_what_has_happened_is_a_failure(home: Home) -> None:
    (home.logs / "audit.jsonl").touch(0o600)
    os.utime(home.logs / "audit.jsonl", (4_000_000_000, 4_000_000_000))
    checks = await examine(home)
    assert failures(checks) == ["clock"]
    assert "set-ntp" in by_name(checks, "clock").fix


async def test_keys_are_tried_only_where_that_is_asked_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_groq(Answer("ready"), plan=Plan(8000)) as groq, serve_telegram() as telegram:
        env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": groq.base_url, "TELEGRAM_TOKEN": TOKEN}
        env["RUMI_SANDBOX__BACKEND"] = "bubblewrap"
        for name, value in (env | {"TELEGRAM_BASE_URL": telegram.root}).items():
            monkeypatch.setenv(name, value)
        checks = await examine(home)
        assert groq.requests == []
        assert not any("online" in check.name for check in checks)
        assert by_name(checks, "telegram").fix.endswith("allowed_users = [11111111]")

        checks = await examine(home, ask_servers=True)
        assert failures(checks) == []
        assert "answered in" in by_name(checks, "model online").found
        assert "allows 8000 tokens a minute" in by_name(checks, "plan online").found
        assert by_name(checks, "telegram online").found.startswith("Telegram knows the bot as @")

        monkeypatch.setenv("GROQ_API_KEY", "gsk_wrong")
        monkeypatch.setenv("TELEGRAM_TOKEN", "1:wrong")
        checks = await examine(home, ask_servers=True)
        assert failures(checks) == ["model online", "telegram online"]
        assert "GROQ_API_KEY" in str(by_name(checks, "model online"))
        assert "@BotFather" in by_name(checks, "telegram online").fix
        assert "wrong" not in str(checks)


@pytest.mark.parametrize(
    ("listen", "privacy", "verdict"),
    [("all", True, "warning"), ("all", False, "ok"), ("reply", True, "ok"), ("mention", True, "ok")],
)
async def test_a_bot_that_cannot_hear_what_a_group_wants_heard_is_a_warning(
    home: Home, monkeypatch: pytest.MonkeyPatch, listen: str, privacy: bool, verdict: str
) -> None:
    (home.root / "config.toml").write_text(f'[groups.-100777]\nlisten = "{listen}"\n')
    async with serve_telegram() as telegram:
        telegram.api.privacy = privacy
        for name, value in {"TELEGRAM_TOKEN": TOKEN, "TELEGRAM_BASE_URL": telegram.root}.items():
            monkeypatch.setenv(name, value)
        check = by_name(await examine(home, ask_servers=True), "telegram online")
    assert check.verdict == verdict
    assert ("/setprivacy" in (check.fix or "")) == (verdict == "warning")


@pytest.mark.parametrize("hears", [True, False])
@pytest.mark.parametrize("speaks", [True, False])
async def test_a_server_that_hears_and_one_that_speaks_are_judged_apart(
    home: Home, hears: bool, speaks: bool
) -> None:
    hearing, speaking = WhisperCpp(path="/inference" if hears else "/else"), Piper()
    if not speaks:
        speaking.answer = lambda _: NOT_FOUND
    checks: list[Check] = []
    examination = Examination("en", checks.append)
    async with serving_media(hearing), serving_media(speaking):
        voice = {"voice.server": f"{hearing.root}/inference", "voice.speech_server": speaking.root}
        loaded = load_settings(home.root, {}, {**voice, "voice.speech_api": "piper"})
        await online(examination, loaded)
    found = [check for check in checks if check.name == "voice online"]
    assert [check.verdict == "ok" for check in found] == [hears, speaks]
    assert [
        setting in check.fix
        for setting, check in zip(("voice.server", "voice.speech_server"), found, strict=True)
    ] == [not hears, not speaks]


@pytest.mark.parametrize(("off_s", "verdict"), [(0, "ok"), (-3600, "failure"), (3600, "failure")])
async def test_the_clock_is_compared_with_a_servers(off_s: int, verdict: str) -> None:
    from rumi.cli.doctor.online import clock

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some(10_000)
        date = formatdate(time.time() + off_s, usegmt=True)
        await stream.send_all(f"HTTP/1.1 404 Not Found\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n".encode())

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer, 0)
        (found,) = await clock(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        nursery.cancel_scope.cancel()
    assert found.verdict == verdict
    assert ("set-ntp" in found.fix) == (verdict == "failure")


async def test_a_home_of_another_user_is_told_and_nothing_is_written_into_it(home: Home) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    before = sorted(home.root.iterdir())
    os.chown(home.root, 1234, 1234)
    checks = await examine(home)
    assert failures(checks) == ["home"]
    assert "Run Rumi as its owner" in by_name(checks, "home").fix
    assert sorted(home.root.iterdir()) == before


async def test_what_every_command_refuses_is_a_failure_and_nothing_says_that_all_is_well(
    home: Home, tmp_path: Path
) -> None:
    home.root.chmod(0o777)
    (home.root / "config.toml").write_text('language = "es"\n')
    home.logs.rmdir()
    home.logs.symlink_to(tmp_path)
    before = sorted(home.root.iterdir())
    checks = await examine(home)
    assert [check.name for check in checks[-2:]] == ["home", "home"]
    assert failures(checks) == ["home", "home"]
    assert "can be written by others (mode 777)" in checks[-2].found, (
        "what its config.toml says counts for nothing"
    )
    assert checks[-2].fix.endswith(f"chmod 700 {home.root}")
    assert f"logs is a link: what Rumi writes there would go to {tmp_path}" in checks[-1].found
    assert not {"permissions", "installation", "configuration"} & {check.name for check in checks}
    assert sorted(home.root.iterdir()) == before
    for danger in home.dangers():
        with pytest.raises(UnsafeHome) as refused:
            home.refuse_if_unsafe()
        assert danger.said() in [(f"{check.found}.", check.fix) for check in checks]
        assert refused.value.message == f"{checks[-2].found}."


async def test_a_home_that_others_can_read_has_no_line_that_says_it_is_its_owners_alone(home: Home) -> None:
    home.root.chmod(0o755)
    assert "permissions" not in {check.name for check in await examine(home)}


async def test_the_user_of_commands_is_told_and_what_is_still_a_former_ones(home: Home) -> None:
    found = by_name(await examine(home), "user")
    uid = sandbox_user(home.installation(), home.root)[0]
    assert (found.verdict, str(uid) in found.found) == ("ok", True)
    if os.getuid() == 0:
        (home.workspaces / "old").mkdir()
        os.chown(home.workspaces / "old", 1000, 1000)
        found = by_name(await examine(home), "user")
        assert "still a former user's: 1" in found.found


async def test_a_fault_of_ours_is_a_finding_and_ends_no_other_check(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no such thing as gsk_0123456789abcdef")

    monkeypatch.setattr("rumi.cli.doctor.databases.databases", fail)
    checks = await examine(home)
    assert (
        by_name(checks, "databases").found == "it could not be checked: ValueError: no such thing as [hidden]"
    )
    assert by_name(checks, "configuration").verdict == "ok"
    with pytest.raises(ValueError, match="no such thing"):
        await examine(home, debug=True)


@pytest.mark.bubblewrap
async def test_it_speaks_the_persons_language(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.root.chmod(0o755)
    (home.root / "config.toml").write_text('language = "es"\n')
    told: list[Check] = []
    checks = await examine(home, report=told.append)
    assert told == checks
    assert by_name(checks, "home").found == f"Otros pueden leer {home.root} (modo 755)"
    assert by_name(checks, "model").fix.startswith("Pon GROQ_API_KEY=… en")


async def test_skills_that_are_odd_or_cannot_be_read_are_named(home: Home) -> None:
    folder = home.root / "skills" / "writing" / "mine"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: mine\ndescription: d\nhint: [a] b\n---\nDo it.\n")
    found = by_name(await examine(home), "skills")
    assert found.verdict == "ok"
    assert "something is unusual: mine: its front matter is not valid YAML" in found.found
    (folder.parent / "wrong").mkdir()
    (folder.parent / "wrong" / "SKILL.md").write_text("x")
    found = by_name(await examine(home), "skills")
    assert found.verdict == "warning"
    assert "writing/wrong/SKILL.md: it has no front matter" in found.found
    assert "rumi skills list" in found.fix


@pytest.mark.parametrize(
    ("config", "environment", "verdict", "says"),
    [
        ('[triggers.a]\nsecret = "$HOOK"', {"HOOK": "x" * 32}, "ok", "127.0.0.1:8443: /triggers/a"),
        ("[triggers.a]", {}, "ok", "only rumi schedule trigger hands events in: a"),
        ('[triggers.a]\nchat = "tg5"', {}, "warning", "in the chat tg5, and there is no Telegram bot"),
        ('[triggers.a]\nchat = "tg5"', {"TELEGRAM_TOKEN": "1:x"}, "ok", "only rumi schedule trigger"),
        ('[triggers.a]\nsecret = "$HOOK"', {}, "warning", "$HOOK, which is not set"),
        ('[triggers.a]\nsecret = "$HOOK"', {"HOOK": "hunter2"}, "warning", "is short, and can be guessed"),
        (
            '[triggers.a]\nsecret = "$HOOK"\nform = "standard"',
            {"HOOK": "whsec_%"},
            "warning",
            "has to be Base64",
        ),
    ],
)
def test_triggers_and_their_secrets_are_checked(
    home: Home, config: str, environment: dict[str, str], verdict: str, says: str
) -> None:
    (home.root / "config.toml").write_text(config)
    (check,) = (
        one for one in settings(home, load_settings(home.root, environment, {})) if one.name == "triggers"
    )
    assert (check.verdict, says in str(check.found)) == (verdict, True)
    assert "hunter2" not in f"{check.found}{check.fix}"
