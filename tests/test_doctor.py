"""What the doctor finds on homes that are sound, and on homes where one thing is wrong."""

import io
import os
import secrets
import sqlite3
import subprocess
import tarfile
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest
import trio

from rumi.doctor import Check, examine
from rumi.home import Home
from rumi.journal.store import Store
from rumi.sandbox import Limits
from tests.fakes.bot_api import TOKEN
from tests.fakes.groq_server import KEY, Answer, serve_groq
from tests.fakes.telegram_server import serve_telegram

ELSEWHERE = ("GROQ_API_KEY", "GROQ_BASE_URL", "TELEGRAM_TOKEN", "TELEGRAM_BASE_URL", "TAVILY_API_KEY")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without Docker and without keys, whatever the machine has."""
    for name in (*ELSEWHERE, "KAGI_API_KEY", "RUMI_MODEL__DEFAULT", "RUMI_SANDBOX__BACKEND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-daemon.sock")
    return Home(tmp_path / "home").make()


def by_name(checks: list[Check], name: str) -> Check:
    (found,) = [check for check in checks if check.name == name]
    return found


def failures(checks: list[Check]) -> list[str]:
    return [check.name for check in checks if check.verdict == "failure"]


@pytest.mark.bubblewrap
async def test_a_sound_home_has_no_failure_and_what_is_missing_is_a_warning(home: Home) -> None:
    checks = await examine(home)
    assert failures(checks) == []
    assert by_name(checks, "home").found == str(home.root)
    assert by_name(checks, "state.db").found == "not there yet"
    assert by_name(checks, "docker").verdict == "warning"
    assert "GROQ_API_KEY" in by_name(checks, "model").found
    assert by_name(checks, "memory.db").found == "not there yet"
    assert all(check.mend for check in checks if check.verdict != "ok")
    assert list(home.run.iterdir()) == [], "it leaves nothing of what it tried"


async def test_a_home_that_others_can_read_is_a_failure_with_its_mend(home: Home) -> None:
    home.root.chmod(0o755)
    found = by_name(await examine(home), "home")
    assert (found.verdict, found.mend) == ("failure", f"chmod 700 {home.root}")
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
    (note,) = [check for check in checks if check.name == "configuration" and check.verdict == "warning"]
    assert ".env" in note.found
    assert "gsk_" not in str(checks)


async def test_without_the_engine_that_is_named_there_is_a_failure(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUMI_SANDBOX__BACKEND", "docker")
    checks = await examine(home)
    assert failures(checks) == ["sandbox"]
    assert by_name(checks, "sandbox").found == "docker does not work here"
    assert "no-daemon.sock" in by_name(checks, "docker").found


async def test_without_any_engine_there_is_a_failure(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.run.rmdir()
    home.run.write_text("no folder, so that no sandbox can be tried")
    home.run.chmod(0o600)
    found = by_name(await examine(home), "sandbox")
    assert found.found == "neither Docker nor bubblewrap works here"


@pytest.mark.parametrize("name", ["state.db", "memory.db"])
@pytest.mark.parametrize("damage", ["head", "middle"])
async def test_a_damaged_database_is_found_and_can_be_put_aside(home: Home, name: str, damage: str) -> None:
    path = home.root / name
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE words (word TEXT)")
        db.executemany("INSERT INTO words VALUES (?)", [("word " * 100,)] * 200)
        db.execute("CREATE INDEX by_word ON words (word)")
    db.close()
    path.chmod(0o600)
    assert "sound" in by_name(await examine(home), name).found
    with path.open("r+b") as file:
        file.seek(0 if damage == "head" else 5 * 4096)
        file.write(secrets.token_bytes(4096))
    checks = await examine(home)
    assert failures(checks) == [name]
    assert by_name(checks, name).mend.endswith(f"mv {path} {path}.damaged")


async def test_a_database_of_a_newer_program_is_a_failure_and_an_upgrades_copy_is_told(home: Home) -> None:
    Store(home.state_db).close()
    (home.root / "state.db.before-3").touch(0o600)
    with sqlite3.connect(home.memory_db) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    checks = await examine(home)
    assert failures(checks) == ["memory.db"]
    assert "newer program" in by_name(checks, "memory.db").mend
    sound, copy = (check.found for check in checks if check.name == "state.db")
    assert "sound, schema" in sound
    assert copy.startswith("state.db.before-3")


async def test_who_holds_the_home_is_told_and_that_it_does_not_answer(home: Home) -> None:
    with home.hold("a test"):
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
    assert f"chmod go= {home.root}/.env" in found.mend
    if os.getuid() == 0:
        os.chown(home.state_db, 1234, 1234)
        foreign = next(check for check in await examine(home) if check.name == "permissions")
        assert (foreign.verdict, foreign.found) == ("failure", "of another user: state.db")
        assert f"chown -R 0 {home.state_db}" in foreign.mend


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=20000", "none", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


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
    assert found.mend.startswith(f"Make room on the disk of {full.root}")
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
    monkeypatch.setattr("rumi.doctor.machine.LOW_INODES", 1 << 62)
    assert failures(await examine(home)) == ["disk"]


async def test_a_clock_that_is_behind_what_has_happened_is_a_failure(home: Home) -> None:
    (home.logs / "audit.jsonl").touch(0o600)
    os.utime(home.logs / "audit.jsonl", (4_000_000_000, 4_000_000_000))
    checks = await examine(home)
    assert failures(checks) == ["clock"]
    assert "set-ntp" in by_name(checks, "clock").mend


async def test_keys_are_tried_only_where_that_is_asked_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve_groq(Answer("ready")) as groq, serve_telegram() as telegram:
        env = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": groq.base_url, "TELEGRAM_TOKEN": TOKEN}
        for name, value in (env | {"TELEGRAM_BASE_URL": telegram.root}).items():
            monkeypatch.setenv(name, value)
        checks = await examine(home)
        assert groq.requests == []
        assert not any("online" in check.name for check in checks)
        assert by_name(checks, "telegram").mend.endswith("allowed_users = [11111111]")

        checks = await examine(home, ask_servers=True)
        assert failures(checks) == []
        assert "answered in" in by_name(checks, "model online").found
        assert by_name(checks, "telegram online").found.startswith("Telegram knows the bot as @")

        monkeypatch.setenv("GROQ_API_KEY", "gsk_wrong")
        monkeypatch.setenv("TELEGRAM_TOKEN", "1:wrong")
        checks = await examine(home, ask_servers=True)
        assert failures(checks) == ["model online", "telegram online"]
        assert "GROQ_API_KEY" in str(by_name(checks, "model online"))
        assert "@BotFather" in by_name(checks, "telegram online").mend
        assert "wrong" not in str(checks)


@pytest.mark.parametrize(("off_s", "verdict"), [(0, "ok"), (-3600, "failure"), (3600, "failure")])
async def test_the_clock_is_compared_with_a_servers(off_s: int, verdict: str) -> None:
    from rumi.doctor.online import clock

    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some(10_000)
        date = formatdate(time.time() + off_s, usegmt=True)
        await stream.send_all(f"HTTP/1.1 404 Not Found\r\nDate: {date}\r\nContent-Length: 0\r\n\r\n".encode())

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer, 0)
        (found,) = await clock(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        nursery.cancel_scope.cancel()
    assert found.verdict == verdict
    assert ("set-ntp" in found.mend) == (verdict == "failure")


@pytest.mark.docker
async def test_an_image_that_is_missing_is_told_and_is_no_failure(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("RUMI_SANDBOX__IMAGE", f"rumi-runner-tests:none-{secrets.token_hex(3)}")
    checks = await examine(home)
    image = by_name(checks, "image")
    assert (image.verdict, image.mend) == ("warning", "It is built at the first chat.")
    assert "is not there" in image.found
    assert failures(checks) == []


@pytest.fixture
def broken_image() -> Iterator[str]:
    """An image that says that it is Rumi's, and is empty."""
    import docker

    from rumi.sandbox.docker.image import FORMAT, LABEL_FORMAT

    tag = f"broken-{secrets.token_hex(3)}"
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("nothing"))
    client = docker.from_env()
    try:
        changes = [f'LABEL {LABEL_FORMAT}="{FORMAT}"']
        client.api.import_image_from_data(archive.getvalue(), "rumi-runner-tests", tag, changes)
        yield f"rumi-runner-tests:{tag}"
        client.images.remove(f"rumi-runner-tests:{tag}", force=True)
    finally:
        client.close()


@pytest.mark.docker
async def test_an_image_in_which_nothing_runs_is_a_failure_with_the_command_that_makes_it_anew(
    broken_image: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("RUMI_SANDBOX__IMAGE", broken_image)
    checks = await examine(home)
    assert failures(checks) == ["container"]
    assert "rumi sandbox build" in by_name(checks, "container").mend
    assert by_name(await examine(home), "leftovers").verdict == "ok", "what it tried is gone"


@pytest.mark.docker
async def test_a_container_as_chats_get_it_is_looked_at_and_what_is_left_over_is_named(
    home: Home, docker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rumi.sandbox.docker.engine import DockerEngine

    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("RUMI_SANDBOX__IMAGE", docker_image)
    engine = DockerEngine(home.installation(), Limits(), image=docker_image)
    (home.workspaces / "left").mkdir()
    try:
        await engine.create("left", home.workspaces / "left")
        checks = await examine(home)
        found = by_name(checks, "leftovers")
        assert (found.verdict, found.mend) == ("warning", "rumi sandbox clean")
        assert found.found == f"container rumi-runner-left-{home.installation()}"
        assert by_name(checks, "container").found.startswith(
            "no capabilities, no new privileges, system calls"
        )
        assert [box.chat_id for box in await engine.boxes()] == ["left"], "and only its own was removed"
        with home.hold("a test"):
            assert by_name(await examine(home), "leftovers").verdict == "ok"
    finally:
        await engine.remove("left")
        await engine.aclose()


def test_what_a_container_says_of_itself_is_judged() -> None:
    from rumi.doctor.sandboxes import broken_promises

    none = "".join(f"Cap{kind}:\t0000\n" for kind in ("Prm", "Eff", "Bnd"))
    sound = f"Uid:\t1000\t1000\n{none}NoNewPrivs:\t1\nSeccomp:\t2\n  lo: 0 0\n"
    assert broken_promises(sound) == []
    for old, new, says in (
        ("CapBnd:\t0000", "CapBnd:\t00a8", "capabilities"),
        ("NoNewPrivs:\t1", "NoNewPrivs:\t0", "privileges"),
        ("Seccomp:\t2", "Seccomp:\t0", "system calls"),
        ("Uid:\t1000", "Uid:\t0", "root"),
        ("  lo:", "  eth0: 0 0\n  lo:", "network"),
        ("  lo:", "Root: writable\n  lo:", "written"),
    ):
        (told,) = broken_promises(sound.replace(old, new))
        assert says in told
    assert len(broken_promises("")) >= 4, "what is not said is not promised"
