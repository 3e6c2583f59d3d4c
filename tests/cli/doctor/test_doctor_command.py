"""`rumi doctor` as a program: its exit code, what it prints, and what it never does."""

import json
from pathlib import Path

import pytest

from tests.cli.program import Program
from tests.fakes.bot_api import TOKEN
from tests.fakes.groq_server import KEY


@pytest.mark.bubblewrap
def test_it_ends_with_1_where_something_must_be_fixed_and_shows_no_secret(tmp_path: Path) -> None:
    program = Program(tmp_path / "home", {"DOCKER_HOST": f"unix://{tmp_path}/none.sock"})
    sound = program.run("doctor").stdout
    assert "✓ home" in sound
    assert "! docker" in sound
    program.home.chmod(0o755)
    (program.home / "config.toml").write_text(f'[telegram]\ntoken = "{TOKEN}"\n')
    program.env |= {
        "GROQ_API_KEY": KEY,
        "TELEGRAM_TOKEN": TOKEN,
        "DOCKER_HOST": f"tcp://user:{KEY}@127.0.0.1:9",
    }
    checks = json.loads(program.run("doctor", "--json", code=1).stdout)
    assert [check["name"] for check in checks if check["verdict"] == "failure"] == ["home", "configuration"]
    (program.home / "config.toml").unlink()
    said = program.run("doctor", code=1).stdout
    assert f"→ chmod 700 {program.home}" in said
    assert "no daemon answers at tcp://[hidden]@127.0.0.1:9" in said
    assert KEY not in said + str(checks)
    assert TOKEN not in said + str(checks)


def test_a_home_that_cannot_be_made_is_a_finding_too(tmp_path: Path) -> None:
    (checks,) = [json.loads(Program(Path("/proc/nowhere")).run("doctor", "--json", code=1).stdout)]
    assert [(check["name"], check["verdict"]) for check in checks] == [("home", "failure")]
