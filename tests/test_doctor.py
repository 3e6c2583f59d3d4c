"""What the doctor finds on homes that are sound, and on homes where one thing is wrong."""

import secrets
import sqlite3
from pathlib import Path

import pytest

from rumi.doctor import LOW_DISK_BYTES, Check, examine
from rumi.home import Home
from rumi.sandbox import Limits


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home without Docker and without keys, whatever the machine has."""
    for name in ("GROQ_API_KEY", "GROQ_BASE_URL", "RUMI_MODEL__DEFAULT", "RUMI_SANDBOX__BACKEND"):
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
    assert all(check.mend for check in checks if check.verdict != "ok" and "degraded" not in check.found)
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
    found = by_name(await examine(home), "sandbox")
    assert found.found == "neither Docker nor bubblewrap works here"


@pytest.mark.parametrize("damage", ["head", "middle"])
async def test_a_damaged_journal_is_found_and_can_be_put_aside(home: Home, damage: str) -> None:
    with sqlite3.connect(home.state_db) as db:
        db.execute("CREATE TABLE words (word TEXT)")
        db.executemany("INSERT INTO words VALUES (?)", [("word " * 100,)] * 200)
        db.execute("CREATE INDEX by_word ON words (word)")
    db.close()
    assert "sound" in by_name(await examine(home), "state.db").found
    with home.state_db.open("r+b") as file:
        file.seek(0 if damage == "head" else 5 * 4096)
        file.write(secrets.token_bytes(4096))
    found = by_name(await examine(home), "state.db")
    assert found.verdict == "failure"
    assert found.mend.endswith(f"mv {home.state_db} {home.state_db}.damaged")


async def test_who_holds_the_home_is_told(home: Home) -> None:
    with home.hold("a test"):
        assert "a test" in by_name(await examine(home), "running").found
    assert by_name(await examine(home), "running").found == "no Rumi runs on this home"


async def test_a_disk_that_is_nearly_full_is_a_failure(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rumi.doctor.LOW_DISK_BYTES", 1 << 62)
    assert failures(await examine(home)) == ["disk"]
    assert LOW_DISK_BYTES > 0


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


@pytest.mark.docker
async def test_containers_that_are_left_over_are_named_unless_they_are_in_use(
    home: Home, docker_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rumi.sandbox.docker.engine import DockerEngine

    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.setenv("RUMI_SANDBOX__IMAGE", docker_image)
    engine = DockerEngine(home.installation(), Limits(), image=docker_image)
    (home.workspaces / "left").mkdir()
    try:
        await engine.create("left", home.workspaces / "left")
        found = by_name(await examine(home), "containers")
        assert (found.verdict, found.mend) == ("warning", "rumi sandbox clean")
        assert f"rumi-runner-left-{home.installation()}" in found.found
        with home.hold("a test"):
            assert by_name(await examine(home), "containers").verdict == "ok"
    finally:
        await engine.remove("left")
        await engine.aclose()
